//! A ZeroMQ peer of a few lines over a plain socket, independent of the codec under test.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{command, frame, greeting, message, metadata};

/// How long an expected message may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// A wrong key may wait for eight seconds, and the machine may be busy.
const LOGIN_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

impl Wire {
    pub(crate) fn dealer(address: SocketAddr) -> Wire {
        Wire::named(address, b"")
    }

    pub(crate) fn named(address: SocketAddr, identity: &[u8]) -> Wire {
        let mut wire = Wire::silent(address);
        wire.raw(&greeting(3, 1, "NULL"));
        wire.raw(&command("READY", &metadata("DEALER", identity)));
        let mut greeting = [0; 64];
        wire.stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        wire.stream.read_exact(&mut greeting).expect("the broker greets");
        let ready = wire.frame(TIMEOUT).expect("the broker is ready");
        assert_eq!(&ready.1[1..6], b"READY");
        wire
    }

    /// A DEALER with credentials.
    pub(crate) fn plain(address: SocketAddr, username: &str, password: &str) -> Wire {
        Wire::plain_named(address, username, password, b"")
    }

    pub(crate) fn plain_named(address: SocketAddr, username: &str, password: &str, identity: &[u8]) -> Wire {
        let mut wire = Wire::plain_introduced(address, username, password, identity);
        assert_eq!(&wire.frame(TIMEOUT).expect("an answer").1[1..6], b"READY");
        wire
    }

    /// A DEALER with credentials that has told who it is, and may be refused for it.
    pub(crate) fn plain_introduced(
        address: SocketAddr,
        username: &str,
        password: &str,
        identity: &[u8],
    ) -> Wire {
        let (mut wire, answer) = Wire::credentials(address, username, password);
        assert_eq!(answer, b"\x07WELCOME");
        wire.raw(&command("INITIATE", &metadata("DEALER", identity)));
        wire
    }

    /// Whether the broker refuses these credentials.
    pub(crate) fn plain_refused(address: SocketAddr, username: &str, password: &str) -> bool {
        Wire::credentials(address, username, password).1.starts_with(b"\x05ERROR")
    }

    /// A connection that has shown its credentials, and the broker's answer to them.
    fn credentials(address: SocketAddr, username: &str, password: &str) -> (Wire, Vec<u8>) {
        let mut wire = Wire::silent(address);
        wire.raw(&greeting(3, 1, "PLAIN"));
        let mut hello = vec![username.len() as u8];
        hello.extend_from_slice(username.as_bytes());
        hello.push(password.len() as u8);
        hello.extend_from_slice(password.as_bytes());
        wire.raw(&command("HELLO", &hello));
        let mut greeting = [0; 64];
        wire.stream.set_read_timeout(Some(LOGIN_WITHIN)).expect("a timeout can be set");
        wire.stream.read_exact(&mut greeting).expect("the broker greets");
        let answer = wire.frame(LOGIN_WITHIN).expect("an answer").1;
        (wire, answer)
    }

    /// A connection on which nothing was said yet.
    pub(crate) fn silent(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_nodelay(true).expect("no delay");
        Wire { stream, input: Vec::new(), parts: Vec::new() }
    }

    /// The same connection, for another thread that writes.
    pub(crate) fn again(&self) -> Wire {
        let stream = self.stream.try_clone().expect("a second handle");
        Wire { stream, input: Vec::new(), parts: Vec::new() }
    }

    /// The socket itself, for what a ZeroMQ library would not do.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        // A broker that has hung up is found out by reading.
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn send<B: AsRef<[u8]>>(&mut self, parts: &[B]) {
        self.raw(&message(parts));
    }

    /// The next message, if one comes in time. Pings are answered.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Option<Vec<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        loop {
            let (flags, body) = self.frame(deadline.saturating_duration_since(Instant::now()))?;
            if flags & 4 != 0 {
                if body.starts_with(b"\x04PING") {
                    self.raw(&frame(4, b"\x04PONG"));
                }
                continue;
            }
            self.parts.push(body);
            if flags & 1 == 0 {
                return Some(std::mem::take(&mut self.parts));
            }
        }
    }

    /// The next message as text.
    pub(crate) fn texts(&mut self) -> Vec<String> {
        let parts = self.receive(TIMEOUT).expect("a message");
        parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    }

    /// Whether the broker says more than its greeting.
    pub(crate) fn is_answered(&mut self, timeout: Duration) -> bool {
        self.stream.set_read_timeout(Some(timeout)).expect("a timeout can be set");
        self.stream.read_exact(&mut [0; 65]).is_ok()
    }

    /// Whether the broker hangs up.
    pub(crate) fn is_closed(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            self.stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout can be set");
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return true,
            }
        }
        false
    }

    fn frame(&mut self, timeout: Duration) -> Option<(u8, Vec<u8>)> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(found) = self.take_frame() {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.stream.set_read_timeout(Some(left)).expect("a timeout can be set");
            let mut piece = [0; 65_536];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return None,
            }
        }
    }

    fn take_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let &flags = self.input.first()?;
        let (head, length) = if flags & 2 != 0 {
            (9, u64::from_be_bytes(self.input.get(1..9)?.try_into().ok()?) as usize)
        } else {
            (2, usize::from(*self.input.get(1)?))
        };
        let body = self.input.get(head..head + length)?.to_vec();
        self.input.drain(..head + length);
        Some((flags, body))
    }
}
