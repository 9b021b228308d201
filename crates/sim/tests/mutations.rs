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

fn is_caught(mutation: Mutation) -> bool {
    (0..WORLDS).any(|seed| !run(seed, mutation).broken.is_empty())
}
