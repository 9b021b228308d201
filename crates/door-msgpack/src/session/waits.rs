//! Waiting for tasks to end.
//!
//! The first wait of a session opens one watch for the ends of everything the peer has submitted. Then each task is
//! queried once: if it has ended, that is the answer, otherwise the watch delivers it. A task of another submitter
//! gets its own watch and is queried once more.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use foldhash::fast::RandomState;
use tenure_hub::words::{Answer, Event, EventData, EventFilter, Query, Refusal, TaskId, TaskInfo, Timestamp};
use tenure_hub::{ClockReading, HubRefusal, Request, Response, Watch};
use tenure_wire::reply::EndedReply;
use tenure_wire::task::Ended;
use tenure_wire::{Reply, request};

use super::expect::ReplyPlan;
use super::{Due, Session, Turn, answer, refuse};
use crate::translate;

/// Maximum number of tasks that one session may wait for.
const WAITED_MAX: usize = 65_536;
/// How many bytes of results one reply contains; clients can fetch the others.
const RESULT_BYTES: usize = 8 << 20;
/// Numbers from here on are the door's own watches; a peer's are below.
pub(super) const OWN_WATCHES: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(super) struct Waits {
    all: HashMap<u64, Wait, RandomState>,
    by_task: HashMap<TaskId, Waited, RandomState>,
    /// The watch for the ends of this peer's submissions is open.
    watching: bool,
    next_watch: u64,
}

#[derive(Debug, Default)]
struct Wait {
    left: HashSet<TaskId, RandomState>,
    ended: Vec<Ended>,
    results: bool,
    result_bytes: usize,
    deadline: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Waited {
    /// The waits, by the numbers of their requests.
    by: Vec<u64>,
    wants_result: bool,
    /// Its own watch, if another peer submitted the task.
    watch: Option<u64>,
}

/// Whether a watch is the door's own.
pub(super) fn is_own_watch(watch: u64) -> bool {
    watch >= OWN_WATCHES
}

impl Waits {
    pub(super) fn wants_result(&self, task: TaskId) -> bool {
        self.by_task.get(&task).is_some_and(|waited| waited.wants_result)
    }
}

impl Session {
    pub(super) fn wait(
        &mut self,
        now: ClockReading,
        number: u64,
        wait: request::WaitRequest,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let waits = &mut self.extras().waits;
        if waits.all.contains_key(&number) {
            return Err(Refusal::BadValue { what: "number", why: "is in use by an open wait" }.into());
        }
        if waits.by_task.len() + wait.tasks.len() > WAITED_MAX {
            return Err(Refusal::TooMany { what: "tasks waited for", limit: WAITED_MAX }.into());
        }
        let left: HashSet<TaskId, RandomState> = wait.tasks.iter().copied().map(translate::id).collect();
        if left.is_empty() {
            answer(number, &Reply::Ended(EndedReply::default()), turn);
            return Ok(());
        }
        for task in &left {
            let waited = waits.by_task.entry(*task).or_default();
            waited.by.push(number);
            waited.wants_result |= wait.results;
        }
        let deadline = self.extras().set_deadline(now, wait.timeout_ms, Due::Wait { number });
        let waits = &mut self.extras().waits;
        let tasks: Vec<TaskId> =
            wait.tasks.into_iter().map(translate::id).filter(|task| left.contains(task)).collect();
        waits.all.insert(number, Wait { left, results: wait.results, deadline, ..Wait::default() });
        let is_watching = std::mem::replace(&mut waits.watching, true);
        if !is_watching {
            let submitter = self.peer.as_ref().map(|peer| peer.identity.clone());
            self.watch_ends(OWN_WATCHES, EventFilter { submitter, ..EventFilter::default() }, turn);
        }
        for task in tasks {
            self.query_task(task, turn);
        }
        Ok(())
    }

    /// The state of a task that the peer waits for has arrived.
    pub(super) fn looked(
        &mut self,
        task: TaskId,
        reply: Result<Response, HubRefusal>,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        match reply {
            Ok(Response::Answer(Answer::Task(info))) => match translate::ended(&info) {
                Some((row, _)) => self.has_ended(task, &row, bytes, turn),
                None => self.watch_foreign_task(&info, turn),
            },
            Ok(_) => {}
            Err(no) => self.cannot_wait(task, &no, turn),
        }
    }

    /// The watch reports an end.
    pub(super) fn handle_end(
        &mut self,
        event: &Event,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        let Some(task) = event.task() else { return };
        let is_waited_for =
            self.extras.as_ref().is_some_and(|extras| extras.waits.by_task.contains_key(&task));
        if !is_waited_for || !event.kind.is_end() {
            return;
        }
        match translate::ended_by(event) {
            Some((row, _)) => self.has_ended(task, &row, bytes, turn),
            None => self.query_task(task, turn),
        }
    }

    /// Events may have been missed: queries every task again.
    pub(super) fn look_again(&mut self, turn: &mut Turn) {
        let Some(extras) = &self.extras else { return };
        let tasks: Vec<TaskId> = extras.waits.by_task.keys().copied().collect();
        for task in tasks {
            self.query_task(task, turn);
        }
    }

    /// A wait has timed out: the reply lists what has ended, and what has not.
    pub(super) fn wait_is_over(&mut self, number: u64, turn: &mut Turn) {
        let Some(wait) = self.extras().waits.all.remove(&number) else { return };
        for task in &wait.left {
            self.forget_waited(*task, number, turn);
        }
        let pending = wait.left.into_iter().map(translate::task).collect();
        answer(number, &Reply::Ended(EndedReply { tasks: wait.ended, pending }), turn);
    }

    fn has_ended(
        &mut self,
        task: TaskId,
        row: &Ended,
        bytes: Option<Result<Bytes, HubRefusal>>,
        turn: &mut Turn,
    ) {
        let bytes = bytes.and_then(Result::ok);
        let waits = &mut self.extras().waits;
        let Some(waited) = waits.by_task.remove(&task) else { return };
        let mut done = Vec::new();
        for number in waited.by {
            let Some(wait) = waits.all.get_mut(&number) else { continue };
            if !wait.left.remove(&task) {
                continue;
            }
            let result = wait.result_of(row, bytes.as_ref());
            wait.ended.push(Ended { result, ..row.clone() });
            if wait.left.is_empty() {
                done.extend(waits.all.remove(&number).map(|wait| (number, wait)));
            }
        }
        if let Some(watch) = waited.watch {
            self.ask(0, ReplyPlan::Nothing, Request::Unwatch { watch }, turn);
        }
        for (number, wait) in done {
            self.extras().forget_deadline(wait.deadline, Due::Wait { number });
            answer(number, &Reply::Ended(EndedReply { tasks: wait.ended, pending: Vec::new() }), turn);
        }
    }

    /// The common watch covers only what this peer has submitted.
    fn watch_foreign_task(&mut self, info: &TaskInfo, turn: &mut Turn) {
        let identity = self.peer.as_ref().map(|peer| peer.identity.clone());
        if identity.as_ref() == Some(&info.terms.submitter) {
            return;
        }
        let waits = &mut self.extras().waits;
        let Some(waited) = waits.by_task.get_mut(&info.id) else { return };
        if waited.watch.is_some() {
            return;
        }
        waits.next_watch += 1;
        let watch = OWN_WATCHES + waits.next_watch;
        waited.watch = Some(watch);
        self.watch_ends(watch, EventFilter { task: Some(info.id), ..EventFilter::default() }, turn);
        self.query_task(info.id, turn);
    }

    fn cannot_wait(&mut self, task: TaskId, no: &HubRefusal, turn: &mut Turn) {
        let by = self.extras().waits.by_task.get(&task).map(|waited| waited.by.clone()).unwrap_or_default();
        for number in by {
            let Some(wait) = self.extras().waits.all.remove(&number) else { continue };
            for task in &wait.left {
                self.forget_waited(*task, number, turn);
            }
            self.extras().forget_deadline(wait.deadline, Due::Wait { number });
            refuse(number, no, turn);
        }
    }

    fn forget_waited(&mut self, task: TaskId, number: u64, turn: &mut Turn) {
        let waits = &mut self.extras().waits;
        let Some(waited) = waits.by_task.get_mut(&task) else { return };
        waited.by.retain(|by| *by != number);
        if waited.by.is_empty() {
            let watch = waited.watch;
            waits.by_task.remove(&task);
            if let Some(watch) = watch {
                self.ask(0, ReplyPlan::Nothing, Request::Unwatch { watch }, turn);
            }
        }
    }

    fn query_task(&mut self, task: TaskId, turn: &mut Turn) {
        self.ask(0, ReplyPlan::Waited { task }, Request::Query(Query::Show { task }), turn);
    }

    fn watch_ends(&mut self, watch: u64, filter: EventFilter, turn: &mut Turn) {
        let kinds = EventData::KINDS_OF_ENDS.iter().map(|kind| (*kind).into()).collect();
        let watch = Watch { watch, filter: EventFilter { kinds, ..filter }, from: None };
        self.ask(0, ReplyPlan::Nothing, Request::Watch(watch), turn);
    }
}

impl Wait {
    /// The result, if it was requested and fits into the frame.
    fn result_of(&mut self, row: &Ended, bytes: Option<&Bytes>) -> Option<Bytes> {
        if !self.results || self.result_bytes + row.result_bytes as usize > RESULT_BYTES {
            return None;
        }
        self.result_bytes += row.result_bytes as usize;
        match row.result_bytes {
            0 => Some(Bytes::new()),
            _ => bytes.cloned(),
        }
    }
}
