//! A gRPC client of a few lines: one call per connection, HTTP/2 frame by frame.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::{Broker, TIMEOUT};

/// Kinds of frames, and the flag that ends a stream or acknowledges settings.
const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const FLAG: u8 = 1;
const END_HEADERS: u8 = 4;
const FRAME_BYTES_MAX: usize = 16_384;

pub(crate) struct Grpc(TcpStream);

impl Grpc {
    /// Makes a call with one message. Its answer is not read.
    pub(crate) fn call(broker: &Broker, key: Option<&str>, path: &str, message: &[u8]) -> Grpc {
        let address = broker.doors["grpc"].as_str().expect("the door is open");
        let mut stream = TcpStream::connect(address).expect("the door is open");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        let mut framed = vec![0, 0, 0, 0, u8::try_from(message.len()).expect("it is short")];
        framed.extend(message);
        // A broker that has hung up is found out by reading.
        let _ = stream.write_all(&call(path, key, &framed, true));
        Grpc(stream)
    }

    /// A connection to which its calls were written already.
    pub(crate) fn on(stream: TcpStream) -> Grpc {
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        Grpc(stream)
    }

    /// The kind of the next frame, and whether it ends its stream.
    pub(crate) fn frame(&mut self) -> (u8, bool) {
        self.next_frame().expect("the broker speaks")
    }

    /// The same, or nothing if the broker has closed the connection.
    pub(crate) fn next_frame(&mut self) -> Option<(u8, bool)> {
        let mut head = [0; 9];
        let mut payload = Vec::new();
        let read = self.0.read_exact(&mut head).and_then(|()| {
            payload.resize(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize, 0);
            self.0.read_exact(&mut payload)
        });
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing came: {error}"),
            Err(_) => return None,
        }
        let (kind, flags) = (head[3], head[4]);
        if kind == SETTINGS && flags & FLAG == 0 {
            let mut acknowledgement = Vec::new();
            write_frame(&mut acknowledgement, SETTINGS, FLAG, 0, &[]);
            let _ = self.0.write_all(&acknowledgement);
        }
        Some((kind, kind == RESET || (matches!(kind, DATA | HEADERS) && flags & FLAG != 0)))
    }
}

/// The beginning of an HTTP/2 connection with one call, of which the message may lack its end.
pub(crate) fn call(path: &str, key: Option<&str>, message: &[u8], ends: bool) -> Vec<u8> {
    let mut bytes = beginning();
    write_call(&mut bytes, 1, path, key, message, ends);
    bytes
}

/// The beginning of an HTTP/2 connection with many equal calls.
pub(crate) fn calls(path: &str, key: &str, message: &[u8], count: u32) -> Vec<u8> {
    let mut bytes = beginning();
    for number in 0..count {
        write_call(&mut bytes, 2 * number + 1, path, Some(key), message, true);
    }
    bytes
}

fn beginning() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    write_frame(&mut bytes, SETTINGS, 0, 0, &[]);
    bytes
}

fn write_call(bytes: &mut Vec<u8>, stream: u32, path: &str, key: Option<&str>, message: &[u8], ends: bool) {
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
            block.extend_from_slice(text.as_bytes());
        }
    }
    write_frame(bytes, HEADERS, END_HEADERS, stream, &block);
    let pieces: Vec<&[u8]> = message.chunks(FRAME_BYTES_MAX).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let is_end = ends && index + 1 == pieces.len();
        write_frame(bytes, DATA, if is_end { FLAG } else { 0 }, stream, piece);
    }
}

fn write_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
