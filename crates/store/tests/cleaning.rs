//! The disk stays small, restarts stay short, and nothing that lives is lost on the way.

mod support;

use std::time::Duration;

use support::{Broker, body, few_ended, small};
use tenure_engine::{Command, Settings};
use tenure_store::{Disk, Events, MaintenanceEvent, MemoryDisk, Pace, StoreSettings};

fn used(disk: &MemoryDisk) -> usize {
    disk.list().unwrap().iter().map(|name| disk.content(name).unwrap().len()).sum()
}

#[test]
fn a_long_life_with_few_live_tasks_takes_little_of_the_disk() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { events_kept: 50, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    broker.register_worker();
    let mut most = 0;
    for round in 0..600 {
        broker.submit(&body(round, 150));
        broker.start();
        broker.complete(&body(round, 60));
        broker.commit().unwrap();
        broker.rest();
        most = most.max(used(&disk));
    }
    assert!(most < 25_000, "{most} bytes for four tasks");
    assert_eq!(Broker::open(&disk.crash(1)).unwrap().picture(), broker.picture());
}

#[test]
fn long_lived_tasks_among_short_ones_survive_cleaning() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { events_kept: 50, ..small() };
    let mut broker = Broker::open_with(&disk, settings.clone(), few_ended()).unwrap();
    let mut kept = Vec::new();
    let mut cleaned = 0;
    for round in 0..300 {
        let id = broker.submit(&body(round, 150));
        if round % 10 == 0 {
            kept.push((id, body(round, 150)));
        } else {
            broker.ask(2, Command::Cancel { task: id, reason: None });
        }
        broker.commit().unwrap();
        broker.rest();
        for events in broker.parts.maintenance.events() {
            match events {
                MaintenanceEvent::Cleaned { .. } => cleaned += 1,
                MaintenanceEvent::Snapshot { .. } => {}
                MaintenanceEvent::NoRoomForSnapshot { .. } => panic!("there is room"),
                MaintenanceEvent::Failed { doing, error } => panic!("{doing}: {error}"),
            }
        }
    }
    assert!(cleaned > 5, "{cleaned} segments were cleaned");
    let live: usize = kept.iter().map(|(_, body)| body.len()).sum();
    assert!(used(&disk) < 4 * live + 20_000, "{} bytes for {live} live ones", used(&disk));
    for (seed, disk) in [disk.reopen(), disk.crash(1), disk.crash(2)].into_iter().enumerate() {
        let after = Broker::open_with(&disk, settings.clone(), few_ended()).unwrap();
        let picture = after.picture();
        for (id, body) in &kept {
            assert_eq!(picture[id].body, *body, "{seed}");
        }
        assert_eq!(picture, broker.picture());
    }
}

#[test]
fn results_move_too() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, small(), Settings::default()).unwrap();
    broker.register_worker();
    broker.submit(b"");
    broker.start();
    let kept = broker.complete(&body(1, 40)).unwrap();
    let again = broker.submit(b"");
    let (mut moved, mut last) = (0, Vec::new());
    for round in 0..200 {
        broker.start();
        last = body(round, 150);
        assert_eq!(broker.complete(&last), Some(again));
        broker.commit().unwrap();
        broker.rest();
        // Its result is not needed any more, while the other one still is.
        if round < 199 {
            broker.ask(2, Command::Retry { task: again });
        }
        for events in broker.parts.maintenance.events() {
            if let MaintenanceEvent::Cleaned { blobs, .. } = events {
                moved += blobs;
            }
        }
    }
    assert!(moved > 0, "a result was moved");
    assert!(used(&disk) < 40_000, "{} bytes", used(&disk));
    let after = Broker::open_with(&disk.crash(0), small(), Settings::default()).unwrap();
    assert_eq!(after.picture()[&kept].result, body(1, 40));
    assert_eq!(after.picture()[&again].result, last);
}

#[test]
fn the_counts_of_live_bytes_are_the_same_after_a_restart() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.register_worker();
    for round in 0..80 {
        broker.submit(&body(round, 90));
        if round % 2 == 0 {
            broker.start();
            broker.complete(&body(round, 30));
        }
        broker.commit().unwrap();
        broker.rest();
    }
    let before = broker.parts.batches.live_bytes();
    let after = Broker::open(&disk.reopen()).unwrap().parts.batches.live_bytes();
    assert_eq!(before, after);
}

#[test]
fn a_restart_reads_the_snapshot_and_only_the_journal_behind_it() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, StoreSettings::default(), Settings::default()).unwrap();
    for number in 0..50 {
        broker.submit(&body(number, 10));
    }
    broker.take_snapshot();
    broker.submit(b"later");
    broker.commit().unwrap();
    let after = Broker::open(&disk.crash(0)).unwrap();
    assert_eq!((after.report.snapshot_tasks, after.report.frames, after.report.tasks), (50, 1, 51));
}

#[test]
fn a_snapshot_may_be_taken_while_everything_changes() {
    let disk = MemoryDisk::new();
    let settings =
        StoreSettings { snapshot_slice: 2, snapshot_bytes: 1 << 30, segment_bytes: 2000, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    broker.register_worker();
    for number in 0..40 {
        broker.submit(&body(number, 20));
    }
    broker.commit().unwrap();
    broker.parts.maintenance.ask_for_snapshot();
    for number in 0..60 {
        broker.maintain();
        broker.submit(&body(100 + number, 20));
        broker.start();
        broker.complete(&body(number, 5));
        // Sometimes maintenance meets an open batch.
        if number % 3 != 1 {
            broker.commit().unwrap();
        }
        if number == 20 {
            assert!(broker.parts.maintenance.events().is_empty(), "it is still being taken");
        }
    }
    broker.commit().unwrap();
    broker.rest();
    assert!(
        broker
            .parts
            .maintenance
            .events()
            .iter()
            .any(|events| matches!(events, MaintenanceEvent::Snapshot { .. }))
    );
    for seed in 0..10 {
        assert_eq!(Broker::open(&disk.crash(seed)).unwrap().picture(), broker.picture(), "seed {seed}");
    }
}

#[test]
fn a_disk_without_room_for_a_snapshot_fails_it_and_tries_again_later() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { spare_segments: 0, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    for number in 0..20 {
        broker.submit(&body(number, 30));
    }
    broker.commit().unwrap();
    disk.limit_capacity(Some(used(&disk) as u64 + 100));
    broker.parts.maintenance.ask_for_snapshot();
    for _ in 0..50 {
        broker.maintain();
    }
    let events = broker.parts.maintenance.events();
    assert!(matches!(events[..], [MaintenanceEvent::NoRoomForSnapshot { .. }]), "{events:?}");
    assert!(disk.list().unwrap().iter().all(|name| !name.ends_with(".tmp")), "nothing half takes room");
    disk.limit_capacity(None);
    broker.take_snapshot();
    assert!(
        broker
            .parts
            .maintenance
            .events()
            .iter()
            .any(|events| matches!(events, MaintenanceEvent::Snapshot { .. }))
    );
    assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), broker.picture());
}

#[test]
fn events_beyond_the_count_are_dropped_and_the_gap_is_said() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { events_kept: 100, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    for round in 0..200 {
        let id = broker.submit(&body(round, 100));
        broker.ask(2, Command::Cancel { task: id, reason: Some("enough".into()) });
        broker.commit().unwrap();
        broker.rest();
    }
    broker.take_snapshot();
    let last = broker.engine.last_event();
    let (first, events) = broker.history(1);
    assert_eq!(events.len() as u64, last + 1 - first);
    let kept = last + 1 - first;
    assert!((100..140).contains(&kept), "{kept} of {last} are kept");
}

#[test]
fn the_history_is_kept_when_segments_go() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { events_kept: 100, ..small() };
    let mut broker = Broker::open_with(&disk, settings.clone(), few_ended()).unwrap();
    for round in 0..30 {
        let id = broker.submit(&body(round, 100));
        broker.ask(2, Command::Cancel { task: id, reason: Some("enough".into()) });
        broker.take_snapshot();
    }
    let (first, events) = broker.history(1);
    assert_eq!(first, 1);
    assert_eq!(events.len() as u64, broker.engine.last_event());
    assert!(events.iter().zip(1..).all(|(event, number)| event.seq == number));
    let after = Broker::open_with(&disk.crash(1), settings, few_ended()).unwrap();
    assert_eq!(after.history(1).1, events);
    assert_eq!(
        after.parts.reader.events(10, 2).unwrap(),
        Events::Some { events: events[9..11].to_vec(), next: 12 }
    );
    let next = after.engine.last_event() + 1;
    assert_eq!(after.parts.reader.events(next, 5).unwrap(), Events::Some { events: Vec::new(), next });
}

#[test]
fn events_that_are_too_old_are_dropped_and_the_gap_is_said() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { events_kept_for: Duration::from_secs(3600), ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    let id = broker.submit(b"old");
    broker.ask(2, Command::Cancel { task: id, reason: None });
    broker.take_snapshot();
    assert_eq!(broker.history(1).0, 1);
    broker.tick(Duration::from_secs(4000));
    let id = broker.submit(b"new");
    broker.ask(2, Command::Cancel { task: id, reason: None });
    broker.take_snapshot();
    broker.tick(Duration::from_secs(4000));
    broker.submit(b"newest");
    broker.take_snapshot();
    let oldest = match broker.parts.reader.events(1, 10).unwrap() {
        Events::Gap { oldest } => oldest,
        Events::Some { .. } => panic!("they should be gone"),
    };
    assert!(oldest > 1);
    let (first, events) = broker.history(1);
    assert_eq!(first, oldest);
    assert_eq!(events.last().unwrap().seq, broker.engine.last_event());
}

#[test]
fn the_newest_events_stay_however_old_they_are() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { events_kept_for: Duration::from_secs(3600), ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    let id = broker.submit(b"the last for a long time");
    broker.ask(2, Command::Cancel { task: id, reason: None });
    broker.take_snapshot();
    let before = broker.history(1);
    broker.tick(Duration::from_secs(30 * 24 * 3600));
    broker.take_snapshot();
    assert_eq!(broker.history(1), before);
}

#[test]
fn a_short_journal_is_not_worth_a_snapshot_at_shutdown() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, StoreSettings::default(), few_ended()).unwrap();
    broker.submit(b"small");
    broker.commit().unwrap();
    broker.parts.maintenance.shut_down(&broker.parts.batches);
    broker.rest();
    assert!(broker.parts.maintenance.events().is_empty());
    broker.submit(&body(1, 2 << 20));
    broker.commit().unwrap();
    broker.parts.maintenance.shut_down(&broker.parts.batches);
    broker.rest();
    assert!(matches!(broker.parts.maintenance.events()[..], [MaintenanceEvent::Snapshot { .. }]));
}

#[test]
fn a_writer_that_leaves_syncing_to_the_system_still_serves_a_snapshot() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { sync: tenure_store::Sync::Os, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    broker.submit(b"not synced");
    broker.commit().unwrap();
    assert_eq!(
        broker.parts.writer.tick(broker.now).unwrap(),
        Some(Duration::from_millis(50)),
        "it looks again"
    );
    broker.take_snapshot();
    assert_eq!(Broker::open(&disk.crash(3)).unwrap().picture(), broker.picture(), "the snapshot synced it");
}

#[test]
fn a_shutdown_does_not_wait_for_cleaning() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { clean_slice_bytes: 1, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    for round in 0..200 {
        let id = broker.submit(&body(round, 150));
        if round % 4 > 0 {
            broker.ask(2, Command::Cancel { task: id, reason: None });
        }
        broker.commit().unwrap();
    }
    broker.parts.maintenance.ask_for_snapshot();
    while !broker
        .parts
        .maintenance
        .events()
        .iter()
        .any(|events| matches!(events, MaintenanceEvent::Snapshot { .. }))
    {
        broker.maintain();
        broker.commit().unwrap();
    }
    // There is much to clean now, and it has begun.
    broker.parts.maintenance.shut_down(&broker.parts.batches);
    let turns = (1..).find(|_| broker.maintain() == Pace::Idle).unwrap();
    assert!(turns < 20, "{turns} turns");
    assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), broker.picture());
}

/// A broker that remembers many ended tasks, and has taken no snapshot for long.
fn full_of_ended_tasks(disk: &MemoryDisk) -> Broker {
    let settings = StoreSettings { snapshot_bytes: 1 << 20, events_kept: 50, ..small() };
    let mut broker = Broker::open_with(disk, settings, Settings::default()).unwrap();
    broker.register_worker();
    for round in 0..200 {
        broker.submit(&body(round, 150));
        broker.start();
        broker.complete(&body(round, 60));
        broker.commit().unwrap();
        broker.rest();
    }
    assert!(broker.parts.maintenance.events().is_empty(), "nothing was worth a snapshot");
    broker
}

fn segments(disk: &MemoryDisk) -> usize {
    disk.list().unwrap().iter().filter(|name| name.starts_with("journal")).count()
}

fn keep_fewer(broker: &mut Broker) {
    broker.engine.configure(&few_ended());
    broker.tick(Duration::from_millis(1));
}

#[test]
fn fewer_ended_tasks_free_room_on_a_disk_that_takes_nothing_new() {
    let disk = MemoryDisk::new();
    let mut broker = full_of_ended_tasks(&disk);
    let (before, segments_before) = (used(&disk), segments(&disk));
    // The reserve: room for the events that move out of the journal, and for the snapshot.
    disk.limit_capacity(Some((before + before / 2) as u64));
    broker.parts.maintenance.set_short(true);
    keep_fewer(&mut broker);
    broker.rest();
    assert!(segments(&disk) < segments_before / 4, "{:?}", disk.list().unwrap());
    assert!(used(&disk) < before / 2, "{} of {before} bytes", used(&disk));
    assert!(disk.list().unwrap().iter().all(|name| !name.starts_with("spare")), "{:?}", disk.list().unwrap());
    let picture = broker.picture();
    assert_eq!(picture.len(), 4);
    assert_eq!(Broker::open(&disk.crash(1)).unwrap().picture(), picture);
}

#[test]
fn fewer_ended_tasks_free_room_whenever_that_is_asked_for() {
    let disk = MemoryDisk::new();
    let mut broker = full_of_ended_tasks(&disk);
    let segments_before = segments(&disk);
    keep_fewer(&mut broker);
    broker.rest();
    assert_eq!(segments(&disk), segments_before, "little is not worth a snapshot");
    broker.parts.maintenance.reclaim();
    broker.rest();
    assert!(segments(&disk) < segments_before / 4, "{:?}", disk.list().unwrap());
    assert_eq!(Broker::open(&disk.crash(1)).unwrap().picture(), broker.picture());
}

#[test]
fn a_snapshot_that_does_not_fit_is_reported_once_and_tried_again() {
    let disk = MemoryDisk::new();
    let mut broker = full_of_ended_tasks(&disk);
    broker.parts.maintenance.set_short(true);
    broker.rest();
    keep_fewer(&mut broker);
    broker.commit().unwrap();
    disk.limit_capacity(Some(used(&disk) as u64 + 60));
    let mut told = Vec::new();
    for _ in 0..5 {
        for _ in 0..30 {
            broker.maintain();
        }
        told.extend(broker.parts.maintenance.events());
        assert!(
            disk.list().unwrap().iter().all(|name| !name.ends_with(".tmp")),
            "it leaves the room to others"
        );
        broker.tick(Duration::from_secs(40));
    }
    assert!(matches!(told[..], [MaintenanceEvent::NoRoomForSnapshot { .. }]), "{told:?}");
    disk.limit_capacity(None);
    broker.rest();
    broker.tick(Duration::from_secs(40));
    broker.rest();
    assert!(
        broker
            .parts
            .maintenance
            .events()
            .iter()
            .any(|events| matches!(events, MaintenanceEvent::Snapshot { .. }))
    );
    assert!(segments(&disk) < 5, "{:?}", disk.list().unwrap());
}
