//! A Majordomo peer. It may be a client, a worker, or both on one connection.

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::words::{Blob, Command, EventData, Held, Notice, TaskId, Timestamp};
use tenure_hub::{ClockReading, Delivery, HubRefusal, Request, Response};

use super::client::ClientSession;
use super::requests_in_flight::RequestsInFlight;
use super::worker::WorkerSession;
use super::{PeerIdentity, PeerOutput, PeerSession};
use crate::mdp::{self, FromPeer, MdpError};
use crate::registry::Registry;
use crate::settings::Settings;

/// The purpose of a reply.
#[derive(Debug)]
pub(super) enum ReplyPurpose {
    /// Nothing depends on it.
    Nothing,
    /// A worker registered or sent a sign of life: if the hub does not know it, it has to start again.
    Known,
    Started(Held),
    Submitted {
        service: Arc<str>,
        tasks: Vec<TaskId>,
    },
    MmiRequest(u64),
    /// The task of an event whose `JobID` is wanted.
    Lookup(TaskId),
    /// What the broker remembers of a worker of this name.
    Record,
    /// What a worker of this name held when the broker last heard of it.
    HeldBefore,
    /// A part of a result, until its client has room for it.
    Part {
        bytes: usize,
    },
}

/// Maximum number of result parts, and of their bytes, on their way to a client before the door stops reading from
/// their worker.
const PARTS_MAX: usize = 1_000;
const PARTS_BYTES_MAX: usize = 4 << 20;

/// What every part of the conversation works with during one turn.
pub(super) struct SessionTurn<'a> {
    pub(super) now: ClockReading,
    /// Since when the peer is connected.
    pub(super) since: Timestamp,
    pub(super) me: &'a PeerIdentity,
    pub(super) settings: &'a Settings,
    pub(super) registry: &'a Arc<Registry>,
    pub(super) pending: &'a mut RequestsInFlight<ReplyPurpose>,
    pub(super) out: &'a mut PeerOutput,
}

impl SessionTurn<'_> {
    pub(super) fn ask(&mut self, request: Request, then: ReplyPurpose) {
        self.pending.ask(request, then, self.out);
    }

    pub(super) fn command(&mut self, command: Command, then: ReplyPurpose) {
        self.ask(Request::Command(command), then);
    }

    pub(super) fn send(&mut self, message: Vec<Bytes>) {
        self.out.messages.push(message);
    }

    pub(super) fn drop(&self, reason: &'static str) {
        self.settings.counters.count(reason);
    }
}

/// The header of a message, for the log. Anything else may be a body, and bodies are not logged.
fn header_text(frame: &Bytes) -> Option<String> {
    const HEADER_BYTES_MAX: usize = 16;
    let is_header = frame.len() <= HEADER_BYTES_MAX
        && frame.starts_with(b"MDP")
        && frame.iter().all(u8::is_ascii_graphic);
    is_header.then(|| String::from_utf8_lossy(frame).into_owned())
}

/// One peer's session at the Majordomo door, as a client or as a worker.
#[derive(Debug)]
pub struct Majordomo {
    me: PeerIdentity,
    settings: Arc<Settings>,
    registry: Arc<Registry>,
    pending: RequestsInFlight<ReplyPurpose>,
    client: ClientSession,
    worker: WorkerSession,
    since: Timestamp,
    /// The log has reported that it speaks another protocol.
    is_logged: bool,
}

impl Majordomo {
    /// A session whose peer has not sent a message yet.
    pub fn new(me: PeerIdentity, settings: Arc<Settings>, registry: Arc<Registry>) -> Majordomo {
        Majordomo {
            me,
            settings,
            registry,
            pending: RequestsInFlight::default(),
            client: ClientSession::default(),
            worker: WorkerSession::default(),
            since: Timestamp::default(),
            is_logged: false,
        }
    }

    fn parts<'a>(
        &'a mut self,
        now: ClockReading,
        out: &'a mut PeerOutput,
    ) -> (&'a mut ClientSession, &'a mut WorkerSession, SessionTurn<'a>) {
        let Majordomo { me, settings, registry, pending, client, worker, since, .. } = self;
        (client, worker, SessionTurn { now, since: *since, me, settings, registry, pending, out })
    }

    /// A peer that speaks another protocol gets no reply, so the log reports the problem, once.
    fn log_unknown_header(&mut self, frames: usize, first: &[Bytes; 2]) {
        if std::mem::replace(&mut self.is_logged, true) {
            return;
        }
        let (first_bytes, header) = (first[0].len(), first.iter().find_map(header_text));
        tracing::warn!(
            peer = %self.me.name, frames, first_bytes, header,
            "messages without a Majordomo header are dropped"
        );
    }
}

impl PeerSession for Majordomo {
    fn begin(&mut self, now: ClockReading, out: &mut PeerOutput) {
        self.since = now.wall;
        let (_, worker, mut turn) = self.parts(now, out);
        worker.begin(&mut turn);
    }

    fn receive(&mut self, now: ClockReading, frames: Vec<Bytes>, out: &mut PeerOutput) {
        let first = [0, 1].map(|index| frames.get(index).cloned().unwrap_or_default());
        let count = frames.len();
        let (client, worker, mut turn) = self.parts(now, out);
        match mdp::parse(frames) {
            Ok(FromPeer::Client(request)) => client.receive(request, &mut turn),
            Ok(FromPeer::Worker { dialect, message }) => worker.receive(dialect, message, &mut turn),
            Err(error) => {
                turn.drop(error.kind());
                worker.garbled(&mut turn);
                if error == MdpError::UnknownHeader {
                    self.log_unknown_header(count, &first);
                }
            }
        }
    }

    fn needs(&self, delivery: &Delivery) -> Option<Blob> {
        match delivery {
            Delivery::Notice(Notice::Assign(assignment)) => self.worker.body_of(assignment),
            Delivery::Reply { token, .. }
                if let Some(ReplyPurpose::Started(held)) = self.pending.get(*token) =>
            {
                self.worker.body_after_start(*held)
            }
            Delivery::Event { watch, event } => match event.kind {
                EventData::Completed { result, .. } if self.client.awaits_result(*watch, event) => {
                    Some(result)
                }
                _ => None,
            },
            Delivery::Reply { reply: Ok(Response::Answer(answer)), .. } => self.client.body_wanted(answer),
            Delivery::Reply { .. }
            | Delivery::Notice(_)
            | Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::Broadcast(_)
            | Delivery::Goodbye
            | Delivery::Ended(_) => None,
        }
    }

    fn deliver(
        &mut self,
        now: ClockReading,
        delivery: Delivery,
        bytes: Result<Bytes, HubRefusal>,
        out: &mut PeerOutput,
    ) {
        let (client, worker, mut turn) = self.parts(now, out);
        match delivery {
            Delivery::Reply { token, reply } => {
                let Some(waiting) = turn.pending.answered(token) else { return };
                match waiting {
                    // A part without a listening client is dropped.
                    ReplyPurpose::Nothing | ReplyPurpose::Part { .. } => {}
                    ReplyPurpose::Known => worker.on_hub_reply(&reply, &mut turn),
                    ReplyPurpose::Started(held) => worker.started(held, reply, bytes, &mut turn),
                    ReplyPurpose::Record => worker.recorded(&reply, &mut turn),
                    ReplyPurpose::HeldBefore => worker.held_before(reply, &mut turn),
                    ReplyPurpose::Submitted { service, tasks } => {
                        client.submitted(&service, &tasks, reply, &mut turn);
                    }
                    ReplyPurpose::MmiRequest(request) => client.mmi_replied(request, reply, &mut turn),
                    ReplyPurpose::Lookup(task) => client.looked_up(task, &reply, bytes, &mut turn),
                }
            }
            Delivery::Notice(notice) => match notice {
                Notice::Assign(assignment) => worker.assigned(&assignment, bytes, &mut turn),
                Notice::Stop { task, attempt, why } => worker.stopped(Held { task, attempt }, why, &mut turn),
                Notice::Wanted { task, attempt, wanted, .. } => {
                    worker.wanted(Held { task, attempt }, wanted, &mut turn);
                }
                // These workers do not say suspend.
                Notice::Continue { .. } => {}
                // A drained Majordomo worker that is disconnected says READY again and would get work again.
                Notice::Drain => {}
                Notice::Replaced { .. } => turn.out.close = true,
            },
            Delivery::Event { watch, event } => client.event(watch, &event, bytes, &mut turn),
            Delivery::Gap { watch, from, oldest } => client.gap(watch, from, oldest, &mut turn),
            Delivery::Live { watch, next } => client.live(watch, next, &mut turn),
            Delivery::Call { call, body, .. } => client.part(call, &body, &mut turn),
            // A part of a result is accepted even if its client has stopped waiting.
            Delivery::CallGivenUp { .. } => {}
            Delivery::CallAnswered { token, .. } => drop(turn.pending.answered(token)),
            Delivery::Broadcast(heard) => worker.broadcast(heard.subject.as_deref(), &heard.body, &mut turn),
            Delivery::Goodbye | Delivery::Ended(_) => turn.out.close = true,
        }
    }

    fn all_delivered(&mut self, now: ClockReading, out: &mut PeerOutput) {
        let (client, _, mut turn) = self.parts(now, out);
        client.send_notices(&mut turn);
    }

    fn tick(&mut self, now: ClockReading, out: &mut PeerOutput) {
        let (client, worker, mut turn) = self.parts(now, out);
        worker.tick(&mut turn);
        client.send_notices(&mut turn);
    }

    fn deadline(&self) -> Option<Timestamp> {
        [self.worker.deadline(), self.client.deadline()].into_iter().flatten().min()
    }

    fn unanswered(&self) -> usize {
        self.pending.len()
    }

    fn is_held_back(&self) -> bool {
        if self.worker.is_arriving() {
            return true;
        }
        let parts = self.pending.all().filter_map(|waiting| match waiting {
            ReplyPurpose::Part { bytes } => Some(*bytes),
            _ => None,
        });
        let (count, bytes) = parts.fold((0, 0), |(count, all), bytes| (count + 1, all + bytes));
        count >= PARTS_MAX || bytes >= PARTS_BYTES_MAX
    }

    fn too_long(&mut self, now: ClockReading, out: &mut PeerOutput) {
        let (_, worker, mut turn) = self.parts(now, out);
        worker.too_long(&mut turn);
    }

    fn replaced(&mut self, now: ClockReading, out: &mut PeerOutput) {
        let (_, worker, mut turn) = self.parts(now, out);
        worker.leave(&mut turn);
    }

    fn has_jobs(&self) -> bool {
        self.client.waiting_jobs() > 0
    }

    fn end(&mut self, now: ClockReading, out: &mut PeerOutput) {
        let (client, worker, mut turn) = self.parts(now, out);
        worker.end(&mut turn);
        client.end(&mut turn);
        for _ in 0..self.client.waiting_jobs() {
            self.settings.counters.count("client_gone");
        }
    }
}
