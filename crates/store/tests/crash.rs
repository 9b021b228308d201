//! The power fails at every moment of a story that passes through everything: appends, new segments, snapshots, the
//! copying of events, cleaning, deletion, reuse. Whatever was acknowledged is there afterwards, nothing is half.

mod support;

use support::{Broker, Picture, body, few_ended, small};
use tenure_engine::Event;
use tenure_store::{AppendError, MemoryDisk, StoreError};

/// What the story had promised when it ended.
struct Told {
    disk: MemoryDisk,
    /// The tasks after each sealed batch, in order; `promised` says up to which of them all was acknowledged.
    pictures: Vec<Picture>,
    promised: usize,
    /// How many events were acknowledged.
    events_promised: u64,
    finished: bool,
}

/// Tells the story on a disk, until it ends or the power does.
fn tell(disk: MemoryDisk) -> Told {
    let mut told =
        Told { disk, pictures: vec![Picture::new()], promised: 0, events_promised: 0, finished: false };
    let Ok(mut broker) = Broker::open(&told.disk) else { return told };
    broker.register_worker();
    for round in 0..60 {
        // Some tasks stay, so that segments with few live bytes come about.
        broker.submit(&body(round, 20 + round * 13 % 200));
        if round % 3 > 0 {
            broker.start();
            broker.complete(&body(round, round * 7 % 90));
        }
        seal(&mut broker, &mut told);
        if round % 5 == 4 {
            continue; // The next batch waits for the disk together with this one.
        }
        if !append(&mut broker, &mut told) {
            return told;
        }
        for _ in 0..4 {
            broker.maintain();
            seal(&mut broker, &mut told);
            if !append(&mut broker, &mut told) {
                return told;
            }
        }
    }
    told.finished = true;
    told
}

fn seal(broker: &mut Broker, told: &mut Told) {
    if !broker.parts.batches.is_empty() {
        broker.seal();
        told.pictures.push(broker.expected());
    }
}

fn append(broker: &mut Broker, told: &mut Told) -> bool {
    match broker.commit() {
        Ok(()) => {
            told.promised = told.pictures.len() - 1;
            told.events_promised = broker.engine.last_event();
            true
        }
        Err(AppendError::Fatal(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Opens what the power failure left and compares it with what was promised.
fn check(told: &Told, history: &[Event], found: &MemoryDisk, what: &str) {
    let broker = Broker::open(found).unwrap_or_else(|error| panic!("{what}: {error}"));
    let picture = broker.try_picture().unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut allowed = told.pictures[told.promised..].iter();
    assert!(allowed.any(|allowed| *allowed == picture), "{what}: not what was promised: {picture:#?}");
    assert!(broker.engine.last_event() >= told.events_promised, "{what}: events are missing");
    let (first, found) = broker.history(1);
    assert_eq!(first, 1, "{what}: the beginning of the history is missing");
    assert_eq!(found.len() as u64, broker.engine.last_event(), "{what}: the history has another length");
    for (found, written) in found.iter().zip(history) {
        assert_eq!((found.seq, found.at, &found.about), (written.seq, written.at, &written.about), "{what}");
        assert_eq!(found.kind.as_str(), written.kind.as_str(), "{what}");
    }
}

/// How many moments the whole story has, and all its events: it always goes the same way.
fn whole_story() -> (u64, Vec<Event>) {
    let whole = tell(MemoryDisk::new());
    assert!(whole.finished);
    let broker = Broker::open(&whole.disk.reopen()).unwrap();
    (whole.disk.changes(), broker.history(1).1)
}

#[test]
fn the_story_passes_through_everything() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.register_worker();
    let mut events = Vec::new();
    for round in 0..60 {
        broker.submit(&body(round, 20 + round * 13 % 200));
        if round % 3 > 0 {
            broker.start();
            broker.complete(&body(round, round * 7 % 90));
        }
        broker.commit().unwrap();
        for _ in 0..4 {
            broker.maintain();
            broker.commit().unwrap();
        }
        events.extend(broker.parts.maintenance.events());
    }
    let snapshots = events
        .iter()
        .filter(|events| matches!(events, tenure_store::MaintenanceEvent::Snapshot { .. }))
        .count();
    let deleted: usize = events
        .iter()
        .map(|events| match events {
            tenure_store::MaintenanceEvent::Snapshot { segments_deleted, .. } => *segments_deleted,
            tenure_store::MaintenanceEvent::Cleaned { .. } => 0,
            tenure_store::MaintenanceEvent::NoRoomForSnapshot { .. } => panic!("there is room"),
            tenure_store::MaintenanceEvent::Failed { doing, error } => panic!("{doing}: {error}"),
        })
        .sum();
    let cleaned = events
        .iter()
        .filter(|events| matches!(events, tenure_store::MaintenanceEvent::Cleaned { .. }))
        .count();
    assert!(snapshots >= 3 && deleted >= 2 && cleaned >= 2, "{snapshots} {deleted} {cleaned}");
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_power_fails() {
    let (changes, history) = whole_story();
    for moment in 0..changes {
        let disk = MemoryDisk::new();
        disk.fail_power_after(moment);
        let told = tell(disk);
        for seed in 0..6 {
            let found = told.disk.crash(moment * 100 + seed);
            check(&told, &history, &found, &format!("power failed at change {moment}, seed {seed}"));
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed_anywhere() {
    let (changes, history) = whole_story();
    for moment in (0..changes).step_by(3) {
        let disk = MemoryDisk::new();
        disk.fail_power_after(moment);
        let told = tell(disk);
        check(&told, &history, &told.disk.reopen(), &format!("killed at change {moment}"));
    }
}

#[test]
fn the_power_may_fail_again_while_the_store_is_opened() {
    let (changes, history) = whole_story();
    for moment in (0..changes).step_by(11) {
        let disk = MemoryDisk::new();
        disk.fail_power_after(moment);
        let told = tell(disk);
        for again in 0..6 {
            let found = told.disk.crash(moment);
            found.fail_power_after(again);
            match Broker::open(&found) {
                Ok(_) => break,
                Err(StoreError::Io { .. } | StoreError::Sync { .. }) => {
                    check(
                        &told,
                        &history,
                        &found.crash(again),
                        &format!("power failed at {moment} and again at {again}"),
                    );
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The proof that the stories above would notice: disks that say yes to syncs and do nothing, for everything or for one
/// kind of file. Every kind of sync is there for a reason.
#[test]
fn a_disk_that_ignores_any_kind_of_sync_is_found_out() {
    let (changes, history) = whole_story();
    let not_found_out: Vec<&str> = ["", "journal", "snapshot", "events", "spare", "directory"]
        .into_iter()
        .filter(|kind| {
            !(0..changes).any(|moment| {
                let disk = MemoryDisk::new();
                disk.ignore_sync_of(kind);
                disk.fail_power_after(moment);
                let told = tell(disk);
                (0..4).any(|seed| {
                    let found = told.disk.crash(seed);
                    std::panic::catch_unwind(|| check(&told, &history, &found, "")).is_err()
                })
            })
        })
        .collect();
    assert_eq!(not_found_out, Vec::<&str>::new());
}

#[test]
fn a_story_with_other_settings_ends_the_same() {
    let disk = MemoryDisk::new();
    let settings = tenure_store::StoreSettings { spare_segments: 0, snapshot_slice: 1, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    broker.register_worker();
    for round in 0..40 {
        broker.submit(&body(round, 100));
        broker.start();
        broker.complete(b"done");
        broker.commit().unwrap();
        broker.rest();
    }
    assert_eq!(Broker::open(&disk.crash(3)).unwrap().picture(), broker.picture());
}
