//! A native peer on a blocking socket.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_wire::hello::Hello;
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::request::Submit;
use tenure_wire::task::{NewTask, Terms};
use tenure_wire::{
    FromBroker, Reply, Request, TaskId, VERSION, decode_from_broker, encode_request, split_frames,
};

use super::over_socket::SocketStage;

/// Nothing here takes this long unless it is broken.
pub(crate) const FOREVER: Duration = Duration::from_secs(20);

pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    arrived: BytesMut,
    heard: Vec<FromBroker>,
}

impl Peer {
    pub(crate) fn client(stage: &SocketStage) -> Peer {
        let stream = stage.connect();
        stream.set_read_timeout(Some(FOREVER)).unwrap();
        Peer { stream, arrived: BytesMut::new(), heard: Vec::new() }
    }

    pub(crate) fn known(stage: &SocketStage, identity: &str) -> Peer {
        let mut peer = Peer::client(stage);
        let hello = Hello { version: VERSION, identity: Some(identity.into()), ..Hello::default() };
        assert!(matches!(peer.ask(1, &Request::Hello(Box::new(hello))), Reply::Welcome(_)));
        peer
    }

    pub(crate) fn say(&mut self, number: u64, request: &Request) {
        let mut out = BytesMut::new();
        encode_request(&mut out, number, request);
        self.stream.write_all(&out).unwrap();
    }

    /// The reply to a request; what else comes is kept for later.
    pub(crate) fn ask(&mut self, number: u64, request: &Request) -> Reply {
        self.say(number, request);
        self.reply(number)
    }

    pub(crate) fn reply(&mut self, number: u64) -> Reply {
        self.until(|message| match message {
            FromBroker::Reply { number: answered, reply } if *answered == number => Some(reply.clone()),
            _ => None,
        })
    }

    pub(crate) fn until<T>(&mut self, mut found: impl FnMut(&FromBroker) -> Option<T>) -> T {
        loop {
            if let Some((index, value)) =
                self.heard.iter().enumerate().find_map(|(index, message)| Some((index, found(message)?)))
            {
                self.heard.remove(index);
                return value;
            }
            assert!(self.read_more(), "the connection ended; heard so far: {:?}", self.heard);
        }
    }

    /// Reads once. Says whether the connection is still there.
    pub(crate) fn read_more(&mut self) -> bool {
        let mut chunk = vec![0; 256 << 10];
        let count = match self.stream.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("nothing came: {error}"),
        };
        self.arrived.extend_from_slice(&chunk[..count]);
        let frames = split_frames(&mut self.arrived, FRAME_BYTES_MAX).unwrap();
        self.heard.extend(frames.map(|frame| decode_from_broker(&frame).unwrap()));
        count > 0
    }

    /// Everything up to the end of the connection.
    pub(crate) fn hear_out(mut self) -> Vec<FromBroker> {
        while self.read_more() {}
        self.heard
    }
}

pub(crate) fn submit(count: usize, queue: &str, body: &Bytes) -> Request {
    let mut submit = Submit::default();
    for _ in 0..count {
        submit.push(&Terms::new(queue), NewTask { body: body.clone(), ..NewTask::default() });
    }
    Request::Submit(submit)
}

pub(crate) fn ids(reply: &Reply) -> Vec<TaskId> {
    let Reply::Submitted(submitted) = reply else { panic!("{reply:?}") };
    submitted.tasks.iter().map(|verdict| verdict.0.as_ref().unwrap().task).collect()
}
