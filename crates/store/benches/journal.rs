//! What the store costs, next to what the disk costs anyway, in one run: `cargo bench -p tenure-store`.
//!
//! Appending: batches of tasks with 300-byte bodies, encoded, appended and synced, in turn with a plain append of the
//! same bytes and a sync, so that both meet the same disk. Coming back: a million waiting tasks, from a snapshot and
//! from the journal alone.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tenure_engine::notice::Notice;
use tenure_engine::{
    Blob, Change, Command, Engine, Event, NewTask, Output, Peer, SessionId, Settings, TaskId, Timestamp,
};
use tenure_store::{Batches, Opened, Pace, Parts, RealDisk, Store, StoreSettings, Sync};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const BODY_BYTES: usize = 300;
const TASKS: usize = 1_000_000;

fn main() {
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let dir = tempfile::tempdir().expect("a directory can be made");
    if wanted("append") {
        appending(dir.path());
    }
    if wanted("recover") {
        coming_back(dir.path());
    }
}

/// How long ours takes, and how long the same bytes take at the end of a plain file, and in a file that was filled with
/// zeros before: the least that a sync costs here.
fn appending(dir: &Path) {
    println!("append and sync, {BODY_BYTES}-byte bodies");
    println!("                  ours               append            overwrite        ours/");
    println!(
        "  batch      p50       p99       p50       p99       p50       p99    append  records/s  CPU us/record"
    );
    for (batch, rounds) in [(1, 2000), (16, 1500), (256, 600), (2048, 150)] {
        let store_dir = dir.join(format!("append-{batch}"));
        let (mut engine, mut parts) = open(&store_dir, Sync::Always);
        let maintenance_thread = std::thread::spawn(move || parts.maintenance_thread.run());
        let plain = create(&dir.join(format!("plain-{batch}")));
        let filled = create(&dir.join(format!("filled-{batch}")));
        fill(&filled, (batch * rounds * (BODY_BYTES + 60) + rounds * 400) as u64);
        let (mut ours, mut theirs, mut least) = (Vec::new(), Vec::new(), Vec::new());
        let (mut cpu, mut offset, mut number) = (Duration::ZERO, 0, 0);
        for _ in 0..rounds {
            let cpu_before = cpu_time();
            for _ in 0..batch {
                number += 1;
                submit(&mut engine, &mut parts.batches, number, &[7; BODY_BYTES]);
            }
            let frame = parts.batches.seal().expect("there is something in it");
            let bytes = vec![7; (frame.end() - frame.position()) as usize];
            let mut frames = vec![frame];
            let begin = Instant::now();
            parts.writer.append(&mut frames, NOW).expect("the disk has room");
            // What the engine and the encoding take is counted as CPU, not as the time of an append.
            ours.push(begin.elapsed());
            cpu += cpu_time() - cpu_before;
            parts.maintenance.turn(&mut engine, &mut parts.batches, NOW);
            theirs.push(append_plain(&plain, &bytes, offset));
            least.push(append_plain(&filled, &bytes, offset));
            offset += bytes.len() as u64;
        }
        drop(parts.maintenance);
        maintenance_thread.join().unwrap();
        let total: Duration = ours.iter().sum();
        let plain_total: Duration = theirs.iter().sum();
        let records = (batch * rounds) as f64;
        let columns =
            [&mut ours, &mut theirs, &mut least].map(|times| (percentile(times, 50), percentile(times, 99)));
        print!("  {batch:>5}");
        for (middle, high) in columns {
            print!("  {middle:>5.0} us  {high:>5.0} us");
        }
        println!(
            "  {:>8.2}  {:>9.0}  {:>13.2}",
            total.as_secs_f64() / plain_total.as_secs_f64(),
            records / total.as_secs_f64(),
            cpu.as_secs_f64() * 1e6 / records,
        );
    }
}

fn create(path: &Path) -> File {
    OpenOptions::new().create_new(true).write(true).open(path).expect("a file can be made")
}

fn fill(file: &File, bytes: u64) {
    let zeros = vec![0; 1 << 20];
    for piece in 0..=bytes >> 20 {
        file.write_all_at(&zeros, piece << 20).expect("the disk has room");
    }
    file.sync_all().expect("the disk can sync");
}

fn append_plain(file: &File, bytes: &[u8], offset: u64) -> Duration {
    let begin = Instant::now();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_data().unwrap();
    begin.elapsed()
}

fn coming_back(dir: &Path) {
    let store_dir = dir.join("recover");
    let (mut engine, mut parts) = open(&store_dir, Sync::Os);
    println!("coming back with {TASKS} waiting tasks, 256-byte bodies");
    let begin = Instant::now();
    for number in 1..=TASKS {
        submit(&mut engine, &mut parts.batches, number, &[7; 256]);
        if number % 256 == 0 || number == TASKS {
            let mut frames: Vec<_> = parts.batches.seal().into_iter().collect();
            parts.writer.append(&mut frames, NOW).expect("the disk has room");
        }
    }
    println!(
        "  written in {:.2} s, {} bytes per task",
        begin.elapsed().as_secs_f64(),
        bytes_in(&store_dir, "journal") / TASKS as u64
    );
    drop((engine, parts));

    for round in 0..3 {
        let begin = Instant::now();
        let (engine, parts) = open(&store_dir, Sync::Os);
        println!("  from the journal alone: {:.3} s", begin.elapsed().as_secs_f64());
        if round < 2 {
            drop((engine, parts));
            continue;
        }
        take_snapshot(engine, parts);
    }
    println!("  snapshot: {} bytes per task", bytes_in(&store_dir, "snapshot") / TASKS as u64);
    for _ in 0..3 {
        let begin = Instant::now();
        let (engine, parts) = open(&store_dir, Sync::Os);
        println!("  from the snapshot: {:.3} s", begin.elapsed().as_secs_f64());
        drop((engine, parts));
    }
}

fn take_snapshot(mut engine: Engine, mut parts: Parts) {
    let maintenance_thread = std::thread::spawn(move || parts.maintenance_thread.run());
    parts.maintenance.ask_for_snapshot();
    let (mut longest, begin) = (Duration::ZERO, Instant::now());
    loop {
        let turn = Instant::now();
        let pace = parts.maintenance.turn(&mut engine, &mut parts.batches, NOW);
        longest = longest.max(turn.elapsed());
        parts.writer.tick(NOW).expect("the disk can sync");
        match pace {
            Pace::Idle => break,
            Pace::Soon => std::thread::sleep(Duration::from_micros(200)),
            Pace::Again => {}
        }
    }
    println!(
        "  snapshot taken in {:.2} s, longest slice {} us",
        begin.elapsed().as_secs_f64(),
        longest.as_micros()
    );
    drop(parts.maintenance);
    maintenance_thread.join().unwrap();
}

fn open(dir: &Path, sync: Sync) -> (Engine, Parts) {
    let settings = StoreSettings { sync, snapshot_bytes: 1 << 40, ..StoreSettings::default() };
    let disk = Arc::new(RealDisk::new(dir).expect("the directory can be made"));
    let Opened { engine, store, .. } =
        Store::open(disk, settings, Settings::default(), NOW).expect("it opens");
    (engine, store.split())
}

fn submit(engine: &mut Engine, batches: &mut Batches, number: usize, body: &[u8]) {
    let peer = Peer { session: SessionId(1), namespace: "default".into(), identity: "bench".into() };
    let id = TaskId::from_u128((number as u128) << 64 | 0x7000_8000_0000_0000);
    let body = batches.blob(body);
    let command = Command::Submit(vec![NewTask { body, ..NewTask::new(id, "images") }]);
    engine.handle(NOW, &peer, command, &mut Journaling(batches)).expect("it is allowed");
}

struct Journaling<'a>(&'a mut Batches);

impl Output for Journaling<'_> {
    fn record(&mut self, event: Event, change: Change<'_>) {
        self.0.record(&event, change);
    }
    fn notice(&mut self, _: SessionId, _: Notice) {}
    fn body(&mut self, bytes: &[u8]) -> Blob {
        self.0.blob(bytes)
    }

    fn freed(&mut self, blob: Blob) {
        self.0.dead(blob);
    }
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn bytes_in(dir: &Path, kind: &str) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(kind))
        .map(|entry| entry.metadata().unwrap().len())
        .sum()
}
