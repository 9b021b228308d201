//! `tenure bench`: measures throughput, memory and recovery on this machine, compared with what its disk allows and
//! what Redis reaches under the same load.
//!
//! Every workload gets a fresh broker on a temporary directory, so that workloads do not affect each other. `load.rs`
//! defines the load; `native.rs` and `redis.rs` apply it to each server; `figures.rs` prints the results.

mod ceiling;
mod figures;
mod load;
mod native;
mod nats;
mod redis;
mod resp;
mod tally;
mod topics;

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;
use tempfile::TempDir;

use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::{Screen, remark};
use crate::spawned::{Broker, Usage, scratch};
use ceiling::Ceiling;
use figures::{Figure, Unit};
use nats::Nats;
use redis::Redis;

/// How many tasks follow each other in one measurement of the latency, at most.
const ONE_BY_ONE_MAX: usize = 1_000;
/// Tasks that warm the server up before the clock runs, at most.
const WARM_UP_MAX: usize = 5_000;
/// How long a server may tidy up before its memory is read.
const SETTLING: Duration = Duration::from_secs(1);
const SYNCED: &str = "on disk (fdatasync before the answer)";
const NOT_SYNCED: &str = "not at all: topics live in memory";
const SYNCED_BY_REDIS: &str = "on disk (Redis: appendfsync always)";

/// Benchmark this machine: throughput, latency, memory, restart
#[derive(Args, Debug)]
#[command(after_help = "\
Load: 4 producers with 128 submissions unanswered each, bodies of 256 bytes, 8 workers that hold 32 tasks each.
Topics: one publisher, 10 and 100 subscribers, messages of 256 bytes.
Tasks are acknowledged only when they are on disk. DISK ALONE is what appending and syncing the same bytes allows.

Examples:
  tenure bench
  tenure bench cycle --tasks 500000
  tenure bench --against redis            needs redis-server in the PATH
  tenure bench topics --against nats      needs nats-server in the PATH
  tenure bench latency -o json
  tenure bench submit --running --broker 10.0.0.7:7171")]
pub(crate) struct Bench {
    /// What to measure
    #[arg(value_enum, default_value_t)]
    what: What,
    /// Put the same load on another server, and compare
    #[arg(long, value_enum, value_name = "SERVER")]
    against: Option<Peer>,
    /// How many tasks to submit or to run
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tasks: u64,
    /// How often to measure rates and latency: in turns with the server to compare with, and the median counts
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many tasks wait when memory and restart are measured
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    backlog: u64,
    /// Measure the broker at --broker, rather than one of its own: submit, cycle and latency only
    #[arg(long, conflicts_with = "against")]
    running: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum What {
    /// Submissions per second
    Submit,
    /// Full cycles per second: submitted, run, completed
    Cycle,
    /// One task after the other, from submission to completion
    Latency,
    /// Memory per waiting task
    Backlog,
    /// From kill -9 to the first task handed out
    Restart,
    /// Deliveries per second: one publisher, many subscribers
    Topics,
    #[default]
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Everything but topics
    Redis,
    /// Topics only
    Nats,
}

impl Bench {
    pub(crate) fn run(&self, global: &Global, screen: &Screen) -> Outcome {
        // One thread carries the whole load: the servers need the other cores more.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::internal(format!("cannot start the async runtime: {error}")))?;
        let figures = runtime.block_on(async {
            if self.running { self.measure_running(global).await } else { self.measure().await }
        })?;
        let machine = machine();
        let (title, name) = match self.against {
            Some(Peer::Nats) => ("NATS", "nats"),
            Some(Peer::Redis) | None => ("REDIS", "redis"),
        };
        screen.one(
            || {
                let table = figures::table(&figures, title);
                format!("{}\n{machine}\n", table.render(screen.width, screen.paint))
            },
            || {
                let figures: Vec<_> = figures.iter().map(|figure| figure.json(name)).collect();
                json!({ "machine": machine, "figures": figures })
            },
        )?;
        Ok(OK)
    }

    async fn measure(&self) -> Result<Vec<Figure>, Failure> {
        let ceiling = ceiling::measure(scratch("bench")?.path())?;
        let compares = self.against == Some(Peer::Redis);
        let durability = if compares { SYNCED_BY_REDIS } else { SYNCED };
        let mut figures = Figures { durability, list: Vec::new() };
        if self.wants(What::Submit) {
            remark(format!("submit: {} tasks, {} times", self.tasks, self.rounds));
            let (mut tenure, mut redis) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                tenure.push(self.submit().await?);
                if compares {
                    redis.push(self.submit_redis().await?);
                }
            }
            figures.rates("submit", Rates::median(tenure), Rates::median(redis), Some(ceiling));
        }
        if self.wants(What::Cycle) {
            remark(format!("cycle: {} tasks, {} times", self.tasks, self.rounds));
            let (mut tenure, mut redis) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                tenure.push(self.cycle().await?);
                if compares {
                    redis.push(self.cycle_redis().await?);
                }
            }
            figures.rates("cycle", Rates::median(tenure), Rates::median(redis), None);
        }
        if self.wants(What::Latency) {
            remark(format!(
                "latency: {} tasks, one after the other, {} times",
                self.one_by_one(),
                self.rounds
            ));
            let (mut tenure, mut redis) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                let (_directory, broker) = fresh_broker()?;
                tenure
                    .extend(native::latency(&broker.wire_address()?, load::QUEUE, self.one_by_one()).await?);
                if compares {
                    let (_directory, server) = fresh_redis().await?;
                    redis.extend(server.latency(self.one_by_one()).await?);
                }
            }
            figures.latency(tenure, Some(redis).filter(|_| compares), Some(ceiling));
        }
        if self.wants(What::Backlog) || self.wants(What::Restart) {
            remark(format!("backlog and restart: {} tasks wait", self.backlog));
            let tenure = self.backlog().await?;
            let redis = if compares { Some(self.backlog_redis().await?) } else { None };
            figures.backlog(tenure, redis, self.wants(What::Backlog), self.wants(What::Restart));
        }
        if self.wants(What::Topics) {
            for (what, cpu_what, subscribers) in topics::CROWDS {
                let messages = self.messages(subscribers);
                remark(format!(
                    "topics: {messages} messages to {subscribers} subscribers, {} times",
                    self.rounds
                ));
                let (mut tenure, mut nats) = (Vec::new(), Vec::new());
                for _ in 0..self.rounds {
                    tenure.push(self.topics(subscribers).await?);
                    if self.against == Some(Peer::Nats) {
                        nats.push(self.topics_nats(subscribers).await?);
                    }
                }
                figures.deliveries(what, cpu_what, Rates::median(tenure), Rates::median(nats));
            }
        }
        Ok(figures.list)
    }

    /// A broker that runs somewhere: what can be measured without being the one who started it.
    async fn measure_running(&self, global: &Global) -> Result<Vec<Figure>, Failure> {
        let address = global.broker.parse()?;
        let mut figures = Figures { durability: "as that broker is set", list: Vec::new() };
        let queue = format!("bench-{}", std::process::id());
        if matches!(self.what, What::Backlog | What::Restart | What::Topics) {
            return Err(Failure::usage(
                "backlog, restart and topics need a broker of their own: omit --running",
            ));
        }
        if self.wants(What::Submit) {
            let took = native::submit(&address, &queue, self.count()).await?;
            figures.rates("submit", Some(Rates { count: self.count(), took, cpu: None }), None, None);
            remark("submit: completing what was submitted");
            native::consume(&address, &queue, self.count()).await?;
        }
        if self.wants(What::Cycle) {
            let took = native::cycle(&address, &queue, self.count()).await?;
            figures.rates("cycle", Some(Rates { count: self.count(), took, cpu: None }), None, None);
        }
        if self.wants(What::Latency) {
            figures.latency(native::latency(&address, &queue, self.one_by_one()).await?, None, None);
        }
        Ok(figures.list)
    }

    async fn submit(&self) -> Result<Rates, Failure> {
        let (_directory, broker) = fresh_broker()?;
        let address = broker.wire_address()?;
        native::submit(&address, load::QUEUE, self.warm_up()).await?;
        let meter = Meter::begin(self.count(), broker.usage());
        let took = native::submit(&address, load::QUEUE, self.count()).await?;
        Ok(meter.end("submit", took, broker.usage()))
    }

    async fn cycle(&self) -> Result<Rates, Failure> {
        let (_directory, broker) = fresh_broker()?;
        let address = broker.wire_address()?;
        native::cycle(&address, "warm-up", self.warm_up()).await?;
        let meter = Meter::begin(self.count(), broker.usage());
        let took = native::cycle(&address, load::QUEUE, self.count()).await?;
        Ok(meter.end("cycle", took, broker.usage()))
    }

    async fn topics(&self, subscribers: usize) -> Result<Rates, Failure> {
        let (_directory, broker) = fresh_broker()?;
        let address = broker.wire_address()?;
        let messages = self.messages(subscribers);
        topics::run(topics::Native(&address), subscribers, messages / 10 + 1).await?;
        let meter = Meter::begin(messages * subscribers, broker.usage());
        let took = topics::run(topics::Native(&address), subscribers, messages).await?;
        Ok(meter.end("topics", took, broker.usage()))
    }

    async fn topics_nats(&self, subscribers: usize) -> Result<Rates, Failure> {
        let directory = scratch("bench")?;
        let nats = Nats::start(directory.path()).await?;
        let messages = self.messages(subscribers);
        topics::run(&nats, subscribers, messages / 10 + 1).await?;
        let meter = Meter::begin(messages * subscribers, nats.usage());
        let took = topics::run(&nats, subscribers, messages).await?;
        Ok(meter.end("topics of NATS", took, nats.usage()))
    }

    /// The total number of deliveries is the same for any number of subscribers.
    fn messages(&self, subscribers: usize) -> usize {
        (self.count() * topics::DELIVERIES_PER_TASK / subscribers).max(1)
    }

    async fn submit_redis(&self) -> Result<Rates, Failure> {
        let (_directory, redis) = fresh_redis().await?;
        redis.submit(self.warm_up()).await?;
        let meter = Meter::begin(self.count(), redis.usage());
        let took = redis.submit(self.count()).await?;
        Ok(meter.end("submit to Redis", took, redis.usage()))
    }

    async fn cycle_redis(&self) -> Result<Rates, Failure> {
        let (_directory, redis) = fresh_redis().await?;
        redis.cycle(self.warm_up()).await?;
        let meter = Meter::begin(self.count(), redis.usage());
        let took = redis.cycle(self.count()).await?;
        Ok(meter.end("cycle of Redis", took, redis.usage()))
    }

    async fn backlog(&self) -> Result<Backlog, Failure> {
        let (_directory, mut broker) = fresh_broker()?;
        let address = broker.wire_address()?;
        let count = self.backlog as usize;
        let before = broker.usage();
        native::submit(&address, load::QUEUE, count).await?;
        tokio::time::sleep(SETTLING).await;
        let resident = Backlog::per_task(before, broker.usage(), count);
        broker.kill();
        let since = Instant::now();
        broker.start_again()?;
        let first_task = native::first_task(&address, load::QUEUE, since).await?;
        let alive = native::alive(&address).await?;
        if alive + 1 < count as u64 {
            return Err(Failure::internal(format!("after kill -9, {alive} of {count} tasks are there")));
        }
        Ok(Backlog { resident, first_task })
    }

    async fn backlog_redis(&self) -> Result<Backlog, Failure> {
        let (_directory, mut redis) = fresh_redis().await?;
        let count = self.backlog as usize;
        let before = redis.usage();
        redis.submit(count).await?;
        tokio::time::sleep(SETTLING).await;
        let resident = Backlog::per_task(before, redis.usage(), count);
        Ok(Backlog { resident, first_task: redis.first_task_after_kill().await? })
    }

    fn wants(&self, what: What) -> bool {
        // Each server can be compared in what it does.
        let all = match self.against {
            None => true,
            Some(Peer::Redis) => what != What::Topics,
            Some(Peer::Nats) => what == What::Topics,
        };
        self.what == what || (self.what == What::All && all)
    }

    fn count(&self) -> usize {
        self.tasks as usize
    }

    fn one_by_one(&self) -> usize {
        self.count().min(ONE_BY_ONE_MAX)
    }

    fn warm_up(&self) -> usize {
        (self.count() / 10).clamp(1, WARM_UP_MAX)
    }
}

/// The cost of a run of many tasks.
#[derive(Clone, Copy, Debug)]
struct Rates {
    count: usize,
    took: Duration,
    /// Of the server.
    cpu: Option<Duration>,
}

/// Processor time of the server and of this program, from the moment it is made.
struct Meter {
    count: usize,
    server: Usage,
    own: Usage,
}

impl Meter {
    fn begin(count: usize, server: Usage) -> Meter {
        Meter { count, server, own: Usage::of("self") }
    }

    fn end(&self, what: &str, took: Duration, server: Usage) -> Rates {
        let cpu = server.cpu.saturating_sub(self.server.cpu);
        let own = Usage::of("self").cpu.saturating_sub(self.own.cpu);
        // Readers need to know whether the server or the load generator was the bottleneck.
        let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / took.as_secs_f64().max(f64::EPSILON);
        remark(format!(
            "{what}: {:.2} s; the server used {:.0} % of a core, the load {:.0} %",
            took.as_secs_f64(),
            share(cpu),
            share(own)
        ));
        Rates { count: self.count, took, cpu: Some(cpu) }
    }
}

impl Rates {
    /// The one in the middle: a machine has better and worse moments.
    fn median(mut rounds: Vec<Rates>) -> Option<Rates> {
        rounds.sort_by_key(|rates| rates.took);
        rounds.get(rounds.len() / 2).copied()
    }

    fn per_second(&self) -> f64 {
        self.count as f64 / self.took.as_secs_f64()
    }

    fn cpu_per_100k(&self) -> Option<f64> {
        Some(self.cpu?.as_secs_f64() / self.count as f64 * 100_000.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Backlog {
    /// Bytes for each waiting task.
    resident: f64,
    first_task: Duration,
}

impl Backlog {
    fn per_task(before: Usage, after: Usage, count: usize) -> f64 {
        after.resident_bytes.saturating_sub(before.resident_bytes) as f64 / count as f64
    }
}

struct Figures {
    durability: &'static str,
    list: Vec<Figure>,
}

impl Figures {
    fn rates(
        &mut self,
        what: &'static str,
        tenure: Option<Rates>,
        redis: Option<Rates>,
        ceiling: Option<Ceiling>,
    ) {
        let rate = |rates: Option<Rates>| rates.map(|rates| rates.per_second());
        let cpu = |rates: Option<Rates>| rates.and_then(|rates| rates.cpu_per_100k());
        let ceiling = ceiling.map(|ceiling| ceiling.appends_per_second);
        self.push(what, Unit::TasksPerSecond, rate(tenure), rate(redis), ceiling);
        if cpu(tenure).is_some() {
            let title = if what == "submit" { "submit, server CPU" } else { "cycle, server CPU" };
            self.push(title, Unit::CpuSeconds, cpu(tenure), cpu(redis), None);
        }
    }

    fn deliveries(
        &mut self,
        what: &'static str,
        cpu_what: &'static str,
        tenure: Option<Rates>,
        nats: Option<Rates>,
    ) {
        let rate = |rates: Option<Rates>| rates.map(|rates| rates.per_second());
        let cpu = |rates: Option<Rates>| rates.and_then(|rates| rates.cpu_per_100k());
        let mut push = |what, unit, tenure, other| {
            self.list.push(Figure { what, unit, tenure, other, ceiling: None, durability: NOT_SYNCED });
        };
        push(what, Unit::DeliveriesPerSecond, rate(tenure), rate(nats));
        push(cpu_what, Unit::CpuSeconds, cpu(tenure), cpu(nats));
    }

    fn latency(&mut self, tenure: Vec<f64>, redis: Option<Vec<f64>>, ceiling: Option<Ceiling>) {
        let sorted = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times
        };
        let (tenure, redis) = (sorted(tenure), redis.map(sorted));
        let millis = |times: &[f64], percent| load::percentile(times, percent) * 1_000.0;
        for (what, percent) in [("one by one, median", 50.0), ("one by one, p99", 99.0)] {
            let two_syncs = ceiling.filter(|_| percent < 99.0).map(|ceiling| ceiling.two_syncs * 1_000.0);
            let redis = redis.as_ref().map(|times| millis(times, percent));
            self.push(what, Unit::Milliseconds, Some(millis(&tenure, percent)), redis, two_syncs);
        }
    }

    fn backlog(&mut self, tenure: Backlog, redis: Option<Backlog>, resident: bool, restart: bool) {
        if resident {
            let redis = redis.map(|backlog| backlog.resident);
            self.push("memory per waiting task", Unit::Bytes, Some(tenure.resident), redis, None);
        }
        if restart {
            let seconds = |backlog: Backlog| backlog.first_task.as_secs_f64();
            self.push(
                "kill -9 to first task",
                Unit::Seconds,
                Some(seconds(tenure)),
                redis.map(seconds),
                None,
            );
        }
    }

    fn push(
        &mut self,
        what: &'static str,
        unit: Unit,
        tenure: Option<f64>,
        other: Option<f64>,
        ceiling: Option<f64>,
    ) {
        self.list.push(Figure { what, unit, tenure, other, ceiling, durability: self.durability });
    }
}

fn fresh_broker() -> Result<(TempDir, Broker), Failure> {
    let directory = scratch("bench")?;
    let broker = Broker::start(directory.path(), &[])?;
    Ok((directory, broker))
}

async fn fresh_redis() -> Result<(TempDir, Redis), Failure> {
    let directory = scratch("bench-redis")?;
    let redis = Redis::start(directory.path()).await?;
    Ok((directory, redis))
}

/// Where it was measured, and with what: figures of a debug build are no figures.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let build = if cfg!(debug_assertions) { "a debug build, not to be compared" } else { "a release build" };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("tenure {}, {build}; {cores} cores, load average {load}", crate::args::VERSION)
}
