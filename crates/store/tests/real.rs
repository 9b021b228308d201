//! The same on real files, with maintenance on its own thread.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use support::{NOW, body, few_ended, small};
use tenure_engine::command::Completion;
use tenure_engine::notice::Notice;
use tenure_engine::{
    Blob, Change, Command, Event, Held, NewTask, Output, Peer, SessionId, TaskId, Which, WorkerSpec,
};
use tenure_store::{
    Batches, Disk, Events, Opened, Pace, RealDisk, Store, StoreError, StoreSettings, check_backup, restore,
    verify,
};

struct Listening<'a> {
    batches: &'a mut Batches,
    held: &'a mut Vec<Held>,
}

impl Output for Listening<'_> {
    fn record(&mut self, event: Event, change: Change<'_>) {
        self.batches.record(&event, change);
    }

    fn notice(&mut self, _: SessionId, notice: Notice) {
        if let Notice::Assign(assignment) = notice {
            self.held.push(Held { task: assignment.task, attempt: assignment.attempt });
        }
    }

    fn body(&mut self, bytes: &[u8]) -> Blob {
        self.batches.blob(bytes)
    }

    fn freed(&mut self, blob: Blob) {
        self.batches.dead(blob);
    }
}

fn settings() -> StoreSettings {
    StoreSettings { segment_bytes: 20_000, snapshot_bytes: 60_000, snapshot_slice: 10, ..small() }
}

#[test]
fn a_whole_life_on_real_files() {
    let dir = tempfile::tempdir().unwrap();
    let open = |dir: &std::path::Path| {
        Store::open(Arc::new(RealDisk::new(dir).unwrap()), settings(), few_ended(), NOW).unwrap()
    };
    let Opened { mut engine, store, .. } = open(&dir.path().join("store"));
    let mut parts = store.split();
    let maintenance_thread = std::thread::spawn(move || parts.maintenance_thread.run());
    let worker = Peer { session: SessionId(1), namespace: "default".into(), identity: "w".into() };
    let (mut held, mut frames, mut snapshots) = (Vec::new(), Vec::new(), 0);
    let spec = Command::Register(Box::new(WorkerSpec::new("w", vec!["q".into()], 2)));
    let mut out = Listening { batches: &mut parts.batches, held: &mut held };
    engine.handle(NOW, &worker, spec, &mut out).unwrap();
    for number in 0..600 {
        let blob = parts.batches.blob(&body(number, 200));
        let task = NewTask { body: blob, ..NewTask::new(TaskId::from_u128(number as u128 + 1), "q") };
        let mut out = Listening { batches: &mut parts.batches, held: &mut held };
        engine.handle(NOW, &worker, Command::Submit(vec![task]), &mut out).unwrap();
        if number % 10 > 0 {
            let attempt = held.remove(0);
            let result = parts.batches.blob(b"done");
            let mut out = Listening { batches: &mut parts.batches, held: &mut held };
            engine
                .handle(NOW, &worker, Command::Complete(vec![Completion { held: attempt, result }]), &mut out)
                .unwrap();
        }
        if number % 4 == 3 {
            frames.extend(parts.batches.seal());
            parts.writer.append(&mut frames, NOW).unwrap();
            parts.maintenance.turn(&mut engine, &mut parts.batches, NOW);
        }
        for events in parts.maintenance.events() {
            match events {
                tenure_store::MaintenanceEvent::Snapshot { .. } => snapshots += 1,
                tenure_store::MaintenanceEvent::Cleaned { .. } => {}
                tenure_store::MaintenanceEvent::NoRoomForSnapshot { .. } => panic!("there is room"),
                tenure_store::MaintenanceEvent::Failed { doing, error } => panic!("{doing}: {error}"),
            }
        }
    }
    parts.maintenance.ask_for_snapshot();
    loop {
        let pace = parts.maintenance.turn(&mut engine, &mut parts.batches, NOW);
        frames.extend(parts.batches.seal());
        parts.writer.append(&mut frames, NOW).unwrap();
        if pace == Pace::Idle {
            break;
        }
        std::thread::yield_now();
    }
    assert!(snapshots + parts.maintenance.events().len() >= 2);
    let last_event = engine.last_event();
    let bodies = |engine: &tenure_engine::Engine, reader: &tenure_store::Reader| {
        let mut found = Vec::new();
        engine.scan_tasks(None, usize::MAX, &mut |task, _, _| {
            found.push((
                task.id,
                reader.read(Which::Body.of(task)).unwrap(),
                reader.read(Which::Result.of(task)).unwrap(),
            ));
        });
        found.sort();
        found
    };
    let before = bodies(&engine, &parts.reader);
    assert!(before.len() >= 60, "{}", before.len());
    let backup = RealDisk::new(dir.path().join("backup")).unwrap();
    parts.reader.backup(&backup).unwrap();
    assert!(parts.reader.free_bytes().unwrap() > 0);
    drop((parts.batches, parts.writer, parts.reader, parts.maintenance));
    maintenance_thread.join().unwrap();

    check_backup(&backup).unwrap();
    let copy = RealDisk::new(dir.path().join("copy")).unwrap();
    restore(&backup, &copy).unwrap();
    for name in ["store", "copy"] {
        let disk = RealDisk::new(dir.path().join(name)).unwrap();
        let found = verify(&disk, few_ended(), NOW).unwrap();
        assert!(found.is_sound() && found.torn.is_none(), "{name}: {found:?}");
        let Opened { engine, store, report } = open(&dir.path().join(name));
        assert!(report.snapshot_tasks > 0);
        let parts = store.split();
        assert_eq!(bodies(&engine, &parts.reader), before, "{name}");
        assert_eq!(engine.last_event(), last_event);
        let Events::Some { events, .. } = parts.reader.events(1, 10_000).unwrap() else { panic!("no gap") };
        assert_eq!(events[0].seq, 1);
    }
}

/// A few tasks in a directory that no process has open.
fn directory_with_tasks(dir: &std::path::Path) {
    let disk = RealDisk::new(dir).unwrap();
    let Opened { mut engine, store, .. } = Store::open(Arc::new(disk), settings(), few_ended(), NOW).unwrap();
    let mut parts = store.split();
    let client = Peer { session: SessionId(2), namespace: "default".into(), identity: "c".into() };
    for number in 0..5 {
        let blob = parts.batches.blob(&body(number, 200));
        let task = NewTask { body: blob, ..NewTask::new(TaskId::from_u128(number as u128 + 1), "q") };
        let mut out = Listening { batches: &mut parts.batches, held: &mut Vec::new() };
        engine.handle(NOW, &client, Command::Submit(vec![task]), &mut out).unwrap();
        let mut frames: Vec<_> = parts.batches.seal().into_iter().collect();
        parts.writer.append(&mut frames, NOW).unwrap();
    }
}

fn files_of(dir: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_directory_that_cannot_be_written_to_is_verified_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    directory_with_tasks(dir.path());
    let lock = dir.path().join("lock");
    for lock_is_there in [true, false] {
        if !lock_is_there {
            std::fs::remove_file(&lock).unwrap();
        }
        let before = files_of(dir.path());
        let disk = RealDisk::read_only(dir.path()).unwrap();
        let found = verify(&disk, few_ended(), NOW).unwrap();
        assert!(found.is_sound() && found.tasks == 5, "{found:?}");
        assert_eq!(files_of(dir.path()), before);
        let name = before.iter().find(|(name, _)| name.starts_with("journal")).unwrap().0.clone();
        assert!(
            disk.create("new").is_err() && disk.remove(&name).is_err() && disk.rename(&name, "new").is_err()
        );
        assert!(disk.open(&name).unwrap().write_at(b"x", 0).is_err());
        assert_eq!(files_of(dir.path()), before);
    }
}

#[test]
fn a_directory_in_use_is_not_verified_and_one_that_is_looked_at_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    directory_with_tasks(dir.path());
    let (writing, looking) = (RealDisk::new(dir.path()).unwrap(), RealDisk::read_only(dir.path()).unwrap());
    let held = writing.lock().unwrap();
    let pid = std::process::id().to_string();
    assert!(matches!(looking.lock(), Err(StoreError::Locked { pid: holder }) if holder == pid));
    drop(held);
    let held = looking.lock().unwrap();
    // The number of a process that is gone is no help.
    std::fs::write(dir.path().join("lock"), "4000000000\n").unwrap();
    assert!(matches!(writing.lock(), Err(StoreError::Locked { pid }) if pid == "(unknown)"));
    drop(held);
    assert!(writing.lock().is_ok());
}

#[test]
fn what_the_store_makes_is_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, backup) = (parent.path().join("data"), parent.path().join("backup"));
    directory_with_tasks(&dir);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // A file that was there with other permissions is made private when it is created again.
    std::fs::write(dir.join("old"), b"").unwrap();
    std::fs::set_permissions(dir.join("old"), std::fs::Permissions::from_mode(0o644)).unwrap();
    RealDisk::new(&dir).unwrap().create("old").unwrap();
    let store =
        Store::open(Arc::new(RealDisk::new(&dir).unwrap()), settings(), few_ended(), NOW).unwrap().store;
    store.split().reader.backup(&RealDisk::new(&backup).unwrap()).unwrap();
    for dir in [&dir, &backup] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
        assert_eq!(RealDisk::new(dir).unwrap().open_to_others().unwrap(), None);
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(RealDisk::new(&dir).unwrap().open_to_others().unwrap(), Some(0o750));
}
