//! One connection, from the first byte of the greeting to the last message.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::assembly::Assembly;
use super::command::{self, ZmtpCommand};
use super::frame::{self, ExpectedFrame, Frame};
use super::greeting::{self, Mechanism};
use super::{CodecError, PeerAdmission, ZmtpEvent, ZmtpLimits, metadata};

/// The state machine of one connection. It owns the bytes that were read and not yet decoded, and appends its
/// output to the `out` argument.
///
/// After an error the connection is over: `out` may hold a last ERROR command for the peer, and every later call
/// returns the same error.
#[derive(Debug)]
pub struct ZmtpPeer {
    state: State,
    admission: PeerAdmission,
    limits: ZmtpLimits,
    pings: bool,
    input: BytesMut,
    assembly: Assembly,
}

#[derive(Debug)]
enum State {
    Greeting,
    /// NULL: waits for the peer's READY.
    Ready,
    /// PLAIN: waits for the peer's HELLO.
    Hello,
    /// PLAIN: the owner decides about the credentials.
    Verdict,
    /// PLAIN: waits for the peer's INITIATE.
    Initiate,
    Traffic,
    Over(CodecError),
}

impl ZmtpPeer {
    /// Opens a connection: the greeting goes out at once, since a peer may wait for it.
    pub fn new(admission: PeerAdmission, limits: ZmtpLimits, out: &mut BytesMut) -> ZmtpPeer {
        greeting::write_opening(out);
        ZmtpPeer {
            state: State::Greeting,
            admission,
            limits,
            pings: false,
            input: BytesMut::new(),
            assembly: Assembly::default(),
        }
    }

    /// Takes bytes in pieces of any size, and adds their events to `events`. Events before an error are there when the
    /// error is returned.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut BytesMut,
        events: &mut Vec<ZmtpEvent>,
    ) -> Result<(), CodecError> {
        self.input.extend_from_slice(bytes);
        while let Some(event) = self.next_event(out)? {
            events.push(event);
        }
        Ok(())
    }

    /// The buffer to read into, for an owner that reads directly from a socket and then asks for events.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// The next event in the bytes read, or `None` until more is read.
    pub fn next_event(&mut self, out: &mut BytesMut) -> Result<Option<ZmtpEvent>, CodecError> {
        if let State::Over(error) = &self.state {
            return Err(error.clone());
        }
        let result = self.step(out);
        if let Err(error) = &result {
            self.close(error, out);
        }
        result
    }

    /// Writes one message.
    pub fn send<B: AsRef<[u8]>>(&self, frames: &[B], out: &mut BytesMut) {
        debug_assert!(self.is_open(), "messages wait for the handshake");
        let last = frames.len().saturating_sub(1);
        for (index, body) in frames.iter().enumerate() {
            frame::write_part(body.as_ref(), index < last, out);
        }
    }

    /// Sends a ping to the peer's ZeroMQ library, which answers even while the program above it computes. Returns
    /// false, and writes nothing, if the peer's version has no PING.
    pub fn ping(&self, ttl: Duration, out: &mut BytesMut) -> bool {
        let possible = self.pings && self.is_open();
        if possible {
            command::write_ping(ttl, out);
        }
        possible
    }

    /// Accepts the credentials of [`ZmtpEvent::Credentials`]; the handshake continues.
    pub fn admit(&mut self, out: &mut BytesMut) {
        if matches!(self.state, State::Verdict) {
            command::write_welcome(out);
            self.state = State::Initiate;
        }
    }

    /// Refuses the credentials of [`ZmtpEvent::Credentials`]; the connection is over.
    pub fn refuse(&mut self, out: &mut BytesMut) {
        if matches!(self.state, State::Verdict) {
            self.close(&CodecError::CredentialsRefused, out);
        }
    }

    /// Whether the handshake is over and messages flow.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Traffic)
    }

    /// Whether the peer understands pings.
    pub fn pings(&self) -> bool {
        self.pings
    }

    /// How many bytes are held for incomplete frames and messages.
    pub fn held_bytes(&self) -> usize {
        self.input.len() + self.assembly.bytes()
    }

    fn step(&mut self, out: &mut BytesMut) -> Result<Option<ZmtpEvent>, CodecError> {
        loop {
            match &self.state {
                State::Greeting => {
                    let Some(greeting) = greeting::read(&mut self.input, self.admission, out)? else {
                        return Ok(None);
                    };
                    self.pings = greeting.pings;
                    self.state = match greeting.mechanism {
                        Mechanism::Null => State::Ready,
                        Mechanism::Plain => State::Hello,
                    };
                }
                // The peer must wait for the decision; what it sent too early stays unread.
                State::Verdict => return Ok(None),
                _ => {
                    let expected =
                        if self.is_open() { ExpectedFrame::Anything } else { ExpectedFrame::Commands };
                    let Some(frame) = frame::read(&mut self.input, &self.limits, expected)? else {
                        return Ok(None);
                    };
                    if let Some(event) = self.take(frame, out)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    fn take(&mut self, frame: Frame, out: &mut BytesMut) -> Result<Option<ZmtpEvent>, CodecError> {
        match frame {
            Frame::Part { body, more } => {
                Ok(self.assembly.add(body, more, &self.limits)?.map(ZmtpEvent::Message))
            }
            Frame::Command(body) => self.handle_command(command::parse(body)?, out).map(Some),
        }
    }

    fn handle_command(&mut self, command: ZmtpCommand, out: &mut BytesMut) -> Result<ZmtpEvent, CodecError> {
        match (command, &self.state) {
            (ZmtpCommand::Error { reason }, _) => Err(CodecError::PeerError { reason }),
            (ZmtpCommand::Ready { metadata }, State::Ready)
            | (ZmtpCommand::Initiate { metadata }, State::Initiate) => self.join(metadata, out),
            (ZmtpCommand::Hello { username, password }, State::Hello) => {
                self.state = State::Verdict;
                Ok(ZmtpEvent::Credentials { username, password })
            }
            (ZmtpCommand::Ping { ttl, context }, State::Traffic) => {
                command::write_pong(&context, out);
                Ok(ZmtpEvent::Ping { ttl })
            }
            (ZmtpCommand::Pong, State::Traffic) => Ok(ZmtpEvent::Pong),
            (ZmtpCommand::Other { name }, State::Traffic) => Ok(ZmtpEvent::Skipped { command: name }),
            (command, _) => Err(CodecError::UnexpectedCommand { name: name(command) }),
        }
    }

    fn join(&mut self, properties: Bytes, out: &mut BytesMut) -> Result<ZmtpEvent, CodecError> {
        let introduction = metadata::parse(properties)?;
        command::write_ready(out);
        self.state = State::Traffic;
        Ok(ZmtpEvent::Joined { identity: introduction.identity, socket: introduction.socket })
    }

    /// Ends the connection, with an ERROR for the peer during the handshake, where ZMTP has one.
    fn close(&mut self, error: &CodecError, out: &mut BytesMut) {
        let handshaking =
            matches!(self.state, State::Ready | State::Hello | State::Verdict | State::Initiate);
        if handshaking && !matches!(error, CodecError::PeerError { .. }) {
            command::write_error(&error.to_string(), out);
        }
        self.state = State::Over(error.clone());
        self.input = BytesMut::new();
        self.assembly = Assembly::default();
    }
}

fn name(command: ZmtpCommand) -> String {
    match command {
        ZmtpCommand::Ready { .. } => "READY".to_owned(),
        ZmtpCommand::Hello { .. } => "HELLO".to_owned(),
        ZmtpCommand::Initiate { .. } => "INITIATE".to_owned(),
        ZmtpCommand::Error { .. } => "ERROR".to_owned(),
        ZmtpCommand::Ping { .. } => "PING".to_owned(),
        ZmtpCommand::Pong => "PONG".to_owned(),
        ZmtpCommand::Other { name } => name,
    }
}
