//! A client over a socket, for tests.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use tenure_door_resp::testing::{Reply, read_reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long an answer may take before a test gives up.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    stream: TcpStream,
    bytes: BytesMut,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.expect("the door is open");
        stream.set_nodelay(true).expect("a socket");
        Client { stream, bytes: BytesMut::new() }
    }

    /// Types a command and returns its answer.
    pub(crate) async fn ask(&mut self, words: &str) -> Reply {
        self.say(words).await;
        self.reply().await
    }

    pub(crate) async fn say(&mut self, words: &str) {
        self.send(&super::transcript::as_array(words)).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the connection is open");
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        tokio::time::timeout(TIMEOUT, self.next()).await.expect("an answer in time").expect("an answer")
    }

    /// None if the broker has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, length)) = read_reply(&self.bytes).expect("a reply") {
                let _ = self.bytes.split_to(length);
                return Some(reply);
            }
            if self.stream.read_buf(&mut self.bytes).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// One command of many words as it travels.
pub(crate) fn command<T: AsRef<[u8]>>(words: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.as_ref().len()).into_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend(b"\r\n");
    }
    bytes
}
