//! Keeps a number of workers alive: each is a process, restarted when it crashes.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::Global;
use crate::exit::{self, Failure, OK, Outcome};
use crate::key::Secret;
use crate::output::remark;
use crate::output::times::{clock, now};
use crate::signals::Signals;
use crate::units::show_duration;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// A worker that lived so long is not failing at its start.
const STABLE: Duration = Duration::from_secs(60);

/// Runs this many workers with the options of this process, until all have left.
pub(crate) fn run(count: u32, id: &str, global: &Global) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot start the async runtime: {error}")))?;
    let options = without_own(std::env::args_os().skip(1));
    runtime.block_on(async {
        let mut signals = Signals::catch()?;
        // How many termination signals this process got: each worker gets as many.
        let (told, hears) = watch::channel(0_u32);
        let mut workers = JoinSet::new();
        for number in 1..=count {
            let kept = SupervisedWorker {
                id: format!("{id}-{number}"),
                options: options.clone(),
                key: global.key.clone(),
                told: hears.clone(),
            };
            workers.spawn(kept.run());
        }
        let mut worst = OK;
        loop {
            tokio::select! {
                () = signals.next() => told.send_modify(|times| *times += 1),
                ended = workers.join_next() => match ended {
                    None => return Ok(worst),
                    Some(Ok(Ok(code))) => worst = worst.max(code),
                    Some(Ok(Err(failure))) => return Err(failure),
                    Some(Err(error)) => return Err(Failure::internal(error.to_string())),
                },
            }
        }
    })
}

/// One worker that is kept alive.
struct SupervisedWorker {
    id: String,
    options: Vec<OsString>,
    key: Option<Secret>,
    told: watch::Receiver<u32>,
}

impl SupervisedWorker {
    async fn run(mut self) -> Outcome {
        let mut backoff = Backoff::default();
        loop {
            let begun = Instant::now();
            let status = self.watch(self.start()?).await?;
            if *self.told.borrow() > 0 || status.success() {
                return Ok(code(status));
            }
            if [exit::USAGE, exit::NOT_ALLOWED]
                .map(Some)
                .contains(&status.code().and_then(|code| u8::try_from(code).ok()))
            {
                log(&format!("worker {} cannot start with these options: not restarted", self.id));
                return Ok(code(status));
            }
            let delay = backoff.next(begun.elapsed());
            log(&format!("worker {} ended ({status}): restarting in {}", self.id, show_duration(delay)));
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = self.told.changed() => return Ok(OK),
            }
        }
    }

    fn start(&self) -> Result<Child, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::system(format!("cannot find the path of this program: {error}")))?;
        let mut command = Command::new(program);
        // Its own process group: a terminal's signal reaches it through this process, and so only once.
        command.args(&self.options).args(["--id", &self.id]).process_group(0);
        if let Some(key) = &self.key {
            // Typed once, for all of them.
            command.env("TENURE_KEY", key.reveal());
        }
        let child =
            command.spawn().map_err(|error| Failure::system(format!("cannot start a worker: {error}")))?;
        log(&format!("worker {} started, process {}", self.id, child.id().unwrap_or_default()));
        Ok(child)
    }

    /// Waits for its end, and passes on every signal to end.
    async fn watch(&mut self, mut child: Child) -> Result<ExitStatus, Failure> {
        let mut passed_on = 0;
        loop {
            let told = *self.told.borrow_and_update();
            while passed_on < told {
                if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
                    let _ = kill_process(pid, Signal::TERM);
                }
                passed_on += 1;
            }
            tokio::select! {
                ended = child.wait() => return Ok(ended?),
                _ = self.told.changed() => {}
            }
        }
    }
}

/// How long to wait before the next start.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn next(&mut self, lived: Duration) -> Duration {
        if lived >= STABLE {
            self.failures = 0;
        }
        let delay = BACKOFF_FIRST.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures += 1;
        delay
    }
}

/// The options of this process without those that are only for it.
fn without_own(options: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const OWN: [&str; 4] = ["--supervise", "--id", "--key", "--key-file"];
    let mut kept = Vec::new();
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        let text = option.to_string_lossy();
        if OWN.contains(&&*text) {
            options.next();
        } else if !OWN.iter().any(|own| text.strip_prefix(own).is_some_and(|rest| rest.starts_with('='))) {
            kept.push(option);
        }
    }
    kept
}

fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::INTERNAL)
}

fn log(text: &str) {
    remark(format!("{}  {text}", clock(now())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_minute_and_starts_over_after_a_stable_one() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..8).map(|_| backoff.next(Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.next(STABLE).as_secs(), 1);
        assert_eq!(backoff.next(STABLE / 2).as_secs(), 2);
    }

    #[test]
    fn workers_get_all_options_but_the_supervisors_own() {
        let options = [
            "work",
            "--supervise",
            "3",
            "--queue",
            "q",
            "--id=boss",
            "--supervise=3",
            "--id",
            "x",
            "--slots",
            "2",
            "--key-file=-",
        ];
        let kept = without_own(options.map(OsString::from));
        assert_eq!(kept, ["work", "--queue", "q", "--slots", "2"].map(OsString::from));
    }
}
