//! The checks can fail: deliberate mistakes are caught.

use tenure_sim::{Mutation, Plan, live, run};

/// How many worlds a mistake may survive.
const WORLDS: u64 = 200;

#[test]
fn a_disk_that_does_not_sync_is_caught() {
    assert!(is_caught(Mutation::ForgetSync));
}

#[test]
fn a_hub_that_speaks_before_the_sync_is_caught() {
    assert!(is_caught(Mutation::SpeakEarly));
}

#[test]
fn a_broker_that_blames_workers_for_its_own_absence_is_caught() {
    assert!(is_caught(Mutation::ForgetAbsence));
}

#[test]
fn a_log_of_topics_that_is_not_synced_is_caught() {
    assert!(is_caught(Mutation::ForgetTopicSync));
}

#[test]
fn a_log_of_stored_keys_that_is_not_synced_is_caught() {
    assert!(is_caught(Mutation::ForgetKeySync));
}

#[test]
fn a_subscriber_that_acknowledges_what_it_has_not_read_is_caught() {
    assert!(is_caught(Mutation::ReadEarly));
}

#[test]
fn a_hook_that_forgets_what_is_on_its_way_is_caught() {
    assert!(is_caught(Mutation::ForgetOpenEvents));
}

#[test]
fn a_worker_that_begins_before_its_start_is_on_disk_is_caught() {
    let is_found = |what: &String| what.contains("must not run twice");
    let caught = (0..WORLDS).find(|seed| run(*seed, Mutation::BeginEarly).broken.iter().any(is_found));
    assert!(caught.is_some(), "in no world");
}

#[test]
fn clocks_that_run_before_the_worker_hears_are_caught() {
    // Many stalls, idle workers, and nothing else that excuses a second start.
    let broken = |seed, mutation| {
        let plan = Plan {
            cut_percent: 0,
            worker_dies_percent: 0,
            power_fails_percent: 0,
            broker_dies_percent: 0,
            broker_stops_percent: 0,
            disk_stalls_percent: 30,
            workers: 4,
            client_acts_millis: 4_000,
            ..Plan::from_seed(seed, mutation)
        };
        live(plan).broken
    };
    let is_found = |what: &String| what.contains("which is healthy");
    let caught = (0..WORLDS).find(|seed| broken(*seed, Mutation::StartClocksEarly).iter().any(is_found));
    let seed = caught.expect("in no world");
    assert_eq!(broken(seed, Mutation::None), Vec::<String>::new(), "world {seed} without the mistake");
}

fn is_caught(mutation: Mutation) -> bool {
    (0..WORLDS).any(|seed| !run(seed, mutation).broken.is_empty())
}
