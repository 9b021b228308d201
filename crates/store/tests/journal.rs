//! What is acknowledged is there afterwards, with its bytes; what is not may be missing, but never half.

mod support;

use std::time::Duration;

use support::{Broker, Picture, body, few_ended, small};
use tenure_engine::Settings;
use tenure_store::{AppendError, Damage, MemoryDisk, ReadError, StoreError, StoreSettings, Sync};

#[test]
fn an_empty_directory_becomes_an_empty_store() {
    let disk = MemoryDisk::new();
    let broker = Broker::open(&disk).unwrap();
    assert_eq!(broker.report, tenure_store::OpenReport::default());
    assert_eq!(broker.parts.reader.next_event(), 1);
    assert!(broker.picture().is_empty());
}

#[test]
fn tasks_bodies_and_results_come_back_after_the_power_failed() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.register_worker();
    for number in 0..5 {
        broker.submit(&body(number, 40 * number));
    }
    broker.commit().unwrap();
    broker.start();
    broker.complete(b"the result");
    broker.commit().unwrap();
    let promised = broker.picture();
    broker.submit(b"never acknowledged");
    broker.seal();
    for seed in 0..20 {
        let after = Broker::open(&disk.crash(seed)).unwrap();
        assert_eq!(after.picture(), promised, "seed {seed}");
        assert_eq!(after.engine.last_event(), broker.engine.last_event() - 1);
    }
}

#[test]
fn the_broker_goes_on_where_it_stopped() {
    let disk = MemoryDisk::new();
    let mut disk = disk;
    let mut promised = Picture::new();
    let mut last_event = 0;
    for round in 0..10 {
        let mut broker = Broker::open(&disk).unwrap();
        assert_eq!(broker.picture(), promised, "round {round}");
        assert_eq!(broker.engine.last_event(), last_event);
        for number in 0..7 {
            broker.submit(&body(number, 100));
            broker.commit().unwrap();
        }
        promised = broker.picture();
        last_event = broker.engine.last_event();
        disk = disk.crash(round);
    }
    assert_eq!(promised.len(), 70);
}

#[test]
fn frames_that_wait_together_are_made_certain_together() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, StoreSettings::default(), Settings::default()).unwrap();
    broker.submit(b"first");
    broker.commit().unwrap();
    let before = disk.changes();
    for number in 0..10 {
        broker.submit(&body(number, 10));
        broker.seal();
    }
    broker.commit().unwrap();
    assert_eq!(disk.changes() - before, 2, "one write and one sync");
    let before = disk.changes();
    for number in [20_000, 20_000, 40_000, 100_000, 10] {
        broker.submit(&body(1, number));
        broker.seal();
    }
    broker.commit().unwrap();
    assert_eq!(disk.changes() - before, 5, "two small ones, a middling, a large and a small one, and a sync");
    assert_eq!(Broker::open(&disk.crash(1)).unwrap().picture(), broker.picture());
}

#[test]
fn a_refused_submission_leaves_no_bytes_behind() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.submit(b"accepted");
    let length = broker.parts.batches.len();
    let mark = broker.parts.batches.mark();
    broker.parts.batches.blob(&[7; 500]);
    broker.parts.batches.rollback(mark);
    assert_eq!(broker.parts.batches.len(), length);
    broker.submit(b"accepted too");
    broker.commit().unwrap();
    assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), broker.picture());
}

#[test]
fn an_empty_batch_is_not_written() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    assert!(broker.parts.batches.seal().is_none());
    let mark = broker.parts.batches.mark();
    broker.parts.batches.blob(b"x");
    broker.parts.batches.rollback(mark);
    assert!(broker.parts.batches.seal().is_none());
}

#[test]
fn a_body_that_is_not_acknowledged_or_not_kept_is_said_to_be_gone() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    let blob = broker.parts.batches.blob(b"not yet");
    assert!(matches!(broker.parts.reader.read(blob), Err(ReadError::Gone { .. })));
    assert_eq!(broker.parts.reader.read(tenure_engine::Blob::EMPTY).unwrap(), "");
}

#[test]
fn a_full_disk_takes_the_same_frames_later() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.submit(&body(1, 300));
    broker.commit().unwrap();
    let promised = broker.picture();
    disk.limit_capacity(Some(700));
    broker.submit(&body(2, 300));
    broker.submit(&body(3, 300));
    for _ in 0..3 {
        let refused = broker.commit();
        assert!(matches!(refused, Err(AppendError::Full { .. })), "{refused:?}");
        assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), promised);
        assert!(broker.parts.reader.free_bytes().unwrap() < 700);
    }
    disk.limit_capacity(None);
    broker.commit().unwrap();
    assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), broker.picture());
    assert_eq!(broker.picture().len(), 3);
}

#[test]
fn a_disk_without_room_for_a_new_segment_is_full_too() {
    let disk = MemoryDisk::new();
    disk.limit_capacity(Some(10));
    let mut broker = Broker::open(&disk).unwrap();
    broker.submit(b"a task");
    assert!(matches!(broker.commit(), Err(AppendError::Full { .. })));
    disk.limit_capacity(None);
    broker.commit().unwrap();
    assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), broker.picture());
}

#[test]
fn after_a_failed_sync_the_writer_takes_nothing_more() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.submit(b"certain");
    broker.commit().unwrap();
    let promised = broker.picture();
    disk.fail_sync_after(0);
    broker.submit(b"uncertain");
    let failed = broker.commit();
    assert!(matches!(failed, Err(AppendError::Fatal(StoreError::Sync { .. }))), "{failed:?}");
    let again = broker.commit();
    assert!(matches!(again, Err(AppendError::Fatal(StoreError::Failed))), "{again:?}");
    assert_eq!(Broker::open(&disk.crash(0)).unwrap().picture(), promised);
}

#[test]
fn what_a_failed_sync_left_in_memory_is_written_again_by_the_next_process() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.submit(b"certain");
    broker.commit().unwrap();
    disk.fail_sync_after(0);
    broker.submit(b"only in the page cache");
    assert!(broker.commit().is_err());
    // The process ends and the next one finds the frame, which the disk does not have.
    let after = disk.reopen();
    let next = Broker::open(&after).unwrap();
    assert_eq!(next.picture().len(), 2);
    for seed in 0..20 {
        assert_eq!(Broker::open(&after.crash(seed)).unwrap().picture(), next.picture(), "seed {seed}");
    }
}

#[test]
fn with_sync_left_to_the_clock_a_crash_of_the_broker_loses_nothing() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { sync: Sync::Interval(Duration::from_millis(100)), ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    broker.submit(b"synced, because it is the first");
    broker.commit().unwrap();
    let synced = broker.picture();
    broker.now = broker.now + Duration::from_millis(10);
    broker.submit(b"not synced");
    broker.commit().unwrap();
    assert_eq!(Broker::open(&disk.reopen()).unwrap().picture(), broker.picture());
    let lost = (0..20).any(|seed| Broker::open(&disk.crash(seed)).unwrap().picture() == synced);
    assert!(lost, "a power failure may lose it");
    assert_eq!(broker.parts.writer.tick(broker.now).unwrap(), Some(Duration::from_millis(50)));
    let later = broker.now + Duration::from_millis(80);
    assert_eq!(broker.parts.writer.tick(later).unwrap(), Some(Duration::from_millis(10)));
    assert_eq!(broker.parts.writer.tick(broker.now + Duration::from_millis(90)).unwrap(), None);
    for seed in 0..20 {
        assert_eq!(Broker::open(&disk.crash(seed)).unwrap().picture(), broker.picture(), "seed {seed}");
    }
}

#[test]
fn only_one_process_at_a_time_uses_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let disk = std::sync::Arc::new(tenure_store::RealDisk::new(dir.path()).unwrap());
        tenure_store::Store::open(disk, small(), few_ended(), support::NOW)
    };
    let first = open().unwrap();
    let message = open().unwrap_err().to_string();
    assert_eq!(message, format!("the directory is in use by process {}", std::process::id()));
    drop(first);
    open().unwrap();
}

#[test]
fn a_file_of_a_later_version_is_refused_by_name() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.submit(b"a task");
    broker.commit().unwrap();
    let name = "journal-00000000000000000000";
    let mut bytes = disk.content(name).unwrap();
    bytes[8] = 3;
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
    let later = MemoryDisk::new();
    later.put(name, &bytes);
    let error = Broker::open(&later).err().unwrap().to_string();
    assert_eq!(error, format!("{name} has format version 3; this program reads versions up to 2"));
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    for number in 0..30 {
        broker.submit(&body(number, 200));
        broker.commit().unwrap();
    }
    let names: Vec<String> = tenure_store::Disk::list(&disk).unwrap();
    let segments: Vec<&String> = names.iter().filter(|name| name.starts_with("journal")).collect();
    assert!(segments.len() > 3, "{names:?}");
    // The last one as well, of which no other segment tells.
    for missing in segments {
        let copy = MemoryDisk::new();
        for name in names.iter().filter(|name| *name != missing) {
            copy.put(name, &disk.content(name).unwrap());
        }
        let error = Broker::open(&copy).err().unwrap_or_else(|| panic!("{missing} is not missed"));
        assert!(matches!(error, StoreError::Damaged(Damage { .. })), "without {missing}: {error}");
        assert!(error.to_string().starts_with(&format!("{missing} is missing")), "{error}");
    }
}
