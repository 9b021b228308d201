//! A process group: a command and everything it has started, ended together.

use super::process_stat::ProcessStat;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// By the number of the process that leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group(i32);

impl Group {
    /// The group that a process leads. `None` for invalid ids: a signal to group 1 would reach every process.
    pub(crate) fn led_by(pid: u32) -> Option<Group> {
        i32::try_from(pid).ok().filter(|pid| *pid > 1).map(Group)
    }

    pub(crate) fn terminate(self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Stops every process of the group where it is. No process can ignore it.
    pub(crate) fn stop(self) {
        self.signal(Signal::STOP);
    }

    /// Continues a stopped group.
    pub(crate) fn resume(self) {
        self.signal(Signal::CONT);
    }

    /// Whether any process of the group is there. What has ended, and is only kept for a parent that takes no note of it
    /// (process 1 of a container, often), does not count.
    pub(crate) fn is_alive(self) -> bool {
        Pid::from_raw(self.0).is_some_and(|pid| test_kill_process_group(pid).is_ok())
            && !self.has_only_zombies()
    }

    /// As far as the kernel tells. Where it does not, all that is there counts as alive.
    fn has_only_zombies(self) -> bool {
        let mut has_zombie = false;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(process) = ProcessStat::of(&entry.path()) else { continue };
            if i32::try_from(process.group).is_ok_and(|group| group == self.0) {
                if !process.is_zombie() {
                    return false;
                }
                has_zombie = true;
            }
        }
        has_zombie
    }

    pub(crate) fn number(self) -> i32 {
        self.0
    }

    fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.0) {
            // A group that is already gone needs no signal.
            let _ = kill_process_group(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_group_of_zombies_is_dead() {
        let mut child = Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
        let mut other =
            Command::new("sleep").arg("300").process_group(child.id().cast_signed()).spawn().unwrap();
        let group = Group::led_by(child.id()).unwrap();
        let dies = || {
            let deadline = Instant::now() + Duration::from_secs(5);
            while group.is_alive() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            !group.is_alive()
        };
        child.kill().unwrap();
        assert!(group.is_alive(), "one of two runs");
        other.kill().unwrap();
        let is_dead = dies();
        child.wait().unwrap();
        other.wait().unwrap();
        assert!(is_dead, "both are zombies");
        assert!(!group.is_alive());
    }

    #[test]
    fn no_process_group_id_can_signal_all_processes() {
        for pid in [0, 1, u32::MAX, 1 << 31] {
            assert_eq!(Group::led_by(pid), None);
        }
        assert_eq!(Group::led_by(77).unwrap().number(), 77);
    }
}
