//! Torn tails are cut, damage is found, and nothing wrong is ever taken for right.

mod support;

use support::{Broker, Picture, body, few_ended, small};
use tenure_engine::Settings;
use tenure_store::{Disk, MemoryDisk, ReadError, StoreError, StoreSettings};

const JOURNAL: &str = "journal-00000000000000000000";

/// A journal of a few frames in one file; the tasks and the length of the file after each of them.
fn short_journal() -> (MemoryDisk, Vec<(usize, Picture)>) {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { seed: 3, ..StoreSettings::default() };
    let mut broker = Broker::open_with(&disk, settings, Settings::default()).unwrap();
    let mut after = Vec::new();
    for number in 0..4 {
        broker.submit(&body(number, 30));
        broker.submit(b"");
        broker.commit().unwrap();
        after.push((broker.journal_len(), broker.picture()));
    }
    let bytes = disk.content(JOURNAL).unwrap();
    (with_journal(&bytes[..broker.journal_len()]), after)
}

fn with_journal(bytes: &[u8]) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.put(JOURNAL, bytes);
    disk
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_the_frames_before_it_are_whole() {
    let (disk, after) = short_journal();
    let whole = disk.content(JOURNAL).unwrap();
    for length in 40..whole.len() {
        // The rest is missing, or zeros, or rubbish.
        for filling in [None, Some(0), Some(0xa5)] {
            let mut bytes = whole[..length].to_vec();
            if let Some(filling) = filling {
                bytes.resize(whole.len() + 100, filling);
            }
            let complete = after.iter().rev().find(|(end, _)| bytes.get(..*end) == Some(&whole[..*end]));
            let expected = complete.map(|(_, picture)| picture.clone()).unwrap_or_default();
            let end = complete.map_or(40, |(end, _)| *end);
            let found = with_journal(&bytes);
            let broker = Broker::open(&found).unwrap_or_else(|error| panic!("{length} {filling:?}: {error}"));
            assert_eq!(broker.picture(), expected, "{length} {filling:?}");
            assert!(
                found.content(JOURNAL).unwrap()[end..].iter().all(|byte| *byte == 0),
                "the tail is cut off"
            );
            let torn = length > end || filling == Some(0xa5);
            assert_eq!(broker.report.cut.is_some(), torn, "{length} {filling:?}");
        }
    }
}

#[test]
fn after_a_cut_the_journal_goes_on_as_if_nothing_had_been_there() {
    let (disk, after) = short_journal();
    let whole = disk.content(JOURNAL).unwrap();
    // The third frame is torn, the fourth is complete: they were written together and synced never.
    let found = with_journal(&whole[..after[2].0 - 1]);
    let mut broker = Broker::open(&found).unwrap();
    broker.submit(&body(9, 30));
    broker.submit(b"");
    broker.commit().unwrap();
    let again = Broker::open(&found.crash(1)).unwrap();
    assert_eq!(again.picture(), broker.picture());
    assert_eq!(again.picture().len(), 6);
}

#[test]
fn a_flipped_bit_anywhere_is_never_taken_for_right() {
    let (disk, after) = short_journal();
    let whole = disk.content(JOURNAL).unwrap();
    let last_frame = after[after.len() - 2].0;
    for offset in 0..whole.len() {
        for bit in [0, 3, 7] {
            let mut bytes = whole.clone();
            bytes[offset] ^= 1 << bit;
            let what = format!("byte {offset} bit {bit}");
            match Broker::open(&with_journal(&bytes)) {
                Ok(broker) => {
                    // A bad last frame looks like a torn one.
                    assert!(offset >= last_frame, "{what}: the damage was not noticed");
                    assert_eq!(broker.picture(), after[after.len() - 2].1, "{what}");
                    assert!(broker.report.cut.is_some(), "{what}");
                }
                Err(StoreError::Damaged(damage)) => {
                    assert_eq!(damage.file, JOURNAL);
                    assert!(damage.offset <= offset as u64, "{what}: said to be at {}", damage.offset);
                    assert!(offset < last_frame, "{what}");
                }
                Err(StoreError::Version { .. }) => panic!("{what}: a flipped bit is not a version"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

#[test]
fn a_zeroed_block_in_the_middle_is_damage() {
    let (disk, after) = short_journal();
    let whole = disk.content(JOURNAL).unwrap();
    for frame in 0..2 {
        let mut bytes = whole.clone();
        let start = if frame == 0 { 40 } else { after[frame - 1].0 };
        bytes[start..after[frame].0].fill(0);
        let error = Broker::open(&with_journal(&bytes)).err().expect("the damage is noticed");
        assert_eq!(
            error.to_string(),
            format!(
                "{JOURNAL} is damaged at byte {start}: a frame is missing here, and frames written later follow it"
            )
        );
    }
}

#[test]
fn a_failed_open_changes_nothing() {
    let (disk, _) = short_journal();
    let mut bytes = disk.content(JOURNAL).unwrap();
    bytes[100] ^= 1;
    let found = with_journal(&bytes);
    found.put("spare-00000000000000000001", b"left behind");
    assert!(Broker::open(&found).is_err());
    assert_eq!(found.content(JOURNAL).unwrap(), bytes);
    assert!(found.content("spare-00000000000000000001").is_some());
}

#[test]
fn frames_that_were_never_synced_may_survive_in_any_order() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { sync: tenure_store::Sync::Os, ..small() };
    let mut broker = Broker::open_with(&disk, settings, few_ended()).unwrap();
    let mut pictures = vec![Picture::new()];
    for number in 0..4 {
        broker.submit(&body(number, 150));
        broker.commit().unwrap();
        pictures.push(broker.picture());
    }
    // The first may be torn while later ones are whole: a tail, not damage.
    for seed in 0..200 {
        let after = Broker::open(&disk.crash(seed)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(pictures.contains(&after.picture()), "seed {seed}");
    }
}

#[test]
fn a_snapshot_with_any_flipped_bit_is_refused() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.register_worker();
    for number in 0..12 {
        broker.submit(&body(number, 30));
    }
    broker.take_snapshot();
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("snapshot")).unwrap();
    let length = disk.content(&name).unwrap().len() as u64;
    for offset in 0..length {
        let copy = disk.reopen();
        copy.flip(&name, offset, 0x10);
        match Broker::open(&copy).err() {
            Some(StoreError::Damaged(damage)) => assert_eq!(damage.file, name, "byte {offset}"),
            Some(error) => panic!("byte {offset}: {error}"),
            None => panic!("byte {offset}: the damage was not noticed"),
        }
    }
}

#[test]
fn a_snapshot_without_the_journal_it_speaks_of_is_refused() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, StoreSettings::default(), Settings::default()).unwrap();
    broker.submit(b"one");
    broker.commit().unwrap();
    let short = disk.content(JOURNAL).unwrap()[..broker.journal_len()].to_vec();
    broker.submit(b"two");
    broker.take_snapshot();
    let copy = disk.reopen();
    copy.put(JOURNAL, &short);
    let error = Broker::open(&copy).err().unwrap().to_string();
    assert!(error.contains("the file ends here"), "{error}");
}

#[test]
fn a_snapshot_that_has_seen_more_than_the_journal_holds_is_refused() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { snapshot_slice: 1, ..StoreSettings::default() };
    let mut broker = Broker::open_with(&disk, settings, Settings::default()).unwrap();
    broker.submit(b"one");
    broker.commit().unwrap();
    broker.parts.maintenance.ask_for_snapshot();
    broker.maintain();
    let short = disk.content(JOURNAL).unwrap();
    broker.submit(b"two, while the snapshot is taken");
    broker.commit().unwrap();
    broker.rest();
    let copy = disk.reopen();
    copy.put(JOURNAL, &short);
    let error = Broker::open(&copy).err().unwrap().to_string();
    assert!(error.contains("but the snapshot was taken at"), "{error}");
}

#[test]
fn a_body_that_was_changed_on_disk_is_refused_when_it_is_read() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    let text = b"a body that can be recognised in the file".to_vec();
    broker.submit(&text);
    broker.take_snapshot();
    let at = disk.content(JOURNAL).unwrap().windows(text.len()).position(|bytes| bytes == text).unwrap();
    disk.flip(JOURNAL, at as u64 + 5, 1);
    // The frame lies before the snapshot, so the start does not look at it.
    let broker = Broker::open(&disk.reopen()).unwrap();
    match broker.try_picture() {
        Err(ReadError::Damaged(damage)) => {
            assert_eq!((damage.file.as_str(), damage.offset), (JOURNAL, at as u64));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_body_that_looks_like_a_frame_is_read_as_a_body() {
    let (disk, after) = short_journal();
    let whole = disk.content(JOURNAL).unwrap();
    // A client submits a copy of what it believes to be the next frames.
    let last = after[after.len() - 2].0;
    let mut broker = Broker::open(&with_journal(&whole[..last])).unwrap();
    let promised = broker.picture();
    broker.submit(&whole[last..].repeat(3));
    broker.commit().unwrap();
    let bytes = broker.disk.content(JOURNAL).unwrap()[..broker.journal_len()].to_vec();
    for length in last..bytes.len() {
        let found = with_journal(&bytes[..length]);
        assert_eq!(Broker::open(&found).unwrap().picture(), promised, "{length}");
    }
}

/// A broker whose waiting tasks have their bodies in segments from before the snapshot.
fn with_old_bodies() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    for number in 0..40 {
        broker.submit(&body(number, 120));
        broker.commit().unwrap();
        broker.rest();
    }
    broker.take_snapshot();
    disk.reopen()
}

#[test]
fn a_missing_segment_from_before_the_snapshot_stops_the_start_and_is_named() {
    let disk = with_old_bodies();
    let segments: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| name.starts_with("journal-0")).collect();
    assert!(segments.len() > 3, "{segments:?}");
    for name in &segments[..segments.len() - 1] {
        let damaged = disk.reopen();
        damaged.remove(name).unwrap();
        let before = damaged.list().unwrap();
        let error = Broker::open(&damaged).err().unwrap_or_else(|| panic!("{name} is not missed"));
        assert!(error.to_string().starts_with(&format!("{name} is missing")), "{error}");
        assert_eq!(damaged.list().unwrap(), before, "nothing was changed");
    }
}

#[test]
fn a_segment_from_before_the_snapshot_that_was_cut_short_stops_the_start() {
    let disk = with_old_bodies();
    let bytes = disk.content(JOURNAL).unwrap();
    for length in [bytes.len() - 1, bytes.len() / 2, 40] {
        let damaged = disk.reopen();
        damaged.put(JOURNAL, &bytes[..length]);
        let error = Broker::open(&damaged).err().expect("it is noticed").to_string();
        assert!(error.starts_with(&format!("{JOURNAL} is damaged at byte {length}")), "{error}");
    }
}

/// The frames of a journal, the last of them damaged, with or without a clean end before that.
fn with_damaged_last_frame(end: impl FnOnce(&mut Broker)) -> (MemoryDisk, usize) {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open_with(&disk, StoreSettings::default(), Settings::default()).unwrap();
    broker.submit(b"first");
    broker.commit().unwrap();
    let last = broker.journal_len();
    broker.submit(b"last");
    broker.commit().unwrap();
    end(&mut broker);
    disk.flip(JOURNAL, last as u64 + 50, 1);
    (disk.reopen(), last)
}

#[test]
fn a_damaged_last_frame_is_damage_after_a_clean_end() {
    let (disk, last) = with_damaged_last_frame(|broker| broker.parts.writer.close(broker.now).unwrap());
    let error = Broker::open(&disk).err().expect("it is noticed").to_string();
    assert!(
        error.starts_with(&format!("{JOURNAL} is damaged at byte {last}: the checksum of a frame is wrong")),
        "{error}"
    );
    assert!(error.contains("but it was synced up to"), "{error}");
}

#[test]
fn a_damaged_last_frame_after_a_crash_looks_like_a_torn_one() {
    let (disk, last) = with_damaged_last_frame(|_| ());
    let broker = Broker::open(&disk).unwrap();
    assert_eq!(broker.report.cut.as_ref().map(|cut| cut.offset), Some(last as u64));
    assert_eq!(broker.picture().len(), 1);
}

#[test]
fn an_unreadable_mark_does_not_prevent_a_start() {
    let (disk, _) = short_journal();
    for rubbish in [&b""[..], b"rubbish", &[0; 2000]] {
        let found = disk.reopen();
        found.put("high-water", rubbish);
        assert_eq!(Broker::open(&found).unwrap().picture().len(), 8);
    }
}

/// The segment that ended where the snapshot began is let go, while an older one is kept for the body in it.
#[test]
fn a_journal_that_ends_at_the_snapshot_needs_no_segment_behind_it() {
    let disk = MemoryDisk::new();
    let settings = StoreSettings { clean_below_percent: 0, spare_segments: 0, ..small() };
    let mut broker =
        Broker::open_with(&disk, settings, Settings { ended_kept: 0, ..Settings::default() }).unwrap();
    broker.submit(&body(1, 1600));
    broker.commit().unwrap();
    let ended = broker.submit(&body(2, 1600));
    broker.ask(2, tenure_engine::Command::Cancel { task: ended, reason: None });
    broker.commit().unwrap();
    broker.tick(std::time::Duration::from_secs(1));
    broker.take_snapshot();
    let segments = disk.list().unwrap().into_iter().filter(|name| name.starts_with("journal")).count();
    assert_eq!(segments, 1, "{:?}", disk.list().unwrap());
    let picture = broker.picture();
    let mut after = Broker::open(&disk.reopen()).unwrap();
    assert_eq!(after.picture(), picture);
    after.submit(b"it goes on");
    after.commit().unwrap();
    assert_eq!(Broker::open(&after.disk.crash(1)).unwrap().picture().len(), 2);
}

#[test]
fn a_damaged_log_of_topics_stops_the_start_before_anything_is_changed() {
    let (disk, _) = short_journal();
    let mut journal = disk.content(JOURNAL).unwrap();
    journal.extend(b"a torn tail, which a start would cut off, and which is a little longer than a header");
    disk.put(JOURNAL, &journal);
    disk.put("spare-00000000000000000001", b"left behind");
    disk.put("topics-00000000000000000000", b"rubbish");
    let error = Broker::open(&disk).err().expect("it is noticed").to_string();
    assert!(error.starts_with("topics-00000000000000000000 is damaged at byte 7"), "{error}");
    assert_eq!(disk.content(JOURNAL).unwrap(), journal);
    assert!(disk.content("spare-00000000000000000001").is_some());
    assert!(disk.content("high-water").is_none());
}
