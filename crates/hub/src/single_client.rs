//! Detects that a single client is at work. Then the hub syncs the journal itself, because waking the writer thread and
//! being woken by it takes as long as the sync.

use std::time::Duration;

/// This many turns of one message each in a row mean a single client.
const LONE_TURNS: u32 = 4;
/// A yield to the runtime that returns sooner than this found no other task to run.
const NO_OTHER_WORK: Duration = Duration::from_micros(30);

#[derive(Debug, Default)]
pub(crate) struct SingleClientDetector {
    lone_turns: u32,
}

impl SingleClientDetector {
    /// Counts a turn that took `messages` messages, after yielding to the runtime for `gave_way`.
    pub(crate) fn turn(&mut self, messages: usize, gave_way: Duration) {
        let is_lone = messages == 1 && gave_way < NO_OTHER_WORK;
        self.lone_turns = if is_lone { self.lone_turns.saturating_add(1) } else { 0 };
    }

    pub(crate) fn is_single_client(&self) -> bool {
        self.lone_turns >= LONE_TURNS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONE_TURNS, NO_OTHER_WORK, SingleClientDetector};

    fn single() -> SingleClientDetector {
        let mut single_client = SingleClientDetector::default();
        for _ in 0..LONE_TURNS {
            assert!(!single_client.is_single_client(), "once is not enough");
            single_client.turn(1, Duration::ZERO);
        }
        single_client
    }

    #[test]
    fn a_second_message_ends_it() {
        let mut single_client = single();
        assert!(single_client.is_single_client());
        single_client.turn(2, Duration::ZERO);
        assert!(!single_client.is_single_client());
    }

    #[test]
    fn other_work_ends_it() {
        let mut single_client = single();
        single_client.turn(1, NO_OTHER_WORK);
        assert!(!single_client.is_single_client());
    }
}
