//! A child process that does not outlive its owner, and what it costs.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::exit::Failure;

/// Kills the process when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

/// The resources that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) resident_bytes: u64,
}

/// The kernel counts processor time for its files in hundredths of a second, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    /// Starts a program; what it says on stderr goes to `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Process, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let started = command.stdin(Stdio::null()).stderr(file).spawn();
        let child = started.map_err(|error| Failure::system(format!("cannot start {name}: {error}")))?;
        Ok(Process { child })
    }

    /// This very program, without anything that the environment says about brokers.
    pub(crate) fn tenure() -> Result<Command, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::system(format!("cannot find the path of this program: {error}")))?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// No chance to say goodbye.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn terminate(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of(&self.child.id().to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Usage {
    /// Of a process by its number, or of `self`. Nothing where there is no `/proc`.
    pub(crate) fn of(process: &str) -> Usage {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        Usage {
            cpu: cpu(&read("stat")).unwrap_or_default(),
            resident_bytes: resident(&read("status")).unwrap_or(0),
        }
    }
}

/// User and system time. The name may hold spaces, so fields are counted from its closing bracket.
fn cpu(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_secs_f64((ticks()? + ticks()?) as f64 / TICKS_PER_SECOND))
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_used_is_read_from_the_kernels_files() {
        let stat = "77 (a (b) c) S 1 77 77 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 4 0 100 1 2 3";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(resident("Name:\tx\nVmRSS:\t  2048 kB\n"), Some(2 << 20));
        assert_eq!((cpu(""), resident("")), (None, None));
    }
}
