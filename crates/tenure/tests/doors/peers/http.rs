//! An HTTP client of a few lines: one request on each connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::address;
use crate::support::{Broker, TIMEOUT};

pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    stream: BufReader<TcpStream>,
    length: Option<usize>,
}

/// Sends a request and reads the head of its answer.
pub(crate) fn http(broker: &Broker, key: Option<&str>, method: &str, path: &str, body: &[u8]) -> HttpAnswer {
    let address = address(broker, "http");
    let mut stream = TcpStream::connect(address).expect("the door is open");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if let Some(key) = key {
        head += &format!("authorization: Bearer {key}\r\n");
    }
    if body.starts_with(b"{") {
        head += "content-type: application/json\r\n";
    }
    if path.starts_with("/v1/events") || path.starts_with("/v1/messages") {
        head += "accept: text/event-stream\r\n";
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).expect("the broker reads");
    let mut stream = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("the head of an answer");
        line.trim_end().to_ascii_lowercase()
    };
    let status = line().split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut length = None;
    loop {
        let field = line();
        if field.is_empty() {
            return HttpAnswer { status, stream, length };
        }
        if let Some(value) = field.strip_prefix("content-length: ") {
            length = value.parse().ok();
        }
    }
}

impl HttpAnswer {
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.text()).unwrap_or(Value::Null)
    }

    pub(crate) fn text(mut self) -> String {
        let mut body = vec![0; self.length.unwrap_or(0)];
        self.stream.read_exact(&mut body).expect("the whole answer");
        String::from_utf8(body).expect("text")
    }

    /// Reads a stream until it ends.
    pub(crate) fn ends(&mut self) -> bool {
        self.stream.read_to_end(&mut Vec::new()).is_ok()
    }
}
