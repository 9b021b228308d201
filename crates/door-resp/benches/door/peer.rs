//! A client with a pipeline.

use std::net::SocketAddr;

use bytes::BytesMut;
use tenure_door_resp::testing::{Reply, read_reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Peer {
    stream: TcpStream,
    out: Vec<u8>,
    arrived: BytesMut,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).await.expect("the server answers");
        stream.set_nodelay(true).expect("a socket");
        Peer { stream, out: Vec::new(), arrived: BytesMut::new() }
    }

    /// Adds a command to the output. Sends nothing yet.
    pub(crate) fn add(&mut self, words: &[&[u8]]) {
        self.out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.out.extend_from_slice(word);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    pub(crate) async fn flush(&mut self) {
        self.stream.write_all(&self.out).await.expect("the connection is open");
        self.out.clear();
    }

    pub(crate) async fn ask(&mut self, words: &[&[u8]]) -> Reply {
        self.add(words);
        self.flush().await;
        self.reply().await
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        loop {
            if let Some((reply, length)) = read_reply(&self.arrived).expect("a reply") {
                let _ = self.arrived.split_to(length);
                assert!(!reply.is_error(), "{reply:?}");
                return reply;
            }
            let count = self.stream.read_buf(&mut self.arrived).await.expect("the connection is open");
            assert!(count > 0, "the server closed the connection");
        }
    }
    /// Waits for this many bytes and forgets them: what is very long is not taken apart.
    pub(crate) async fn skip(&mut self, mut bytes: usize) {
        while bytes > self.arrived.len() {
            bytes -= self.arrived.len();
            self.arrived.clear();
            self.arrived.reserve(1 << 20);
            let count = self.stream.read_buf(&mut self.arrived).await.expect("the connection is open");
            assert!(count > 0, "the server closed the connection");
        }
        let _ = self.arrived.split_to(bytes);
    }
}
