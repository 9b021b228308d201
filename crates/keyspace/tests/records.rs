//! What is written down gives the same space again: from the beginning, and from a log that was rewritten while the
//! space changed.

mod common;

use common::{blocking, command};
use proptest::prelude::*;
use tenure_keyspace::{Blocking, Command, Keyspace, Record, Settings, SweepPlace, Timestamp};

#[derive(Clone, Debug)]
enum Step {
    Run(Command),
    Together(Vec<Command>),
    Wait(Blocking),
    Pass(u64),
    Reap,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => command().prop_map(Step::Run),
        3 => proptest::collection::vec(command(), 1..5).prop_map(Step::Together),
        3 => blocking().prop_map(Step::Wait),
        4 => (0..1500u64).prop_map(Step::Pass),
        1 => Just(Step::Reap),
    ]
}

struct World {
    space: Keyspace,
    now: Timestamp,
}

impl World {
    fn new(settings: Settings) -> World {
        World { space: Keyspace::new(settings), now: Timestamp(1_700_000_000_000) }
    }

    fn take(&mut self, step: &Step) -> Record {
        match step {
            Step::Run(command) => self.space.run(command, self.now).record,
            Step::Together(commands) => match self.space.run_all(commands, &[], self.now) {
                tenure_keyspace::Transaction::CommandOutcome { record, .. } => record,
                tenure_keyspace::Transaction::Aborted => panic!("nothing is watched"),
            },
            Step::Wait(command) => {
                self.space.run_or_wait(command, self.now).map_or(Record::default(), |ran| ran.record)
            }
            Step::Pass(millis) => {
                self.now.0 += millis;
                Record::default()
            }
            Step::Reap => self.space.expire(self.now, 2),
        }
    }
}

/// As it lies on a disk.
fn stored(record: &Record) -> Record {
    rmp_serde::from_slice(&rmp_serde::to_vec(record).expect("it can be written")).expect("it reads back")
}

fn restored(log: &[Record]) -> Keyspace {
    let mut space = Keyspace::new(Settings::default());
    log.iter().for_each(|record| space.restore(&stored(record)));
    space
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3000 }))]

    #[test]
    fn a_log_from_the_beginning_gives_the_same_space(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::new(Settings::default());
        let log: Vec<Record> = steps.iter().map(|step| world.take(step)).collect();
        prop_assert_eq!(&restored(&log), &world.space);
    }

    #[test]
    fn a_log_that_was_rewritten_key_by_key_gives_the_same_space(
        before in proptest::collection::vec(step(), 1..60),
        after in proptest::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(Settings::default());
        for step in &before {
            world.take(step);
        }
        // The new log begins here: what was before is gone.
        let (mut log, mut place) = (Vec::new(), Some(SweepPlace::default()));
        for step in &after {
            log.push(world.take(step));
            if let Some(at) = &place {
                let (record, next) = world.space.sweep(at, 1);
                log.push(record);
                place = next;
            }
        }
        while let Some(at) = &place {
            let (record, next) = world.space.sweep(at, 1);
            log.push(record);
            place = next;
        }
        prop_assert_eq!(&restored(&log), &world.space);
    }

    #[test]
    fn limits_hold_and_a_refused_command_changes_nothing(steps in proptest::collection::vec(step(), 1..80)) {
        let settings = Settings { bytes_max: 3_000, keys_max: 3 };
        let mut world = World::new(settings);
        let mut log = Vec::new();
        for step in &steps {
            log.push(world.take(step));
            prop_assert!(world.space.len() <= 3);
            prop_assert!(world.space.bytes() <= 3_000, "{} bytes", world.space.bytes());
        }
        prop_assert_eq!(&restored(&log), &world.space);
    }
}
