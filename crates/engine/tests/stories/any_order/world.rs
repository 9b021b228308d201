//! All peers, and what each of them assumes. It does what an act says, listens, and has every promise
//! checked.

mod working;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_engine::command::Move;
use tenure_engine::event::EventData;
use tenure_engine::terms::{Backoff, OnLost};
use tenure_engine::{
    After, AfterTask, ArrayTerms, Blob, Command, Condition, Demand, Event, Name, NewArray, NewTask, Notice,
    OnBroken, Peer, Quantity, Rate, Refusal, Reply, Resource, SessionId, Settings, TaskId, Thresholds, Which,
    WorkerSpec,
};

use super::act::{Act, Verb, Wish};
use super::mirror::Mirror;
use crate::broker::{Broker, Said, assert_same, compare};

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) mirror: Mirror,
    pub(crate) settings: Settings,
    clients: Vec<Peer>,
    pub(crate) workers: Vec<WorkerSide>,
    tasks: Vec<TaskId>,
    arrays: Vec<TaskId>,
    next_blob: u64,
    next_instance: u64,
    /// Bytes that were accepted, and those that no task needs any more.
    pub(crate) accepted: BTreeSet<u64>,
    pub(crate) freed: BTreeSet<u64>,
    log: Vec<String>,
}

/// A worker as it sees itself.
pub(crate) struct WorkerSide {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
    pub(crate) session: Option<Peer>,
    instance: u64,
    pub(crate) spec: Option<WorkerSpec>,
    pub(crate) believes: BTreeMap<TaskId, u32>,
    pub(crate) asking: Option<Vec<Name>>,
}

impl World {
    pub(crate) fn new(aging: bool) -> World {
        let aging = aging.then_some(Duration::from_secs(10));
        let settings = Settings {
            aging,
            ended_kept: 8,
            ended_kept_for: Duration::from_secs(120),
            quarantine_crashes: 2,
            backlog: Thresholds { depth: Some(4), age: Some(Duration::from_secs(20)) },
            quarantine_window: Duration::from_secs(100),
            quarantine_for: Duration::from_secs(30),
            reserve_after: Duration::from_secs(5),
            ..Settings::default()
        };
        let mut broker = Broker::with(settings.clone());
        let clients = [("a", "ann"), ("a", "bob"), ("b", "eve")];
        let clients = clients.map(|(namespace, identity)| broker.peer(namespace, identity)).to_vec();
        let workers = [("a", "w0"), ("a", "w1"), ("a", "w2"), ("b", "w0"), ("b", "w1")];
        let workers = workers.map(|(namespace, name)| WorkerSide {
            namespace: namespace.into(),
            name: name.into(),
            session: None,
            instance: 0,
            spec: None,
            believes: BTreeMap::new(),
            asking: None,
        });
        World {
            broker,
            mirror: Mirror { aging, ..Mirror::default() },
            settings,
            clients,
            workers: workers.into(),
            tasks: Vec::new(),
            arrays: Vec::new(),
            next_blob: 100,
            next_instance: 1,
            accepted: BTreeSet::new(),
            freed: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    pub(crate) fn live(&mut self, act: &Act) {
        self.log.push(format!("{act:?}"));
        match act {
            Act::Submit { client, wishes } => self.submit(*client, wishes),
            Act::SubmitArray { client, wish, size, limit, shares_body } => {
                self.submit_array(*client, wish, *size, *limit, *shares_body);
            }
            Act::LimitArray { client, array, limit } => {
                if let Some(array) = pick(&self.arrays, *array) {
                    self.client_does(*client, &Command::LimitArray { array, limit: *limit });
                }
            }
            Act::OnArray { client, array, verb } => {
                if let Some(array) = pick(&self.arrays, *array) {
                    self.on_one(*client, array, verb);
                }
            }
            Act::OnTask { client, task, verb } => {
                if let Some(task) = pick(&self.tasks, *task) {
                    self.on_one(*client, task, verb);
                }
            }
            Act::Limit { client, tag, limit } => {
                self.client_does(*client, &Command::SetLimit { tag: tag_name(*tag), limit: *limit });
            }
            Act::Rate { client, of_queue, index, rate } => {
                let rate = rate.map(|(count, period, burst)| Rate {
                    count,
                    period: Duration::from_millis(period),
                    burst,
                });
                let command = if *of_queue {
                    Command::SetQueueRate { queue: queue_name(*index), rate }
                } else {
                    Command::SetTagRate { tag: tag_name(*index), rate }
                };
                self.client_does(*client, &command);
            }
            Act::Share { client, share, weight } => {
                self.client_does(*client, &Command::SetShare { share: share_name(*share), weight: *weight });
            }
            Act::PauseQueue { client, queue } => {
                self.client_does(*client, &Command::PauseQueue { queue: queue_name(*queue) });
            }
            Act::ResumeQueue { client, queue } => {
                self.client_does(*client, &Command::ResumeQueue { queue: queue_name(*queue) });
            }
            Act::Thresholds { client, queue, thresholds } => {
                let thresholds =
                    thresholds.map(|(depth, age)| Thresholds { depth, age: age.map(Duration::from_millis) });
                let queue = queue_name(*queue);
                self.client_does(*client, &Command::SetThresholds { queue, thresholds });
            }
            Act::DrainWorker { client, worker } => {
                let worker = self.workers[*worker].name.clone();
                self.client_does(*client, &Command::DrainWorker { worker });
            }
            Act::ClearWorker { client, worker } => {
                let worker = self.workers[*worker].name.clone();
                self.client_does(*client, &Command::ClearWorker { worker });
            }
            Act::Register { worker, shape, forgets } => self.register(*worker, shape, *forgets),
            Act::Report { worker, held, report, stale } => self.report(*worker, *held, *report, *stale),
            Act::Heartbeat { worker, lists, forgets } => self.heartbeat(*worker, *lists, *forgets),
            Act::Ask { worker, queues } => self.ask(*worker, queues),
            Act::Unask { worker } => {
                if self.worker_does(*worker, &Command::Unask).is_some_and(|reply| reply.is_ok()) {
                    self.workers[*worker].asking = None;
                }
            }
            Act::Drain { worker } => {
                self.worker_does(*worker, &Command::Drain);
            }
            Act::Leave { worker } => {
                if self.worker_does(*worker, &Command::Leave).is_some() {
                    let worker = &mut self.workers[*worker];
                    worker.session = None;
                    worker.believes.clear();
                    worker.asking = None;
                }
            }
            Act::Close { worker } => {
                if let Some(peer) = self.workers[*worker].session.take() {
                    self.workers[*worker].asking = None;
                    self.broker.does(&peer, Command::SessionClosed);
                    self.absorb(None);
                }
            }
            Act::Wait { millis } => {
                let until = self.broker.now + Duration::from_millis(*millis);
                while self.broker.step(until) {
                    self.absorb(None);
                }
                self.absorb(None);
            }
            Act::Restart { millis } => self.restart(*millis),
        }
        self.check_promises();
    }

    /// The last look. What was said, for comparison.
    pub(crate) fn end(mut self) -> Vec<String> {
        let restored = self.broker.journal.restore(self.settings.clone(), self.broker.now);
        restored.audit();
        compare(&restored, &self.broker.engine);
        self.broker.hush();
        std::mem::take(&mut self.log)
    }

    fn restart(&mut self, millis: u64) {
        let now = self.broker.now;
        let restored = self.broker.journal.restore(self.settings.clone(), now);
        compare(&restored, &self.broker.engine);
        self.broker.restart_after(Duration::from_millis(millis));
        for worker in &mut self.workers {
            worker.session = None;
            worker.asking = None;
        }
        // What is beyond retention by now was dropped while no one listened; the store finds out for itself.
        let engine = &self.broker.engine;
        let gone = self.mirror.tasks.values().filter(|(task, _)| engine.find_task(&task.id).is_none());
        for (task, _) in gone {
            let blobs = Which::ALL.map(|which| which.of(task));
            self.freed.extend(blobs.into_iter().filter(|blob| !blob.is_empty()).map(Blob::at));
        }
        let shared = self.mirror.kept_arrays().map(|array| &array.record);
        let gone = shared.filter(|record| !engine.arrays().any(|known| known.id == record.id));
        self.freed.extend(gone.map(|record| record.body).filter(|body| !body.is_empty()).map(Blob::at));
        // The first tick reports what became due meanwhile.
        while self.broker.step(self.broker.now) {
            self.absorb(None);
        }
    }

    fn submit(&mut self, client: usize, wishes: &[Wish]) {
        let tasks: Vec<NewTask> = wishes.iter().map(|wish| self.new_task(wish)).collect();
        let bodies: Vec<Blob> = tasks.iter().map(|task| task.body).collect();
        let peer = self.clients[client].clone();
        let Ok(Reply::Submitted(each)) = self.does(&peer, &Command::Submit(tasks)) else {
            panic!("a submission is answered task by task")
        };
        for (answer, body) in each.iter().zip(bodies) {
            if let Ok(accepted) = answer
                && !accepted.known
            {
                self.tasks.push(accepted.task);
                self.accepted.insert(body.at());
            }
        }
        self.absorb(None);
    }

    fn submit_array(&mut self, client: usize, wish: &Wish, size: u32, limit: Option<u32>, shares_body: bool) {
        let mut task = self.new_task(&Wish { old_id: None, ..wish.clone() });
        // Far from the ids of other tasks.
        task.id = TaskId::from_u128(self.next_blob as u128 * 1_000_000);
        let bodies: Vec<Blob> =
            if shares_body { Vec::new() } else { (0..size).map(|_| self.new_blob()).collect() };
        let array = ArrayTerms { id: task.id, first: 0, step: 1 };
        let of_array = if shares_body { vec![task.body] } else { bodies.clone() };
        let new = NewArray { task, size, first: 0, step: 1, limit, bodies };
        let peer = self.clients[client].clone();
        let answer = self.does(&peer, &Command::SubmitArray(Box::new(new)));
        if let Ok(Reply::ArraySubmitted(accepted)) = answer
            && !accepted.known
        {
            self.arrays.push(array.id);
            self.tasks.extend((0..size).map(|place| array.element_id(place)));
            self.accepted.extend(of_array.iter().map(|body| body.at()));
        }
        self.absorb(None);
    }

    fn new_task(&mut self, wish: &Wish) -> NewTask {
        let pick = |index: usize| (!self.tasks.is_empty()).then(|| self.tasks[index % self.tasks.len()]);
        let parent = wish.parent.and_then(pick);
        let old_id = wish.old_id.and_then(pick);
        let after = |(index, condition): &(usize, u8)| {
            let task = match index.checked_sub(64) {
                Some(index) => AfterTask::Index(index as u32 % 3),
                None if *index % 4 == 3 && !self.arrays.is_empty() => {
                    AfterTask::Id(self.arrays[index % self.arrays.len()])
                }
                None => AfterTask::Id(pick(*index)?),
            };
            Some(After { task, condition: Condition::ALL[usize::from(*condition)] })
        };
        let after = wish.after.iter().filter_map(after).collect();
        let body = self.new_blob();
        let fresh = self.broker.new_task(&queue_name(wish.queue));
        let now = self.broker.now;
        let at = |millis: u64| now + Duration::from_millis(millis);
        let span = |millis: u64| Duration::from_millis(millis.max(1));
        NewTask {
            id: old_id.unwrap_or(fresh.id),
            name: wish.name.map(|name| format!("name {name}").into()),
            priority: wish.priority,
            needs: chosen(wish.needs, "c"),
            tags: chosen(wish.tags, "t"),
            demand: demand(wish.demand),
            share: wish.share.map(share_name),
            parent,
            after,
            on_broken: OnBroken::ALL[usize::from(wish.on_broken)],
            hold: wish.hold,
            not_before: wish.not_before.map(at),
            expires_at: wish.expires.map(|millis| at(millis + 1)),
            on_lost: [OnLost::Requeue, OnLost::Pause, OnLost::Fail][usize::from(wish.on_lost)],
            crash_budget: wish.crash_budget,
            retries: wish.retries,
            backoff: Backoff { first: Duration::from_millis(500), max: Duration::from_secs(4) },
            accept_timeout: wish.accept_timeout.map(span),
            run_limit: wish.run_limit.map(span),
            body,
            ..fresh
        }
    }

    fn new_blob(&mut self) -> Blob {
        self.next_blob += 100;
        Blob::new(self.next_blob, 10)
    }

    fn on_one(&mut self, client: usize, task: TaskId, verb: &Verb) {
        let command = match verb {
            Verb::Release => Command::Release { task },
            Verb::Cancel => Command::Cancel { task, reason: Some("enough".into()) },
            Verb::Pause { terminate } => Command::Pause { task, reason: None, terminate: *terminate },
            Verb::Resume => Command::Resume { task },
            Verb::Retry => Command::Retry { task },
            Verb::Move { queue, priority, tags } => Command::Move {
                task,
                to: Move {
                    queue: queue.map(queue_name),
                    priority: *priority,
                    tags: tags.map(|tags| chosen(tags, "t")),
                },
            },
        };
        self.client_does(client, &command);
    }

    fn client_does(&mut self, client: usize, command: &Command) {
        let peer = self.clients[client].clone();
        self.does(&peer, command).ok();
        self.absorb(None);
    }

    /// A command of a worker that has a session. Its return from silence, if it is one, is not part of the command.
    fn worker_does(&mut self, index: usize, command: &Command) -> Option<Result<Reply, Refusal>> {
        let peer = self.workers[index].session.clone()?;
        self.broker.tries(&peer, Command::Heartbeat { held: None, stats: None }).ok();
        self.absorb(None);
        let answer = self.does(&peer, command);
        self.absorb(None);
        Some(answer)
    }

    /// Carries out a command. If it is refused, nothing may have changed.
    fn does(&mut self, peer: &Peer, command: &Command) -> Result<Reply, Refusal> {
        let before = self.broker.snapshot();
        let answer = self.broker.tries(peer, command.clone());
        let refused = match &answer {
            Err(_) => true,
            Ok(Reply::Submitted(each)) => each.iter().all(|each| !matches!(each, Ok(new) if !new.known)),
            Ok(Reply::Held(each)) => !each.is_empty() && each.iter().all(Result::is_err),
            Ok(Reply::ArraySubmitted(accepted)) => accepted.known,
            Ok(Reply::Done | Reply::Registered { .. }) => false,
        };
        if refused && !matches!(command, Command::Heartbeat { .. }) {
            assert_same(&before, &self.broker.snapshot(), &format!("{command:?} {answer:?}"));
        }
        answer
    }

    /// Listens to what was said. `asker` has just asked for a task.
    fn absorb(&mut self, asker: Option<usize>) {
        for (said, kept) in self.broker.take_raw() {
            match said {
                Said::Event(event) => {
                    self.log.push(format!("{} {:?}", event.seq, event.kind));
                    if let EventData::Assigned { worker } = &event.kind {
                        self.check_assignment(&event, worker, asker);
                    }
                    if let EventData::Continued { worker } = &event.kind {
                        self.check_continued(&event, worker);
                    }
                    if let EventData::Submitted { .. } = event.kind {
                        self.forget_old_id(&event);
                    }
                    self.mirror.apply(&event, &kept.expect("every event comes with a change"));
                }
                Said::Notice(session, notice) => self.hear(session, &notice),
                Said::Freed(blob) => {
                    assert!(self.accepted.contains(&blob.at()), "only what was accepted is freed");
                    assert!(self.freed.insert(blob.at()), "bytes are freed once");
                }
            }
        }
    }

    fn forget_old_id(&mut self, event: &Event) {
        let id = event.task().expect("a submission is about a task");
        assert!(!self.mirror.tasks.contains_key(&id), "an id is taken as long as its task is there");
    }

    fn hear(&mut self, session: SessionId, notice: &Notice) {
        self.log.push(format!("{session:?} {notice:?}"));
        let is_it =
            |worker: &&mut WorkerSide| worker.session.as_ref().is_some_and(|peer| peer.session == session);
        let Some(worker) = self.workers.iter_mut().find(is_it) else { return };
        match notice {
            Notice::Assign(assignment) => {
                worker.believes.insert(assignment.task, assignment.attempt);
                worker.asking = None;
            }
            Notice::Stop { task, attempt, .. } => {
                if worker.believes.get(task) == Some(attempt) {
                    worker.believes.remove(task);
                }
            }
            Notice::Continue { task, attempt, ends } => {
                assert_eq!(worker.believes.get(task), Some(attempt), "it continues what it has");
                assert!(ends.iter().all(|end| end.state.has_ended()));
            }
            Notice::Wanted { .. } | Notice::Drain | Notice::Replaced { .. } => {}
        }
    }
}

fn pick(from: &[TaskId], index: usize) -> Option<TaskId> {
    (!from.is_empty()).then(|| from[index % from.len()])
}

fn is_yes(answer: &Result<Reply, Refusal>) -> bool {
    match answer {
        Ok(Reply::Held(each)) => each.iter().all(Result::is_ok),
        answer => answer.is_ok(),
    }
}

fn chosen(bits: u8, letter: &str) -> Vec<Name> {
    (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| format!("{letter}{bit}").into()).collect()
}

pub(crate) fn queue_name(index: usize) -> Name {
    format!("q{index}").into()
}

pub(crate) fn tag_name(index: usize) -> Name {
    format!("t{index}").into()
}

/// Most tasks want one slot and nothing else.
fn demand(number: u8) -> Demand {
    let (slots, resources) = match number {
        0 => (0, vec![]),
        1 => (2, vec![]),
        2 => (1, vec![("gpus", 600)]),
        3 => (1, vec![("gpus", 1000), ("licence", 500)]),
        4 => (0, vec![("licence", 1000)]),
        _ => (1, vec![]),
    };
    Demand { slots, resources: listed(&resources) }
}

fn listed(resources: &[(&str, u64)]) -> Vec<Resource> {
    resources.iter().map(|(name, thousandths)| Resource::new(*name, Quantity(*thousandths))).collect()
}

fn share_name(index: u8) -> Name {
    format!("s{index}").into()
}
