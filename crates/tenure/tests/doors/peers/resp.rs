//! A Redis client of a few lines.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::BytesMut;
use tenure_door_resp::testing::{Reply, read_reply};

use crate::support::TIMEOUT;

pub(crate) struct Resp {
    pub(crate) stream: TcpStream,
    arrived: BytesMut,
}

impl Resp {
    pub(crate) fn connect(address: &str) -> Resp {
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        Resp { stream, arrived: BytesMut::new() }
    }

    /// A client that has authenticated.
    pub(crate) fn with_key(address: &str, key: &str) -> Resp {
        let mut peer = Resp::connect(address);
        let answer = peer.ask(&format!("AUTH {key}"));
        assert_eq!(answer, Some(Reply::Simple("OK".into())));
        peer
    }

    /// Types a line and returns its answer, or nothing if the broker has closed the connection.
    pub(crate) fn ask(&mut self, line: &str) -> Option<Reply> {
        // A broker that has hung up is found out by reading.
        let _ = self.stream.write_all(format!("{line}\r\n").as_bytes());
        self.reply()
    }

    /// Types a line that is refused, and returns what the refusal says.
    pub(crate) fn refusal(&mut self, line: &str) -> String {
        match self.ask(line) {
            Some(Reply::Error(text)) => text,
            other => panic!("{line} is not refused: {other:?}"),
        }
    }

    /// Reads whatever comes until the broker closes the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        while self.reply().is_some() {}
        true
    }

    pub(crate) fn reply(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, length)) = read_reply(&self.arrived).expect("a reply") {
                let _ = self.arrived.split_to(length);
                return Some(reply);
            }
            let mut piece = [0; 65_536];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.arrived.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }
}
