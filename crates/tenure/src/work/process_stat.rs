//! What the kernel says of a process in one line: `/proc/PID/stat`.

use std::path::Path;

/// The state, group, session and threads of a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessStat {
    state: char,
    pub(super) group: u32,
    pub(super) session: u32,
    threads: u32,
}

impl ProcessStat {
    pub(super) fn of(process: &Path) -> Option<ProcessStat> {
        ProcessStat::parse(&std::fs::read_to_string(process.join("stat")).ok()?)
    }

    /// Whether it has ended, and only its parent has not taken note of that. A process whose first thread has ended looks
    /// the same while its other threads run.
    pub(super) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }

    /// `pid (name) state parent group session …`; the name may hold anything.
    fn parse(stat: &str) -> Option<ProcessStat> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        let state = fields.first()?.chars().next()?;
        Some(ProcessStat { state, group: number(2)?, session: number(3)?, threads: number(17)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let rest = "1 42 7 0 -1 4194560 97 0 0 0 0 0 0 0 20 0";
        let stat = ProcessStat::parse(&format!("77 (a) b (c) S {rest} 3 0")).unwrap();
        assert_eq!(stat, ProcessStat { state: 'S', group: 42, session: 7, threads: 3 });
        assert!(ProcessStat::parse(&format!("77 (a) Z {rest} 1 0")).unwrap().is_zombie());
        assert!(!ProcessStat::parse(&format!("77 (a) Z {rest} 2 0")).unwrap().is_zombie(), "a thread runs");
        assert_eq!(ProcessStat::parse("77 (a"), None);
    }
}
