//! The topic log: rows and messages come back, whenever the power fails, and damage is reported.

#[path = "support/logs.rs"]
mod logs;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_engine::{Settings, Timestamp};
use tenure_store::{
    MemoryDisk, Reader, Repair, StoreError, TopicLogSettings, TopicRows, TopicsOpened, WriteError,
    check_backup, repair, restore, verify,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn small() -> TopicLogSettings {
    TopicLogSettings { segment_bytes: 700, kept_bytes: 1_000, kept_for: Duration::from_secs(1_000) }
}

fn open_with(disk: &MemoryDisk, settings: TopicLogSettings) -> Result<(Reader, TopicsOpened), StoreError> {
    let reader = logs::reader(disk)?;
    let opened = reader.open_topics(settings)?;
    Ok((reader, opened))
}

fn open(disk: &MemoryDisk) -> Result<(Reader, TopicsOpened), StoreError> {
    open_with(disk, small())
}

fn topic_files(disk: &MemoryDisk) -> Vec<String> {
    logs::files(disk, "topics-")
}

fn messages(opened: &TopicsOpened) -> Vec<u64> {
    let mut found = Vec::new();
    opened
        .log
        .messages(|at, key, value| {
            assert_eq!((key, value), (&b"topic"[..], &at.0.to_le_bytes()[..]));
            found.push(at.0);
        })
        .unwrap();
    found
}

/// What the story had promised when it ended, and what it had only begun.
#[derive(Default)]
struct Told {
    promised: Rows,
    begun: Rows,
    messages_promised: u64,
    messages_begun: u64,
    finished: bool,
}

/// Rows are put, changed and deleted, messages come, files are begun and let go, until the end or a power failure.
fn tell(disk: &MemoryDisk) -> Told {
    let mut told = Told::default();
    let Ok((_reader, TopicsOpened { mut log, .. })) = open(disk) else { return told };
    for round in 0..40_u64 {
        let mut rows = TopicRows::default();
        for key in [round % 7, round % 3] {
            rows.put(&key.to_le_bytes(), &round.to_le_bytes());
            told.begun.insert(key.to_le_bytes().to_vec(), round.to_le_bytes().to_vec());
        }
        let gone = (round * 5 % 7).to_le_bytes();
        rows.delete(&gone);
        told.begun.remove(&gone[..]);
        rows.message(Timestamp(round + 1), b"topic", &(round + 1).to_le_bytes());
        told.messages_begun = round + 1;
        if log.append(&rows).is_err() || log.sync().is_err() {
            return told;
        }
        told.promised.clone_from(&told.begun);
        told.messages_promised = told.messages_begun;
        if log.rotate_if_due(Timestamp(round)).is_err() {
            return told;
        }
    }
    told.finished = true;
    told
}

#[test]
fn whatever_was_synced_is_there_at_whichever_write_the_power_fails() {
    let whole = MemoryDisk::new();
    assert!(tell(&whole).finished);
    logs::at_every_write(whole.changes(), tell, |cut, told, disk| {
        let (_reader, opened) = open(disk).unwrap_or_else(|error| panic!("after {cut}: {error}"));
        assert!(
            opened.rows == told.promised || opened.rows == told.begun,
            "after {cut}: {:?}, promised {:?}",
            opened.rows,
            told.promised
        );
        let messages = messages(&opened);
        let last = messages.last().copied().unwrap_or_default();
        assert!((told.messages_promised..=told.messages_begun).contains(&last), "after {cut}: {last}");
        assert!(messages.windows(2).all(|pair| pair[1] == pair[0] + 1), "after {cut}: {messages:?}");
    });
}

#[test]
fn old_files_go_and_what_is_kept_is_read_back_in_order() {
    let disk = MemoryDisk::new();
    let (_reader, TopicsOpened { mut log, .. }) = open(&disk).unwrap();
    for round in 1..=500_u64 {
        let mut rows = TopicRows::default();
        rows.put(b"row", &round.to_le_bytes());
        rows.message(Timestamp(round), b"topic", &round.to_le_bytes());
        log.append(&rows).unwrap();
        log.rotate_if_due(Timestamp(round)).unwrap();
    }
    log.sync().unwrap();
    drop((log, _reader));
    let files = || topic_files(&disk).len();
    assert!((3..15).contains(&files()), "{}", files());
    let (_reader, opened) = open(&disk.reopen()).unwrap();
    let kept = messages(&opened);
    assert!(kept.len() * 13 >= 1_000, "at least 1,000 bytes are kept, not {}", kept.len() * 13);
    assert!(kept.len() < 250, "{}", kept.len());
    assert_eq!(*kept.last().unwrap(), 500);
    assert_eq!(opened.rows[&b"row"[..]], 500_u64.to_le_bytes());
}

#[test]
fn messages_that_are_too_old_go_with_their_file() {
    let disk = MemoryDisk::new();
    let (_reader, TopicsOpened { mut log, .. }) = open(&disk).unwrap();
    let mut rows = TopicRows::default();
    rows.message(Timestamp(5), b"topic", &5_u64.to_le_bytes());
    log.append(&rows).unwrap();
    log.begin([(b"a".to_vec(), b"1".to_vec())].into_iter()).unwrap();
    log.rotate_if_due(Timestamp(900_000)).unwrap();
    let count = |log: &tenure_store::TopicLog| {
        let mut count = 0;
        log.messages(|_, _, _| count += 1).unwrap();
        count
    };
    assert_eq!(count(&log), 1);
    log.rotate_if_due(Timestamp(1_000_005)).unwrap();
    assert_eq!(count(&log), 0);
    drop((log, _reader));
    let (_reader, opened) = open(&disk.reopen()).unwrap();
    assert_eq!(opened.rows.len(), 1);
}

#[test]
fn damage_is_reported_with_its_place_and_a_torn_tail_is_cut() {
    let disk = MemoryDisk::new();
    assert!(tell(&disk).finished);
    let names = topic_files(&disk);
    let sound = verify(&disk.reopen(), Settings::default(), Timestamp(1)).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.damages);
    assert!(sound.topic_frames > 3);
    let first = disk.reopen();
    first.flip(&names[0], 100, 1);
    match open(&first) {
        Err(StoreError::Damaged(damage)) => assert_eq!(damage.file, names[0]),
        other => panic!("{other:?}"),
    }
    assert!(!verify(&first.reopen(), Settings::default(), Timestamp(1)).unwrap().is_sound());
    let last = disk.reopen();
    let name = names.last().unwrap();
    let length = last.content(name).unwrap().len() as u64;
    last.flip(name, length - 1, 1);
    let (_reader, opened) = open(&last).unwrap();
    assert_eq!(opened.cut.map(|cut| cut.file).as_ref(), Some(name));
}

#[test]
fn a_repair_saves_what_can_be_saved_wherever_the_damage_is() {
    let whole = MemoryDisk::new();
    assert!(tell(&whole).finished);
    let names: Vec<String> = topic_files(&whole);
    assert!(names.len() > 2, "{names:?}");
    for name in &names {
        let length = whole.content(name).unwrap().len() as u64;
        for offset in (0..length).step_by(37) {
            let disk = whole.reopen();
            disk.flip(name, offset, 0x10);
            if open(&disk.reopen()).is_ok() {
                continue;
            }
            let repaired = repair(&disk.reopen(), Repair::Cut).unwrap();
            assert!(!repaired.done.is_empty());
            let mended = disk.reopen();
            repair(&mended, Repair::Cut).unwrap();
            let (_reader, opened) =
                open(&mended.reopen()).unwrap_or_else(|error| panic!("{name} {offset}: {error}"));
            let found = messages(&opened);
            assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1), "{name} {offset}: {found:?}");
            assert!(verify(&mended.reopen(), Settings::default(), Timestamp(1)).unwrap().is_sound());
        }
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let disk = MemoryDisk::new();
    let (_reader, TopicsOpened { mut log, .. }) = open(&disk).unwrap();
    let mut rows = TopicRows::default();
    rows.put(b"a", &[1; 100]);
    log.append(&rows).unwrap();
    log.sync().unwrap();
    disk.limit_capacity(Some(0));
    assert!(matches!(log.append(&rows), Err(WriteError::Full { .. })));
    disk.limit_capacity(None);
    rows.put(b"b", b"2");
    log.append(&rows).unwrap();
    log.sync().unwrap();
    drop((log, _reader));
    assert_eq!(open(&disk.reopen()).unwrap().1.rows.len(), 2);
}

#[test]
fn a_backup_has_the_log_and_a_restore_brings_it_back() {
    let disk = MemoryDisk::new();
    let (reader, TopicsOpened { mut log, .. }) = open(&disk).unwrap();
    let mut rows = TopicRows::default();
    rows.put(b"a", b"1");
    rows.message(Timestamp(7), b"topic", &7_u64.to_le_bytes());
    log.append(&rows).unwrap();
    log.sync().unwrap();
    let (backup, target) = (MemoryDisk::new(), MemoryDisk::new());
    let manifest = reader.backup(&backup).unwrap();
    assert!(manifest.files.iter().any(|file| file.name.starts_with("topics-")));
    rows.put(b"b", b"later");
    log.append(&rows).unwrap();
    log.sync().unwrap();
    assert_eq!(check_backup(&backup).unwrap(), manifest);
    restore(&backup, &target).unwrap();
    let (_reader, opened) = open(&target.reopen()).unwrap();
    assert_eq!(opened.rows.into_iter().collect::<Vec<_>>(), [(b"a".to_vec(), b"1".to_vec())]);
}
