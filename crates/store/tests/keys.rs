//! The log of keys: whatever moment the power fails at, sweeps included, the records give what was promised.

#[path = "support/logs.rs"]
mod logs;

use std::collections::BTreeMap;

use tenure_engine::{Settings, Timestamp};
use tenure_store::{
    KeyLog, KeyRecords, KeysOpened, MemoryDisk, Reader, Repair, StoreError, WriteError, check_backup, repair,
    restore, verify,
};

/// Counters by one letter. A record is `=` or `+`, the letter, and a number.
type Counters = BTreeMap<u8, u64>;

fn apply(counters: &mut Counters, record: &[u8]) {
    let number = u64::from_le_bytes(record[2..].try_into().unwrap());
    match record[0] {
        b'=' => {
            counters.insert(record[1], number);
        }
        // A counter that is not known is not begun by an addition: its whole value follows.
        b'+' => {
            counters.entry(record[1]).and_modify(|counter| *counter += number);
        }
        b'-' => {
            counters.remove(&record[1]);
        }
        other => panic!("{other}"),
    }
}

fn record(kind: u8, letter: u8, number: u64) -> Vec<u8> {
    [&[kind, letter][..], &number.to_le_bytes()].concat()
}

fn open(disk: &MemoryDisk) -> Result<(Reader, KeysOpened), StoreError> {
    let reader = logs::reader(disk)?;
    let opened = reader.open_keys()?;
    Ok((reader, opened))
}

fn counters(log: &KeyLog) -> Counters {
    let mut found = Counters::new();
    log.records(|namespace, record| {
        assert_eq!(namespace, b"space");
        apply(&mut found, record);
    })
    .unwrap();
    found
}

fn files(disk: &MemoryDisk) -> Vec<String> {
    logs::files(disk, "keys-")
}

#[derive(Default)]
struct Told {
    promised: Counters,
    begun: Counters,
    finished: bool,
}

/// Counters are set, raised and removed, one batch a round, while the log is swept slowly again and again.
fn tell(disk: &MemoryDisk) -> Told {
    let mut told = Told::default();
    let Ok((_reader, KeysOpened { mut log, .. })) = open(disk) else { return told };
    let mut next = b'a';
    for round in 0..60_u64 {
        let mut records = KeyRecords::default();
        let mut add = |record: Vec<u8>| {
            apply(&mut told.begun, &record);
            records.add(b"space", &record);
        };
        let letter = b'a' + (round % 5) as u8;
        if round < 5 || round % 17 == 3 {
            add(record(b'=', letter, round + 1));
        } else if round % 13 == 7 {
            add(record(b'-', letter, 0));
        }
        add(record(b'+', letter, 100));
        add(record(b'+', b'a' + (round % 3) as u8, 1));
        if log.is_sweeping()
            && let Some(counter) = told.begun.get(&next).copied()
        {
            let whole = record(b'=', next, counter);
            records.add(b"space", &whole);
        }
        if log.append(&records).is_err() || log.sync().is_err() {
            return told;
        }
        told.promised.clone_from(&told.begun);
        let swept = match (log.is_sweeping(), next) {
            (true, b'e') => {
                next = b'a';
                log.end_sweep().is_ok()
            }
            (true, _) => {
                next += 1;
                true
            }
            (false, _) if round % 3 == 0 => log.begin_sweep().is_ok(),
            (false, _) => true,
        };
        if !swept {
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
    assert!(files(&whole).len() < 3, "sweeps let old files go");
    logs::at_every_write(whole.changes(), tell, |cut, told, disk| {
        let (_reader, opened) = open(disk).unwrap_or_else(|error| panic!("after {cut}: {error}"));
        let found = counters(&opened.log);
        assert!(
            found == told.promised || found == told.begun,
            "after {cut}: {found:?}, promised {:?}",
            told.promised
        );
    });
}

#[test]
fn a_log_that_lacks_its_beginning_is_not_taken_for_a_whole_one() {
    let disk = MemoryDisk::new();
    let (_reader, KeysOpened { mut log, .. }) = open(&disk).unwrap();
    let mut records = KeyRecords::default();
    records.add(b"space", &record(b'=', b'a', 5));
    log.append(&records).unwrap();
    log.sync().unwrap();
    assert!(log.begin_sweep().unwrap());
    log.append(&records).unwrap();
    log.sync().unwrap();
    drop((log, _reader));
    let names = files(&disk);
    assert_eq!(names.len(), 2, "the sweep is not finished");
    let lost = disk.reopen();
    tenure_store::Disk::remove(&lost, &names[0]).unwrap();
    assert!(matches!(open(&lost.reopen()), Err(StoreError::Damaged(damage)) if damage.is_missing));
    assert!(!verify(&lost.reopen(), Settings::default(), Timestamp(1)).unwrap().is_sound());
    let lost = lost.reopen();
    let repaired = repair(&lost, Repair::Cut).unwrap();
    assert!(repaired.done.iter().any(|done| done.contains("is missing")), "{repaired:?}");
    let (_reader, opened) = open(&lost.reopen()).unwrap();
    assert_eq!(counters(&opened.log), Counters::from([(b'a', 5)]));
}

#[test]
fn damage_is_reported_and_a_repair_leaves_keys_as_they_were_before_it() {
    let whole = MemoryDisk::new();
    let told = tell(&whole);
    let sound = verify(&whole.reopen(), Settings::default(), Timestamp(1)).unwrap();
    assert!(sound.is_sound() && sound.key_frames > 3, "{sound:?}");
    for name in &files(&whole) {
        let length = whole.content(name).unwrap().len() as u64;
        for offset in (0..length).step_by(13) {
            let disk = whole.reopen();
            disk.flip(name, offset, 0x10);
            if let Ok((_reader, opened)) = open(&disk.reopen()) {
                assert!(opened.cut.is_some() || counters(&opened.log) == told.promised, "{name} {offset}");
                continue;
            }
            assert!(!verify(&disk.reopen(), Settings::default(), Timestamp(1)).unwrap().is_sound());
            let disk = disk.reopen();
            assert!(!repair(&disk, Repair::Cut).unwrap().done.is_empty());
            let (_reader, opened) =
                open(&disk.reopen()).unwrap_or_else(|error| panic!("{name} {offset}: {error}"));
            counters(&opened.log);
            drop((_reader, opened));
            assert!(verify(&disk.reopen(), Settings::default(), Timestamp(1)).unwrap().is_sound());
        }
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let disk = MemoryDisk::new();
    let (_reader, KeysOpened { mut log, .. }) = open(&disk).unwrap();
    let mut records = KeyRecords::default();
    records.add(b"space", &record(b'=', b'a', 5));
    disk.limit_capacity(Some(0));
    assert!(matches!(log.append(&records), Err(WriteError::Full { .. })));
    assert!(!log.begin_sweep().unwrap());
    disk.limit_capacity(None);
    log.append(&records).unwrap();
    log.sync().unwrap();
    drop((log, _reader));
    assert_eq!(counters(&open(&disk.reopen()).unwrap().1.log), Counters::from([(b'a', 5)]));
}

#[test]
fn a_backup_keeps_old_files_until_it_is_done_and_a_restore_brings_keys_back() {
    let disk = MemoryDisk::new();
    let (reader, KeysOpened { mut log, .. }) = open(&disk).unwrap();
    let mut records = KeyRecords::default();
    records.add(b"space", &record(b'=', b'a', 5));
    log.append(&records).unwrap();
    log.sync().unwrap();
    let (backup, target) = (MemoryDisk::new(), MemoryDisk::new());
    let manifest = reader.backup(&backup).unwrap();
    assert!(manifest.files.iter().any(|file| file.name.starts_with("keys-")));
    records.add(b"space", &record(b'=', b'b', 9));
    log.append(&records).unwrap();
    log.sync().unwrap();
    assert_eq!(check_backup(&backup).unwrap(), manifest);
    restore(&backup, &target).unwrap();
    let (_reader, opened) = open(&target.reopen()).unwrap();
    assert_eq!(counters(&opened.log), Counters::from([(b'a', 5)]));
}
