//! Backup and restore, verify, repair, dump.

mod support;

use support::lived::{copy, lived};
use support::{Broker, NOW, Picture, body, few_ended, small};
use tenure_engine::Settings;
use tenure_store::{
    Disk, MemoryDisk, Repair, StoreError, StoreSettings, check_backup, dump, repair, restore, verify,
};

#[test]
fn a_backup_of_a_working_broker_becomes_a_broker_as_of_that_moment() {
    let mut broker = lived();
    let then = broker.picture();
    let history = broker.history(1);
    let backup = MemoryDisk::new();
    let manifest = broker.parts.reader.backup(&backup).unwrap();
    for round in 0..40 {
        broker.submit(&body(round, 120));
        broker.commit().unwrap();
        broker.rest();
    }
    assert_eq!(check_backup(&backup).unwrap(), manifest);
    let target = MemoryDisk::new();
    assert_eq!(restore(&backup, &target).unwrap(), manifest);
    let restored = Broker::open(&target).unwrap();
    assert_eq!(restored.picture(), then);
    assert_eq!(restored.history(1), history);
}

#[test]
fn nothing_is_deleted_while_a_backup_is_taken() {
    // The backup is taken on another thread, while segments are cleaned and snapshots replace each other.
    let mut broker = lived();
    for round in 0..20 {
        let reader = broker.parts.reader.clone();
        let backup = MemoryDisk::new();
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| reader.backup(&backup).unwrap());
            for number in 0..30 {
                broker.submit(&body(number, 100));
                if number % 3 > 0 {
                    broker.start();
                    broker.complete(b"done");
                }
                broker.commit().unwrap();
                broker.rest();
            }
            taking.join().unwrap();
        });
        let target = MemoryDisk::new();
        restore(&backup, &target).unwrap();
        let restored = Broker::open(&target).unwrap_or_else(|error| panic!("round {round}: {error}"));
        restored.picture();
    }
    let snapshots = broker.disk.list().unwrap().iter().filter(|name| name.starts_with("snapshot")).count();
    assert!(snapshots <= 2, "what the backups kept is removed later");
}

#[test]
fn an_incomplete_or_changed_backup_is_refused() {
    let broker = lived();
    let backup = MemoryDisk::new();
    broker.parts.reader.backup(&backup).unwrap();
    let names = backup.list().unwrap();
    for missing in &names {
        let part = MemoryDisk::new();
        for name in names.iter().filter(|name| *name != missing) {
            part.put(name, &backup.content(name).unwrap());
        }
        let error = restore(&part, &MemoryDisk::new()).unwrap_err().to_string();
        assert_eq!(error, format!("this is not a backup: {missing} is missing"));
    }
    for name in &names {
        let changed = copy(&backup);
        changed.flip(name, changed.content(name).unwrap().len() as u64 / 2, 1);
        let target = MemoryDisk::new();
        assert!(matches!(restore(&changed, &target), Err(StoreError::Damaged(_))), "{name}");
        assert!(target.list().unwrap().is_empty());
    }
}

#[test]
fn a_backup_and_a_restore_want_an_empty_directory() {
    let broker = lived();
    let occupied = MemoryDisk::new();
    occupied.put("letters", b"dear");
    assert!(matches!(broker.parts.reader.backup(&occupied), Err(StoreError::NotEmpty { .. })));
    let backup = MemoryDisk::new();
    broker.parts.reader.backup(&backup).unwrap();
    assert!(matches!(restore(&backup, &occupied), Err(StoreError::NotEmpty { .. })));
}

#[test]
fn a_sound_store_is_found_sound() {
    let broker = lived();
    let found = verify(&broker.disk.reopen(), few_ended(), NOW).unwrap();
    assert!(found.is_sound(), "{:?}", found.damages);
    assert_eq!(found.tasks, broker.engine.task_count() as u64);
    assert!(found.frames > 5 && found.snapshot_blocks > 3 && found.events > 20, "{found:?}");
}

#[test]
fn verify_finds_a_flipped_bit_in_any_file() {
    let disk = lived().disk.reopen();
    let last_journal = disk.list().unwrap().into_iter().rfind(|name| name.starts_with("journal"));
    for name in disk.list().unwrap() {
        // A mark that cannot be read is only a mark less.
        if name.starts_with("spare") || name == "high-water" {
            continue;
        }
        let length = disk.content(&name).unwrap().len() as u64;
        for offset in (0..length).step_by(7) {
            let changed = copy(&disk);
            changed.flip(&name, offset, 4);
            let found = verify(&changed, few_ended(), NOW).unwrap();
            let last = found.torn.is_some_and(|torn| torn.file == name && torn.offset <= offset);
            let past = Some(&name) == last_journal.as_ref() && offset >= end_of_frames(&disk, &name);
            assert!(!found.damages.is_empty() || last || past, "{name} byte {offset}");
        }
    }
}

/// Where the frames of the last segment end: behind, there may be what an earlier use left.
fn end_of_frames(disk: &MemoryDisk, name: &str) -> u64 {
    let mut end = 0;
    let mut here = false;
    dump(disk, &mut |line| {
        here = if line.starts_with(' ') { here } else { line.starts_with(name) };
        let words: Vec<&str> = line.split_whitespace().collect();
        if here && words[0] == "end" {
            end = words[1].trim_end_matches(':').parse().unwrap();
        }
    })
    .unwrap();
    let start: u64 = name.trim_start_matches("journal-").parse().unwrap();
    end - start + 40
}

#[test]
fn a_store_in_use_is_neither_verified_nor_repaired() {
    let broker = lived();
    assert!(matches!(verify(&broker.disk, few_ended(), NOW), Err(StoreError::Locked { .. })));
    assert!(matches!(repair(&broker.disk, Repair::Cut), Err(StoreError::Locked { .. })));
}

#[test]
fn repairing_a_sound_store_does_nothing() {
    let broker = lived();
    let disk = copy(&broker.disk.reopen());
    let before: Vec<_> = disk.list().unwrap().iter().map(|name| disk.content(name)).collect();
    for how in [Repair::Cut, Repair::Skip] {
        let repaired = repair(&disk, how).unwrap();
        assert_eq!(repaired.done, Vec::<String>::new());
        assert_eq!(repaired.next_event, broker.engine.last_event() + 1);
    }
    let after: Vec<_> = disk.list().unwrap().iter().map(|name| disk.content(name)).collect();
    assert_eq!(before, after);
}

const JOURNAL: &str = "journal-00000000000000000000";

fn five_frames() -> (MemoryDisk, Vec<(usize, Picture)>) {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, StoreSettings::default(), Settings::default()).unwrap();
    let mut after = Vec::new();
    for number in 0..5 {
        broker.submit(&body(number, 60));
        broker.commit().unwrap();
        after.push((broker.journal_len(), broker.picture()));
    }
    let bytes = disk.content(JOURNAL).unwrap();
    disk.put(JOURNAL, &bytes[..broker.journal_len()]);
    (disk.reopen(), after)
}

#[test]
fn cutting_goes_back_to_the_moment_before_the_damage() {
    let (disk, after) = five_frames();
    for frame in 1..5 {
        let damaged = copy(&disk);
        damaged.flip(JOURNAL, after[frame - 1].0 as u64 + 60, 1);
        let repaired = repair(&damaged, Repair::Cut).unwrap();
        assert_eq!(repaired.done.len(), 1, "{:?}", repaired.done);
        assert_eq!(Broker::open(&damaged).unwrap().picture(), after[frame - 1].1);
        // What was cut off is kept.
        let kept = damaged.content(&format!("removed-1-{JOURNAL}")).unwrap();
        assert_eq!(kept.len(), after[4].0 - after[frame - 1].0);
    }
}

#[test]
fn skipping_keeps_what_came_after_the_damage() {
    let (disk, after) = five_frames();
    let damaged = copy(&disk);
    damaged.flip(JOURNAL, after[0].0 as u64 + 60, 1);
    assert!(Broker::open(&damaged).is_err());
    let repaired = repair(&damaged, Repair::Skip).unwrap();
    let bytes = after[1].0 - after[0].0;
    assert_eq!(
        repaired.done,
        [format!(
            "{JOURNAL} at byte {}: the checksum of a frame is wrong. {bytes} bytes with 1 events from 2 on were skipped",
            after[0].0
        )]
    );
    let mut broker = Broker::open(&damaged).unwrap();
    let lost = after[1].1.keys().find(|id| !after[0].1.contains_key(id)).unwrap();
    let mut expected = after[4].1.clone();
    expected.remove(lost);
    assert_eq!(broker.picture(), expected);
    // The history says where it has a hole, before and after the journal lets go of it.
    for _ in 0..2 {
        let events = |from| broker.parts.reader.events(from, 10).unwrap();
        assert!(matches!(events(1), tenure_store::Events::Some { next: 2, .. }), "{:?}", events(1));
        assert_eq!(events(2), tenure_store::Events::Gap { oldest: 3 });
        assert!(matches!(events(3), tenure_store::Events::Some { next: 6, .. }), "{:?}", events(3));
        broker.take_snapshot();
    }
}

/// Whatever byte is damaged, a repaired store opens, and everything in it was once true.
#[test]
fn every_repaired_store_can_be_opened() {
    let broker = lived();
    let disk = broker.disk.reopen();
    let settings = || (small(), few_ended());
    for name in disk.list().unwrap() {
        let length = disk.content(&name).unwrap().len() as u64;
        for offset in (0..length).step_by(13) {
            for how in [Repair::Cut, Repair::Skip] {
                let damaged = copy(&disk);
                damaged.flip(&name, offset, 1);
                let what = format!("{name} byte {offset} {how:?}");
                let (store, engine) = settings();
                let opened = Broker::open_with(&damaged, store, engine).is_ok();
                let repaired = repair(&damaged, how).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(opened || !repaired.done.is_empty(), "{what}: it was mended without a word");
                let (store, engine) = settings();
                let mut after = Broker::open_with(&damaged, store, engine)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                after.submit(b"life goes on");
                after.commit().unwrap();
            }
        }
    }
}

#[test]
fn a_missing_segment_is_bridged() {
    let disk = MemoryDisk::new();
    let mut broker =
        Broker::open_with(&disk, StoreSettings { snapshot_bytes: 1 << 30, ..small() }, Settings::default())
            .unwrap();
    for number in 0..30 {
        broker.submit(&body(number, 100));
        broker.commit().unwrap();
    }
    let names: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| name.starts_with("journal")).collect();
    assert!(names.len() >= 4, "{names:?}");
    let damaged = copy(&disk);
    damaged.remove(&names[1]).unwrap();
    assert!(Broker::open(&damaged).is_err());
    let repaired = repair(&damaged, Repair::Skip).unwrap();
    assert!(repaired.done[0].contains("frames are missing"), "{:?}", repaired.done);
    let after = Broker::open(&damaged).unwrap();
    assert!((15..30).contains(&after.engine.task_count()), "{}", after.engine.task_count());
    assert_eq!(after.engine.last_event(), broker.engine.last_event());
}

#[test]
fn a_dump_shows_every_event_and_no_body() {
    let (disk, _) = five_frames();
    let mut lines = Vec::new();
    dump(&disk, &mut |line| lines.push(line.to_owned())).unwrap();
    assert_eq!(lines[0], format!("{JOURNAL} position 0"));
    assert!(lines[1].starts_with("  frame 0 blobs 64 page "), "{}", lines[1]);
    assert!(lines[2].starts_with("    event 1 at 1700000000000 submitted task 00000000-"), "{}", lines[2]);
    assert!(lines[3].contains("queue q ready attempt 0 priority 0 body 60 bytes at 48"), "{}", lines[3]);
    assert_eq!(lines.iter().filter(|line| line.contains("    event ")).count(), 5);
    assert!(lines.iter().all(|line| !line.contains("<0>")), "no body");
}
