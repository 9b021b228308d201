//! A client: one connection, one request after the other.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Nothing here takes longer, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    /// Received and not yet used.
    input: Vec<u8>,
    /// Header fields of every request.
    pub(crate) fields: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// The code of a problem.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().expect("a code").to_owned()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.expect("the door is open");
        Client { stream, address, input: Vec::new(), fields: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Client {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Answer {
        let fields = [("content-type", "application/json")];
        self.ask("POST", path, &fields, body.to_string().as_bytes()).await
    }

    /// A request without a body that changes something.
    pub(crate) async fn act(&mut self, method: &str, path: &str) -> Answer {
        self.ask(method, path, &[], b"").await
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.send(method, path, fields, body).await;
        tokio::time::timeout(TIMEOUT, self.answer(method)).await.expect("an answer in time")
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let own = self.fields.iter().map(|(name, value)| (&**name, &**value));
        let fields: Vec<(&str, &str)> = own.chain(fields.iter().copied()).collect();
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("host: {}\r\n", self.address);
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        self.raw(head.as_bytes()).await;
        self.raw(body).await;
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the broker reads");
    }

    /// The same for a request that the broker may refuse before it has read all of it.
    pub(crate) async fn raw_unless_refused(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads one answer.
    pub(crate) async fn answer(&mut self, method: &str) -> Answer {
        let (status, fields) = self.head().await;
        let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| &**value);
        let is_bare = method == "HEAD" || status == 204 || status == 304;
        let body = if is_bare {
            Vec::new()
        } else if let Some(length) = field("content-length") {
            let length = length.parse().expect("a length");
            self.fill(length).await;
            self.input.drain(..length).collect()
        } else {
            let mut body = Vec::new();
            while let Some(part) = self.chunk().await {
                body.extend(part);
            }
            body
        };
        Answer { status, fields, body }
    }

    /// The status line and the header fields.
    pub(crate) async fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let mut head = self.line().await;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut fields = Vec::new();
        loop {
            head = self.line().await;
            if head.is_empty() {
                return (status, fields);
            }
            let (name, value) = head.split_once(':').expect("a header field");
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The next part of a stream; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line().await, 16).expect("the length of a chunk");
        self.fill(length + 2).await;
        let part: Vec<u8> = self.input.drain(..length + 2).take(length).collect();
        (length > 0).then_some(part)
    }

    /// Whether the broker has closed the connection.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut buffer = [0; 1024];
        let read = tokio::time::timeout(TIMEOUT, self.stream.read(&mut buffer)).await.expect("in time");
        matches!(read, Ok(0) | Err(_))
    }

    /// Reads whatever comes until the broker closes the connection.
    pub(crate) async fn hears_the_end(&mut self) {
        let mut heard = Vec::new();
        let read = tokio::time::timeout(TIMEOUT, self.stream.read_to_end(&mut heard)).await;
        let _ = read.expect("the broker closes the connection in time");
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.input.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..at + 2).take(at).collect();
                return String::from_utf8(line).expect("a line is text");
            }
            self.read().await;
        }
    }

    async fn fill(&mut self, length: usize) {
        while self.input.len() < length {
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let mut buffer = [0; 16 << 10];
        let read = tokio::time::timeout(TIMEOUT, self.stream.read(&mut buffer)).await;
        let count = read.expect("more in time").expect("the connection holds");
        assert!(
            count > 0,
            "the broker closed the connection after {:?}",
            String::from_utf8_lossy(&self.input)
        );
        self.input.extend_from_slice(&buffer[..count]);
    }
}
