//! `tenure work`: a worker that runs commands.
//!
//! The SDK's worker talks to the broker. `shell.rs` runs each task: it parses the body (`form.rs`), creates a
//! directory (`attempt_dir.rs`), waits for an older attempt (`attempt_locks.rs`), runs the command in its own process group
//! (`command.rs`, `group.rs`), and captures the output within limits (`capture.rs`), which becomes the result
//! (`output.rs`). While the command waits for other tasks (`control.rs`, `waits.rs`), its slot is free. `guard.rs` handles the worker's own sudden death, `unreported.rs` results that the broker has not
//! accepted, `supervise.rs` restarts. `machine.rs` finds what the machine has, `device_names.rs` names the cpus and gpus of
//! an attempt.

mod attempt_dir;
mod attempt_locks;
mod capture;
mod claim;
mod command;
pub(crate) mod control;
mod device_names;
mod directive;
mod drain;
mod form;
mod group;
mod guard;
mod live;
mod machine;
mod orphans;
pub(crate) mod output;
mod process_stat;
mod progress;
mod running_command;
mod shell;
mod sink;
mod supervise;
mod unreported;
mod waits;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tenure_client::{CPUS, Quantity, Unreported, Worker, WorkerHandle};

use crate::args::Global;
use crate::config::random_seed;
use crate::exit::{self, Failure, OK, Outcome};
use crate::output::remark;
use crate::output::times::{clock, now};
use crate::resource_args::ResourceArgs;
use crate::signals::Signals;
use crate::units::{counted, parse_duration, parse_size, show_duration};
use attempt_dir::{AttemptDirs, Keeping};
use attempt_locks::AttemptLocks;
use control::Control;
use device_names::DeviceNames;
use drain::{Drain, Step};
use guard::Guard;
use shell::Shell;
use unreported::Store;

/// How much may be kept of each stream of a command.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// How long a command that was killed may take to be gone, beyond the grace.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// How often a worker that leaves is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a reachable broker may take to accept the last reports of a worker that got two termination signals.
const LAST_REPORTS: Duration = Duration::from_secs(2);

/// Run a worker that executes shell commands and plans
#[derive(Args, Debug)]
#[command(after_help = "\
A task's body is JSON: {\"command\": [\"sort\", \"-u\"], \"env\": {\"LC_ALL\": \"C\"}, \"cwd\": \"/data\", \"stdin\": \"b\\na\\n\",
\"timeout_secs\": 60}; only `command` is required. `tenure submit -- sort -u` writes such a body. The environment of the
command has TENURE_TASK_ID, TENURE_ATTEMPT, TENURE_QUEUE and more. The command runs in the directory where it was
submitted if this machine has it, else in a temporary directory. If the command prints a line `::progress 42 half way`,
watchers see the progress. If it prints `::checkpoint row 2000`, the next attempt finds `row 2000` in
$TENURE_CHECKPOINT. The broker keeps the output and the exit code: `tenure logs`.

Signals: after SIGTERM or SIGINT the worker drains: it takes no new tasks, and running tasks continue. A second signal,
at least a second later, stops running tasks. The worker writes results that the broker has not accepted by
--drain-timeout or by the second signal to files. The next worker with the same --id and --dir reports them.

Examples:
  tenure work                 one task at a time, from the queue `default`
  tenure work --queue images --slots 4 --capability gpu
  tenure work --detect        one slot for each cpu
  tenure work --cpus 8 --mem 32GB --gpus 2 --resource licence=4
  tenure work --supervise 8   eight processes, started again if they crash
  tenure work --shell         any text is a line for sh")]
pub(crate) struct Work {
    /// Queue to serve; repeat for several
    #[arg(short, long = "queue", value_name = "NAME", default_value = "default", value_delimiter = ',')]
    queues: Vec<String>,
    /// How many tasks to run at once [default: the number of --cpus, else 1]
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: Option<u32>,
    /// How many tasks with --slots 0 to run at once, in addition to --slots [default: 1000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    light_slots: Option<u32>,
    #[command(flatten)]
    resources: ResourceArgs,
    /// Detect the cpus, gpus and memory of this machine, unless an option sets them
    #[arg(long)]
    detect: bool,
    /// Worker name [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Capability that this worker offers; repeat for several
    #[arg(long = "capability", value_name = "NAME", value_delimiter = ',')]
    capabilities: Vec<String>,
    /// Run other bodies as a line of sh instead of failing them
    #[arg(long)]
    shell: bool,
    /// Time between SIGTERM and SIGKILL when a command is stopped
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// Directory for the working directories of tasks [default: a private one, removed when the worker exits]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the working directories of tasks that did not complete
    #[arg(long)]
    keep: bool,
    /// Keep the working directories of tasks that hold files when the task ends
    #[arg(long)]
    keep_files: bool,
    /// How much of stdout and stderr to keep: the beginning and the end of each
    #[arg(long, value_name = "SIZE", default_value = "256KB", value_parser = parse_size)]
    keep_output: u64,
    /// Heartbeat interval; after three without a message, the broker considers the worker lost
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    heartbeat: Duration,
    /// How long the broker waits for a lost worker before it reassigns its tasks; at least three times --heartbeat
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    lease: Duration,
    /// How long a draining worker waits for the broker to accept its last results
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    drain_timeout: Duration,
    /// How long to wait for an earlier worker of the same name on this machine to exit
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    takeover_timeout: Duration,
    /// Run this many worker processes and restart those that die
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    supervise: Option<u32>,
    /// Do not print a line per task
    #[arg(long)]
    quiet: bool,
    /// Stand beside the worker of that name; for this program's own use
    #[arg(long, hide = true, requires = "id")]
    guard: bool,
}

impl Work {
    pub(crate) fn run(&self, global: &Global) -> Outcome {
        if self.keep_output > KEPT_BYTES_MAX {
            return Err(Failure::usage(
                "--keep-output: at most 1MB of each stream is kept; write the rest to a file",
            ));
        }
        if self.lease < self.lost_after() {
            return Err(Failure::usage(format!(
                "--lease must be at least three times --heartbeat: write --lease {} or more, or a shorter --heartbeat",
                show_duration(self.lost_after())
            )));
        }
        let id = self.id.clone().unwrap_or_else(own_name);
        if self.guard {
            return guard::run_guard(self, &id, global);
        }
        if let Some(count) = self.supervise {
            return supervise::run(count, &id, global);
        }
        let devices = DeviceNames::of_this_machine();
        let places =
            AttemptDirs::new(self.dir.as_deref(), Keeping { failed: self.keep, files: self.keep_files })?;
        let run = format!("{:016x}", random_seed());
        let guard = Guard::start(self, &id, &run, global)?;
        if let Some(base) = places.passing() {
            guard.add_place(base);
        }
        let control = Control::open().inspect_err(|error| {
            log(&format!(
                "cannot open the control socket: {error}; commands that wait for other tasks keep their slots"
            ));
        });
        let control = control.ok();
        if let Some(control) = &control {
            guard.add_place(control.dir());
        }
        let shell = Arc::new(Shell {
            guard,
            control,
            attempt_locks: AttemptLocks::default(),
            places,
            worker: id,
            run,
            broker: global.broker.clone(),
            namespace: global.namespace.clone(),
            any_line: self.shell,
            kept_bytes: self.keep_output as usize,
            grace: self.grace,
            quiet: self.quiet,
            devices,
            declared: self.declared(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::internal(format!("cannot start the async runtime: {error}")))?;
        let outcome = runtime.block_on(self.serve(global, &shell));
        // Whatever is not ended now goes with the runtime; the guard is sent away after that.
        drop(runtime);
        shell.guard.release();
        outcome
    }

    /// The worker's declaration: from the options, and from the machine if it should look.
    fn declared(&self) -> Vec<(String, Quantity)> {
        let mut declared = self.resources.all();
        if self.detect {
            let found = machine::resources().into_iter();
            let is_new = |name: &str| !self.resources.all().iter().any(|(said, _)| said == name);
            declared
                .extend(found.filter(|(name, _)| is_new(name)).map(|(name, found)| (name.to_owned(), found)));
        }
        declared
    }

    pub(crate) fn queues(&self) -> &[String] {
        &self.queues
    }

    /// How long the worker may be silent until the broker considers it lost.
    fn lost_after(&self) -> Duration {
        self.heartbeat.saturating_mul(3)
    }

    async fn serve(&self, global: &Global, shell: &Arc<Shell>) -> Outcome {
        let signals = Signals::catch()?;
        let mut builder = Worker::builder(&global.broker)
            .id(shell.worker.as_str())
            .queues(self.queues.iter().map(String::as_str))
            .capabilities(self.capabilities.iter().map(String::as_str))
            .slots(self.slots.unwrap_or_else(|| cpus(&shell.declared)))
            .heartbeat(self.heartbeat)
            .lost_after(self.lost_after())
            .lease(self.lease)
            .connect_timeout(global.connect_timeout)
            .stop_grace(self.grace + AFTER_GRACE)
            .stops_in_place()
            .version(concat!("tenure ", env!("CARGO_PKG_VERSION")));
        if let Some(light_slots) = self.light_slots {
            builder = builder.light_slots(light_slots);
        }
        for (name, quantity) in &shell.declared {
            builder = builder.resource(name.as_str(), *quantity);
        }
        if let Some(namespace) = &global.namespace {
            builder = builder.namespace(namespace.as_str());
        }
        if let Some(key) = &global.key {
            builder = builder.key(key.reveal());
        }
        let left = shell.places.configured_dir().map(|base| Store::new(base, &shell.worker));
        if let Some(store) = left {
            let (unreported, unreadable) = store.read();
            unreadable.iter().for_each(|text| log(text));
            if !unreported.is_empty() {
                log(&format!(
                    "reporting {} kept in {}",
                    results(unreported.len() as u64),
                    store.dir().display()
                ));
            }
            builder = builder.unreported(unreported).on_answer(move |task, attempt, answer| {
                if let Some(stale) = store.answered(task, attempt, answer) {
                    log(&format!(
                        "task {task}: the result of attempt {attempt} came too late, and stays in {}",
                        stale.display()
                    ));
                }
            });
        }
        if let Some(control) = &shell.control {
            control.serve()?;
        }
        let shared = Arc::clone(shell);
        let handle = builder
            .handle(move |context| {
                let shell = Arc::clone(&shared);
                async move { shell.run(context).await }
            })
            .start()
            .await?;
        log(&format!("worker {} serves {} at {}", shell.worker, self.queues.join(", "), global.broker));
        let obeying =
            tokio::spawn(handle_signals(signals, handle.clone(), self.drain_timeout, global.broker.clone()));
        let ended = handle.ended().await;
        obeying.abort();
        let kept = keep(&handle.unreported(), shell)?;
        let stats = ended?;
        log(&format!(
            "worker {} has left: {} completed, {} failed",
            shell.worker, stats.completed, stats.failed
        ));
        Ok(if kept { exit::UNREACHABLE } else { OK })
    }
}

/// Drains at the first signal, ends what runs at the second, and leaves at the third.
async fn handle_signals(mut signals: Signals, worker: WorkerHandle, drain_timeout: Duration, broker: String) {
    signals.next().await;
    log(
        "draining: the worker takes no new tasks; the same signal again, after a second, stops the running tasks",
    );
    worker.drain();
    let mut drain = Drain::new(drain_timeout);
    loop {
        tokio::select! {
            () = signals.next() => break,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match drain.step(Instant::now(), &worker.stats()) {
            Step::Wait => {}
            Step::Tell { results: count, left } => log(&format!(
                "waiting for the broker at {broker} to accept {}: {} left, then they are kept as files; the same signal again keeps them now",
                results(count),
                show_duration(left)
            )),
            Step::GiveUp => return worker.leave_now(),
        }
    }
    log("stopping the running tasks");
    worker.stop();
    let mut last_reports = Drain::new(if worker.is_connected() { LAST_REPORTS } else { Duration::ZERO });
    loop {
        tokio::select! {
            () = signals.next() => break,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if last_reports.step(Instant::now(), &worker.stats()) == Step::GiveUp {
            return worker.leave_now();
        }
    }
    // The guard ends what is left.
    std::process::exit(i32::from(exit::TASK_CANCELLED));
}

/// Keeps what the broker has not taken, and says where it is. Returns whether there was anything.
fn keep(unreported: &[Unreported], shell: &Shell) -> Result<bool, Failure> {
    if unreported.is_empty() {
        return Ok(false);
    }
    let base = match shell.places.configured_dir() {
        Some(base) => base.to_owned(),
        None => crate::spawned::scratch("unreported")?.keep(),
    };
    let store = Store::new(&base, &shell.worker);
    store.save(unreported)?;
    let tasks: Vec<String> =
        unreported.iter().map(|one| format!("{} attempt {}", one.task(), one.attempt())).collect();
    log(&format!(
        "the broker did not accept {} ({}): kept in {}. Report with: tenure work --id {} --dir {}",
        results(unreported.len() as u64),
        tasks.join(", "),
        store.dir().display(),
        shell.worker,
        base.display()
    ));
    Ok(true)
}

/// One slot for each cpu, or one.
fn cpus(declared: &[(String, Quantity)]) -> u32 {
    let cpus = declared.iter().find(|(name, _)| name == CPUS).map_or(0, |(_, quantity)| quantity.0 / 1000);
    u32::try_from(cpus).unwrap_or(u32::MAX).max(1)
}

fn results(count: u64) -> String {
    counted(count, "result", "results")
}

fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}-{}", if host.is_empty() { "worker" } else { host }, std::process::id())
}

fn log(text: &str) {
    remark(format!("{}  {text}", clock(now())));
}
