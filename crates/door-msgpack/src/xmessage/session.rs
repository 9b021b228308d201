//! One peer's session in the older dialect, pure. The broker speaks first; the peer's answer makes it a worker or an
//! actioner.

mod introduction;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use tenure_door_kit::worker_actor::refused;
use tenure_hub::words::{
    Answer, Assignment, Blob, Command, Held, Notice, Query, Refusal, StateName, TaskId, TaskInfo, Timestamp,
    Wanted, WorkerSpec,
};
use tenure_hub::{Ask, ClockReading, Delivery, HubRefusal, Request, Response};

use super::codec::{
    FRAME_BYTES_MAX, Operation, XMessage, XMessageError, XMessageIntroduction, XMessageState,
    XMessageTaskOptions, decode, encode,
};
use super::translate;
use crate::frames::{UNAUTHENTICATED_FRAME_BYTES_MAX, take_frames};
use crate::pending::Pendings;
use crate::session::{ConnectionAccess, Protocol, Turn};
use crate::settings::Settings;

/// One peer's session of the dialect.
#[derive(Debug)]
pub struct Session {
    settings: Arc<Settings>,
    role: PeerRole,
    pendings: Pendings<ReplyUse>,
    /// The actioner has no more requests: the goodbye waits for the last reply.
    is_over: bool,
}

#[derive(Debug)]
enum PeerRole {
    Unknown,
    Actioner,
    Worker {
        /// Its registration, used again after it was lost.
        spec: Box<WorkerSpec>,
        held: HashMap<TaskId, Holding, RandomState>,
        next_beat: Timestamp,
        /// A registration is in flight.
        is_joining: bool,
    },
}

/// A task that was sent to this worker.
#[derive(Clone, Copy, Debug)]
struct Holding {
    attempt: u32,
    wanted: Option<Wanted>,
}

/// What to do with a reply.
#[derive(Debug)]
enum ReplyUse {
    /// Only a refusal is reported.
    Quiet,
    /// A worker has registered.
    Joined,
    /// A heartbeat: if the hub has dropped the worker, it joins again.
    Beat,
    /// The text that reports success.
    Say(String),
    /// A task to play that may be paused rather than held.
    Play {
        task: TaskId,
    },
    /// A page of the tasks to play, and how many there were on earlier pages.
    PlayAll {
        created: usize,
        paused: usize,
    },
    TaskTable,
    /// The same with its rows, waiting for the counts.
    Counts {
        tasks: Vec<TaskInfo>,
    },
    WorkerTable,
}

impl Session {
    /// A session whose peer has not introduced itself yet.
    pub fn new(settings: Arc<Settings>) -> Session {
        Session { settings, role: PeerRole::Unknown, pendings: Pendings::default(), is_over: false }
    }

    /// Registers the worker without any attempts. The broker told it to stop everything it held when it was lost.
    fn join(&mut self, turn: &mut Turn) {
        let PeerRole::Worker { spec, held, is_joining, .. } = &mut self.role else { return };
        if *is_joining || self.is_over {
            return;
        }
        *is_joining = true;
        held.clear();
        let register = Command::Register(spec.clone());
        self.ask(ReplyUse::Joined, Request::Command(register), turn);
    }

    fn actioner_says(&mut self, message: XMessage, turn: &mut Turn) {
        match message {
            XMessage::ActionerOp(operation) => self.operate(operation, turn),
            XMessage::TaskTablePrint { states } => {
                self.ask(ReplyUse::TaskTable, Request::Query(translate::list(&states)), turn);
            }
            XMessage::WorkerTablePrint => {
                self.ask(ReplyUse::WorkerTable, Request::Query(Query::Workers), turn);
            }
            XMessage::Over => self.is_over = true,
            XMessage::HeartBeat(_) | XMessage::BulkMessage(_) => {}
            XMessage::HandShake(_)
            | XMessage::HandShakeWith(_)
            | XMessage::TaskLaunch { .. }
            | XMessage::WorkerOp { .. }
            | XMessage::WorkerTableOp { .. }
            | XMessage::TaskTableOp { .. }
            | XMessage::TaskStateChange { .. } => send_text("an actioner may not send this message", turn),
        }
        self.close_if_over(turn);
    }

    fn operate(&mut self, operation: Operation, turn: &mut Turn) {
        match operation {
            Operation::AddTask(record_id) => {
                self.add(XMessageTaskOptions { record_id, ..XMessageTaskOptions::default() }, turn);
            }
            Operation::AddTaskWith(options) => self.add(options, turn),
            Operation::PlayTask(id) => {
                let task = translate::id(id);
                self.ask(ReplyUse::Play { task }, Request::Command(Command::Release { task }), turn);
            }
            Operation::PlayAllTask => {
                let page = Request::Query(translate::playable(None));
                self.ask(ReplyUse::PlayAll { created: 0, paused: 0 }, page, turn);
            }
            Operation::KillTask(id) => {
                let task = translate::id(id);
                let text = format!("Kill task uuid={task}.");
                self.ask(ReplyUse::Say(text), Request::Command(Command::Cancel { task, reason: None }), turn);
            }
            Operation::PauseTask(id) => {
                let task = translate::id(id);
                let text = format!("Pause task uuid={task}.");
                self.ask(
                    ReplyUse::Say(text),
                    Request::Command(Command::Pause { task, reason: None, terminate: false }),
                    turn,
                );
            }
            Operation::Inspect
            | Operation::Create
            | Operation::Update
            | Operation::Read
            | Operation::Delete => {
                send_text("unsupported operation: use TaskTablePrint or WorkerTablePrint", turn);
            }
        }
    }

    fn add(&mut self, options: XMessageTaskOptions, turn: &mut Turn) {
        let task = translate::fresh_task();
        let text = format!("Add task id={task}, map to task record_id={} to run.", options.record_id);
        match translate::submission(task, options, &self.settings.xmessage) {
            Ok(submission) => self.ask(ReplyUse::Say(text), Request::Submit(vec![submission]), turn),
            Err(no) => send_text(&translate::refusal(&no), turn),
        }
    }

    fn worker_says(&mut self, message: &XMessage, turn: &mut Turn) {
        match message {
            XMessage::HeartBeat(_) => {
                let beat = Command::Heartbeat { held: None, stats: None };
                self.ask(ReplyUse::Beat, Request::Command(beat), turn);
            }
            XMessage::TaskStateChange { id, from: _, to } => self.changed(translate::id(*id), *to, turn),
            XMessage::BulkMessage(_) => {}
            XMessage::Over => {
                self.is_over = true;
                self.ask(ReplyUse::Quiet, Request::Command(Command::Leave), turn);
            }
            XMessage::HandShake(_)
            | XMessage::HandShakeWith(_)
            | XMessage::TaskLaunch { .. }
            | XMessage::ActionerOp(_)
            | XMessage::WorkerOp { .. }
            | XMessage::WorkerTableOp { .. }
            | XMessage::WorkerTablePrint
            | XMessage::TaskTablePrint { .. }
            | XMessage::TaskTableOp { .. } => send_text("a worker may not send this message", turn),
        }
    }

    /// A worker reports the state of a task.
    fn changed(&mut self, task: TaskId, to: XMessageState, turn: &mut Turn) {
        let PeerRole::Worker { held, .. } = &mut self.role else { return };
        let Some(holding) = held.get(&task).copied() else {
            return send_text(
                &format!("stale-attempt: task {task} is not held by this worker: stop working on it"),
                turn,
            );
        };
        if !matches!(to, XMessageState::Submit | XMessageState::Run) {
            held.remove(&task);
        }
        for request in translate::report(Held { task, attempt: holding.attempt }, to, holding.wanted) {
            self.ask(ReplyUse::Quiet, request, turn);
        }
    }

    fn assigned(&mut self, assignment: &Assignment, body: Result<Bytes, HubRefusal>, turn: &mut Turn) {
        let held_now = Held { task: assignment.task, attempt: assignment.attempt };
        let record_id = match body {
            Ok(body) => String::from_utf8(body.to_vec()).map_err(|_| "its body is not text".to_owned()),
            Err(no) => Err(no.to_string()),
        };
        match record_id {
            Ok(record_id) => {
                if let PeerRole::Worker { held, .. } = &mut self.role {
                    held.insert(assignment.task, Holding { attempt: assignment.attempt, wanted: None });
                }
                let launch = XMessage::TaskLaunch { task_id: translate::wire_id(assignment.task), record_id };
                encode(&mut turn.out, &launch);
            }
            Err(why) => {
                let why = format!("it cannot be sent to this worker: {why}");
                self.ask(ReplyUse::Quiet, translate::fail_unsupported_body(held_now, &why), turn);
            }
        }
    }

    fn notice(&mut self, notice: Notice, body: Option<Result<Bytes, HubRefusal>>, turn: &mut Turn) {
        let PeerRole::Worker { held, .. } = &mut self.role else { return };
        match notice {
            Notice::Assign(assignment) => self.assigned(&assignment, body.unwrap_or(Ok(Bytes::new())), turn),
            Notice::Wanted { task, attempt: _, wanted, in_place: _, reason: _ } => {
                // The worker has already reported the end of the task.
                let Some(holding) = held.get_mut(&task) else { return };
                holding.wanted = Some(wanted);
                let op = translate::operation(wanted, task);
                encode(&mut turn.out, &XMessage::WorkerOp { op, id: translate::wire_id(task) });
            }
            Notice::Stop { task, attempt, why: _ } => {
                if held.get(&task).is_some_and(|holding| holding.attempt == attempt) {
                    held.remove(&task);
                    let op = translate::operation(Wanted::Cancel, task);
                    encode(&mut turn.out, &XMessage::WorkerOp { op, id: translate::wire_id(task) });
                }
            }
            // The broker tells only workers that send suspend to continue, and this dialect has no suspend.
            Notice::Continue { .. } => {}
            Notice::Drain => send_text("drain: finish the running tasks; no new tasks will come", turn),
            Notice::Replaced { worker } => {
                send_text(&format!("replaced: another worker has registered as {worker}"), turn);
            }
        }
    }

    fn reply(&mut self, token: u64, reply: Result<Response, HubRefusal>, turn: &mut Turn) {
        let Some(expect) = self.pendings.take(token) else { return };
        if let (ReplyUse::Joined, PeerRole::Worker { is_joining, .. }) = (&expect, &mut self.role) {
            *is_joining = false;
        }
        match (expect, refused(reply)) {
            (ReplyUse::Quiet | ReplyUse::Joined | ReplyUse::Beat, Ok(_)) => {}
            (ReplyUse::Beat, Err(HubRefusal::Engine(Refusal::NotAWorker))) => self.join(turn),
            (ReplyUse::Say(text), Ok(_)) => send_text(&text, turn),
            (ReplyUse::Play { task }, Ok(_)) => send_text(&format!("Launching task uuid={task}."), turn),
            (
                ReplyUse::Play { task },
                Err(HubRefusal::Engine(Refusal::WrongState { state: StateName::Paused, .. })),
            ) => {
                let text = format!("Launching task uuid={task}.");
                self.ask(ReplyUse::Say(text), Request::Command(Command::Resume { task }), turn);
            }
            (ReplyUse::PlayAll { created, paused }, Ok(Response::Answer(Answer::Tasks { tasks, next }))) => {
                let paused_here = tasks.iter().filter(|info| translate::is_paused(info)).count();
                let (created, paused) = (created + tasks.len() - paused_here, paused + paused_here);
                for info in &tasks {
                    self.ask(ReplyUse::Quiet, Request::Command(translate::play(info)), turn);
                }
                if next.is_some() {
                    let page = Request::Query(translate::playable(next));
                    self.ask(ReplyUse::PlayAll { created, paused }, page, turn);
                } else {
                    send_text(&translate::launching_all(created, paused), turn);
                }
            }
            (ReplyUse::TaskTable, Ok(Response::Answer(Answer::Tasks { tasks, .. }))) => {
                self.ask(ReplyUse::Counts { tasks }, Request::Query(Query::Counts), turn);
            }
            (ReplyUse::Counts { tasks }, Ok(Response::Answer(Answer::Counts(counts)))) => {
                send_text(&translate::task_table(&tasks, &counts), turn);
            }
            (ReplyUse::WorkerTable, Ok(Response::Answer(Answer::Workers(workers)))) => {
                send_text(&translate::worker_table(&workers), turn);
            }
            (ReplyUse::Joined, Err(no)) => reject_peer(&translate::refusal(&no), turn),
            (_, Err(no)) => send_text(&translate::refusal(&no), turn),
            (
                ReplyUse::PlayAll { .. }
                | ReplyUse::TaskTable
                | ReplyUse::Counts { .. }
                | ReplyUse::WorkerTable,
                Ok(_),
            ) => {
                unreachable!("a query is answered in kind")
            }
        }
        self.close_if_over(turn);
    }

    fn close_if_over(&mut self, turn: &mut Turn) {
        if self.is_over && self.pendings.len() == 0 {
            encode(&mut turn.out, &XMessage::Over);
            turn.close = true;
        }
    }

    fn ask(&mut self, expect: ReplyUse, request: Request, turn: &mut Turn) {
        let token = self.pendings.put(expect);
        turn.asks.push(Ask { token, request });
    }
}

impl Protocol for Session {
    type Event = ();
    const SPEAKS_FIRST: bool = true;

    fn begin(&mut self, turn: &mut Turn) {
        encode(&mut turn.out, &XMessage::HandShake("Who you are?".into()));
    }

    fn receive(
        &mut self,
        now: ClockReading,
        arrived: &mut BytesMut,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        let most = |session: &Session| match session.role {
            PeerRole::Unknown => UNAUTHENTICATED_FRAME_BYTES_MAX,
            PeerRole::Actioner | PeerRole::Worker { .. } => FRAME_BYTES_MAX,
        };
        let take = |session: &mut Session, frame: &Bytes, turn: &mut Turn| {
            session.message(now, frame, access, turn);
        };
        if let Err(error) = take_frames(self, arrived, turn, most, take) {
            reject_peer(&error.to_string(), turn);
        }
    }

    fn needs(&self, delivery: &Delivery) -> Option<Blob> {
        match delivery {
            Delivery::Notice(Notice::Assign(assignment)) if !assignment.body.is_empty() => {
                Some(assignment.body)
            }
            _ => None,
        }
    }

    fn deliver(
        &mut self,
        _now: ClockReading,
        delivery: Delivery,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        match delivery {
            Delivery::Reply { token, reply } => self.reply(token, reply, turn),
            Delivery::Notice(notice) => self.notice(notice, bytes, turn),
            Delivery::Goodbye => send_text(&translate::refusal(&HubRefusal::Draining), turn),
            Delivery::Ended(why) => {
                send_text(&translate::refusal(&why), turn);
                turn.close = true;
            }
            // This session has asked for none of these.
            Delivery::Event { .. }
            | Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::Broadcast(_) => {}
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self.role, PeerRole::Unknown)
    }

    fn login_is_late(&mut self, turn: &mut Turn) {
        reject_peer("no HandShake arrived in time", turn);
    }

    fn open_requests(&self) -> usize {
        self.pendings.len()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        match self.role {
            PeerRole::Unknown | PeerRole::Actioner => None,
            PeerRole::Worker { next_beat, .. } => Some(next_beat),
        }
    }

    fn tick(&mut self, now: ClockReading, turn: &mut Turn) {
        match &mut self.role {
            PeerRole::Worker { next_beat, .. } if *next_beat <= now.steady => {
                *next_beat = now.steady + translate::BEAT;
                encode(&mut turn.out, &XMessage::HeartBeat(0));
            }
            PeerRole::Unknown | PeerRole::Actioner | PeerRole::Worker { .. } => {}
        }
    }
}

impl Session {
    fn message(
        &mut self,
        now: ClockReading,
        frame: &Bytes,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        let message = match decode(frame) {
            Ok(message) => message,
            Err(error) => return self.handle_malformed(&error, turn),
        };
        match (&self.role, message) {
            (PeerRole::Unknown, XMessage::HandShake(role)) => {
                let introduction = XMessageIntroduction { role, ..XMessageIntroduction::default() };
                self.introduce(now, &introduction, access, turn);
            }
            (PeerRole::Unknown, XMessage::HandShakeWith(introduction)) => {
                self.introduce(now, &introduction, access, turn);
            }
            (PeerRole::Unknown, _) => reject_peer("send HandShake with worker or actioner first", turn),
            (PeerRole::Actioner, message) => self.actioner_says(message, turn),
            (PeerRole::Worker { .. }, message) => self.worker_says(&message, turn),
        }
    }

    fn handle_malformed(&mut self, error: &XMessageError, turn: &mut Turn) {
        match self.role {
            PeerRole::Unknown => reject_peer(&error.to_string(), turn),
            PeerRole::Actioner | PeerRole::Worker { .. } => send_text(&error.to_string(), turn),
        }
    }
}

fn send_text(text: &str, turn: &mut Turn) {
    encode(&mut turn.out, &XMessage::BulkMessage(text.to_owned()));
}

fn reject_peer(text: &str, turn: &mut Turn) {
    send_text(text, turn);
    turn.close = true;
}
