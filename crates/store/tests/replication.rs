//! Brokers share a journal in memory: one leads, the others follow, and one of them takes over.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Broker, NOW, body, few_ended, small};
use tenure_engine::{StateName, Timestamp};
use tenure_store::{
    AppendError, JournalFaults, Member, MemoryDisk, MemoryJournal, Replica, ReplicaSettings,
    ReplicationError, StoreError, Stream,
};

const LEASE: Duration = Duration::from_secs(3);

fn replica(journal: &MemoryJournal, disk: &MemoryDisk, name: &str, instance: u64) -> Replica {
    let member = Member { name: name.to_owned(), instance, lease: LEASE, doors: "here:7171".into() };
    let settings = ReplicaSettings { member, store: small(), mutation: None };
    Replica::open(Arc::new(disk.clone()), Arc::new(journal.clone()), settings).expect("the disk is free")
}

/// A standby takes over, if it may.
fn lead(
    journal: &MemoryJournal,
    disk: &MemoryDisk,
    name: &str,
    instance: u64,
    now: Timestamp,
) -> Option<Broker> {
    journal.set_now(now);
    let mut standby = replica(journal, disk, name, instance);
    let followed = standby.follow().expect("the journal answers");
    let claim = standby.claim(&followed.state)?;
    let opened = standby.lead(claim, few_ended(), now, now).expect("the journal answers")?;
    let mut broker = Broker::of(disk, opened);
    broker.now = now;
    Some(broker)
}

/// Submits and completes tasks, with snapshots and cleaning in between.
fn work(broker: &mut Broker, rounds: usize) {
    broker.register_worker();
    for round in 0..rounds {
        broker.submit(&body(round, 20 + round * 13 % 200));
        if round % 3 > 0 {
            broker.start();
            broker.complete(&body(round, round * 7 % 90));
        }
        broker.commit().expect("nothing fails here");
        for _ in 0..4 {
            broker.maintain();
            broker.commit().expect("nothing fails here");
        }
    }
}

#[test]
fn a_broker_with_an_empty_disk_takes_over_with_every_task_its_bytes_and_all_events() {
    let journal = MemoryJournal::new(1);
    let mut first = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    work(&mut first, 60);
    first.rest();
    let (seen, history) = (first.picture(), first.history(1));
    let end = first.parts.batches.position();
    assert!(seen.len() > 20 && history.1.len() > 100, "the story is long enough");
    let second_disk = MemoryDisk::new();
    assert!(lead(&journal, &second_disk, "b2", 2, NOW).is_none(), "the lease of the first holds");
    let second = lead(&journal, &second_disk, "b2", 2, NOW + LEASE).expect("the lease has ended");
    assert_eq!(second.parts.batches.position(), end);
    assert_eq!(second.picture(), seen);
    assert_eq!(second.history(1), history);
    let last = first.submit(b"too late");
    assert!(matches!(first.commit(), Err(AppendError::Deposed { holder, epoch: 2 }) if holder == "b2"));
    assert!(second.engine.find_task(&last).is_none());
}

#[test]
fn a_standby_follows_at_every_step_and_has_nothing_left_to_read_when_it_takes_over() {
    let journal = MemoryJournal::new(2);
    let mut first = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    let disk = MemoryDisk::new();
    let mut standby = replica(&journal, &disk, "b2", 2);
    first.register_worker();
    for round in 0..80 {
        first.submit(&body(round, 90));
        first.start();
        first.complete(&body(round, 30));
        first.commit().unwrap();
        first.maintain();
        first.commit().unwrap();
        first.now = first.now + Duration::from_millis(200);
        journal.set_now(first.now);
        first.parts.writer.tick(first.now).expect("the lease is renewed");
        let followed = standby.follow().unwrap();
        assert!(standby.claim(&followed.state).is_none(), "the leader renews its lease");
    }
    first.now = first.now + LEASE / 2;
    journal.set_now(first.now);
    first.parts.writer.tick(first.now).unwrap();
    let end = standby.follow().unwrap();
    assert_eq!(end.position, first.parts.batches.position(), "a renewal confirms the newest group");
    assert!(first.parts.writer.lease().unwrap().holds(first.now));
    assert!(!first.parts.writer.lease().unwrap().holds(first.now + LEASE));
}

#[test]
fn a_leader_finds_out_whether_its_append_was_done_when_the_answer_is_lost() {
    for (cut, answer_lost, late, doubt) in [(100, 0, 0, 0), (0, 100, 0, 0), (0, 0, 100, 0), (0, 0, 0, 100)] {
        let journal = MemoryJournal::new(3);
        let mut leader = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
        leader.submit(b"certain");
        leader.commit().unwrap();
        let task = leader.submit(b"in doubt");
        journal.set_faults(JournalFaults { cut, answer_lost, late, doubt });
        assert!(matches!(leader.commit(), Err(AppendError::Away { .. })));
        assert_eq!(leader.frames.len(), 1, "the frame stays with the caller");
        journal.set_faults(JournalFaults::default());
        leader.submit(b"after it");
        leader.commit().expect("the journal answers again");
        assert_eq!(leader.parts.writer.refilled_bytes(), 0);
        let next = lead(&journal, &MemoryDisk::new(), "b2", 2, NOW + LEASE).expect("the lease has ended");
        assert_eq!(next.picture().len(), 3);
        assert_eq!(next.picture()[&task].body, b"in doubt");
    }
}

#[test]
fn a_journal_that_loses_what_it_acknowledged_gets_it_back_from_the_leader() {
    let journal = MemoryJournal::new(4);
    let mut leader = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    for number in 0..30 {
        leader.submit(&body(number, 100));
        leader.commit().unwrap();
    }
    let end = journal.end(Stream::Tasks);
    journal.fail_over_losing(3);
    assert!(journal.end(Stream::Tasks) < end, "acknowledged groups are gone");
    leader.submit(b"one more");
    leader.commit().expect("the leader restores them first");
    assert!(journal.end(Stream::Tasks) > end);
    assert!(leader.parts.writer.refilled_bytes() > 0);
    let next = lead(&journal, &MemoryDisk::new(), "b2", 2, NOW + LEASE).expect("the lease has ended");
    assert_eq!(next.picture(), leader.picture());
}

#[test]
fn a_standby_that_is_ahead_of_the_journal_restores_it_when_it_takes_over() {
    let journal = MemoryJournal::new(5);
    let mut leader = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    let disk = MemoryDisk::new();
    let mut standby = replica(&journal, &disk, "b2", 2);
    for number in 0..10 {
        leader.submit(&body(number, 100));
        leader.commit().unwrap();
    }
    leader.parts.writer.tick(NOW + LEASE / 2).unwrap();
    standby.follow().unwrap();
    drop(standby);
    let (seen, end) = (leader.picture(), journal.end(Stream::Tasks));
    journal.fail_over_losing(4);
    let next = lead(&journal, &disk, "b2", 2, NOW + LEASE * 2).expect("the lease has ended");
    assert_eq!((next.picture(), journal.end(Stream::Tasks)), (seen, end));
}

#[test]
fn a_copy_of_another_journal_is_refused_by_name() {
    let (one, other) = (MemoryJournal::new(6), MemoryJournal::new(6));
    let disk = MemoryDisk::new();
    let mut first = lead(&one, &disk, "b1", 1, NOW).expect("the group is free");
    first.submit(b"in one");
    first.commit().unwrap();
    drop(first);
    let mut second = lead(&other, &MemoryDisk::new(), "b2", 2, NOW).expect("the group is free");
    second.submit(b"in the other, which is longer");
    second.commit().unwrap();
    second.parts.writer.tick(NOW + LEASE / 2).unwrap();
    let mut standby = replica(&other, &disk, "b1", 3);
    let refused = standby.follow();
    assert!(matches!(refused, Err(StoreError::Diverged { .. })), "{refused:?}");
}

#[test]
fn a_damaged_local_file_is_fetched_again() {
    let journal = MemoryJournal::new(7);
    let disk = MemoryDisk::new();
    let mut first = lead(&journal, &disk, "b1", 1, NOW).expect("the group is free");
    work(&mut first, 60);
    first.rest();
    let seen = first.picture();
    drop(first);
    for prefix in ["snapshot-", "events-", "journal-"] {
        let name = tenure_store::Disk::list(&disk).unwrap().into_iter().find(|name| name.starts_with(prefix));
        disk.flip(&name.expect("there is one"), 60, 0xff);
    }
    let next = lead(&journal, &disk, "b1", 2, NOW).expect("an earlier process of this member led");
    assert_eq!(next.picture(), seen);
}

#[test]
fn a_closed_leader_lets_another_lead_at_once() {
    let journal = MemoryJournal::new(8);
    let mut first = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    let task = first.submit(b"kept");
    first.commit().unwrap();
    first.parts.writer.close(NOW).unwrap();
    let second = lead(&journal, &MemoryDisk::new(), "b2", 2, NOW).expect("the first has released its lease");
    assert_eq!(second.engine.find_task(&task).unwrap().state.name(), StateName::Ready);
}

#[test]
fn a_lease_that_was_released_is_not_renewed() {
    let journal = MemoryJournal::new(9);
    let mut first = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    first.submit(b"kept");
    first.commit().unwrap();
    first.parts.writer.close(NOW).unwrap();
    // Its thread looks once more whether a renewal is due.
    journal.set_now(NOW + LEASE);
    assert_eq!(first.parts.writer.tick(NOW + LEASE).unwrap(), None);
    first.submit(b"too late");
    assert!(matches!(first.commit(), Err(AppendError::Fatal(StoreError::Failed))));
    lead(&journal, &MemoryDisk::new(), "b2", 2, NOW + LEASE).expect("the first has released its lease");
}

#[test]
fn a_journal_that_is_away_is_said_so_and_loses_nothing() {
    let journal = MemoryJournal::new(9);
    let mut leader = lead(&journal, &MemoryDisk::new(), "b1", 1, NOW).expect("the group is free");
    leader.submit(b"waits");
    journal.go_away_until(NOW + LEASE / 3);
    assert!(matches!(leader.commit(), Err(AppendError::Away { .. })));
    let mut standby = replica(&journal, &MemoryDisk::new(), "b2", 2);
    let followed = standby.follow();
    assert!(matches!(followed, Err(StoreError::Replication(ReplicationError::Away(_)))), "{followed:?}");
    journal.set_now(NOW + LEASE / 3);
    leader.commit().expect("it answers again");
    assert_eq!(leader.picture().len(), 1);
}
