//! A worker that fetches its tasks with requests. Its session with the hub outlives them: a worker that is between two
//! requests is still there.
//!
//! One task takes the mail of the session and gives each reply to the request that waits for it, and each assignment to
//! a fetch. The worker names the attempt in every report, so nothing has to be inferred here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use tenure_hub::words::{
    Assignment, Command, Held, Name, Notice, OnLost, Refusal, StopWhy, TaskId, Timestamp, WaitEnd, Wanted,
};
use tenure_hub::{Ask, ClockReading, Delivery, Grant, HubRefusal, Request, Response, Session};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

/// The token of requests whose reply is not waited for.
const UNHEARD: u64 = 0;
/// How many notices about attempts are kept for the worker's next heartbeat. A worker that never asks loses the oldest.
const NOTICES_MAX: usize = 10_000;

pub(crate) struct HttpWorker {
    session: Session,
    pub(crate) grant: Arc<Grant>,
    state: Mutex<WorkerState>,
    /// An assignment came, or the session has ended.
    changed: Notify,
}

#[derive(Default)]
struct WorkerState {
    /// What it registered with.
    queues: Vec<Name>,
    heartbeat: Duration,
    /// The session may be dropped after this much silence.
    silence_max: Duration,
    /// By the steady clock: a broker whose time of day is set forward forgets no worker.
    last_seen: Timestamp,
    next_token: u64,
    replies: HashMap<u64, oneshot::Sender<Result<Response, HubRefusal>>, RandomState>,
    assigned: VecDeque<Box<Assignment>>,
    /// Fetches that wait.
    waiting: usize,
    /// The hub was asked for a task that has not come.
    is_asking: bool,
    /// What clients want of the attempts that the worker holds.
    wanted: HashMap<Held, WantedNotice, RandomState>,
    /// Attempts that are over, whatever the worker does.
    stopped: VecDeque<(Held, StopWhy)>,
    /// Suspended attempts that have a slot again, with how the tasks ended for which they waited.
    continued: HashMap<Held, Vec<WaitEnd>, RandomState>,
    is_draining: bool,
    ended: Option<HubRefusal>,
}

/// A client wants an attempt cancelled or paused.
#[derive(Clone, Debug)]
pub(crate) struct WantedNotice {
    pub(crate) wanted: Wanted,
    /// The worker may stop the attempt in place.
    pub(crate) in_place: bool,
    pub(crate) reason: Option<Box<str>>,
}

/// What the worker should know.
#[derive(Debug, Default)]
pub(crate) struct WorkerUpdate {
    pub(crate) wanted: Vec<(Held, WantedNotice)>,
    pub(crate) stopped: Vec<(Held, StopWhy)>,
    pub(crate) is_draining: bool,
}

impl HttpWorker {
    /// A worker with its own session. Its mail is taken until the session ends or the worker is dropped.
    pub(super) fn start(session: Session, grant: Arc<Grant>) -> Arc<HttpWorker> {
        let state =
            WorkerState { last_seen: ClockReading::now().steady, next_token: 1, ..WorkerState::default() };
        let worker =
            Arc::new(HttpWorker { session, grant, state: Mutex::new(state), changed: Notify::new() });
        let mailbox = Arc::clone(worker.session.mailbox());
        let weak = Arc::downgrade(&worker);
        tokio::spawn(async move {
            let mut arrived = Vec::new();
            loop {
                mailbox.arrived().await;
                let is_closed = mailbox.is_closed();
                mailbox.take(&mut arrived);
                let Some(worker) = weak.upgrade() else { return };
                worker.deliver(&mut arrived, is_closed);
                if is_closed {
                    return;
                }
            }
        });
        worker
    }

    /// What it registered with, from now on.
    pub(crate) fn registered(&self, queues: Vec<Name>, heartbeat: Duration, silence_max: Duration) {
        let mut state = self.lock();
        (state.queues, state.heartbeat, state.silence_max) = (queues, heartbeat, silence_max);
        state.is_asking = false;
        state.is_draining = false;
        state.assigned.clear();
        state.wanted.clear();
        state.continued.clear();
        state.stopped.clear();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// Whether it was silent for so long that the hub counts it as gone as well.
    pub(super) fn is_forgotten(&self, now: ClockReading) -> bool {
        self.lock().is_forgotten(now)
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn ask(&self, request: Request) -> Result<Response, HubRefusal> {
        let (sender, replied) = oneshot::channel();
        let token = {
            let mut state = self.lock();
            if let Some(no) = &state.ended {
                return Err(no.clone());
            }
            state.is_seen(ClockReading::now());
            let token = state.next_token;
            state.next_token += 1;
            state.replies.insert(token, sender);
            token
        };
        self.send(token, request).await?;
        replied.await.unwrap_or(Err(HubRefusal::Draining))
    }

    async fn send(&self, token: u64, request: Request) -> Result<(), HubRefusal> {
        self.session.send(vec![Ask { token, request }]).await.map_err(|_| HubRefusal::Draining)
    }

    /// The next task, if one comes in time.
    pub(crate) async fn fetch(&self, timeout: Duration) -> Result<Option<Box<Assignment>>, HubRefusal> {
        let deadline = Instant::now() + timeout;
        let waiting = Fetching::begin(self);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (asks, heartbeat) = {
                let mut state = self.lock();
                if let Some(assignment) = state.assigned.pop_front() {
                    return Ok(Some(assignment));
                }
                if let Some(no) = &state.ended {
                    return Err(no.clone());
                }
                let asks = (!state.is_asking).then(|| state.queues.clone());
                state.is_asking = true;
                (asks, state.heartbeat)
            };
            if let Some(queues) = asks
                && let Err(no) = self.ask(Request::Command(Command::Ask { queues })).await
            {
                self.lock().is_asking = false;
                return Err(no);
            }
            // The open request is a sign of life.
            let beat = Instant::now() + heartbeat;
            if timeout_at(deadline.min(beat), changed).await.is_err() {
                if Instant::now() >= deadline {
                    break;
                }
                self.send(UNHEARD, Request::Command(Command::Heartbeat { held: None, stats: None })).await?;
            }
        }
        drop(waiting);
        self.stop_asking().await
    }

    /// Withdraws the request for a task, unless another fetch waits. A task that came meanwhile is returned.
    async fn stop_asking(&self) -> Result<Option<Box<Assignment>>, HubRefusal> {
        let unask = {
            let mut state = self.lock();
            let unask = state.is_asking && state.waiting == 0;
            if unask {
                state.is_asking = false;
            }
            unask
        };
        if unask {
            self.ask(Request::Command(Command::Unask)).await?;
        }
        Ok(self.lock().assigned.pop_front())
    }

    /// Waits until a suspended attempt continues, a client wants something of it, or it is over.
    pub(crate) async fn continued(
        &self,
        held: Held,
        timeout: Duration,
    ) -> Result<Option<Vec<WaitEnd>>, HubRefusal> {
        let deadline = Instant::now() + timeout;
        let _waiting = Fetching::begin(self);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let heartbeat = {
                let mut state = self.lock();
                if let Some(ends) = state.continued.remove(&held) {
                    return Ok(Some(ends));
                }
                if let Some(no) = &state.ended {
                    return Err(no.clone());
                }
                let is_over = state.stopped.iter().any(|(stopped, _)| *stopped == held);
                if is_over || state.wanted.contains_key(&held) {
                    return Ok(None);
                }
                state.heartbeat
            };
            let beat = Instant::now() + heartbeat;
            if timeout_at(deadline.min(beat), changed).await.is_err() {
                if Instant::now() >= deadline {
                    return Ok(None);
                }
                self.send(UNHEARD, Request::Command(Command::Heartbeat { held: None, stats: None })).await?;
            }
        }
    }

    /// The attempt waits again: an earlier notice does not count.
    pub(crate) fn suspend_again(&self, held: Held) {
        self.lock().continued.remove(&held);
    }

    /// What clients want of one attempt.
    pub(crate) fn wanted(&self, held: Held) -> Option<WantedNotice> {
        self.lock().wanted.get(&held).cloned()
    }

    /// The attempt is over for this worker.
    pub(crate) fn is_over(&self, held: Held) {
        let mut state = self.lock();
        state.wanted.remove(&held);
        state.continued.remove(&held);
        state.stopped.retain(|(other, _)| *other != held);
    }

    /// What the worker should know; attempts that are over are named once.
    pub(crate) fn news(&self) -> WorkerUpdate {
        let mut state = self.lock();
        let wanted = state.wanted.iter().map(|(held, notice)| (*held, notice.clone())).collect();
        WorkerUpdate { wanted, stopped: state.stopped.drain(..).collect(), is_draining: state.is_draining }
    }

    fn deliver(self: &Arc<Self>, arrived: &mut Vec<Delivery>, is_closed: bool) {
        let mut state = self.lock();
        let mut unfetched = Vec::new();
        for delivery in arrived.drain(..) {
            match delivery {
                Delivery::Reply { token, reply } => {
                    if let Some(waits) = state.replies.remove(&token) {
                        let _ = waits.send(reply);
                    }
                }
                // The fetch that asked for it is gone, and the task counts as started: it must not wait here.
                Delivery::Notice(Notice::Assign(assignment))
                    if state.waiting == 0 && starts_when_assigned(&assignment) =>
                {
                    state.is_asking = false;
                    unfetched.push(Held { task: assignment.task, attempt: assignment.attempt });
                }
                Delivery::Notice(notice) => state.notice(notice),
                Delivery::Goodbye => state.end(HubRefusal::Draining),
                Delivery::Ended(why) => state.end(why),
                // This session has asked for nothing else.
                Delivery::Event { .. }
                | Delivery::Gap { .. }
                | Delivery::Live { .. }
                | Delivery::Call { .. }
                | Delivery::CallAnswered { .. }
                | Delivery::CallGivenUp { .. }
                | Delivery::Broadcast(_) => {}
            }
        }
        if is_closed {
            state.end(HubRefusal::Draining);
        }
        drop(state);
        self.changed.notify_waiters();
        for held in unfetched {
            self.return_undelivered(held);
        }
    }

    /// The task has not left the broker, so it becomes ready again.
    fn return_undelivered(self: &Arc<Self>, held: Held) {
        let worker = Arc::clone(self);
        tokio::spawn(async move {
            let reason = Some("the answer to the fetch could not be delivered".into());
            // An attempt that is over meanwhile is refused, and that is as good.
            let _ = worker.ask(Request::Command(Command::Undelivered { held, reason })).await;
        });
    }

    fn lock(&self) -> MutexGuard<'_, WorkerState> {
        // No statement leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the task is `running` from its assignment on, because it must not run twice.
fn starts_when_assigned(assignment: &Assignment) -> bool {
    assignment.terms.on_lost != OnLost::Requeue
}

impl WorkerState {
    fn is_seen(&mut self, now: ClockReading) {
        self.last_seen = now.steady;
    }

    fn is_forgotten(&self, now: ClockReading) -> bool {
        self.waiting == 0 && self.last_seen + self.silence_max < now.steady
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Assign(assignment) => {
                self.is_asking = false;
                self.assigned.push_back(assignment);
            }
            Notice::Wanted { task, attempt, wanted, in_place, reason } => {
                if self.wanted.len() < NOTICES_MAX {
                    self.wanted.insert(Held { task, attempt }, WantedNotice { wanted, in_place, reason });
                }
            }
            Notice::Continue { task, attempt, ends } => {
                if self.continued.len() < NOTICES_MAX {
                    self.continued.insert(Held { task, attempt }, ends);
                }
            }
            Notice::Stop { task, attempt, why } => self.stop(task, attempt, why),
            Notice::Drain => self.is_draining = true,
            Notice::Replaced { worker } => self.end(Refusal::WorkerTaken { worker }.into()),
        }
    }

    fn stop(&mut self, task: TaskId, attempt: u32, why: StopWhy) {
        let held = Held { task, attempt };
        self.wanted.remove(&held);
        self.continued.remove(&held);
        let before = self.assigned.len();
        self.assigned.retain(|assignment| (assignment.task, assignment.attempt) != (task, attempt));
        // A task that was never handed out is nothing that the worker has to stop.
        if self.assigned.len() == before {
            if self.stopped.len() == NOTICES_MAX {
                self.stopped.pop_front();
            }
            self.stopped.push_back((held, why));
        }
    }

    fn end(&mut self, why: HubRefusal) {
        self.ended.get_or_insert(why);
        self.replies.clear();
        self.assigned.clear();
    }
}

/// Counts a fetch while it waits.
struct Fetching<'a>(&'a HttpWorker);

impl Fetching<'_> {
    fn begin(worker: &HttpWorker) -> Fetching<'_> {
        let mut state = worker.lock();
        state.waiting += 1;
        state.is_seen(ClockReading::now());
        Fetching(worker)
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.waiting -= 1;
        state.is_seen(ClockReading::now());
    }
}

/// How long the withdrawal of an abandoned fetch may take.
const UNASK_WITHIN: Duration = Duration::from_secs(10);

/// The client of a fetch is gone: no task should come for it. One that is on its way waits for the next fetch, or goes
/// back if it counts as started.
pub(crate) struct AbandonedFetch(Option<Arc<HttpWorker>>);

impl AbandonedFetch {
    pub(crate) fn guard(worker: &Arc<HttpWorker>) -> AbandonedFetch {
        AbandonedFetch(Some(Arc::clone(worker)))
    }

    /// The fetch has come to its end.
    pub(crate) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonedFetch {
    fn drop(&mut self) {
        let Some(worker) = self.0.take() else { return };
        tokio::spawn(async move {
            let Ok(Ok(Some(assignment))) = timeout(UNASK_WITHIN, worker.stop_asking()).await else { return };
            if starts_when_assigned(&assignment) {
                worker.return_undelivered(Held { task: assignment.task, attempt: assignment.attempt });
                return;
            }
            worker.lock().assigned.push_front(assignment);
            worker.changed.notify_waiters();
        });
    }
}

/// A task on its way to the worker. If this is dropped before the server takes the answer, no part of the task has left
/// the broker, and it becomes ready again.
pub(crate) struct Delivered(Option<(Arc<HttpWorker>, Held)>);

impl Delivered {
    pub(crate) fn guard(worker: &Arc<HttpWorker>, assignment: &Assignment) -> Delivered {
        let held = Held { task: assignment.task, attempt: assignment.attempt };
        Delivered(Some((Arc::clone(worker), held)))
    }

    /// From now on the worker may have the task.
    pub(crate) fn is_taken(&mut self) {
        self.0 = None;
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        if let Some((worker, held)) = self.0.take() {
            worker.return_undelivered(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_forgotten_after_its_silence_and_not_because_the_time_of_day_is_set() {
        let at = |wall, steady| ClockReading { wall: Timestamp(wall), steady: Timestamp(steady) };
        let mut state = WorkerState { silence_max: Duration::from_secs(150), ..WorkerState::default() };
        state.is_seen(at(1_000_000, 1_000_000));
        let tomorrow = 1_000_000 + 86_400_000;
        assert!(!state.is_forgotten(at(tomorrow, 1_001_000)), "the clock was set forward");
        state.is_seen(at(tomorrow, 1_002_000));
        assert!(!state.is_forgotten(at(1_000_000, 1_003_000)), "the clock was set back");
        assert!(!state.is_forgotten(at(1_000_000, 1_152_000)));
        assert!(state.is_forgotten(at(1_000_000, 1_152_001)), "it was silent for longer");
        state.waiting = 1;
        assert!(!state.is_forgotten(at(tomorrow, tomorrow)), "a fetch that waits is a sign of life");
    }
}
