//! File descriptors: connections must leave enough of them for the store.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for the journal, snapshots, event files, topics, logs, listeners and threads.
const RESERVE: u64 = 128;
/// Assumed where the system has no limit.
const UNLIMITED: u64 = 1 << 20;

/// How many descriptors the process may open, and how many of them may be connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// How many files and sockets the process may have open.
    pub limit: u64,
    /// How many of them are for connections.
    pub connections_max: usize,
}

/// Raises the limit of open files to what the system allows, and returns what is left for connections.
pub fn raise_descriptor_limit() -> Descriptors {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(UNLIMITED).min(UNLIMITED);
    if current.is_some_and(|current| current < wanted) {
        // If raising fails, the old limit stays and is read again below.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    Descriptors::within(getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED))
}

impl Descriptors {
    /// A small limit is split in half, a larger one keeps a fixed reserve.
    fn within(limit: u64) -> Descriptors {
        let reserve = RESERVE.min(limit / 2);
        Descriptors { limit, connections_max: usize::try_from(limit - reserve).unwrap_or(usize::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_keeps_its_reserve() {
        assert_eq!(Descriptors::within(1024).connections_max, 896);
        assert_eq!(Descriptors::within(64).connections_max, 32);
        let raised = raise_descriptor_limit();
        assert!(raised.connections_max >= 32, "{raised:?}");
    }
}
