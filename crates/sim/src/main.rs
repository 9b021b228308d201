//! `cargo xtask sim`: simulates many worlds and reports the first broken promise.

#![warn(clippy::too_many_lines)]

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use tenure_sim::cluster::{self, ClusterPlan};
use tenure_sim::{Mutation, Outcome, Plan, live, run, run_cluster, run_topics};

/// Lives through simulated worlds, one seed each, and stops at the first broken promise.
#[derive(Parser)]
struct Arguments {
    /// Replay one seed and say what came of it.
    #[arg(long)]
    seed: Option<u64>,
    /// With a seed: print everything that happens.
    #[arg(long)]
    trace: bool,
    /// How long to try seeds.
    #[arg(long, default_value_t = 1.0, conflicts_with = "worlds")]
    minutes: f64,
    /// Try this many seeds, however long that takes.
    #[arg(long)]
    worlds: Option<u64>,
    /// Live through the topics of each seed alone, which is faster.
    #[arg(long)]
    topics: bool,
    /// Live through groups of three brokers on a replicated journal instead.
    #[arg(long)]
    cluster: bool,
    /// The first seed to try; by default the clock chooses.
    #[arg(long)]
    from: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        if arguments.cluster {
            let plan = ClusterPlan { trace: arguments.trace, ..ClusterPlan::from_seed(seed, None) };
            let outcome = cluster::live_with(plan);
            println!("seed {seed}: {outcome:?}");
            return report_failure(seed, &outcome.broken, arguments.cluster);
        }
        if arguments.trace {
            live(Plan { trace: true, ..Plan::from_seed(seed, Mutation::None) });
        }
        let outcome = run(seed, Mutation::None);
        println!(
            "seed {seed}: {} tasks, {} happenings, {} messages, {} deliveries, {} restarts",
            outcome.tasks, outcome.happenings, outcome.messages, outcome.deliveries, outcome.restarts
        );
        return report_failure(seed, &outcome.broken, false);
    }
    let first = arguments.from.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64 >> 10
    });
    let world = match (arguments.topics, arguments.cluster) {
        (_, true) => run_cluster,
        (true, false) => run_topics,
        (false, false) => run,
    };
    let begun = Instant::now();
    let until = match arguments.worlds {
        Some(worlds) => Until::Seed(first + worlds),
        None => Until::Time(begun + Duration::from_secs_f64(arguments.minutes * 60.0)),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let found: Vec<Tally> = std::thread::scope(|scope| {
        let walkers: Vec<_> = (0..threads)
            .map(|walker| scope.spawn(move || walk(first + walker, threads, until, world)))
            .collect();
        walkers.into_iter().map(|walker| walker.join().expect("a world does not panic")).collect()
    });
    let sum = |of: fn(&Tally) -> u64| found.iter().map(of).sum::<u64>();
    let (seeds, tasks, restarts) = (sum(|one| one.seeds), sum(|one| one.tasks), sum(|one| one.restarts));
    let messages = sum(|one| one.messages);
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{seeds} worlds in {seconds:.1} s ({:.0} a minute): {tasks} tasks, {messages} messages, {restarts} broker restarts",
        seeds as f64 / seconds * 60.0
    );
    match found.into_iter().find_map(|tally| tally.broken) {
        Some((seed, broken)) => report_failure(seed, &broken, arguments.cluster),
        None => {
            println!("every promise was kept");
            ExitCode::SUCCESS
        }
    }
}

#[derive(Default)]
struct Tally {
    seeds: u64,
    tasks: u64,
    restarts: u64,
    messages: u64,
    broken: Option<(u64, Vec<String>)>,
}

/// The world of a seed.
type World = fn(u64, Mutation) -> Outcome;

/// When to stop trying seeds.
#[derive(Clone, Copy)]
enum Until {
    Seed(u64),
    Time(Instant),
}

impl Until {
    fn is_over(self, seed: u64) -> bool {
        match self {
            Self::Seed(end) => seed >= end,
            Self::Time(end) => Instant::now() >= end,
        }
    }
}

fn walk(first: u64, step: u64, until: Until, world: World) -> Tally {
    let mut tally = Tally::default();
    let mut seed = first;
    while !until.is_over(seed) {
        let outcome = world(seed, Mutation::None);
        tally.seeds += 1;
        tally.tasks += outcome.tasks as u64;
        tally.restarts += outcome.restarts;
        tally.messages += outcome.messages;
        if !outcome.broken.is_empty() {
            tally.broken = Some((seed, outcome.broken));
            return tally;
        }
        seed += step;
    }
    tally
}

fn report_failure(seed: u64, broken: &[String], is_cluster: bool) -> ExitCode {
    if broken.is_empty() {
        return ExitCode::SUCCESS;
    }
    for promise in broken {
        println!("BROKEN: {promise}");
    }
    let world = if is_cluster { " --cluster" } else { "" };
    println!("replay it with: cargo xtask sim --seed {seed}{world}");
    println!("keep it: add {seed} to crates/sim/tests/regressions.rs");
    ExitCode::FAILURE
}
