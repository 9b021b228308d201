//! `cargo xtask test`: everything that has to be true, on a fresh machine, by itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::place::Workspace;
use crate::process::{announce, cargo, line_with_variables, run};
use crate::python::{Counts, Python};
use crate::sim::Sim;
use crate::steps::Steps;
use crate::tally::Tally;
use crate::third_party::{self, ThirdParty};
use crate::{check, features, members};

/// Run everything: check, all features, the third-party clients, the build, all tests, the Python SDK, a short simulation
///
/// The third-party clients are programs that others wrote (redis-cli, redis-py, ioredis, node-redis, pyzmq,
/// grpcio). They are installed once beside the build, and the tests find them by
/// TENURE_THIRD_PARTY_PYTHON and TENURE_THIRD_PARTY_NODE_PATH. TENURE_BINARY is the built broker.
///
///     cargo xtask test              all of it; what the continuous integration runs
///     cargo xtask test --quick      without features, third-party clients, Python SDK and simulation
///     cargo xtask test torn_tail    only the tests with this in their name, and nothing else
///     cargo xtask test aiida        the Python SDK with a real AiiDA: every fault, many workchains
///     cargo xtask test cluster      groups of brokers on a real PostgreSQL: every fault, many times
///     cargo xtask test patroni      a group of brokers on a database that Patroni fails over
///
/// A failed step does not stop the others. The last line is `N passed, N failed`; a failed
/// step that is not a test counts as one failure.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Test {
    /// Leave out the features, the third-party clients, the Python SDK and the simulation
    #[arg(long)]
    quick: bool,
    /// Run only the tests whose name contains one of these
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Test {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        if self.filters == ["aiida"] {
            return Python::aiida().run(place);
        }
        if self.filters == ["cluster"] {
            return test_cluster(place);
        }
        if self.filters == ["patroni"] {
            return test_patroni(place);
        }
        let mut steps = Steps::default();
        let everything = self.filters.is_empty();
        if everything {
            check::take(&mut steps, place);
        }
        if everything && !self.quick {
            features::take(&mut steps, place);
        }
        let third_party =
            if self.quick { ThirdParty::default() } else { third_party::prepare(&mut steps, place) };
        let built = steps.run("build", "cargo build --workspace --bins --tests", || {
            // One build for the broker's binary and all tests: apart they would be built twice, because tests ask
            // their dependencies for more features.
            run(cargo(&place.root).args(["build", "--workspace", "--bins", "--tests"]))
        });
        let mut tally = Tally::default();
        if built {
            self.test(&mut steps, place, &third_party, &mut tally);
        }
        let (mut python, mut python_failed) = (Counts::default(), 0);
        if everything && !self.quick {
            let before = steps.failed();
            python = Python::short().take(&mut steps, place);
            python_failed = steps.failed() - before;
            python.failed = python.failed.max(python_failed as u64);
        }
        if everything && !self.quick && members::has(&place.root, "sim") {
            for (name, arguments) in ["simulation", "simulation of a group"].into_iter().zip(Sim::SHORT) {
                let repeat = format!("cargo xtask sim {arguments}");
                steps.run(name, &repeat, || Sim::short(arguments).simulate(place));
            }
        }
        let failed = failures(steps.failed() - python_failed, tally.failed) + python.failed;
        Ok(summarize(&steps, tally.passed + python.passed, failed))
    }

    fn test(&self, steps: &mut Steps, place: &Workspace, third_party: &ThirdParty, tally: &mut Tally) {
        let mut command = cargo(&place.root);
        command.args(["test", "--workspace", "--no-fail-fast"]);
        if !self.filters.is_empty() {
            command.arg("--").args(&self.filters);
        }
        command.envs(third_party.variables());
        if members::has(&place.root, "tenure") {
            command.env("TENURE_BINARY", place.broker());
        }
        let passed = steps.run("tests", line_with_variables(&command), || stream(&mut command, tally));
        // The names of the failed tests are a shorter way back to them.
        if !passed && !tally.failed_names.is_empty() {
            let quick = if self.quick { " --quick" } else { "" };
            steps.narrow_last(format!("cargo xtask test{quick} {}", tally.failed_names.join(" ")));
        }
    }
}

/// The long tests of groups: the short ones are part of every run. One at a time, because each has servers of its own.
fn test_cluster(place: &Workspace) -> Result<ExitCode> {
    let (mut steps, mut tally) = (Steps::default(), Tally::default());
    let third_party = third_party::prepare_postgres(&mut steps);
    let mut command = cargo(&place.root);
    command.args(["test", "--release", "-p", "tenure-journal-postgres", "-p", "tenure"]);
    command.args([
        "--test",
        "session",
        "--test",
        "hazards",
        "--test",
        "refused_login",
        "--test",
        "pooler",
        "--test",
        "cluster",
        "--no-fail-fast",
    ]);
    command.args(["--", "--include-ignored", "--nocapture", "--test-threads", "1"]);
    command.envs(third_party.variables());
    steps.run("groups of brokers", line_with_variables(&command), || stream(&mut command, &mut tally));
    let failed = failures(steps.failed(), tally.failed);
    Ok(summarize(&steps, tally.passed, failed))
}

/// A group on a database with Patroni, of which the servers are installed first.
fn test_patroni(place: &Workspace) -> Result<ExitCode> {
    let (mut steps, mut tally) = (Steps::default(), Tally::default());
    let third_party = third_party::prepare_patroni(&mut steps, place);
    let mut command = cargo(&place.root);
    command.args(["test", "--release", "-p", "tenure", "--test", "cluster", "--"]);
    command.args(["patroni::", "--include-ignored", "--nocapture"]);
    command.envs(third_party.variables());
    steps.run("a group on Patroni", line_with_variables(&command), || stream(&mut command, &mut tally));
    let failed = failures(steps.failed(), tally.failed);
    Ok(summarize(&steps, tally.passed, failed))
}

/// A test run that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(20 * 60);

/// Ends this program if the tests print nothing for too long: the last lines then name the test that hangs, and a run
/// of the continuous integration fails instead of being cut off without a word.
fn watch_for_silence(printed: mpsc::Receiver<()>) {
    std::thread::spawn(move || {
        loop {
            match printed.recv_timeout(SILENCE) {
                Ok(()) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!("FAILED: no test has printed anything for {} minutes", SILENCE.as_secs() / 60);
                    std::process::exit(1);
                }
            }
        }
    });
}

/// Runs the tests, passing their output through as it comes and counting in it.
fn stream(command: &mut Command, tally: &mut Tally) -> Result<()> {
    announce(command);
    let (prints, printed) = mpsc::channel();
    watch_for_silence(printed);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let mut output = BufReader::new(child.stdout.take().context("cargo test has no output")?);
    let mut line = Vec::new();
    let mut out = std::io::stdout().lock();
    while output.read_until(b'\n', &mut line).context("cannot read what the tests say")? > 0 {
        out.write_all(&line)?;
        out.flush()?;
        tally.read(String::from_utf8_lossy(&line).trim_end());
        line.clear();
        let _ = prints.send(());
    }
    tally.end();
    let status = child.wait().context("cannot wait for cargo test")?;
    match tally.failed {
        0 if status.success() => Ok(()),
        0 => bail!("cargo test ended with {status}, and no test said that it failed"),
        1 => bail!("1 test failed"),
        failed => bail!("{failed} tests failed"),
    }
}

/// Says what failed and ends with the counts. Nothing is said after them, so that a reader finds them last.
fn summarize(steps: &Steps, passed: u64, failed: u64) -> ExitCode {
    let code = steps.report();
    println!("{passed} passed, {failed} failed");
    code
}

/// Failed tests, plus one for every failed step that is not accounted for by them.
fn failures(failed_steps: usize, failed_tests: u64) -> u64 {
    let steps = failed_steps as u64;
    if failed_tests > 0 { steps - 1 + failed_tests } else { steps }
}

#[cfg(test)]
mod tests {
    use super::failures;

    #[test]
    fn failed_tests_and_failed_steps_are_counted_once_each() {
        assert_eq!(failures(0, 0), 0);
        // The step of the tests itself failed because of three of them.
        assert_eq!(failures(1, 3), 3);
        // Besides the tests, the format and the lints are wrong.
        assert_eq!(failures(3, 3), 5);
        // Cargo itself gave up before any test could say anything.
        assert_eq!(failures(1, 0), 1);
    }
}
