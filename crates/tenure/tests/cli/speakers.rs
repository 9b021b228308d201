//! Peers of a few lines for every door, over plain sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::support::{Broker, PATIENCE};

/// The doors beside the native one.
pub(crate) const ALL_DOORS: [&str; 8] =
    ["--resp", "127.0.0.1:0", "--mdp", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--xmessage", "127.0.0.1:0"];

pub(crate) struct Speaker(TcpStream);

impl Speaker {
    pub(crate) fn at(broker: &Broker, door: &str) -> Speaker {
        let address = broker.doors[door].as_str().unwrap_or_else(|| panic!("{door} is open"));
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Speaker(stream)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // A broker that has hung up is found out by reading.
        let _ = self.0.write_all(bytes);
    }

    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("the broker speaks");
        bytes
    }

    /// Reads whatever comes until the broker closes the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        loop {
            match self.0.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    // ---- RESP

    /// One command and the first line of its answer.
    pub(crate) fn resp(&mut self, command: &str) -> String {
        self.write(format!("{command}\r\n").as_bytes());
        self.line()
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.read(1));
        }
        String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
    }

    // ---- ZeroMQ

    /// A DEALER with a key. Says what the broker thinks of it: `WELCOME` or `ERROR`.
    pub(crate) fn zmq(broker: &Broker, key: &str) -> (Speaker, String) {
        let mut speaker = Speaker::at(broker, "mdp");
        speaker.zmq_greeting("PLAIN");
        let mut hello = b"\x05HELLO\x01x".to_vec();
        hello.push(key.len() as u8);
        hello.extend_from_slice(key.as_bytes());
        speaker.zmq_frame(4, &hello);
        speaker.read(64);
        let said = speaker.zmq_command();
        if said == "WELCOME" {
            speaker.zmq_frame(4, b"\x08INITIATE\x0bSocket-Type\0\0\0\x06DEALER");
            assert_eq!(speaker.zmq_command(), "READY");
        }
        (speaker, said)
    }

    pub(crate) fn zmq_greeting(&mut self, mechanism: &str) {
        let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
        greeting.extend_from_slice(mechanism.as_bytes());
        greeting.resize(64, 0);
        self.write(&greeting);
    }

    pub(crate) fn zmq_send(&mut self, parts: &[&str]) {
        for (index, part) in parts.iter().enumerate() {
            self.zmq_frame(u8::from(index + 1 < parts.len()), part.as_bytes());
        }
    }

    fn zmq_frame(&mut self, flags: u8, body: &[u8]) {
        self.write(&[flags, u8::try_from(body.len()).expect("it is short")]);
        self.write(body);
    }

    /// The name of the next command.
    fn zmq_command(&mut self) -> String {
        let head = self.read(2);
        let body = self.read(head[1].into());
        String::from_utf8_lossy(&body[1..=usize::from(body[0])]).into_owned()
    }

    // ---- gRPC

    /// A call with one message. Its answer is not read.
    pub(crate) fn grpc(broker: &Broker, key: Option<&str>, path: &str, message: &[u8]) -> Speaker {
        let mut speaker = Speaker::at(broker, "grpc");
        speaker.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        speaker.http_frame(4, 0, 0, &[]);
        let bearer = key.map(|key| format!("Bearer {key}"));
        let mut fields = vec![
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "here"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        fields.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("it is short"));
                block.extend(text.as_bytes());
            }
        }
        speaker.http_frame(1, 4, 1, &block);
        let mut data = vec![0, 0, 0, 0, u8::try_from(message.len()).expect("it is short")];
        data.extend(message);
        speaker.http_frame(0, 1, 1, &data);
        speaker
    }

    fn http_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.write(&frame);
    }

    /// The kind of the next frame, and whether it ends its stream.
    pub(crate) fn grpc_frame(&mut self) -> (u8, bool) {
        let head = self.read(9);
        self.read(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize);
        let (kind, flags) = (head[3], head[4]);
        if kind == 4 && flags == 0 {
            self.http_frame(4, 1, 0, &[]);
        }
        (kind, kind == 3 || (matches!(kind, 0 | 1) && flags & 1 != 0))
    }

    // ---- the older dialect

    /// One message: a length, and a map of one entry.
    pub(crate) fn older(&mut self, message: &[u8]) {
        self.write(&u32::try_from(message.len()).expect("it is short").to_be_bytes());
        self.write(message);
    }
}
