//! A broker for stories: a real engine, a clock that the story moves, and ears for everything that is said.
//!
//! Whatever the engine says is kept until the story has heard it, so a story that forgets a line fails at its end.

mod journal;
mod telling;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_engine::command::{
    Accepted, AttemptFailure, Completion, Counts, ListQuery, Move, QueueInfo, TaskInfo, WorkerInfo,
};
use tenure_engine::{
    Answer, Blob, Command, Engine, Held, NewTask, Notice, Output, Peer, Query, Refusal, Reply, SessionId,
    Settings, StateName, TaskId, Timestamp, Why, WorkerSpec,
};

pub(crate) use journal::{Journal, Kept, apply, compare, keep};
pub(crate) use telling::Said;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Broker {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    pub(crate) journal: Journal,
    settings: Settings,
    said: Vec<Said>,
    names: BTreeMap<SessionId, String>,
    next_task: u128,
    next_session: u64,
    disk_stands_still: bool,
}

impl Broker {
    pub(crate) fn new() -> Broker {
        Broker::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Broker {
        Broker {
            engine: Engine::new(settings.clone()),
            now: Timestamp(1_000_000),
            journal: Journal::default(),
            settings,
            said: Vec::new(),
            names: BTreeMap::new(),
            next_task: 1,
            next_session: 1,
            disk_stands_still: false,
        }
    }

    // People and processes.

    pub(crate) fn client(&mut self, identity: &str) -> Peer {
        self.peer("default", identity)
    }

    pub(crate) fn peer(&mut self, namespace: &str, identity: &str) -> Peer {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        self.names.insert(session, identity.to_owned());
        Peer { session, namespace: namespace.into(), identity: identity.into() }
    }

    /// A worker of these queues, connected and registered.
    pub(crate) fn worker(&mut self, name: &str, queues: &[&str], slots: u32) -> Peer {
        self.worker_with(spec(name, queues, slots))
    }

    pub(crate) fn worker_with(&mut self, spec: WorkerSpec) -> Peer {
        let peer = self.client(&spec.worker.clone());
        self.does(&peer, Command::Register(Box::new(spec)));
        peer
    }

    // What they do.

    /// A command that is expected to succeed.
    pub(crate) fn does(&mut self, peer: &Peer, command: Command) -> Reply {
        let text = format!("{command:?}");
        self.tries(peer, command).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
    }

    pub(crate) fn tries(&mut self, peer: &Peer, command: Command) -> Result<Reply, Refusal> {
        let mut ears = RecordingOutput { said: &mut self.said, journal: &mut self.journal };
        let reply = self.engine.handle(self.now, peer, command, &mut ears);
        self.flush_outbox();
        self.engine.audit();
        reply
    }

    /// A command that is expected to be refused, with nothing said and nothing changed.
    pub(crate) fn refuses(&mut self, peer: &Peer, command: Command) -> Refusal {
        let text = format!("{command:?}");
        // A worker's sign of life is noted whatever becomes of its command.
        self.tries(peer, Command::Heartbeat { held: None, stats: None }).ok();
        let (before, heard) = (self.snapshot(), self.said.len());
        let refusal = match self.tries(peer, command) {
            Ok(Reply::Held(mut each)) if each.len() == 1 => each.remove(0).expect_err(&text),
            Ok(Reply::Submitted(mut each)) if each.len() == 1 => each.remove(0).expect_err(&text),
            Ok(reply) => panic!("{text}: {reply:?}"),
            Err(refusal) => refusal,
        };
        assert_eq!(self.said.len(), heard, "a refusal says nothing else: {text}");
        assert_same(&before, &self.snapshot(), &text);
        refusal
    }

    /// Everything the engine knows, as text.
    pub(crate) fn snapshot(&self) -> String {
        format!("{:?}", self.engine)
    }

    pub(crate) fn new_task(&mut self, queue: &str) -> NewTask {
        let id = TaskId::from_u128(self.next_task);
        self.next_task += 1;
        NewTask::new(id, queue)
    }

    pub(crate) fn submit(&mut self, peer: &Peer, queue: &str) -> TaskId {
        let task = self.new_task(queue);
        self.submit_task(peer, task)
    }

    pub(crate) fn submit_task(&mut self, peer: &Peer, task: NewTask) -> TaskId {
        self.submit_and_see(peer, task).task
    }

    pub(crate) fn submit_and_see(&mut self, peer: &Peer, task: NewTask) -> Accepted {
        self.submit_many(peer, vec![task]).remove(0).expect("the submission is accepted")
    }

    pub(crate) fn submit_many(&mut self, peer: &Peer, tasks: Vec<NewTask>) -> Vec<Result<Accepted, Refusal>> {
        match self.does(peer, Command::Submit(tasks)) {
            Reply::Submitted(each) => each,
            reply => panic!("{reply:?}"),
        }
    }

    /// The current attempt of a task.
    pub(crate) fn held(&self, task: TaskId) -> Held {
        Held { task, attempt: self.show(task).attempt }
    }

    pub(crate) fn start(&mut self, worker: &Peer, task: TaskId) {
        let held = self.held(task);
        assert_eq!(self.does(worker, Command::Start(vec![held])), Reply::Held(vec![Ok(())]));
    }

    pub(crate) fn complete(&mut self, worker: &Peer, task: TaskId) {
        let completion = Completion { held: self.held(task), result: Blob::EMPTY };
        assert_eq!(self.does(worker, Command::Complete(vec![completion])), Reply::Held(vec![Ok(())]));
    }

    pub(crate) fn fail(&mut self, worker: &Peer, task: TaskId) {
        let failure = failure(self.held(task), 7);
        self.does(worker, Command::Fail(failure));
    }

    pub(crate) fn give_back(&mut self, worker: &Peer, task: TaskId) {
        let held = self.held(task);
        self.does(worker, Command::GiveBack { held, reason: None });
    }

    pub(crate) fn cancel(&mut self, peer: &Peer, task: TaskId) {
        self.does(peer, Command::Cancel { task, reason: None });
    }

    pub(crate) fn pause(&mut self, peer: &Peer, task: TaskId) {
        self.does(peer, Command::Pause { task, reason: None, terminate: false });
    }

    pub(crate) fn heartbeat(&mut self, worker: &Peer) {
        self.does(worker, Command::Heartbeat { held: None, stats: None });
    }

    pub(crate) fn limit(&mut self, peer: &Peer, tag: &str, limit: Option<u32>) {
        self.does(peer, Command::SetLimit { tag: tag.into(), limit });
    }

    pub(crate) fn reprioritise(&mut self, peer: &Peer, task: TaskId, priority: i32) {
        self.does(peer, Command::Move { task, to: Move { priority: Some(priority), ..Move::default() } });
    }

    /// The connection is gone.
    pub(crate) fn disconnect(&mut self, peer: &Peer) {
        self.does(peer, Command::SessionClosed);
    }

    // Time.

    /// Lives through a span of time, doing what is due on the way.
    pub(crate) fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..10_000 {
            if !self.step(until) {
                return;
            }
        }
        panic!("the clock does not get on: something is due again and again");
    }

    /// Goes on to the next moment at which something is due, but not beyond `until`. Says whether it is not there yet.
    pub(crate) fn step(&mut self, until: Timestamp) -> bool {
        let due = self.engine.next_deadline().filter(|at| *at <= until);
        self.now = due.map_or(until, |at| self.now.max(at));
        self.tick();
        due.is_some()
    }

    fn tick(&mut self) {
        let mut ears = RecordingOutput { said: &mut self.said, journal: &mut self.journal };
        self.engine.tick(self.now, &mut ears);
        self.flush_outbox();
        self.engine.audit();
    }

    /// What was decided leaves the broker, unless the disk stands still.
    fn flush_outbox(&mut self) {
        if !self.disk_stands_still {
            self.engine.mark_sent(self.now, self.engine.last_event());
        }
    }

    pub(crate) fn disk_stops(&mut self) {
        self.disk_stands_still = true;
    }

    pub(crate) fn disk_goes_on(&mut self) {
        self.disk_stands_still = false;
        self.flush_outbox();
    }

    /// The broker dies at once and is started again after a while.
    pub(crate) fn restart_after(&mut self, span: Duration) {
        self.now = self.now + span;
        self.engine = self.journal.restore(self.settings.clone(), self.now);
        self.engine.audit();
    }

    // What is heard and seen.

    /// Everything that was said since it was last asked, in order.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &[&str]) {
        let heard: Vec<String> = self.take_said();
        assert!(heard == expected, "heard\n  {}\nexpected\n  {}", heard.join("\n  "), expected.join("\n  "));
    }

    #[track_caller]
    pub(crate) fn hears_nothing(&mut self) {
        self.hears(&[]);
    }

    /// What was said so far is not part of the story.
    pub(crate) fn hush(&mut self) {
        self.said.clear();
    }

    /// Everything that was said, with the changes that came with events.
    pub(crate) fn take_raw(&mut self) -> Vec<(Said, Option<Kept>)> {
        let said = std::mem::take(&mut self.said);
        let events = said.iter().filter(|said| matches!(said, Said::Event(_))).count();
        let mut kept = self.journal.records[self.journal.records.len() - events..].iter();
        let with_change = said.into_iter().map(|said| {
            let change = match said {
                Said::Event(_) => kept.next().map(|(_, kept)| kept.clone()),
                Said::Notice(..) | Said::Freed(_) => None,
            };
            (said, change)
        });
        with_change.collect()
    }

    pub(crate) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said).iter().map(|said| said.tell(&self.names)).collect()
    }

    /// The tasks that were assigned since the last hearing, in order; the rest is hushed.
    pub(crate) fn assigned(&mut self) -> Vec<TaskId> {
        let said = std::mem::take(&mut self.said);
        let assigned = said.into_iter().filter_map(|said| match said {
            Said::Notice(_, Notice::Assign(assignment)) => Some(assignment.task),
            _ => None,
        });
        assigned.collect()
    }

    pub(crate) fn ask(&self, query: &Query) -> Result<Answer, Refusal> {
        self.ask_in("default", query)
    }

    pub(crate) fn ask_in(&self, namespace: &str, query: &Query) -> Result<Answer, Refusal> {
        let peer = Peer { session: SessionId(0), namespace: namespace.into(), identity: "someone".into() };
        self.engine.ask(&peer, query)
    }

    pub(crate) fn show(&self, task: TaskId) -> TaskInfo {
        match self.ask(&Query::Show { task }) {
            Ok(Answer::Task(info)) => *info,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn state(&self, task: TaskId) -> StateName {
        self.show(task).state.name()
    }

    pub(crate) fn explain(&self, task: TaskId) -> Why {
        match self.ask(&Query::Explain { task }) {
            Ok(Answer::Why { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    /// One page, with its cursor.
    pub(crate) fn page(&self, query: ListQuery) -> (Vec<TaskId>, Option<tenure_engine::command::Cursor>) {
        match self.ask(&Query::List(Box::new(query))) {
            Ok(Answer::Tasks { tasks, next }) => (tasks.into_iter().map(|info| info.id).collect(), next),
            other => panic!("{other:?}"),
        }
    }

    /// All pages of a list.
    pub(crate) fn list(&self, query: ListQuery) -> Vec<TaskId> {
        let mut query = ListQuery { limit: if query.limit == 0 { 100 } else { query.limit }, ..query };
        let mut all = Vec::new();
        loop {
            let (tasks, next) = self.page(query.clone());
            all.extend(tasks);
            if next.is_none() {
                return all;
            }
            query.cursor = next;
        }
    }

    pub(crate) fn queue(&self, name: &str) -> QueueInfo {
        let Ok(Answer::Queues(queues)) = self.ask(&Query::Queues) else { panic!("no queues") };
        queues.into_iter().find(|queue| &*queue.queue == name).expect("the queue is there")
    }

    pub(crate) fn workers(&self) -> Vec<WorkerInfo> {
        let Ok(Answer::Workers(workers)) = self.ask(&Query::Workers) else { panic!("no workers") };
        workers
    }

    pub(crate) fn worker_info(&self, name: &str) -> WorkerInfo {
        self.workers().into_iter().find(|worker| &*worker.worker == name).expect("the worker is there")
    }

    pub(crate) fn counts(&self) -> Counts {
        let Ok(Answer::Counts(counts)) = self.ask(&Query::Counts) else { panic!("no counts") };
        *counts
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let unheard = self.take_said();
            assert!(unheard.is_empty(), "something else was said:\n  {}", unheard.join("\n  "));
        }
    }
}

/// Stops if a refused command has changed anything, and shows where.
pub(crate) fn assert_same(before: &str, after: &str, text: &str) {
    if before != after {
        let at = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
        let near = |text: &str| text.chars().skip(at.saturating_sub(200)).take(400).collect::<String>();
        panic!("a refusal changes nothing: {text}\nbefore …{}\nafter …{}", near(before), near(after));
    }
}

struct RecordingOutput<'a> {
    said: &'a mut Vec<Said>,
    journal: &'a mut Journal,
}

impl Output for RecordingOutput<'_> {
    fn record(&mut self, event: tenure_engine::Event, change: tenure_engine::Change<'_>) {
        self.journal.write(&event, change);
        self.said.push(Said::Event(event));
    }

    fn notice(&mut self, to: SessionId, notice: Notice) {
        self.said.push(Said::Notice(to, notice));
    }

    fn body(&mut self, bytes: &[u8]) -> Blob {
        if bytes.is_empty() { Blob::EMPTY } else { Blob::new(77, bytes.len() as u32) }
    }

    fn freed(&mut self, blob: Blob) {
        self.said.push(Said::Freed(blob));
    }
}

pub(crate) fn spec(name: &str, queues: &[&str], slots: u32) -> WorkerSpec {
    WorkerSpec::new(name, queues.iter().map(|queue| (*queue).into()).collect(), slots)
}

pub(crate) fn failure(held: Held, exit_code: i32) -> AttemptFailure {
    AttemptFailure { held, exit_code, message: None, result: Blob::EMPTY, crashed: false, is_final: false }
}

pub(crate) fn names(names: &[&str]) -> Vec<tenure_engine::Name> {
    names.iter().map(|name| (*name).into()).collect()
}
