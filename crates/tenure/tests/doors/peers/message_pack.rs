//! A peer of the native protocol or of the older dialect, which frame their values in the same way.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::BytesMut;
use tenure_wire::frame::LENGTH_BYTES;
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::notation::{Bindings, Pattern};
use tenure_wire::value::Value;
use tenure_wire::{Frames, VERSION, split_frames};

use crate::support::TIMEOUT;

pub(crate) struct MessagePack {
    pub(crate) stream: TcpStream,
    arrived: BytesMut,
    frames: Frames,
}

impl MessagePack {
    pub(crate) fn connect(address: &str) -> MessagePack {
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        MessagePack { stream, arrived: BytesMut::new(), frames: Frames::default() }
    }

    /// A peer of the native protocol that has logged in.
    pub(crate) fn native(address: &str, key: &str) -> MessagePack {
        let mut peer = MessagePack::connect(address);
        let answer = peer.ask(1, &format!(r#"[1, "hello", {{"version": {VERSION}, "key": "{key}"}}]"#));
        assert!(answer.to_string().contains("welcome"), "{answer}");
        peer
    }

    /// A peer of the older dialect that has logged in, with a key or without.
    pub(crate) fn older(address: &str, role: &str, key: Option<&str>) -> MessagePack {
        let mut peer = MessagePack::connect(address);
        match key {
            Some(key) => peer.say(&format!(r#"{{"HandShakeWith": {{"role": "{role}", "key": "{key}"}}}}"#)),
            None => peer.say(&format!(r#"{{"HandShake": "{role}"}}"#)),
        }
        peer
    }

    /// Reads whatever comes until the broker closes the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        while self.hear().is_some() {}
        true
    }

    /// Sends a value in the notation of the specification pages.
    pub(crate) fn say(&mut self, text: &str) {
        // A broker that has hung up is found out by reading.
        let _ = self.stream.write_all(&frame(text));
    }

    /// Asks and returns the answer with this number. Everything else that comes is passed over.
    pub(crate) fn ask(&mut self, number: i128, text: &str) -> Value {
        self.say(text);
        loop {
            let heard = self.hear().expect("an answer");
            if matches!(&heard, Value::List(parts) if parts.first() == Some(&Value::Int(number))) {
                return heard;
            }
        }
    }

    /// The next value, or nothing if the broker has closed the connection.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Some(Value::read(&frame).expect("a value"));
            }
            let mut piece = [0; 65_536];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.arrived.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
            self.frames = split_frames(&mut self.arrived, FRAME_BYTES_MAX).expect("frames");
        }
    }
}

/// A value in the notation of the specification pages as a frame.
pub(crate) fn frame(text: &str) -> BytesMut {
    let value = Pattern::parse(text).and_then(|pattern| pattern.build(&Bindings::new()));
    let mut bytes = BytesMut::zeroed(LENGTH_BYTES);
    value.unwrap_or_else(|error| panic!("{error} in {text}")).write(&mut bytes);
    let length = (bytes.len() - LENGTH_BYTES) as u32;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    bytes
}
