//! Three brokers that share a replicated journal keep every promise, and each deliberate mistake is caught.

use tenure_sim::cluster::live;
use tenure_store::ReplicationMutation;

/// How many worlds a mistake may survive.
const WORLDS: u64 = 400;

#[test]
fn sixty_groups_of_three_brokers_keep_every_promise() {
    let (mut takeovers, mut deposed, mut refilled_bytes, mut answers, mut refused) = (0, 0, 0, 0, 0);
    for seed in 0..60 {
        let outcome = live(seed, None);
        assert!(outcome.broken.is_empty(), "seed {seed}: {:?}", outcome.broken);
        takeovers += outcome.takeovers;
        deposed += outcome.deposed;
        refilled_bytes += outcome.refilled_bytes;
        answers += outcome.answers;
        refused += outcome.refused;
    }
    assert!(takeovers > 60, "brokers take over: {takeovers}");
    assert!(deposed > 5, "leaders are deposed: {deposed}");
    assert!(refilled_bytes > 0, "the journal gets back what it lost");
    assert!(refused > 20, "submissions are refused while the journal is away: {refused}");
    assert!(answers > 100, "queries are answered: {answers}");
}

#[test]
fn the_same_seed_tells_the_same_story_of_a_group() {
    let (first, second) = (live(3, None), live(3, None));
    assert_eq!(
        (first.tasks, first.happenings, first.takeovers, first.answers),
        (second.tasks, second.happenings, second.takeovers, second.answers)
    );
}

#[test]
fn a_doubt_resolved_by_reading_is_caught() {
    assert!(is_caught(ReplicationMutation::ResolveByReading));
}

#[test]
fn an_epoch_kept_over_a_new_connection_is_caught() {
    assert!(is_caught(ReplicationMutation::KeepEpoch));
}

#[test]
fn an_end_read_with_the_statement_that_begins_the_epoch_is_caught() {
    assert!(is_caught(ReplicationMutation::ReadEndTogether));
}

#[test]
fn a_commit_that_is_not_replicated_and_taken_for_it_is_caught() {
    assert!(is_caught(ReplicationMutation::IgnoreNotice));
}

#[test]
fn a_local_file_written_before_the_commit_is_caught() {
    assert!(is_caught(ReplicationMutation::WriteLocalFirst));
}

#[test]
fn a_takeover_without_the_tail_is_caught() {
    assert!(is_caught(ReplicationMutation::SkipTail));
}

#[test]
fn a_journal_that_does_not_get_back_what_it_lost_is_caught() {
    assert!(is_caught(ReplicationMutation::NoRefill));
}

#[test]
fn a_segment_dropped_before_its_snapshot_is_stored_is_caught() {
    assert!(is_caught(ReplicationMutation::DropEarly));
}

#[test]
fn a_leader_that_speaks_before_the_commit_is_caught() {
    assert!(is_caught(ReplicationMutation::SpeakEarly));
}

#[test]
fn a_leader_that_answers_after_its_lease_is_caught() {
    assert!(is_caught(ReplicationMutation::IgnoreLease));
}

fn is_caught(mutation: ReplicationMutation) -> bool {
    (0..WORLDS).any(|seed| !live(seed, Some(mutation)).broken.is_empty())
}
