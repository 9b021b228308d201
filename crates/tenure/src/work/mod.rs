//! `tenure work`: a worker that runs commands.
//!
//! The SDK's worker talks to the broker. Each task goes through `shell.rs`: its body is read (`form.rs`, `plan.rs`), a
//! directory is made for it (`place.rs`), an older attempt is waited for (`older.rs`), the command runs in a process group of its own (`command.rs`, `group.rs`), what
//! it writes is kept within bounds (`capture.rs`) and becomes its result (`output.rs`). `guard.rs` is for the worker's own
//! sudden death, `supervise.rs` for starting it again.

mod capture;
mod command;
mod form;
mod group;
mod guard;
mod older;
pub(crate) mod output;
mod place;
mod progress;
mod said;
mod shell;
mod supervise;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tenure_client::{Worker, WorkerHandle};

use crate::args::Global;
use crate::exit::{self, Failure, OK, Outcome};
use crate::output::remark;
use crate::output::times::{clock, now};
use crate::signals::Signals;
use crate::units::{parse_size, parse_span};
use guard::Guard;
use older::Older;
use place::Places;
use shell::Shell;

/// How much may be kept of each stream of a command.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// How long a command that was killed may take to be gone, beyond the grace.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// Run tasks: commands, plans, lines of shell
#[derive(Args, Debug)]
#[command(after_help = "\
A task's body is JSON: {\"command\": [\"sort\", \"-u\"], \"env\": {\"LC_ALL\": \"C\"}, \"cwd\": \"/data\", \"stdin\": \"b\\na\\n\",
\"timeout_secs\": 60}; only command is needed. `tenure submit -- sort -u` writes it. A command finds TENURE_TASK_ID,
TENURE_ATTEMPT, TENURE_QUEUE and more in its environment, and a directory of its own that is gone afterwards. A line
`::progress 42 half way` on its stdout is told to whoever watches; `::checkpoint row 2000` is
what the next attempt finds in $TENURE_CHECKPOINT if this one does not end well. Its output and exit code are kept: `tenure logs`.

Signals: SIGTERM or SIGINT drain (nothing new is taken, what runs goes on); a second one, at least a second later,
ends what runs.

Examples:
  tenure work                                    one task at a time, from the queue `default`
  tenure work --queue images --slots 4 --capability gpu
  tenure work --supervise 8                      eight processes, started again if they crash
  tenure work --shell                            any text is a line for sh")]
pub(crate) struct Work {
    /// A queue to serve; may be given more than once
    #[arg(short, long = "queue", value_name = "NAME", default_value = "default", value_delimiter = ',')]
    queues: Vec<String>,
    /// How many tasks to run at once
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    /// The worker's name [default: made of the host's name and the process]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Something this worker offers to tasks that need it
    #[arg(long = "capability", value_name = "NAME", value_delimiter = ',')]
    capabilities: Vec<String>,
    /// Run a body that is no shell task as a line of sh, rather than fail it
    #[arg(long)]
    shell: bool,
    /// How long a command may take to end after SIGTERM, before SIGKILL
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    grace: Duration,
    /// Where tasks get their directories [default: a private one, gone with the worker]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the directories of tasks that did not complete
    #[arg(long)]
    keep: bool,
    /// How much of stdout, and of stderr, is kept: the beginning and the end
    #[arg(long, value_name = "SIZE", default_value = "256KB", value_parser = parse_size)]
    keep_output: u64,
    /// How often to tell the broker that this worker is alive
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_span)]
    heartbeat: Duration,
    /// How long the broker waits for a lost worker before its tasks go to another
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    lease: Duration,
    /// Keep so many workers alive, each a process of its own
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    supervise: Option<u32>,
    /// Say nothing about tasks
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
        let id = self.id.clone().unwrap_or_else(own_name);
        if self.guard {
            return guard::stand(self, &id, global);
        }
        if let Some(count) = self.supervise {
            return supervise::run(count, &id);
        }
        let places = Places::new(self.dir.as_deref(), self.keep)?;
        let guard = Guard::start(&id, &self.queues, global)?;
        if let Some(base) = places.passing() {
            guard.add_place(base);
        }
        let shell = Arc::new(Shell {
            guard,
            older: Older::default(),
            places,
            worker: id,
            broker: global.broker.clone(),
            namespace: global.namespace.clone(),
            any_line: self.shell,
            kept_bytes: self.keep_output as usize,
            grace: self.grace,
            quiet: self.quiet,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
        let outcome = runtime.block_on(self.serve(global, &shell));
        // Whatever is not ended now goes with the runtime; the guard is sent away after that.
        drop(runtime);
        shell.guard.dismiss();
        outcome
    }

    pub(crate) fn queues(&self) -> &[String] {
        &self.queues
    }

    async fn serve(&self, global: &Global, shell: &Arc<Shell>) -> Outcome {
        let signals = Signals::catch()?;
        let mut builder = Worker::builder(&global.broker)
            .id(shell.worker.as_str())
            .queues(self.queues.iter().map(String::as_str))
            .capabilities(self.capabilities.iter().map(String::as_str))
            .slots(self.slots)
            .heartbeat(self.heartbeat)
            .lost_after(self.heartbeat.saturating_mul(3))
            .lease(self.lease)
            .patience(global.patience)
            .stop_grace(self.grace + AFTER_GRACE)
            .version(concat!("tenure ", env!("CARGO_PKG_VERSION")));
        if let Some(namespace) = &global.namespace {
            builder = builder.namespace(namespace.as_str());
        }
        if let Some(key) = &global.key {
            builder = builder.key(key.as_str());
        }
        let shared = Arc::clone(shell);
        let handle = builder
            .handle(move |context| {
                let shell = Arc::clone(&shared);
                async move { shell.run(context).await }
            })
            .start()
            .await?;
        say(&format!("worker {} serves {} at {}", shell.worker, self.queues.join(", "), global.broker));
        let obeying = tokio::spawn(obey(signals, handle.clone()));
        let stats = handle.ended().await?;
        obeying.abort();
        say(&format!(
            "worker {} has left: {} completed, {} failed",
            shell.worker, stats.completed, stats.failed
        ));
        Ok(OK)
    }
}

/// Drains at the first signal, ends what runs at the second, and leaves at the third.
async fn obey(mut signals: Signals, worker: WorkerHandle) {
    signals.next().await;
    say("draining: nothing new is taken; the same signal again ends what runs");
    worker.drain();
    signals.next().await;
    say("stopping: what runs is told to end");
    worker.stop();
    signals.next().await;
    // The guard ends what is left.
    std::process::exit(i32::from(exit::TASK_CANCELLED));
}

fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}-{}", if host.is_empty() { "worker" } else { host }, std::process::id())
}

fn say(text: &str) {
    remark(format!("{}  {text}", clock(now())));
}
