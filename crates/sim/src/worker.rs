//! A simulated worker: takes tasks, works, reports, disconnects and returns with what it holds, or dies and returns
//! with nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{
    AttemptFailure, Blob, Command, Demand, Held, Name, Notice, OnClose, OnLost, Quantity, Refusal, Reply,
    Resource, TaskId, Timestamp, WaitOn, Wanted, WorkerSpec,
};
use tenure_hub::{Ask, Delivery, Done, HubRefusal, Request, Response};

use crate::client::CAPABILITIES;
use crate::promises::PromiseChecker;
use crate::random::Random;

/// How many tasks a worker remembers.
const SEEN_MAX: usize = 200;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: Name,
    instance: u64,
    slots: u64,
    light_slots: u32,
    gpus: u64,
    licences: u64,
    queues: Vec<Name>,
    capabilities: Vec<Name>,
    on_close: OnClose,
    running: BTreeMap<TaskId, Running>,
    /// Reports that have not been answered: sent again after a reconnect.
    reports: BTreeMap<u64, Held>,
    /// Checkpoints that have not been answered: the task and the size.
    checkpoints: BTreeMap<u64, (TaskId, u32)>,
    /// Suspensions that have not been answered.
    suspends: BTreeMap<u64, Held>,
    /// Starts that have not been answered, of tasks that must not run twice.
    starts: BTreeMap<u64, Held>,
    /// A mistake: it does not wait for these answers.
    pub(crate) begins_early: bool,
    registering: Option<(u64, Vec<Held>)>,
    next_token: u64,
    /// Tasks that it once had, to wait for.
    seen: Vec<TaskId>,
    may_wait: bool,
    /// How long a task takes at most.
    task_millis_max: u64,
}

#[derive(Clone, Debug)]
struct Running {
    attempt: u32,
    demand: Demand,
    gpus: Vec<u16>,
    done_at: Timestamp,
    wanted: Option<Wanted>,
    /// The handler runs.
    has_begun: bool,
    /// It is suspended until these have ended.
    waits: Option<WaitOn>,
}

impl Worker {
    pub(crate) fn new(number: u64, slots: u64, random: &mut Random) -> Worker {
        let mut queues: Vec<Name> = vec!["red".into()];
        queues.extend(["green", "blue"].into_iter().filter(|_| random.percent(70)).map(Name::from));
        let capabilities = CAPABILITIES.into_iter().filter(|_| random.percent(50)).map(Name::from).collect();
        Worker {
            name: format!("worker-{number}").into(),
            instance: random.next(),
            slots,
            light_slots: random.between(0, 4) as u32,
            gpus: random.between(0, 3),
            licences: random.between(0, 3),
            queues,
            capabilities,
            on_close: if random.percent(30) { OnClose::TasksDie } else { OnClose::MayStillRun },
            running: BTreeMap::new(),
            reports: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            suspends: BTreeMap::new(),
            starts: BTreeMap::new(),
            begins_early: false,
            registering: None,
            next_token: 1,
            seen: Vec::new(),
            may_wait: true,
            task_millis_max: 8_000,
        }
    }

    /// In the calm phase at the end every worker can run every task, and quickly.
    pub(crate) fn becomes_able(&mut self) {
        self.queues = ["red", "green", "blue"].map(Name::from).to_vec();
        self.capabilities = CAPABILITIES.map(Name::from).to_vec();
        self.slots = self.slots.max(2);
        self.light_slots = 4;
        (self.gpus, self.licences) = (self.gpus.max(1), self.licences.max(1));
        self.task_millis_max = 200;
        self.may_wait = false;
    }

    /// The process dies and a new one takes its place.
    pub(crate) fn dies(&mut self, random: &mut Random) {
        self.running.clear();
        self.reports.clear();
        self.instance = random.next();
    }

    /// The connection is lost. A worker whose tasks end with the connection stops them.
    pub(crate) fn disconnected(&mut self) {
        self.registering = None;
        self.checkpoints.clear();
        self.suspends.clear();
        self.starts.clear();
        if self.on_close == OnClose::TasksDie {
            self.running.clear();
            self.reports.clear();
        }
    }

    /// After a reconnect: registers with what it holds.
    pub(crate) fn connected(&mut self) -> Vec<Ask> {
        let mut spec = WorkerSpec::new(self.name.clone(), self.queues.clone(), self.slots as u32);
        spec.instance = self.instance;
        spec.capabilities = self.capabilities.clone();
        spec.heartbeat = Duration::from_secs(1);
        spec.lost_after = Duration::from_secs(3);
        spec.lease = Duration::from_secs(8);
        spec.on_close = self.on_close;
        spec.light_slots = self.light_slots;
        let resources = [("gpus", self.gpus), ("licence", self.licences)];
        spec.resources = resources.map(|(name, count)| Resource::new(name, Quantity::whole(count))).to_vec();
        let unreported =
            self.running.iter().map(|(task, running)| Held { task: *task, attempt: running.attempt });
        spec.held = unreported.chain(self.reports.values().copied()).collect();
        let token = self.token();
        self.registering = Some((token, spec.held.clone()));
        vec![Ask { token, request: Request::Command(Command::Register(Box::new(spec))) }]
    }

    /// Sends heartbeats, finishes tasks, sometimes reports progress or saves a checkpoint.
    pub(crate) fn act(
        &mut self,
        now: Timestamp,
        random: &mut Random,
        promises: &mut PromiseChecker,
    ) -> Vec<Ask> {
        if self.registering.is_some() {
            return Vec::new();
        }
        let mut asks = Vec::new();
        let due: Vec<TaskId> = self
            .running
            .iter()
            .filter(|(_, running)| {
                let is_done = running.has_begun && running.done_at <= now && running.waits.is_none();
                is_done || running.wanted.is_some()
            })
            .map(|(task, _)| *task)
            .collect();
        for task in due {
            let running = self.running.remove(&task).expect("it runs");
            let held = Held { task, attempt: running.attempt };
            promises.begun.ends(held);
            let token = self.token();
            self.reports.insert(token, held);
            let request = report(held, running.wanted, random);
            if matches!(&request, Request::Fail { failure, .. } if !failure.crashed) {
                promises.begun.failed(task);
            }
            asks.push(Ask { token, request });
        }
        if self.may_wait && random.percent(15) {
            asks.extend(self.suspend_one(random, promises));
        }
        // An attempt reported without an answer is still held: leaving it out would report it as lost.
        let held = self.running.iter().map(|(task, running)| Held { task: *task, attempt: running.attempt });
        let held: Vec<Held> = held.chain(self.reports.values().copied()).collect();
        let has_begun = |held: &&Held| self.running.get(&held.task).is_none_or(|running| running.has_begun);
        if let Some(held) = held.first().filter(has_begun).filter(|_| random.percent(20)) {
            let progress =
                Command::Progress { held: *held, percent: Some(random.between(0, 101) as u8), note: None };
            asks.push(Ask { token: 0, request: Request::Command(progress) });
        }
        let getting_on =
            self.running.iter().find(|(_, running)| running.has_begun).filter(|_| random.percent(20));
        if let Some(held) = getting_on.map(|(task, running)| Held { task: *task, attempt: running.attempt }) {
            let size = promises.checkpoint_sent(held.task);
            let token = self.token();
            self.checkpoints.insert(token, (held.task, size));
            let checkpoint = Bytes::from(vec![b'c'; size as usize]);
            asks.push(Ask { token, request: Request::Checkpoint { held, checkpoint } });
        }
        let beat = Command::Heartbeat { held: random.percent(50).then_some(held), stats: None };
        asks.push(Ask { token: 0, request: Request::Command(beat) });
        asks
    }

    /// One of its tasks waits for its children, or for tasks that the worker has seen.
    fn suspend_one(&mut self, random: &mut Random, promises: &mut PromiseChecker) -> Option<Ask> {
        let (task, running) =
            self.running.iter_mut().find(|(_, running)| running.has_begun && running.waits.is_none())?;
        let on = if random.percent(50) || self.seen.is_empty() {
            WaitOn::Children
        } else {
            WaitOn::Tasks((0..random.between(1, 3)).map(|_| *random.pick(&self.seen)).collect())
        };
        running.waits = Some(on.clone());
        let held = Held { task: *task, attempt: running.attempt };
        let token = self.token();
        self.suspends.insert(token, held);
        Some(suspend(token, held, on, promises))
    }

    /// Something has arrived; it may have to answer.
    pub(crate) fn receive(
        &mut self,
        now: Timestamp,
        delivery: Delivery,
        random: &mut Random,
        promises: &mut PromiseChecker,
    ) -> Vec<Ask> {
        match delivery {
            Delivery::Notice(Notice::Assign(assignment)) => {
                let held = Held { task: assignment.task, attempt: assignment.attempt };
                let trace = assignment.trace.as_deref();
                promises.handed_out(held, &self.name, assignment.checkpoint.bytes(), trace);
                // The start of the others is on disk before they begin.
                let may_begin = assignment.terms.on_lost == OnLost::Requeue || self.begins_early;
                let running = Running {
                    attempt: held.attempt,
                    demand: assignment.terms.demand.clone(),
                    gpus: assignment.devices.gpus,
                    done_at: now + Duration::from_millis(random.between(1, self.task_millis_max)),
                    wanted: None,
                    has_begun: may_begin,
                    waits: None,
                };
                self.running.insert(held.task, running);
                if self.seen.len() < SEEN_MAX {
                    self.seen.push(held.task);
                }
                self.check_slots(promises);
                if random.percent(90) {
                    let token = if may_begin {
                        promises.begins(held, &self.name);
                        0
                    } else {
                        let token = self.token();
                        self.starts.insert(token, held);
                        token
                    };
                    return vec![Ask { token, request: Request::Command(Command::Start(vec![held])) }];
                }
                if random.percent(50) {
                    self.running.remove(&held.task);
                    return vec![Ask {
                        token: 0,
                        request: Request::Command(Command::GiveBack { held, reason: None }),
                    }];
                }
                Vec::new()
            }
            Delivery::Notice(Notice::Wanted { task, attempt, wanted, in_place, .. }) => {
                if let Some(running) =
                    self.running.get_mut(&task).filter(|running| running.attempt == attempt)
                {
                    if in_place && running.waits.is_none() && random.percent(60) {
                        running.waits = Some(WaitOn::Resume);
                        let held = Held { task, attempt };
                        let token = self.token();
                        self.suspends.insert(token, held);
                        return vec![suspend(token, held, WaitOn::Resume, promises)];
                    }
                    // Some handlers ignore interrupts.
                    running.wanted = random.percent(80).then_some(wanted);
                }
                Vec::new()
            }
            Delivery::Notice(Notice::Continue { task, attempt, ends }) => {
                if let Some(running) =
                    self.running.get_mut(&task).filter(|running| running.attempt == attempt)
                {
                    let asked = running.waits.take();
                    let ended: BTreeSet<TaskId> = ends.iter().map(|end| end.task).collect();
                    let is_answer = match asked {
                        Some(WaitOn::Tasks(on)) => on.into_iter().collect::<BTreeSet<_>>() == ended,
                        // The broker knows the children; or it has heard suspend twice, before and after a reconnect.
                        Some(WaitOn::Children | WaitOn::Resume) | None => true,
                    };
                    promises.check(is_answer, || format!("{task} continues for other tasks: {ends:?}"));
                    self.check_slots(promises);
                }
                Vec::new()
            }
            Delivery::Notice(Notice::Stop { task, attempt, .. }) => {
                self.drop_attempt(Held { task, attempt }, promises);
                Vec::new()
            }
            Delivery::Reply { token, reply } => self.answered(token, reply, promises),
            _ => Vec::new(),
        }
    }

    fn answered(
        &mut self,
        token: u64,
        reply: Result<Response, HubRefusal>,
        promises: &mut PromiseChecker,
    ) -> Vec<Ask> {
        if let Some((registering, held)) = self.registering.clone()
            && registering == token
        {
            return self.registered(reply, &held, promises);
        }
        if let Some(held) = self.reports.remove(&token) {
            if let Ok(Response::Command(Reply::Held(each))) = &reply
                && each == &[Ok(())]
            {
                promises.completed(held);
            }
            return Vec::new();
        }
        if let Some(held) = self.starts.remove(&token)
            && let Ok(Response::Command(Reply::Held(each))) = &reply
            && each == &[Ok(())]
        {
            self.begin(held, promises);
        }
        if let Some((task, size)) = self.checkpoints.remove(&token)
            && reply.is_ok()
        {
            promises.checkpoint_taken(task, size);
        }
        if let Some(held) = self.suspends.remove(&token)
            && reply.is_err()
            && let Some(running) = self.running.get_mut(&held.task)
        {
            // What it wanted to wait for is gone, or waits for this task.
            running.waits = None;
        }
        if let Err(HubRefusal::Engine(Refusal::NotAWorker)) = reply {
            // The broker has dropped the worker: it registers again.
            return self.connected();
        }
        Vec::new()
    }

    fn registered(
        &mut self,
        reply: Result<Response, HubRefusal>,
        presented: &[Held],
        promises: &mut PromiseChecker,
    ) -> Vec<Ask> {
        self.registering = None;
        let Ok(Response::Command(Reply::Registered { held, .. })) = reply else { return self.connected() };
        for (held, answer) in presented.iter().zip(held) {
            match answer {
                // It has started for the broker as well.
                Ok(_) => self.begin(*held, promises),
                Err(_) => self.drop_attempt(*held, promises),
            }
        }
        // Repeats reports that were in flight when the connection broke.
        let unanswered: Vec<Held> = std::mem::take(&mut self.reports).into_values().collect();
        let mut asks = Vec::new();
        for held in unanswered {
            let token = self.token();
            self.reports.insert(token, held);
            asks.push(Ask {
                token,
                request: Request::Complete(vec![Done { held, result: Bytes::from_static(b"again") }]),
            });
        }
        // The notice may have been lost with the connection.
        let waiting: Vec<(Held, WaitOn)> = self
            .running
            .iter()
            .filter_map(|(task, running)| {
                Some((Held { task: *task, attempt: running.attempt }, running.waits.clone()?))
            })
            .collect();
        for (held, on) in waiting {
            let token = self.token();
            self.suspends.insert(token, held);
            asks.push(suspend(token, held, on, promises));
        }
        asks
    }

    /// The handler begins, unless it runs already or the attempt is over.
    fn begin(&mut self, held: Held, promises: &mut PromiseChecker) {
        let running = self.running.get_mut(&held.task).filter(|running| running.attempt == held.attempt);
        if let Some(running) = running.filter(|running| !running.has_begun) {
            running.has_begun = true;
            promises.begins(held, &self.name);
        }
    }

    /// Whether its tasks occupy more than it has.
    fn is_overcommitted(&self) -> bool {
        let running = || self.running.values();
        let working = || running().filter(|running| running.waits.is_none());
        let slots: u64 = working().map(|running| u64::from(running.demand.slots)).sum();
        let light = working().filter(|running| running.demand.slots == 0).count();
        let used = |name: &str| working().map(|running| running.demand.of(name).0).sum::<u64>();
        let of_gpu = |gpu: u16| {
            let users = working().filter(|running| running.gpus.contains(&gpu));
            users.map(|running| running.demand.of("gpus").0.min(1_000)).sum::<u64>()
        };
        let unknown = running().flat_map(|running| &running.gpus).any(|gpu| u64::from(*gpu) >= self.gpus);
        slots > self.slots
            || light > self.light_slots as usize
            || used("gpus") > self.gpus * 1_000
            || used("licence") > self.licences * 1_000
            || (0..self.gpus as u16).any(|gpu| of_gpu(gpu) > 1_000)
            || unknown
    }

    /// Attempts that wait take no slot and no resources.
    fn check_slots(&self, promises: &mut PromiseChecker) {
        promises.check(!self.is_overcommitted(), || format!("{} is over-committed: {:?}", self.name, self));
    }

    fn drop_attempt(&mut self, held: Held, promises: &mut PromiseChecker) {
        promises.begun.ends(held);
        if self.running.get(&held.task).is_some_and(|running| running.attempt == held.attempt) {
            self.running.remove(&held.task);
        }
        self.reports.retain(|_, reported| *reported != held);
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

fn suspend(token: u64, held: Held, on: WaitOn, promises: &mut PromiseChecker) -> Ask {
    // Which children there are is known only to the broker.
    let tasks = match &on {
        WaitOn::Tasks(tasks) => tasks.clone(),
        WaitOn::Children | WaitOn::Resume => Vec::new(),
    };
    promises.order.suspended(held, tasks);
    Ask { token, request: Request::Command(Command::Suspend { held, on }) }
}

fn report(held: Held, wanted: Option<Wanted>, random: &mut Random) -> Request {
    let result = Bytes::from(vec![b'r'; random.between(0, 100) as usize]);
    match wanted {
        Some(wanted) => Request::Confirm { held, wanted, result },
        None if random.percent(15) => {
            let failure = AttemptFailure {
                held,
                exit_code: 1,
                message: Some("it did not work".into()),
                result: Blob::EMPTY,
                crashed: random.percent(20),
                is_final: random.percent(20),
            };
            Request::Fail { failure, result }
        }
        None => Request::Complete(vec![Done { held, result }]),
    }
}
