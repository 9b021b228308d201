//! A process group: a command and everything it has started, ended together.

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

    /// Whether any process of the group is there, be it only as a zombie.
    pub(crate) fn is_alive(self) -> bool {
        Pid::from_raw(self.0).is_some_and(|pid| test_kill_process_group(pid).is_ok())
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
    use super::*;

    #[test]
    fn no_process_group_id_can_signal_all_processes() {
        for pid in [0, 1, u32::MAX, 1 << 31] {
            assert_eq!(Group::led_by(pid), None);
        }
        assert_eq!(Group::led_by(77).unwrap().number(), 77);
    }
}
