//! Tasks that run zero times or once (`on_lost = pause`), on workers whose protocol has no message for a start: the broker
//! dies in the moment in which the body leaves through the door.

mod support;

use std::time::Duration;

use bytes::Bytes;
use support::majordomo::{PATH, frames};
use support::world::World;
use tenure_door_zmq::Settings;
use tenure_hub::words::{OnLost, StateName};

const BODY: &str = "once at most";
/// Longer than the broker waits for workers that held tasks when it died.
const LONG: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Majordomo,
    MajordomoTwo,
    Plugin,
    PingPong,
}

const KINDS: [Kind; 4] = [Kind::Majordomo, Kind::MajordomoTwo, Kind::Plugin, Kind::PingPong];

impl Kind {
    fn queue(self) -> &'static str {
        match self {
            Kind::Majordomo | Kind::MajordomoTwo => "echo",
            Kind::Plugin => PATH,
            Kind::PingPong => "pingpong",
        }
    }

    /// A worker without an identity of its own that is ready for a job.
    fn joins(self, world: &mut World, worker: &str) {
        match self {
            Kind::PingPong => world.ping_pong_worker(worker),
            Kind::Majordomo | Kind::MajordomoTwo | Kind::Plugin => world.majordomo(worker),
        }
        match self {
            Kind::Majordomo => world.says(worker, frames(&["", "MDPW01", "\x01", "echo"])),
            Kind::MajordomoTwo => world.says(worker, frames(&["MDPW02", "\x01", "echo"])),
            Kind::PingPong => world.says(worker, frames(&["", "READY"])),
            Kind::Plugin => {
                let plugin = format!("{{\"Path\": {PATH:?}, \"PluginVersion\": \"v1\"}}");
                world.says(worker, frames(&["", "MDPW01_PL", "\x06", "1", "node", &plugin]));
                world.says(worker, frames(&["", "MDPW01_PL", "\x04", "1"]));
            }
        }
    }
}

/// Whether the worker was sent the job.
fn has_job(world: &mut World, worker: &str) -> bool {
    let has_body = |frame: &Bytes| frame.windows(BODY.len()).any(|some| some == BODY.as_bytes());
    std::iter::from_fn(|| world.hears(worker)).flatten().any(|frame| has_body(&frame))
}

/// The broker dies when the job has left, comes back, and another worker is there. Whether that one gets it too.
fn runs_again(kind: Kind, on_lost: OnLost) -> (bool, World) {
    let mut world = World::new(Settings::default());
    kind.joins(&mut world, "first");
    world.dies_after(BODY);
    world.submits_elsewhere(kind.queue(), on_lost, BODY.as_bytes());
    assert!(has_job(&mut world, "first"), "{kind:?}");
    world.restarts();
    kind.joins(&mut world, "second");
    let mut again = has_job(&mut world, "second");
    world.pass(LONG);
    kind.joins(&mut world, "third");
    again |= has_job(&mut world, "third");
    (again, world)
}

#[test]
fn a_body_that_has_left_when_the_broker_dies_is_not_sent_to_a_second_worker() {
    for kind in KINDS {
        for (on_lost, state) in [(OnLost::Pause, StateName::Paused), (OnLost::Fail, StateName::Failed)] {
            let (again, world) = runs_again(kind, on_lost);
            assert!(!again, "{kind:?}: it ran twice");
            assert_eq!(world.tasks_in(state), 1, "{kind:?} {on_lost:?}");
        }
    }
}

#[test]
fn a_task_that_may_be_requeued_is() {
    for kind in KINDS {
        let (again, _) = runs_again(kind, OnLost::Requeue);
        assert!(again, "{kind:?}");
    }
}

#[test]
fn a_careful_job_of_a_plugin_worker_ends_with_its_report() {
    let mut world = World::new(Settings::default());
    Kind::Plugin.joins(&mut world, "first");
    for _ in 0..2 {
        world.submits_elsewhere(PATH, OnLost::Pause, BODY.as_bytes());
    }
    for ended in 1..=2 {
        assert!(has_job(&mut world, "first"));
        world.says("first", frames(&["", "MDPW01_PL", "\x01", "elsewhere", "0", "done"]));
        assert_eq!(world.tasks_in(StateName::Completed), ended);
    }
}
