//! Steps: named, timed pieces of work that say how to repeat them.
//!
//! A failed step does not stop the ones after it, because a long run should report everything that is wrong, not
//! only the first thing.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

#[derive(Default)]
pub(crate) struct Steps {
    failures: Vec<Failure>,
}

struct Failure {
    step: &'static str,
    error: anyhow::Error,
    repeat: String,
}

impl Steps {
    /// Does one step; `repeat` is the command that does this step alone. Returns whether it went well.
    pub(crate) fn run(
        &mut self,
        step: &'static str,
        repeat: impl Into<String>,
        work: impl FnOnce() -> Result<()>,
    ) -> bool {
        println!("── {step}");
        // A child writes to the same terminal; what we said first must be there first.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let outcome = work();
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                println!("── {step}: {seconds:.1} s\n");
                true
            }
            Err(error) => {
                println!("── {step}: FAILED after {seconds:.1} s: {error:#}\n");
                self.failures.push(Failure { step, error, repeat: repeat.into() });
                false
            }
        }
    }

    /// Replaces the way to repeat the last failure by a narrower one that only its outcome could tell.
    pub(crate) fn narrow_last(&mut self, repeat: String) {
        if let Some(last) = self.failures.last_mut() {
            last.repeat = repeat;
        }
    }

    pub(crate) fn failed(&self) -> usize {
        self.failures.len()
    }

    /// Prints one line per failed step: which, why, and how to repeat it.
    pub(crate) fn report(&self) -> ExitCode {
        for line in self.lines() {
            println!("{line}");
        }
        if self.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn lines(&self) -> Vec<String> {
        let line = |f: &Failure| format!("FAILED: {}: {:#}; repeat with: {}", f.step, f.error, f.repeat);
        self.failures.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_failed_step_is_reported_with_its_reason_and_the_way_to_repeat_it() {
        let mut steps = Steps::default();
        assert!(!steps.run("house rules", "cargo xtask house", || Err(anyhow!("3 breaches"))));
        assert_eq!(steps.lines(), ["FAILED: house rules: 3 breaches; repeat with: cargo xtask house"]);
        assert_eq!(steps.report(), ExitCode::FAILURE);
    }

    #[test]
    fn the_steps_after_a_failed_one_are_still_done() {
        let mut steps = Steps::default();
        steps.run("first", "x", || Err(anyhow!("no")));
        let mut done = false;
        assert!(steps.run("second", "y", || {
            done = true;
            Ok(())
        }));
        assert!(done);
        assert_eq!(steps.failed(), 1);
    }

    #[test]
    fn a_run_without_failures_ends_well() {
        let mut steps = Steps::default();
        assert!(steps.run("only", "x", || Ok(())));
        assert!(steps.lines().is_empty());
        assert_eq!(steps.report(), ExitCode::SUCCESS);
    }
}
