//! A hook through crashes and power failures, with a receiver that fails and whose answers get lost. It has a world of
//! its own with the same seed: the real progress, cursor and file of a hook, on the real log.
//!
//! The promises: every event that the hook wants, after its first place was on disk, reaches the receiver at least
//! once, or is kept as undelivered until it is sent again; a place that was written survives.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::{Command, Event, EventFilter, NewTask, SessionId, TaskId, Timestamp};
use tenure_hub::{
    Ask, Delivery, HookAbout, HookCursor, HookKind, HookProgress, Hooks, Mailbox, Request, Submission,
    Undelivered, Watch,
};
use tenure_store::MemoryDisk;

use crate::broker::Broker;
use crate::plan::Mutation;
use crate::random::Random;
use crate::restarting::{RestartingWorld, WorldParts};

const STEPS: u64 = 200;
const HOOK: &str = "ops";
/// Events that may be on their way at once.
const CONCURRENCY: usize = 3;
/// The hook gives an event up after this many attempts.
const ATTEMPTS: u32 = 2;
const KINDS: [&str; 2] = ["submitted", "cancelled"];
const QUEUES: [&str; 2] = ["wanted", "other"];

struct HookWorld {
    random: Random,
    now: Timestamp,
    broker: Broker,
    mutation: Mutation,
    client: SessionId,
    tasks: Vec<TaskId>,
    hook: RunningHook,
    /// The first event that the hook has promised to deliver.
    promised_from: Option<u64>,
    /// The place that was last written.
    written: Option<u64>,
    received: BTreeSet<u64>,
    broken: Vec<String>,
}

/// What dies with the broker's process.
struct RunningHook {
    progress: Arc<HookProgress>,
    hooks: Hooks,
    cursor: HookCursor,
    session: SessionId,
    mailbox: Arc<Mailbox>,
    arrived: VecDeque<Delivery>,
    in_flight: Vec<InFlightEvent>,
}

struct InFlightEvent {
    seq: u64,
    failed: u32,
}

/// Simulates the hook of one seed. Returns the broken promises.
pub(crate) fn live(seed: u64, mutation: Mutation) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x686f_6f6b);
    let now = Timestamp(1_700_000_000_000);
    let mut broker =
        Broker::start(MemoryDisk::new(), random.next(), now, mutation).expect("an empty disk opens");
    let (client, _) = broker.open(&"client".into());
    let hook = RunningHook::start(&mut broker);
    let mut world = HookWorld {
        random,
        now,
        broker,
        mutation,
        client,
        tasks: Vec::new(),
        hook,
        promised_from: None,
        written: None,
        received: BTreeSet::new(),
        broken: Vec::new(),
    };
    world.watch();
    for _ in 0..STEPS {
        world.step();
        if !world.broken.is_empty() {
            return world.broken;
        }
    }
    world.finish();
    world.broken
}

impl RunningHook {
    fn start(broker: &mut Broker) -> RunningHook {
        let progress = Arc::new(HookProgress::new(HookAbout {
            name: HOOK.into(),
            namespace: "default".into(),
            kind: HookKind::Webhook,
            target: "http://localhost/".into(),
            events: KINDS.map(Into::into).into(),
            queues: vec![QUEUES[0].into()],
        }));
        let hooks = Hooks::default();
        hooks.set(vec![Arc::clone(&progress)]);
        let (session, mailbox) = broker.open(&"hook".into());
        RunningHook {
            progress,
            hooks,
            cursor: HookCursor::default(),
            session,
            mailbox,
            arrived: VecDeque::new(),
            in_flight: Vec::new(),
        }
    }

    fn wants(event: &Event) -> bool {
        event.queue().is_some_and(|queue| &**queue == QUEUES[0])
    }

    /// Reads one event, as far as there is room. Returns whether there was one.
    fn read(&mut self) -> bool {
        if self.in_flight.len() >= CONCURRENCY {
            return false;
        }
        if let Some(due) = self.progress.take_due() {
            self.in_flight.push(InFlightEvent { seq: due.seq, failed: 0 });
            return true;
        }
        let mut deliveries = Vec::new();
        self.mailbox.take(&mut deliveries);
        self.arrived.extend(deliveries);
        let Some(delivery) = self.arrived.pop_front() else { return false };
        match delivery {
            Delivery::Event { event, .. } if RunningHook::wants(&event) => {
                self.cursor.take(event.seq);
                self.in_flight.push(InFlightEvent { seq: event.seq, failed: 0 });
            }
            Delivery::Event { event, .. } => self.cursor.pass(event.seq),
            Delivery::Gap { from, oldest, .. } => {
                self.cursor.gap(from, oldest);
                self.in_flight.push(InFlightEvent { seq: from, failed: 0 });
            }
            Delivery::Live { next, .. } => self.cursor.live(next),
            _ => {}
        }
        true
    }

    fn done(&mut self, index: usize) {
        let gone = self.in_flight.remove(index);
        self.cursor.done(gone.seq);
        self.progress.advance(self.cursor.next_event());
    }
}

impl RestartingWorld for HookWorld {
    const DOWN_MILLIS: u64 = 5_000;

    fn parts(&mut self) -> WorldParts<'_> {
        let Self { random, now, broker, mutation, broken, .. } = self;
        WorldParts { random, now, broker, mutation: *mutation, broken }
    }

    fn reconnect(&mut self) {
        (self.client, _) = self.broker.open(&"client".into());
        self.hook = RunningHook::start(&mut self.broker);
        let file = self.broker.read_hook_file(HOOK).unwrap_or_default();
        match &file {
            Some(bytes) if !self.hook.progress.decode(bytes) => {
                self.broken.push("the file of the hook is unreadable".into());
            }
            _ => {}
        }
        let place = self.hook.progress.next_event();
        if self.written.is_some_and(|written| written != place) {
            self.broken.push(format!("the hook wrote {:?} and goes on at {place}", self.written));
        }
        self.hook.cursor = HookCursor::at(place);
        self.watch();
    }

    /// The hook reads when it is its turn.
    fn hear(&mut self) {}
}

impl HookWorld {
    fn step(&mut self) {
        let span = self.random.between(0, 500);
        self.now = self.now + Duration::from_millis(span);
        match self.random.between(0, 100) {
            0..3 => self.restart(true),
            3..6 => self.restart(false),
            6..8 => {
                // The power fails in the middle of what is written next.
                self.broker.disk.fail_power_after(self.random.between(0, 6));
                self.write();
                self.restart(true);
            }
            8..30 => self.submit(),
            30..38 => self.cancel(),
            38..62 => {
                self.hook.read();
                self.hook.progress.advance(self.hook.cursor.next_event());
            }
            62..82 => self.attempt(),
            82..90 => self.write(),
            90..93 => self.redeliver(),
            93..95 if self.hook.cursor.is_idle() && self.hook.arrived.is_empty() => self.renew(),
            _ => {
                self.broker.keep();
            }
        }
        let step = self.broker.turn(self.now);
        self.after(&step);
    }

    fn submit(&mut self) {
        let task = TaskId::from_u128(self.random.next().into());
        let queue = *self.random.pick(&QUEUES);
        self.tasks.push(task);
        let submission = Submission::new(NewTask::new(task, queue), vec![b'x'; 50].into());
        self.ask(self.client, Request::Submit(vec![submission]));
    }

    fn cancel(&mut self) {
        if !self.tasks.is_empty() {
            let task = *self.random.pick(&self.tasks);
            self.ask(self.client, Request::Command(Command::Cancel { task, reason: None }));
        }
    }

    /// One attempt ends: it arrived, or only its answer was lost, or it did not arrive.
    fn attempt(&mut self) {
        if self.hook.in_flight.is_empty() {
            return;
        }
        let index = self.random.between(0, self.hook.in_flight.len() as u64) as usize;
        let seq = self.hook.in_flight[index].seq;
        let chance = self.random.between(0, 100);
        if chance < 70 {
            self.received.insert(seq);
        }
        if chance < 50 {
            self.hook.progress.delivered(self.now);
            self.hook.progress.forget(seq);
            self.hook.done(index);
            return;
        }
        let on_its_way = &mut self.hook.in_flight[index];
        on_its_way.failed += 1;
        if on_its_way.failed >= ATTEMPTS {
            self.hook.progress.give_up(Undelivered {
                seq,
                kind: "event".into(),
                given_up_at: self.now,
                attempts: ATTEMPTS,
                error: "the receiver is away".into(),
                body: vec![b'x'; 20].into(),
                is_due: false,
            });
            self.hook.done(index);
        }
    }

    /// Writes the place, and what was given up.
    fn write(&mut self) {
        if self.mutation == Mutation::ForgetOpenEvents {
            self.hook.progress.advance(self.hook.cursor.from().unwrap_or_default());
        }
        let next_event = self.hook.progress.next_event();
        let bytes = self.hook.progress.encode();
        let written = self.broker.write_hook_file(HOOK, &bytes);
        if written.is_ok() && next_event > 0 {
            self.written = Some(next_event);
            self.promised_from.get_or_insert(next_event);
        } else {
            // The old file or the new one is there.
            self.written = None;
        }
    }

    fn redeliver(&mut self) {
        self.hook.hooks.redeliver(&"default".into(), &HOOK.into(), None).expect("the hook is there");
    }

    /// An idle hook begins a new watch.
    fn renew(&mut self) {
        let step = self.broker.close(self.now, self.hook.session);
        self.after(&step);
        (self.hook.session, self.hook.mailbox) = self.broker.open(&"hook".into());
        self.watch();
    }

    fn watch(&mut self) {
        let filter = EventFilter { kinds: KINDS.map(Into::into).into(), ..EventFilter::default() };
        let watch = Watch { watch: 1, filter, from: self.hook.cursor.from() };
        self.ask(self.hook.session, Request::Watch(watch));
    }

    fn ask(&mut self, session: SessionId, request: Request) {
        let step = self.broker.take(self.now, session, vec![Ask { token: 1, request }]);
        self.after(&step);
    }

    /// The receiver is well again: everything arrives, also what was given up.
    fn finish(&mut self) {
        self.restart(true);
        for _ in 0..10_000 {
            self.settle();
            self.redeliver();
            let has_read = self.hook.read();
            while let Some(on_its_way) = self.hook.in_flight.first() {
                self.received.insert(on_its_way.seq);
                self.hook.progress.forget(on_its_way.seq);
                self.hook.done(0);
            }
            if !has_read && self.hook.progress.undelivered().is_empty() {
                break;
            }
        }
        let Some(promised_from) = self.promised_from else { return };
        let (session, mailbox) = self.broker.open(&"auditor".into());
        let filter = EventFilter { kinds: KINDS.map(Into::into).into(), ..EventFilter::default() };
        self.ask(session, Request::Watch(Watch { watch: 1, filter, from: Some(promised_from) }));
        for _ in 0..1_000 {
            self.settle();
            let mut deliveries = Vec::new();
            mailbox.take(&mut deliveries);
            for delivery in deliveries {
                match delivery {
                    Delivery::Event { event, .. }
                        if RunningHook::wants(&event) && !self.received.contains(&event.seq) =>
                    {
                        self.broken.push(format!("event {} never reached the receiver", event.seq));
                    }
                    Delivery::Live { .. } => return,
                    _ => {}
                }
            }
        }
        self.broken.push("the log has no end".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_hundred_worlds_each_event_arrives_at_least_once() {
        for seed in 0..100 {
            assert_eq!(live(seed, Mutation::None), Vec::<String>::new(), "seed {seed}");
        }
    }

    #[test]
    fn a_place_beyond_what_is_on_its_way_loses_events_and_is_caught() {
        assert!((0..20).any(|seed| !live(seed, Mutation::ForgetOpenEvents).is_empty()));
    }

    #[test]
    fn a_place_that_is_not_synced_is_caught() {
        assert!((0..20).any(|seed| !live(seed, Mutation::ForgetSync).is_empty()));
    }
}
