//! Exit codes, and the failures behind them. A failed task and a failed broker never share a number.
//!
//! A task's own exit code passes through unchanged from 1 to 63. This program's own codes are above: 64 and up follow
//! `sysexits.h`, and 80 and up describe the end of a task without an exit code.

use std::fmt;

/// All is well.
pub(crate) const OK: u8 = 0;
/// The command line or the configuration is wrong.
pub(crate) const USAGE: u8 = 64;
/// The input (a file, a line of JSON) cannot be parsed.
pub(crate) const BAD_INPUT: u8 = 65;
/// The broker cannot be reached.
pub(crate) const UNREACHABLE: u8 = 69;
/// Something that should not happen.
pub(crate) const INTERNAL: u8 = 70;
/// System error: a file, a port, the disk.
pub(crate) const SYSTEM: u8 = 71;
/// Refused for now: full, draining, disk full. The same again may work later.
pub(crate) const TRY_LATER: u8 = 75;
/// Refused: asking the same again will not help.
pub(crate) const REFUSED: u8 = 76;
/// The key is missing, wrong, or does not allow this.
pub(crate) const NOT_ALLOWED: u8 = 77;
/// A check found something wrong: `doctor`, `journal verify`.
pub(crate) const FOUND_TROUBLE: u8 = 78;
/// The task failed with an exit code that does not fit between 1 and 63.
pub(crate) const TASK_FAILED: u8 = 80;
/// The task's workers crashed once too often.
pub(crate) const TASK_CRASHED: u8 = 81;
/// The task did not start before its expiry.
pub(crate) const TASK_EXPIRED: u8 = 82;
/// Timed out waiting for the task.
pub(crate) const STILL_GOING: u8 = 83;
/// The task was cancelled.
pub(crate) const TASK_CANCELLED: u8 = 130;

/// The table that `--help` shows.
pub(crate) const HELP: &str = "\
Exit codes:
  0       done; with --wait: the task completed
  1-63    the task's own exit code (--wait, wait)
  64      the command line or the configuration is wrong
  65      invalid input
  69      the broker cannot be reached
  70      internal error
  71      system error: a file, a port, the disk
  75      refused for now (full, draining, disk full): try again later
  76      refused: a retry will not help
  77      the key is missing, wrong, or does not allow this
  78      a check found problems (doctor, journal verify, reconcile, cluster status, demo)
  80      the task failed with an exit code outside 1-63
  81      the task crashed too often
  82      the task expired before it started
  83      timed out waiting for the task
  130     the task was cancelled, or Ctrl-C ended the waiting";

/// Why the program ends without having done what was asked: what is wrong, what to do, and the code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

pub(crate) type Outcome = Result<u8, Failure>;

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(USAGE, message)
    }

    pub(crate) fn input(message: impl Into<String>) -> Failure {
        Failure::new(BAD_INPUT, message)
    }

    pub(crate) fn system(message: impl Into<String>) -> Failure {
        Failure::new(SYSTEM, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(INTERNAL, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Writing to a closed pipe is no reason to complain; `main` looks for this code.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::new(OK, String::new());
        }
        Failure::system(error.to_string())
    }
}

/// The code for a task that has ended. The broker's own codes are negative: -1 cancelled, -2 crashed, -3 expired.
pub(crate) fn of_task(exit_code: i32) -> u8 {
    match exit_code {
        0 => OK,
        1..=63 => exit_code as u8,
        -1 => TASK_CANCELLED,
        -2 => TASK_CRASHED,
        -3 => TASK_EXPIRED,
        _ => TASK_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tasks_code_is_never_mistaken_for_the_programs_own() {
        let own =
            [USAGE, BAD_INPUT, UNREACHABLE, INTERNAL, SYSTEM, TRY_LATER, REFUSED, NOT_ALLOWED, FOUND_TROUBLE];
        for code in
            [i32::MIN, -4, -3, -2, -1, 0, 1, 2, 63, 64, 69, 75, 76, 77, 127, 130, 137, 255, 256, i32::MAX]
        {
            let exit = of_task(code);
            assert!(!own.contains(&exit), "{code} became {exit}");
            assert_eq!(exit == OK, code == 0, "{code} became {exit}");
        }
        assert_eq!(of_task(3), 3);
        assert_eq!(of_task(-1), 130);
    }

    #[test]
    fn help_names_every_code() {
        for code in
            [USAGE, BAD_INPUT, UNREACHABLE, INTERNAL, SYSTEM, TRY_LATER, REFUSED, NOT_ALLOWED, FOUND_TROUBLE]
                .into_iter()
                .chain([TASK_FAILED, TASK_CRASHED, TASK_EXPIRED, STILL_GOING, TASK_CANCELLED])
        {
            assert!(HELP.lines().any(|line| line.starts_with(&format!("  {code} "))), "{code}");
        }
    }
}
