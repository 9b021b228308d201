//! Reconciliation through crashes, power failures and restarts: a client declares what another store knows, page by
//! page, while that store and other clients go on. It has a world of its own with the same seed.
//!
//! The promises: what an answer says was mended stays mended, and carries the mark of the reconciliation; a name has one task, however often its page is sent; a
//! page that only asks changes nothing; and in the end the two stores agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::{
    Command, Event, EventData, EventSubject, Name, NewTask, SessionId, TaskId, Timestamp,
};
use tenure_hub::{
    Ask, Declared, DeclaredState, Delivery, Difference, Mailbox, NameListing, Reconciled, Reconciliation,
    Request, Response, Submission, Watch,
};
use tenure_store::MemoryDisk;

use crate::broker::Broker;
use crate::plan::Mutation;
use crate::random::Random;
use crate::restarting::{RestartingWorld, WorldParts};

const STEPS: u64 = 150;
const NAMES: u64 = 12;
const PAGE_MAX: u64 = 5;
const PREFIX: &str = "job/";

struct ReconcileWorld {
    random: Random,
    now: Timestamp,
    broker: Broker,
    mutation: Mutation,
    mailbox: Arc<Mailbox>,
    session: SessionId,
    next_event: u64,
    next_token: u64,
    next_task: u128,
    /// What the other store knows, and whether it has ended there.
    store: BTreeMap<Name, bool>,
    /// Pages without an answer: whether they were to mend, and what they declared.
    asked: BTreeMap<u64, (bool, BTreeMap<Name, DeclaredState>)>,
    /// Every task that was ever tried under a name.
    tried: BTreeMap<TaskId, Name>,
    /// How often the watcher heard that a task of this name was submitted.
    submitted: BTreeMap<Name, u64>,
    /// The task of each name, as the broker has said.
    promised: BTreeMap<Name, TaskId>,
    /// The tasks that the broker has said to have cancelled.
    cancelled: Vec<TaskId>,
    /// The tasks that the reconciliation has tried to submit, and those of them that the broker has said to have submitted.
    declared: BTreeSet<TaskId>,
    mended: BTreeSet<TaskId>,
    broken: Vec<String>,
}

/// Simulates the reconciliations of one seed. Returns the broken promises.
pub(crate) fn live(seed: u64, mutation: Mutation) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x7265_636f);
    let now = Timestamp(1_700_000_000_000);
    let broker = Broker::start(MemoryDisk::new(), random.next(), now, mutation).expect("an empty disk opens");
    let mut world = ReconcileWorld {
        random,
        now,
        broker,
        mutation,
        mailbox: Arc::default(),
        session: SessionId(0),
        next_event: 1,
        next_token: 1,
        next_task: 1,
        store: BTreeMap::new(),
        asked: BTreeMap::new(),
        tried: BTreeMap::new(),
        submitted: BTreeMap::new(),
        promised: BTreeMap::new(),
        cancelled: Vec::new(),
        declared: BTreeSet::new(),
        mended: BTreeSet::new(),
        broken: Vec::new(),
    };
    world.connect();
    for _ in 0..STEPS {
        world.step();
        if !world.broken.is_empty() {
            return world.broken;
        }
    }
    world.finish();
    world.broken
}

impl RestartingWorld for ReconcileWorld {
    const DOWN_MILLIS: u64 = 5_000;

    fn parts(&mut self) -> WorldParts<'_> {
        let Self { random, now, broker, mutation, broken, .. } = self;
        WorldParts { random, now, broker, mutation: *mutation, broken }
    }

    fn reconnect(&mut self) {
        // A page without an answer may or may not have been mended.
        self.asked.clear();
        self.connect();
        self.inspect();
    }

    fn hear(&mut self) {
        let mut deliveries = Vec::new();
        self.mailbox.take(&mut deliveries);
        for delivery in deliveries {
            match delivery {
                Delivery::Event { event, .. } => {
                    self.next_event = event.seq + 1;
                    self.heard(&event);
                }
                Delivery::Reply { token, reply: Ok(Response::Reconciled(answer)) } => {
                    self.answered(token, &answer);
                }
                _ => {}
            }
        }
    }
}

impl ReconcileWorld {
    fn step(&mut self) {
        let name = self.any_name();
        match self.random.between(0, 100) {
            0..5 => self.restart(true),
            5..9 => self.restart(false),
            9..12 => drop(self.broker.keep()),
            12..30 => drop(self.store.insert(name, false)),
            30..38 => drop(self.store.insert(name, true)),
            38..44 => drop(self.store.remove(&name)),
            44..50 => {
                let submission = self.submission(&name);
                self.ask(Request::Submit(vec![submission]));
            }
            50..56 => {
                if let Some(task) = self.promised.get(&name).copied() {
                    self.ask(Request::Command(Command::Cancel { task, reason: None }));
                }
            }
            56..90 => self.declare(),
            _ => self.now = self.now + Duration::from_millis(self.random.between(1, 5_000)),
        }
        let step = self.broker.turn(self.now);
        self.after(&step);
    }

    fn any_name(&mut self) -> Name {
        format!("{PREFIX}{}", self.random.between(0, NAMES)).as_str().into()
    }

    fn submission(&mut self, name: &Name) -> Submission {
        let task = TaskId::from_u128(self.next_task);
        self.next_task += 1;
        self.tried.insert(task, name.clone());
        let task = NewTask { name: Some(name.clone()), ..NewTask::new(task, "q") };
        Submission::new(task, vec![b'x'; 50].into())
    }

    fn declare(&mut self) {
        let count = self.random.between(1, PAGE_MAX + 1);
        let names: Vec<Name> = (0..count).map(|_| self.any_name()).collect();
        let apply = self.random.percent(80);
        self.send_page(names, apply);
    }

    fn send_page(&mut self, names: Vec<Name>, apply: bool) {
        let there = |name: &Name| match self.store.get(name) {
            None => DeclaredState::Unknown,
            Some(true) => DeclaredState::Ended,
            Some(false) => DeclaredState::Exists,
        };
        // Of a name that stands twice in a page, the second finds what the first has mended.
        let declared: BTreeMap<Name, DeclaredState> =
            names.into_iter().map(|name| (name.clone(), there(&name))).collect();
        let mut page = Reconciliation { prefix: PREFIX.into(), apply, ..Reconciliation::default() };
        for (name, there) in declared.clone() {
            let submission = (there == DeclaredState::Exists).then(|| self.submission(&name));
            self.declared.extend(submission.iter().map(|submission| submission.task.id));
            page.declared.push(Declared { name, there, submission });
        }
        page.list = self.random.percent(30).then(NameListing::default);
        let before = self.tasks();
        self.asked.insert(self.next_token, (apply, declared));
        self.ask(Request::Reconcile(Box::new(page)));
        if !apply && self.tasks() != before {
            self.broken.push("a page that only asks has changed something".into());
        }
    }

    /// The tasks that there are, and whether each has ended.
    fn tasks(&self) -> BTreeMap<TaskId, bool> {
        let engine = self.broker.core().engine();
        let found = self.tried.keys().filter_map(|id| Some((*id, engine.find_task(id)?)));
        found.map(|(id, task)| (id, task.state.name().has_ended())).collect()
    }

    /// A reply is a promise: it comes after the sync.
    fn answered(&mut self, token: u64, answer: &Reconciled) {
        let Some((true, declared)) = self.asked.remove(&token) else { return };
        for one in &answer.tasks {
            let Some(task) = one.task else { continue };
            if declared.get(&one.name) == Some(&DeclaredState::Exists) {
                let promised = *self.promised.entry(one.name.clone()).or_insert(task);
                if promised != task {
                    self.broken.push(format!("{} was {promised} and is {task}", one.name));
                }
            }
            let was_cancelled = matches!(one.difference, Difference::EndedThere | Difference::UnknownThere);
            if one.difference == Difference::Missing && one.applied {
                self.mended.insert(task);
            }
            if was_cancelled && one.applied {
                self.cancelled.push(task);
            }
        }
    }

    fn inspect(&mut self) {
        let tasks = self.tasks();
        for (name, task) in &self.promised {
            if !tasks.contains_key(task) {
                self.broken.push(format!("task {task} of {name} was mended and is lost"));
            }
        }
        for task in &self.cancelled {
            if tasks.get(task) != Some(&true) {
                self.broken.push(format!("task {task} was cancelled and is not"));
            }
        }
        for task in tasks.keys() {
            let found = self.broker.core().engine().find_task(task).expect("it was just found");
            match found.reconciliation() {
                Some(PREFIX) if self.declared.contains(task) => {}
                None if !self.mended.contains(task) && !self.declared.contains(task) => {}
                mark => self.broken.push(format!("{task} has the mark {mark:?} of a reconciliation")),
            }
        }
        let mut of_name: BTreeMap<&Name, TaskId> = BTreeMap::new();
        for task in tasks.keys() {
            if let Some(other) = of_name.insert(&self.tried[task], *task) {
                self.broken.push(format!("{} has two tasks: {other} and {task}", self.tried[task]));
            }
        }
        let doubled = self.submitted.iter().find(|(_, count)| **count > 1);
        if let Some((name, count)) = doubled {
            self.broken.push(format!("{name} was submitted {count} times"));
        }
    }

    /// Everything is declared once more. After that, the stores agree.
    fn finish(&mut self) {
        self.restart(true);
        self.settle();
        let names: Vec<Name> = (0..NAMES).map(|number| format!("{PREFIX}{number}").as_str().into()).collect();
        self.send_page(names.clone(), true);
        self.settle();
        self.inspect();
        let tasks = self.tasks();
        let here: BTreeMap<&Name, bool> =
            tasks.iter().map(|(task, has_ended)| (&self.tried[task], *has_ended)).collect();
        for name in names {
            let here = here.get(&name);
            let agrees = match self.store.get(&name) {
                // What has ended here is for the other store to learn.
                Some(false) => here.is_some(),
                Some(true) | None => here != Some(&false),
            };
            if !agrees {
                self.broken.push(format!("{name} is {here:?} here and {:?} there", self.store.get(&name)));
            }
        }
    }

    fn connect(&mut self) {
        (self.session, self.mailbox) = self.broker.open(&"client".into());
        let watch = Watch { watch: 1, from: Some(self.next_event), ..Watch::default() };
        self.ask(Request::Watch(watch));
    }

    fn ask(&mut self, request: Request) {
        let token = self.next_token;
        self.next_token += 1;
        let step = self.broker.take(self.now, self.session, vec![Ask { token, request }]);
        self.after(&step);
    }

    fn heard(&mut self, event: &Event) {
        if let (EventSubject::Task { id: task, .. }, EventData::Submitted { reconciliation, .. }) =
            (&event.about, &event.kind)
            && let Some(name) = self.tried.get(task)
        {
            let expected = self.declared.contains(task).then_some(PREFIX);
            if reconciliation.as_deref() != expected {
                self.broken.push(format!("the event of {task} has the mark {reconciliation:?}"));
            }
            *self.submitted.entry(name.clone()).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_worlds_agree_in_the_end() {
        for seed in 0..40 {
            assert_eq!(live(seed, Mutation::None), Vec::<String>::new(), "seed {seed}");
        }
    }

    #[test]
    fn a_disk_that_does_not_sync_loses_what_was_mended_and_is_caught() {
        assert!((0..100).any(|seed| !live(seed, Mutation::ForgetSync).is_empty()));
    }
}
