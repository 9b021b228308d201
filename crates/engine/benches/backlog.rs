//! What an assignment costs with much or little waiting behind it, with one worker or thousands, and what a waiting task
//! costs in memory.
//!
//! Prints, for backlogs of ten thousand, one million and ten million tasks, the time of one cycle
//! (submit, assign, start, complete) and the resident bytes per waiting task. Times are processor time where the system
//! tells it, so that other programs on the machine do not count.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tenure_engine::command::Completion;
use tenure_engine::{
    After, AfterTask, Blob, Change, Command, Condition, Demand, Engine, Event, Held, Name, NewArray, NewTask,
    Notice, Output, Peer, Quantity, Rate, Resource, SessionId, Settings, TaskId, Timestamp, WorkerSpec,
    limits,
};

const CYCLES: u64 = 200_000;
const CROWD_CYCLES: u64 = 50_000;
/// How many workers the largest crowd has.
const CROWD: u64 = 5_000;

const BACKLOGS: [u64; 3] = [10_000, 1_000_000, 10_000_000];
/// How many elements one array has at most.
const ARRAY_MAX: u64 = limits::ARRAY_SIZE_MAX as u64;

/// Measures at each of these backlogs, and prints.
type Table = fn(&[u64]);

/// The tables, each with the name by which `cargo xtask bench engine -- NAME` selects it.
const TABLES: [(&str, Table); 7] = [
    ("plain", plain_table),
    ("after", after_table),
    ("resources", resources_table),
    ("arrays", arrays_table),
    ("fair", fair_table),
    ("graphs", graphs_table),
    ("crowds", crowds_table),
];

/// One workload alone, for a profiler: the nanoseconds that a task takes with this backlog.
type Workload = fn(u64) -> f64;

/// They run only if they are named. A profiler that counts inside of `measured` leaves the preparations out.
const WORKLOADS: [(&str, Workload); 12] = [
    ("cycle-plain", |backlog| cycle(backlog, Kind::Plain)),
    ("cycle-after", |backlog| cycle(backlog, Kind::After)),
    ("cycle-resources", |backlog| cycle(backlog, Kind::Resources)),
    ("cycle-arrays", |backlog| arrays(backlog).1),
    ("cycle-keyless", |backlog| fair(backlog, 0, false)),
    ("cycle-shares", |backlog| fair(backlog, 100, false)),
    ("cycle-rates", |backlog| fair(backlog, 0, true)),
    ("graph-none", |_| graph(&|_| Vec::new()).0),
    ("graph-chain", |_| graph(&chain).0),
    ("graph-fan", |_| graph(&fan).0),
    ("crowd-equal", |_| crowd(CROWD, false)),
    ("crowd-unlike", |_| crowd(CROWD, true)),
];

fn main() {
    let largest: u64 =
        std::env::var("TENURE_BENCH_BACKLOG").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let backlogs: Vec<u64> = BACKLOGS.into_iter().filter(|backlog| *backlog <= largest).collect();
    // Cargo adds `--bench`.
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, table) in TABLES {
        if named.is_empty() || named.iter().any(|argument| argument == name) {
            table(&backlogs);
            println!();
        }
    }
    for (name, workload) in WORKLOADS {
        if named.iter().any(|argument| argument == name) {
            for backlog in &backlogs {
                println!("{name:>16}  {backlog:>12}  {:>14.0}", workload(*backlog));
            }
        }
    }
}

/// The processor time of what is measured, in nanoseconds.
#[inline(never)]
fn measured(work: impl FnOnce()) -> u64 {
    let start = spent();
    work();
    spent() - start
}

fn plain_table(backlogs: &[u64]) {
    println!("{:>12}  {:>14}  {:>14}  {:>16}", "waiting", "submit ns/task", "cycle ns/task", "bytes/waiting");
    let mut base = None;
    for backlog in backlogs {
        let (submit, cycle, bytes) = measure(*backlog);
        let ratio = cycle / *base.get_or_insert(cycle);
        println!("{backlog:>12}  {submit:>14.0}  {cycle:>14.0}  {bytes:>16.0}  ({ratio:.2}x the smallest)");
    }
}

fn after_table(backlogs: &[u64]) {
    println!("{:>12}  {:>14}  {:>14}", "waiting", "plain ns/task", "after ns/task");
    for backlog in backlogs {
        let (plain, after) = (cycle(*backlog, Kind::Plain), cycle(*backlog, Kind::After));
        println!("{backlog:>12}  {plain:>14.0}  {after:>14.0}  ({:.2}x)", after / plain);
    }
}

fn resources_table(backlogs: &[u64]) {
    println!("{:>12}  {:>14}  {:>14}", "waiting", "plain ns/task", "resources ns/task");
    for backlog in backlogs {
        let (plain, resources) = (cycle(*backlog, Kind::Plain), cycle(*backlog, Kind::Resources));
        println!("{backlog:>12}  {plain:>14.0}  {resources:>14.0}  ({:.2}x)", resources / plain);
    }
}

fn arrays_table(backlogs: &[u64]) {
    println!(
        "{:>12}  {:>14}  {:>14}  {:>16}",
        "in arrays", "submit ns/task", "cycle ns/task", "bytes/waiting"
    );
    for size in backlogs {
        let (plain, (submit, each, bytes)) = (cycle(*size, Kind::Plain), arrays(*size));
        println!(
            "{size:>12}  {submit:>14.0}  {each:>14.0}  {bytes:>16.0}  ({:.2}x the plain cycle)",
            each / plain
        );
    }
}

fn fair_table(backlogs: &[u64]) {
    println!("{:>12}  {:>14}  {:>14}  {:>14}", "waiting", "plain ns/task", "shares ns/task", "rates ns/task");
    for backlog in backlogs {
        let plain = fair(*backlog, 0, false);
        let (shares, rates) = (fair(*backlog, 100, false), fair(*backlog, 0, true));
        println!(
            "{backlog:>12}  {plain:>14.0}  {shares:>14.0}  {rates:>14.0}  ({:.2}x, {:.2}x)",
            shares / plain,
            rates / plain
        );
    }
}

fn graphs_table(_: &[u64]) {
    println!("{:>12}  {:>14}  {:>14}", "graph", "ns/task", "bytes/waiting");
    let (plain, plain_bytes) = graph(&|_| Vec::new());
    println!("{:>12}  {plain:>14.0}  {plain_bytes:>14.0}", "none");
    for (name, after) in [("chain", &chain as &dyn Fn(u64) -> Vec<u64>), ("fan", &fan)] {
        let (each, bytes) = graph(after);
        println!("{name:>12}  {each:>14.0}  {bytes:>14.0}  ({:.2}x the time without edges)", each / plain);
    }
}

fn crowds_table(_: &[u64]) {
    println!("{:>12}  {:>14}  {:>14}", "workers", "equal ns/task", "unlike ns/task");
    for workers in [1, 100, CROWD] {
        println!("{workers:>12}  {:>14.0}  {:>14.0}", crowd(workers, false), crowd(workers, true));
    }
}

const GRAPH: u64 = 100_000;
/// How many tasks one task of the fan waits for: the most it may.
const JOIN: u64 = 1_000;

/// Each task after the one before.
fn chain(number: u64) -> Vec<u64> {
    number.checked_sub(1).into_iter().collect()
}

/// All after the first, then joined by the thousand, and the joins by the last.
fn fan(number: u64) -> Vec<u64> {
    let leaves = GRAPH - GRAPH / JOIN - 2;
    let join = number.saturating_sub(leaves + 1);
    match number {
        0 => Vec::new(),
        _ if number <= leaves => vec![0],
        _ if number + 1 < GRAPH => (1 + join * JOIN..=leaves.min((join + 1) * JOIN)).collect(),
        _ => (leaves + 1..number).collect(),
    }
}

/// Submits a graph and works it off: the time for each task from its submission to its end, and what it takes while it
/// waits.
fn graph(after: &dyn Fn(u64) -> Vec<u64>) -> (f64, f64) {
    let mut engine = Engine::new(Settings { ended_kept: 1_000, ..Settings::default() });
    let mut out = Sink::default();
    let (client, worker, now) = (peer(1), peer(2), Timestamp(1));
    let before = resident_bytes();
    let submitted = measured(|| {
        for first in (0..GRAPH).step_by(128) {
            let batch =
                (first..(first + 128).min(GRAPH)).map(|number| dependent(number, after(number))).collect();
            engine.handle(now, &client, Command::Submit(batch), &mut out).expect("a submission is answered");
        }
    });
    let bytes = resident_bytes().saturating_sub(before) as f64 / GRAPH as f64;
    let spec = WorkerSpec::new("w", vec!["q".into()], 16);
    engine.handle(now, &worker, Command::Register(Box::new(spec)), &mut out).expect("registered");
    let mut done = 0;
    let worked_off = measured(|| {
        while done < GRAPH {
            out.sessions.clear();
            let held: Vec<Held> = out.assigned.drain(..).collect();
            assert!(!held.is_empty(), "a worker holds a task");
            done += held.len() as u64;
            engine.handle(now, &worker, Command::Start(held.clone()), &mut out).expect("started");
            let completions = held.into_iter().map(|held| Completion { held, result: Blob::EMPTY }).collect();
            engine.handle(now, &worker, Command::Complete(completions), &mut out).expect("completed");
        }
    });
    ((submitted + worked_off) as f64 / GRAPH as f64, bytes)
}

fn dependent(number: u64, after: Vec<u64>) -> NewTask {
    let one = |number| After { task: AfterTask::Id(new_task(number).id), condition: Condition::Completed };
    NewTask { after: after.into_iter().map(one).collect(), ..new_task(number) }
}

/// What the tasks of a cycle are like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Each new task waits for one that is held.
    After,
    /// Each task needs slots, memory and a part of a gpu; four different demands.
    Resources,
}

/// A task of a cycle.
fn of_kind(kind: Kind, number: u64) -> NewTask {
    if kind != Kind::Resources {
        return new_task(number);
    }
    let resources = vec![
        Resource::new("gpus", Quantity(500)),
        Resource::new("mem", Quantity::whole((1 + number % 4) * 1_000_000_000)),
    ];
    NewTask { demand: Demand { slots: 1, resources }, ..new_task(number) }
}

/// A cycle with a backlog behind it.
fn cycle(backlog: u64, kind: Kind) -> f64 {
    let mut engine = Engine::new(Settings { ended_kept: 1_000, ..Settings::default() });
    let mut out = Sink::default();
    let (client, worker) = (peer(1), peer(2));
    for first in (0..backlog).step_by(128) {
        let batch = (first..(first + 128).min(backlog)).map(|number| of_kind(kind, number)).collect();
        engine
            .handle(Timestamp(first), &client, Command::Submit(batch), &mut out)
            .expect("a submission is answered");
    }
    let mut spec = WorkerSpec::new("w", vec!["q".into()], 256);
    if kind == Kind::Resources {
        spec.resources =
            vec![Resource::new("gpus", Quantity::whole(128)), Resource::new("mem", Quantity::whole(1 << 40))];
    }
    let now = Timestamp(backlog);
    engine.handle(now, &worker, Command::Register(Box::new(spec)), &mut out).expect("registered");
    let mut done = 0;
    let nanos = measured(|| {
        while done < CYCLES {
            out.sessions.clear();
            let held: Vec<Held> = out.assigned.drain(..).collect();
            done += held.len() as u64;
            let fresh = held.iter().enumerate().map(|(index, held)| {
                let after = After { task: AfterTask::Id(held.task), condition: Condition::Completed };
                let after = if kind == Kind::After { vec![after] } else { Vec::new() };
                NewTask { after, ..of_kind(kind, backlog + done + index as u64) }
            });
            let fresh = fresh.collect();
            engine.handle(now, &client, Command::Submit(fresh), &mut out).expect("a submission is answered");
            engine.handle(now, &worker, Command::Start(held.clone()), &mut out).expect("started");
            let completions = held.into_iter().map(|held| Completion { held, result: Blob::EMPTY }).collect();
            engine.handle(now, &worker, Command::Complete(completions), &mut out).expect("completed");
        }
    });
    nanos as f64 / done as f64
}

/// Arrays with this many elements in all, and cycles of their elements; each element that ends is replaced by one of
/// another array.
fn arrays(size: u64) -> (f64, f64, f64) {
    let mut engine = Engine::new(Settings { ended_kept: 1_000, ..Settings::default() });
    let mut out = Sink::default();
    let (client, worker, now) = (peer(1), peer(2), Timestamp(1));
    let before = resident_bytes();
    let start = spent();
    for first in (0..size).step_by(ARRAY_MAX as usize) {
        submit_array(&mut engine, &client, &mut out, first, ARRAY_MAX.min(size - first));
    }
    let submit = (spent() - start) as f64 / size as f64;
    let bytes = resident_bytes().saturating_sub(before) as f64 / size as f64;
    let spec = WorkerSpec::new("w", vec!["q".into()], 256);
    engine.handle(now, &worker, Command::Register(Box::new(spec)), &mut out).expect("registered");
    let mut done = 0;
    let nanos = measured(|| {
        while done < CYCLES {
            out.sessions.clear();
            let held: Vec<Held> = out.assigned.drain(..).collect();
            done += held.len() as u64;
            submit_array(&mut engine, &client, &mut out, size + done, held.len() as u64);
            engine.handle(now, &worker, Command::Start(held.clone()), &mut out).expect("started");
            let completions = held.into_iter().map(|held| Completion { held, result: Blob::EMPTY }).collect();
            engine.handle(now, &worker, Command::Complete(completions), &mut out).expect("completed");
        }
    });
    (submit, nanos as f64 / done as f64, bytes)
}

fn submit_array(engine: &mut Engine, client: &Peer, out: &mut Sink, number: u64, size: u64) {
    let task = NewTask { body: Blob::new(number * 300, 256), ..new_task(number + 1) };
    let size = u32::try_from(size).expect("a size of an array");
    let array = NewArray { task, size, first: 0, step: 1, limit: None, bodies: Vec::new() };
    engine
        .handle(Timestamp(1), client, Command::SubmitArray(Box::new(array)), out)
        .expect("an array is accepted");
}

/// A cycle with a backlog behind it, of tasks that carry one of this many share keys, or whose queue and tag have rates.
/// The rates are never used up: what is measured is the tokens, not the wait for them.
fn fair(backlog: u64, shares: u64, rated: bool) -> f64 {
    let mut engine = Engine::new(Settings { ended_kept: 1_000, ..Settings::default() });
    let mut out = Sink::default();
    let (client, worker) = (peer(1), peer(2));
    let keys: Vec<Name> = (0..shares).map(|key| format!("user {key}").into()).collect();
    let tags: Vec<Name> = if rated { vec!["t".into()] } else { Vec::new() };
    // A user submits a batch at a time.
    let batch_of = |first: u64, count: u64| -> Command {
        let share = keys.get((first / 128 % shares.max(1)) as usize);
        let one = |number| NewTask { share: share.cloned(), tags: tags.clone(), ..new_task(number) };
        Command::Submit((first..first + count).map(one).collect())
    };
    if rated {
        let rate = Some(Rate { count: 1_000_000, period: Duration::from_millis(1), burst: 1_000_000 });
        let of_queue = Command::SetQueueRate { queue: "q".into(), rate };
        let of_tag = Command::SetTagRate { tag: "t".into(), rate };
        for set in [of_queue, of_tag] {
            engine.handle(Timestamp(1), &client, set, &mut out).expect("a rate is set");
        }
    }
    for first in (0..backlog).step_by(128) {
        let batch = batch_of(first, 128.min(backlog - first));
        engine.handle(Timestamp(first), &client, batch, &mut out).expect("a submission is answered");
    }
    let spec = WorkerSpec::new("w", vec!["q".into()], 256);
    let now = Timestamp(backlog);
    engine.handle(now, &worker, Command::Register(Box::new(spec)), &mut out).expect("registered");
    let mut done = 0;
    let nanos = measured(|| {
        while done < CYCLES {
            let now = Timestamp(backlog + done);
            out.sessions.clear();
            let held: Vec<Held> = out.assigned.drain(..).collect();
            assert!(!held.is_empty(), "the worker has tasks");
            let fresh = batch_of(backlog + done, held.len() as u64);
            done += held.len() as u64;
            engine.handle(now, &client, fresh, &mut out).expect("a submission is answered");
            engine.handle(now, &worker, Command::Start(held.clone()), &mut out).expect("started");
            let completions = held.into_iter().map(|held| Completion { held, result: Blob::EMPTY }).collect();
            engine.handle(now, &worker, Command::Complete(completions), &mut out).expect("completed");
        }
    });
    nanos as f64 / done as f64
}

/// One cycle at a time, with many workers of one slot; if they are unlike, each offers something that no other does.
fn crowd(workers: u64, unlike: bool) -> f64 {
    let mut engine = Engine::new(Settings { ended_kept: 1_000, ..Settings::default() });
    let mut out = Sink::default();
    let client = peer(1);
    let now = Timestamp(1);
    let batch = (0..workers * 2).map(new_task).collect();
    engine.handle(now, &client, Command::Submit(batch), &mut out).expect("a submission is answered");
    for number in 0..workers {
        let mut spec = WorkerSpec::new(format!("w{number}"), vec!["q".into()], 1);
        if unlike {
            spec.capabilities = vec![format!("host {number}").into()];
        }
        engine
            .handle(now, &peer(number + 2), Command::Register(Box::new(spec)), &mut out)
            .expect("registered");
    }
    let mut held: VecDeque<(SessionId, Held)> = VecDeque::new();
    let nanos = measured(|| {
        for number in 0..CROWD_CYCLES {
            held.extend(out.sessions.drain(..).zip(out.assigned.drain(..)));
            let (session, done) = held.pop_front().expect("a worker holds a task");
            let worker = Peer { session, ..client.clone() };
            let completion = Completion { held: done, result: Blob::EMPTY };
            engine.handle(now, &worker, Command::Complete(vec![completion]), &mut out).expect("completed");
            let fresh = vec![new_task(workers * 2 + number)];
            engine.handle(now, &client, Command::Submit(fresh), &mut out).expect("a submission is answered");
        }
    });
    nanos as f64 / CROWD_CYCLES as f64
}

fn measure(backlog: u64) -> (f64, f64, f64) {
    let mut engine = Engine::new(Settings { ended_kept: 1_000, ..Settings::default() });
    let mut out = Sink::default();
    let client = peer(1);
    let worker = peer(2);
    let before = resident_bytes();
    let start = spent();
    for first in (0..backlog).step_by(128) {
        let batch = (first..(first + 128).min(backlog)).map(new_task).collect();
        engine
            .handle(Timestamp(first), &client, Command::Submit(batch), &mut out)
            .expect("a submission is answered");
    }
    let submit = (spent() - start) as f64 / backlog as f64;
    let bytes = (resident_bytes() - before) as f64 / backlog as f64;

    let spec = WorkerSpec::new("w", vec!["q".into()], 256);
    engine
        .handle(Timestamp(backlog), &worker, Command::Register(Box::new(spec)), &mut out)
        .expect("registered");
    let mut done = 0;
    let nanos = measured(|| {
        while done < CYCLES {
            let now = Timestamp(backlog + done);
            out.sessions.clear();
            let held: Vec<Held> = out.assigned.drain(..).collect();
            done += held.len() as u64;
            let fresh = (0..held.len() as u64).map(|index| new_task(backlog + done + index)).collect();
            engine.handle(now, &client, Command::Submit(fresh), &mut out).expect("a submission is answered");
            engine.handle(now, &worker, Command::Start(held.clone()), &mut out).expect("started");
            let completions = held.into_iter().map(|held| Completion { held, result: Blob::EMPTY }).collect();
            engine.handle(now, &worker, Command::Complete(completions), &mut out).expect("completed");
        }
    });
    (submit, nanos as f64 / done as f64, bytes)
}

fn new_task(number: u64) -> NewTask {
    // The ids are spread like random ones.
    let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    NewTask { body: Blob::new(number * 300, 256), ..NewTask::new(TaskId::from_u128(id), "q") }
}

fn peer(session: u64) -> Peer {
    Peer { session: SessionId(session), namespace: "default".into(), identity: "bench".into() }
}

/// Takes assignments and forgets the rest, as a hub that has journaled it would.
#[derive(Default)]
struct Sink {
    assigned: Vec<Held>,
    sessions: Vec<SessionId>,
    records: u64,
}

impl Output for Sink {
    fn record(&mut self, event: Event, _: Change<'_>) {
        self.records += std::hint::black_box(event).seq & 1;
    }

    fn notice(&mut self, to: SessionId, notice: Notice) {
        if let Notice::Assign(assignment) = notice {
            self.sessions.push(to);
            self.assigned.push(Held { task: assignment.task, attempt: assignment.attempt });
        }
    }

    fn body(&mut self, _: &[u8]) -> Blob {
        Blob::EMPTY
    }

    fn freed(&mut self, _: Blob) {}
}

/// Nanoseconds of processor time so far; of the clock, where the system does not tell.
fn spent() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let spent = schedstat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    spent.unwrap_or(start.elapsed().as_nanos() as u64)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
