//! A simulated client: submits, controls and watches, loses its connection, reconnects and asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{
    Accepted, After, AfterTask, ArrayTerms, Command, Condition, Demand, EventFilter, Move, Name, NewArray,
    NewTask, OnBroken, OnLost, Quantity, Refusal, Reply, Resource, TaskId, Thresholds, Timestamp,
};
use tenure_hub::{ArraySubmission, Ask, Delivery, HubRefusal, Request, Response, Submission, Watch};

use crate::promises::PromiseChecker;
use crate::random::Random;
use crate::traces::TraceChecker;

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: Name,
    next_token: u64,
    /// Submissions that have not been answered: they are sent again, which is safe because they have names.
    unanswered: BTreeMap<u64, Submission>,
    unanswered_arrays: BTreeMap<u64, ArraySubmission>,
    /// Submissions that were sent more than once.
    repeated: BTreeSet<u64>,
    arrays: Vec<ArrayTerms>,
    known: Vec<TaskId>,
    submitted: u64,
    next_event: u64,
    tidied: usize,
}

const ARRAY_SIZE_MAX: u32 = 4;
pub(crate) const QUEUES: [&str; 3] = ["red", "green", "blue"];
pub(crate) const TAGS: [&str; 2] = ["licence", "remote"];
const SHARES: [&str; 3] = ["alice", "bob", "carol"];
pub(crate) const CAPABILITIES: [&str; 2] = ["gpu", "big"];

impl Client {
    pub(crate) fn new(number: u64) -> Client {
        Client {
            name: format!("client-{number}").into(),
            next_token: 1,
            unanswered: BTreeMap::new(),
            unanswered_arrays: BTreeMap::new(),
            repeated: BTreeSet::new(),
            arrays: Vec::new(),
            known: Vec::new(),
            submitted: 0,
            next_event: 1,
            tidied: 0,
        }
    }

    /// After a reconnect: repeats everything unanswered, and the watch continues where it stopped.
    pub(crate) fn connected(&mut self) -> Vec<Ask> {
        let watch = Watch { watch: 1, filter: EventFilter::default(), from: Some(self.next_event) };
        let mut asks = vec![Ask { token: 0, request: Request::Watch(watch) }];
        self.repeated.extend(self.unanswered.keys());
        for (token, submission) in &self.unanswered {
            asks.push(Ask { token: *token, request: Request::Submit(vec![submission.clone()]) });
        }
        for (token, submission) in &self.unanswered_arrays {
            asks.push(Ask { token: *token, request: Request::SubmitArray(Box::new(submission.clone())) });
        }
        asks
    }

    /// Performs a random action.
    pub(crate) fn act(
        &mut self,
        now: Timestamp,
        random: &mut Random,
        calm: bool,
        promises: &mut PromiseChecker,
    ) -> Vec<Ask> {
        if calm {
            return self.tidy_up(promises);
        }
        let token = self.next_token;
        self.next_token += 1;
        if random.percent(6) {
            return vec![self.submit_array(now, token, random, promises)];
        }
        if random.percent(4)
            && let Some(array) = self.arrays.last().copied()
        {
            return vec![steer_array(array, token, random, promises)];
        }
        if self.known.is_empty() || random.percent(55) {
            let submission = self.submission(now, random);
            promises.begun.submitted(&submission.task);
            promises.order.submitted(&submission.task);
            promises.traces.submitted(&submission.task);
            self.unanswered.insert(token, submission.clone());
            return vec![Ask { token, request: Request::Submit(vec![submission]) }];
        }
        let task = *random.pick(&self.known);
        let command = steering(task, random);
        promises.begun.steered(task);
        if let Command::Retry { task } = command {
            // Whether or not the reply arrives, from now on the task may start over.
            promises.retried(task);
        }
        vec![Ask { token, request: Request::Command(command) }]
    }

    /// In the calm phase at the end, resumes paused tasks, one after the other, so that everything can end.
    fn tidy_up(&mut self, promises: &mut PromiseChecker) -> Vec<Ask> {
        self.tidied += 1;
        let Some(task) = self.known.get(self.tidied % self.known.len().max(1)).copied() else {
            return Vec::new();
        };
        promises.begun.steered(task);
        let queue = QUEUES[self.tidied % QUEUES.len()].into();
        let commands = [Command::Release { task }, Command::Resume { task }, Command::ResumeQueue { queue }];
        commands.map(|command| Ask { token: 0, request: Request::Command(command) }).into()
    }

    fn submit_array(
        &mut self,
        now: Timestamp,
        token: u64,
        random: &mut Random,
        promises: &mut PromiseChecker,
    ) -> Ask {
        let Submission { task, body } = self.submission(now, random);
        let size = random.between(1, ARRAY_SIZE_MAX.into()) as u32;
        let terms = ArrayTerms { id: task.id, first: 0, step: 1 };
        for place in 0..size {
            let element = NewTask { id: terms.element_id(place), ..task.clone() };
            promises.begun.submitted(&element);
            promises.order.submitted(&element);
            promises.traces.submitted(&element);
        }
        let limit = random.percent(50).then(|| random.between(1, 3) as u32);
        let array = NewArray { task, size, first: 0, step: 1, limit, bodies: Vec::new() };
        let bodies = if random.percent(50) { Vec::new() } else { vec![body.clone(); size as usize] };
        let submission = ArraySubmission::new(array, body, bodies);
        self.unanswered_arrays.insert(token, submission.clone());
        Ask { token, request: Request::SubmitArray(Box::new(submission)) }
    }

    fn array_answered(
        &mut self,
        submission: &ArraySubmission,
        reply: Result<Response, HubRefusal>,
        promises: &mut PromiseChecker,
    ) {
        match reply {
            Ok(Response::Command(Reply::ArraySubmitted(accepted))) => {
                let terms = ArrayTerms { id: accepted.array, first: 0, step: 1 };
                for place in 0..accepted.size {
                    promises.acknowledged(terms.element_id(place));
                    self.known.push(terms.element_id(place));
                }
                self.arrays.push(terms);
            }
            Ok(_) | Err(HubRefusal::Engine(Refusal::BadParent { .. }) | HubRefusal::JournalAway) => {}
            Err(refusal) => promises.check(false, || {
                format!("an array was refused: {refusal} for {:?}", submission.array.task.name)
            }),
        }
    }

    fn submission(&mut self, now: Timestamp, random: &mut Random) -> Submission {
        self.submitted += 1;
        let id = TaskId::from_u128(u128::from(random.next()) << 64 | u128::from(random.next()));
        let mut task = NewTask::new(id, *random.pick(&QUEUES));
        task.name = Some(format!("{}/{}", self.name, self.submitted).into());
        task.trace = TraceChecker::of(id);
        task.priority = random.percent(50).then(|| random.between(0, 4) as i32);
        task.hold = random.percent(8);
        task.not_before = random.percent(10).then(|| now + Duration::from_millis(random.between(1, 20_000)));
        task.run_limit = random.percent(10).then(|| Duration::from_millis(random.between(2_000, 30_000)));
        task.cancel_timeout = random.percent(30).then(|| Duration::from_millis(random.between(0, 10_000)));
        task.retries = random.between(0, 3) as u16;
        task.crash_budget = random.between(1, 4) as u16;
        task.on_lost =
            *random.pick(&[OnLost::Requeue, OnLost::Requeue, OnLost::Requeue, OnLost::Pause, OnLost::Fail]);
        if random.percent(30) {
            task.tags = vec![(*random.pick(&TAGS)).into()];
        }
        if random.percent(40) {
            task.share = Some((*random.pick(&SHARES)).into());
        }
        if random.percent(20) {
            task.needs = vec![(*random.pick(&CAPABILITIES)).into()];
        }
        if random.percent(40) {
            task.demand = demand(random);
        }
        if random.percent(15) && !self.known.is_empty() {
            task.parent = Some(*random.pick(&self.known));
        }
        if random.percent(30) && !self.known.is_empty() {
            for _ in 0..random.between(1, 4) {
                let task_id = match self.arrays.last() {
                    Some(array) if random.percent(20) => array.id,
                    _ => *random.pick(&self.known),
                };
                let condition = *random.pick(&[Condition::Completed, Condition::Ended, Condition::Failed]);
                task.after.push(After { task: AfterTask::Id(task_id), condition });
            }
            task.on_broken = *random.pick(&OnBroken::ALL);
        }
        let body = vec![b'x'; random.between(0, 200) as usize];
        Submission::new(task, Bytes::from(body))
    }

    /// Something has arrived.
    pub(crate) fn receive(&mut self, delivery: Delivery, promises: &mut PromiseChecker) {
        match delivery {
            Delivery::Reply { token, reply } => self.answered(token, reply, promises),
            Delivery::Event { event, .. } => {
                promises.check(event.seq == self.next_event, || {
                    format!("{} waited for event {} and heard {}", self.name, self.next_event, event.seq)
                });
                self.next_event = event.seq + 1;
                promises.heard(&event);
            }
            Delivery::Gap { from, oldest, .. } => {
                // The broker trims nothing in so short a simulation.
                promises.check(false, || format!("{} heard of a gap from {from} to {oldest}", self.name));
            }
            Delivery::Live { .. }
            | Delivery::Notice(_)
            | Delivery::Call { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::Broadcast(_)
            | Delivery::Goodbye
            | Delivery::Ended(_) => {}
        }
    }

    fn answered(&mut self, token: u64, reply: Result<Response, HubRefusal>, promises: &mut PromiseChecker) {
        if let Some(submission) = self.unanswered_arrays.remove(&token) {
            return self.array_answered(&submission, reply, promises);
        }
        let Some(submission) = self.unanswered.remove(&token) else { return };
        if matches!(reply, Err(HubRefusal::JournalAway)) && !self.repeated.contains(&token) {
            promises.refused(submission.task.id);
        }
        let Ok(Response::Command(Reply::Submitted(each))) = reply else { return };
        match &each[0] {
            Ok(Accepted { task, .. }) => {
                promises.acknowledged(*task);
                self.known.push(*task);
            }
            // A parent that was cancelled meanwhile is a valid reason.
            Err(Refusal::BadParent { .. }) => {}
            Err(refusal) => {
                promises.check(false, || {
                    format!("{} was refused: {refusal} for {:?}", self.name, submission.task.name)
                });
            }
        }
    }
}

/// A random command on all elements of an array.
fn steer_array(array: ArrayTerms, token: u64, random: &mut Random, promises: &mut PromiseChecker) -> Ask {
    let task = array.id;
    let command = match random.between(0, 4) {
        0 => Command::Cancel { task, reason: None },
        1 => Command::Retry { task },
        2 => Command::Release { task },
        _ => Command::Resume { task },
    };
    for element in (0..ARRAY_SIZE_MAX).map(|place| array.element_id(place)) {
        promises.begun.steered(element);
        if let Command::Retry { .. } = command {
            promises.retried(element);
        }
    }
    Ask { token, request: Request::Command(command) }
}

/// A random command on a task or a queue.
fn steering(task: TaskId, random: &mut Random) -> Command {
    match random.between(0, 13) {
        0 => Command::Release { task },
        1 => Command::Resume { task },
        2 => Command::ResumeQueue { queue: (*random.pick(&QUEUES)).into() },
        3 => Command::Cancel { task, reason: Some("not needed".into()) },
        4 => Command::Pause { task, reason: None, terminate: random.percent(30) },
        5 => Command::Retry { task },
        6 => {
            let to = Move {
                priority: Some(random.between(0, 5) as i32),
                queue: Some((*random.pick(&QUEUES)).into()),
                tags: None,
            };
            Command::Move { task, to }
        }
        7 => Command::PauseQueue { queue: (*random.pick(&QUEUES)).into() },
        8 => {
            let thresholds = match random.between(0, 3) {
                0 => None,
                1 => Some(Thresholds::default()),
                _ => Some(Thresholds {
                    depth: Some(random.between(1, 8) as u32),
                    age: Some(Duration::from_millis(random.between(100, 20_000))),
                }),
            };
            Command::SetThresholds { queue: (*random.pick(&QUEUES)).into(), thresholds }
        }
        9 => Command::SetShare {
            share: (*random.pick(&SHARES)).into(),
            weight: random.percent(70).then(|| random.between(1, 6) as u32),
        },
        _ => Command::ResumeQueue { queue: (*random.pick(&QUEUES)).into() },
    }
}

/// What a task may occupy. A worker of the calm phase has room for each.
fn demand(random: &mut Random) -> Demand {
    let (slots, resources): (u32, &[(&str, u64)]) = *random.pick(&[
        (0, &[][..]),
        (2, &[]),
        (1, &[("gpus", 500)]),
        (1, &[("gpus", 1_000), ("licence", 500)]),
        (0, &[("licence", 1_000)]),
    ]);
    let resource = |(name, quantity): &(&str, u64)| Resource::new(*name, Quantity(*quantity));
    Demand { slots, resources: resources.iter().map(resource).collect() }
}
