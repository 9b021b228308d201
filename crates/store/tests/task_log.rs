//! The task log: what was synced survives a power failure, damage costs what follows it in its file, and a backup has it.

use std::sync::Arc;

use tenure_engine::{Settings, TaskId, Timestamp};
use tenure_store::{
    Disk, LogEntry, LogPlace, MemoryDisk, Opened, Reader, Store, StoreSettings, TaskLog, TaskLogSettings,
    restore,
};

fn entry(number: u64) -> LogEntry {
    LogEntry {
        namespace: "default".into(),
        task: TaskId([7; 16]),
        attempt: 1,
        stream: 1,
        offset: number * 10,
        at: Timestamp(5),
        piece: format!("piece {number:04}").into_bytes().into(),
    }
}

fn open(disk: &MemoryDisk, settings: TaskLogSettings) -> (Reader, TaskLog, Vec<(LogPlace, LogEntry)>) {
    let opened =
        Store::open(Arc::new(disk.clone()), StoreSettings::default(), Settings::default(), Timestamp(1))
            .unwrap();
    let Opened { store, .. } = opened;
    let reader = store.split().reader;
    let mut found = Vec::new();
    let log = reader.open_task_log(settings, |place, entry| found.push((place, entry))).unwrap();
    (reader, log, found)
}

#[test]
fn pieces_are_found_again_and_new_ones_follow() {
    let disk = MemoryDisk::new();
    let (_, mut log, found) = open(&disk, TaskLogSettings { file_bytes: 300, ..TaskLogSettings::default() });
    assert!(found.is_empty());
    for number in 0..20 {
        log.append(&[entry(number)]).unwrap();
    }
    drop(log);
    let (_, mut log, found) = open(&disk, TaskLogSettings::default());
    assert_eq!(
        found.iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>(),
        (0..20).map(entry).collect::<Vec<_>>()
    );
    let numbers: Vec<u64> = found.iter().map(|(place, _)| place.number()).collect();
    assert!(numbers.is_sorted() && found[19].0.file > 1);
    let reader = log.reader();
    for (place, entry) in &found {
        assert_eq!(reader.read(*place).unwrap().unwrap(), entry.piece);
    }
    let places = log.append(&[entry(20)]).unwrap();
    assert!(places[0].number() > numbers[19]);
}

#[test]
fn what_was_synced_survives_a_power_failure_and_a_torn_end_is_cut() {
    let disk = MemoryDisk::new();
    let (_, mut log, _) = open(&disk, TaskLogSettings::default());
    log.append(&[entry(0)]).unwrap();
    log.sync().unwrap();
    log.append(&[entry(1)]).unwrap();
    drop(log);
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("printed-")).unwrap();
    let file = disk.open(&name).unwrap();
    file.set_len(file.len().unwrap() - 3).unwrap();
    drop(file);
    let (_, mut log, found) = open(&disk, TaskLogSettings::default());
    assert_eq!(found.len(), 1);
    log.append(&[entry(2)]).unwrap();
    drop(log);
    let (_, _, found) = open(&disk, TaskLogSettings::default());
    assert_eq!(found.iter().map(|(_, entry)| entry.offset).collect::<Vec<_>>(), [0, 20]);
}

#[test]
fn damage_costs_what_follows_in_its_file_and_the_broker_starts() {
    let disk = MemoryDisk::new();
    let (_, mut log, _) = open(&disk, TaskLogSettings { file_bytes: 200, ..TaskLogSettings::default() });
    for number in 0..10 {
        log.append(&[entry(number)]).unwrap();
    }
    drop(log);
    let first = disk.list().unwrap().into_iter().find(|name| name.starts_with("printed-")).unwrap();
    disk.open(&first).unwrap().write_at(b"!", 70).unwrap();
    let (_, _, found) = open(&disk, TaskLogSettings::default());
    assert!((5..10).contains(&found.len()), "{}", found.len());
    assert_eq!(found.last().unwrap().1, entry(9));
    disk.open(&first).unwrap().set_len(3).unwrap();
    open(&disk, TaskLogSettings::default());
}

#[test]
fn a_backup_has_it() {
    let disk = MemoryDisk::new();
    let (reader, mut log, _) = open(&disk, TaskLogSettings::default());
    log.append(&[entry(0), entry(1)]).unwrap();
    let (backup, restored) = (MemoryDisk::new(), MemoryDisk::new());
    reader.backup(&backup).unwrap();
    restore(&backup, &restored).unwrap();
    let (_, _, found) = open(&restored, TaskLogSettings::default());
    assert_eq!(found.len(), 2);
}
