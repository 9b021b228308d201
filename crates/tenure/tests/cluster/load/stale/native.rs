//! The native door, frame by frame.

use std::collections::VecDeque;

use bytes::BytesMut;
use tenure_wire::hello::Hello;
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::request::Complete;
use tenure_wire::task::Completion;
use tenure_wire::words::OnClose;
use tenure_wire::worker::{FailureReport, WorkerSpec};
use tenure_wire::{
    Code, Frames, FromBroker, Notice, Reply, Request, VERSION, decode_from_broker, encode_request,
    split_frames,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Attempt, LateWorker, Verdict, queue_of};

pub(in super::super) struct NativeWorker {
    stream: TcpStream,
    arrived: BytesMut,
    frames: Frames,
    number: u64,
    assigned: VecDeque<Attempt>,
}

impl LateWorker for NativeWorker {
    const DOOR: &'static str = "native";

    async fn connect(port: u16) -> Option<NativeWorker> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let (arrived, frames) = (BytesMut::new(), Frames::default());
        let mut worker = NativeWorker { stream, arrived, frames, number: 0, assigned: VecDeque::new() };
        let hello = Hello { version: VERSION, ..Hello::default() };
        worker.ask(Request::Hello(Box::new(hello))).await?;
        let spec = WorkerSpec {
            instance: 1,
            on_close: OnClose::TasksDie,
            ..WorkerSpec::new("late-native", vec![queue_of(Self::DOOR).into()], 1)
        };
        match worker.ask(Request::Register(Box::new(spec))).await? {
            Reply::Registered(_) => Some(worker),
            _ => None,
        }
    }

    async fn take(&mut self) -> Option<Attempt> {
        while self.assigned.is_empty() {
            self.hear().await?;
        }
        self.assigned.pop_front()
    }

    async fn fail(&mut self, (task, attempt): Attempt) -> Option<Verdict> {
        let report = FailureReport {
            task,
            attempt,
            exit_code: 1,
            message: None,
            result: "".into(),
            crashed: false,
            is_final: false,
        };
        Some(verdict(&self.ask(Request::Fail(Box::new(report))).await?))
    }

    async fn complete(&mut self, (task, attempt): Attempt, result: &str) -> Option<Verdict> {
        let done = vec![Completion { task, attempt, result: result.to_owned().into() }];
        Some(verdict(&self.ask(Request::Complete(Complete { done })).await?))
    }
}

impl NativeWorker {
    async fn ask(&mut self, request: Request) -> Option<Reply> {
        self.number += 1;
        let mut out = BytesMut::new();
        encode_request(&mut out, self.number, &request);
        self.stream.write_all(&out).await.ok()?;
        loop {
            if let Some((number, reply)) = self.hear().await?
                && number == self.number
            {
                return Some(reply);
            }
        }
    }

    /// The next reply, or nothing if it was a notice.
    async fn hear(&mut self) -> Option<Option<(u64, Reply)>> {
        loop {
            if let Some(frame) = self.frames.next() {
                return match decode_from_broker(&frame).expect("a message of the broker") {
                    FromBroker::Reply { number, reply } => Some(Some((number, reply))),
                    FromBroker::Notice(Notice::Assign(assign)) => {
                        self.assigned.extend(assign.tasks.iter().map(|task| (task.task, task.attempt)));
                        Some(None)
                    }
                    FromBroker::Notice(Notice::Bye(_)) => None,
                    FromBroker::Notice(_) => Some(None),
                };
            }
            if self.stream.read_buf(&mut self.arrived).await.ok()? == 0 {
                return None;
            }
            self.frames = split_frames(&mut self.arrived, FRAME_BYTES_MAX).expect("frames");
        }
    }
}

fn verdict(reply: &Reply) -> Verdict {
    let refusal = match reply {
        Reply::Held(held) => held.refused.first().map(|entry| &entry.refusal),
        Reply::Refused(refusal) => Some(&**refusal),
        _ => None,
    };
    match refusal {
        None => Verdict::Accepted,
        Some(refusal) if refusal.code == Code::StaleAttempt => Verdict::Stale,
        Some(refusal) => Verdict::Refused(refusal.to_string()),
    }
}
