//! Schedules through crashes, power failures, downtimes and a clock that is set. They have a world of their own with the
//! same seed, because they live for hours where tasks live for seconds.
//!
//! The promises: each due time of a schedule fires at most once; with `catch up: all` and a task that waits for the
//! last one, every due time fires exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::{
    CatchUp, Command, Event, EventData, EventSubject, Name, NewSchedule, NewTask, Overlap, SessionId, TaskId,
    Timestamp,
};
use tenure_hub::{Ask, Delivery, Mailbox, Request, Watch};
use tenure_store::MemoryDisk;

use crate::broker::Broker;
use crate::plan::Mutation;
use crate::random::Random;
use crate::restarting::{RestartingWorld, WorldParts};

const STEPS: u64 = 60;
/// Each longer than the shortest interval, and all of them together below the limit of what is made up for.
const STEP_MILLIS: u64 = 20_000;
const DOWN_MILLIS: u64 = 200_000;
const JUMP_MILLIS: u64 = 200_000;

/// When each schedule is due, and its policies.
const SCHEDULES: [(&str, When, CatchUp, Overlap); 7] = [
    ("all", When::Every(10), CatchUp::All, Overlap::Queue),
    ("slow", When::Every(90), CatchUp::All, Overlap::Queue),
    ("last", When::Every(15), CatchUp::Last, Overlap::CancelOld),
    ("none", When::Every(25), CatchUp::None, Overlap::Queue),
    ("skip", When::Every(30), CatchUp::All, Overlap::Skip),
    ("cron", When::MinuteOfHour { every: 2, zone: "UTC", ahead: 0 }, CatchUp::All, Overlap::Queue),
    // A zone whose hours begin at another minute, and never did otherwise.
    (
        "zone",
        When::MinuteOfHour { every: 7, zone: "Asia/Kathmandu", ahead: 45 },
        CatchUp::All,
        Overlap::Queue,
    ),
];

#[derive(Clone, Copy, Debug)]
enum When {
    /// An interval in seconds.
    Every(u64),
    /// A cron expression: each minute of the local hour that is a multiple. The local hour is `ahead` minutes ahead.
    MinuteOfHour { every: u64, zone: &'static str, ahead: u64 },
}

impl When {
    fn text(self) -> String {
        match self {
            When::Every(seconds) => format!("every {seconds}s"),
            When::MinuteOfHour { every, .. } => format!("*/{every} * * * *"),
        }
    }

    fn zone(self) -> Option<Name> {
        match self {
            When::Every(_) => None,
            When::MinuteOfHour { zone, .. } => Some(zone.into()),
        }
    }

    /// Whether a schedule that was set then is due at this time.
    fn is_due(self, set_at: Timestamp, due: Timestamp) -> bool {
        let is_right = match self {
            When::Every(seconds) => due.0.saturating_sub(set_at.0).is_multiple_of(seconds * 1_000),
            When::MinuteOfHour { every, ahead, .. } => {
                let minute = due.0 / 60_000;
                due.0.is_multiple_of(60_000) && ((minute + ahead) % 60).is_multiple_of(every)
            }
        };
        due.0 > set_at.0 && is_right
    }

    /// The longest time between two due times, in milliseconds.
    fn interval(self) -> u64 {
        match self {
            When::Every(seconds) => seconds * 1_000,
            When::MinuteOfHour { every, .. } => every * 60_000,
        }
    }
}

struct ScheduleWorld {
    random: Random,
    now: Timestamp,
    broker: Broker,
    mutation: Mutation,
    mailbox: Arc<Mailbox>,
    session: SessionId,
    /// The next event that the watcher waits for.
    next_event: u64,
    /// When each schedule was set, as the watcher heard it.
    set_at: BTreeMap<Name, Timestamp>,
    /// The due times that fired, as the watcher heard it: these are on disk.
    fired: BTreeMap<Name, BTreeSet<Timestamp>>,
    broken: Vec<String>,
}

/// Simulates the schedules of one seed. Returns the broken promises.
pub(crate) fn live(seed: u64, mutation: Mutation) -> Vec<String> {
    let mut random = Random::new(seed ^ 0x7363_6864);
    let now = Timestamp(1_700_000_000_000);
    let broker = Broker::start(MemoryDisk::new(), random.next(), now, mutation).expect("an empty disk opens");
    let mut world = ScheduleWorld {
        random,
        now,
        broker,
        mutation,
        mailbox: Arc::default(),
        session: SessionId(0),
        next_event: 1,
        set_at: BTreeMap::new(),
        fired: BTreeMap::new(),
        broken: Vec::new(),
    };
    world.connect();
    for (name, when, catch_up, overlap) in SCHEDULES {
        let task = NewTask::new(TaskId::from_u128(0), "q");
        let schedule = NewSchedule {
            catch_up,
            overlap,
            jitter: Duration::from_millis(if name == "slow" { 30_000 } else { 0 }),
            body: vec![b'x'; 100].into(),
            zone: when.zone(),
            ..NewSchedule::new(name, when.text(), task)
        };
        world.command(Command::SetSchedule(Box::new(schedule)));
    }
    // A reply is a promise; what is not on disk yet was not promised.
    world.settle();
    for _ in 0..STEPS {
        world.step();
        if !world.broken.is_empty() {
            return world.broken;
        }
    }
    world.finish();
    world.broken
}

impl RestartingWorld for ScheduleWorld {
    const DOWN_MILLIS: u64 = DOWN_MILLIS;

    fn parts(&mut self) -> WorldParts<'_> {
        let Self { random, now, broker, mutation, broken, .. } = self;
        WorldParts { random, now, broker, mutation: *mutation, broken }
    }

    fn reconnect(&mut self) {
        self.connect();
    }

    fn hear(&mut self) {
        let mut deliveries = Vec::new();
        self.mailbox.take(&mut deliveries);
        for delivery in deliveries {
            if let Delivery::Event { event, .. } = delivery {
                self.next_event = event.seq + 1;
                self.heard(&event);
            }
        }
    }
}

impl ScheduleWorld {
    fn step(&mut self) {
        match self.random.between(0, 100) {
            0..4 => self.restart(true),
            4..8 => self.restart(false),
            8..11 => {
                let jump = self.random.between(1, JUMP_MILLIS);
                self.set_clock(self.now + Duration::from_millis(jump));
            }
            11..14 => {
                let jump = self.random.between(1, JUMP_MILLIS);
                self.set_clock(Timestamp(self.now.0.saturating_sub(jump)));
            }
            14..20 => {
                // These two may miss due times, and never fire one twice.
                let schedule: Name = (*self.random.pick(&["last", "none"])).into();
                let command = match self.random.between(0, 3) {
                    0 => Command::PauseSchedule { schedule },
                    _ => Command::ResumeSchedule { schedule },
                };
                self.command(command);
            }
            20..24 => {
                self.broker.keep();
            }
            _ => {
                let span = self.random.between(1, STEP_MILLIS);
                self.now = self.now + Duration::from_millis(span);
            }
        }
        let step = self.broker.turn(self.now);
        self.after(&step);
    }

    fn set_clock(&mut self, to: Timestamp) {
        self.broker.set_clock(self.now, to);
        self.now = to;
    }

    fn connect(&mut self) {
        (self.session, self.mailbox) = self.broker.open(&"watcher".into());
        let watch = Watch { watch: 1, from: Some(self.next_event), ..Watch::default() };
        self.ask(Request::Watch(watch));
    }

    fn command(&mut self, command: Command) {
        self.ask(Request::Command(command));
    }

    fn ask(&mut self, request: Request) {
        let step = self.broker.take(self.now, self.session, vec![Ask { token: 1, request }]);
        self.after(&step);
    }

    fn heard(&mut self, event: &Event) {
        let EventSubject::Schedule { schedule, .. } = &event.about else { return };
        match event.kind {
            EventData::ScheduleSet => {
                self.set_at.insert(schedule.clone(), event.at);
            }
            EventData::ScheduleFired { due, .. } => {
                let fired = self.fired.entry(schedule.clone()).or_default();
                if !fired.insert(due) {
                    self.broken.push(format!("schedule {schedule} fired twice for {due}"));
                }
                if fired.last() != Some(&due) {
                    self.broken.push(format!("schedule {schedule} fired for {due} after a later time"));
                }
            }
            _ => {}
        }
    }

    /// The clock goes on beyond every time it ever showed, and everything is written.
    fn finish(&mut self) {
        self.now = self.now + Duration::from_millis(JUMP_MILLIS * 2);
        for _ in 0..20 {
            self.now = self.now + Duration::from_secs(1);
            self.settle();
        }
        for (name, when, catch_up, overlap) in SCHEDULES {
            let fired = self.fired.remove(name).unwrap_or_default();
            let Some(set_at) = self.set_at.get(name).copied() else {
                self.broken.push(format!("schedule {name} was set and is lost"));
                continue;
            };
            if let Some(wrong) = fired.iter().find(|due| !when.is_due(set_at, **due)) {
                self.broken.push(format!("schedule {name} fired for {wrong}, when it was not due"));
            }
            if catch_up == CatchUp::All && overlap == Overlap::Queue {
                // The last one may wait for its jitter.
                let until = self.now.0 - when.interval();
                // Every due time is a whole number of seconds after the schedule was set, or a full minute.
                let seconds = (1..).map(|count| Timestamp(set_at.0 + count * 1_000));
                let minutes = (1..).map(|count| Timestamp((set_at.0 / 60_000 + count) * 60_000));
                let all: Vec<Timestamp> = match when {
                    When::Every(_) => seconds.take_while(|due| due.0 <= until).collect(),
                    When::MinuteOfHour { .. } => minutes.take_while(|due| due.0 <= until).collect(),
                };
                let missing = all.into_iter().find(|due| when.is_due(set_at, *due) && !fired.contains(due));
                if let Some(missing) = missing {
                    self.broken.push(format!("schedule {name} never fired for {missing}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_worlds_fire_each_due_time_once() {
        for seed in 0..40 {
            assert_eq!(live(seed, Mutation::None), Vec::<String>::new(), "seed {seed}");
        }
    }

    #[test]
    fn a_disk_that_does_not_sync_fires_twice_and_is_caught() {
        assert!((0..100).any(|seed| !live(seed, Mutation::ForgetSync).is_empty()));
    }
}
