//! The checks can fail: deliberate mistakes are caught.

use tenure_sim::{Mutation, run};

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

fn is_caught(mutation: Mutation) -> bool {
    (0..WORLDS).any(|seed| !run(seed, mutation).broken.is_empty())
}
