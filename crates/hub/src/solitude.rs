//! Solitude: one peer asks, and nobody else has anything to do. Then the hub waits for the disk itself, because waking
//! the writer and being woken by it takes as long as the sync.

use std::time::Duration;

/// So many turns of one message each are no coincidence.
const LONE_TURNS: u32 = 4;
/// Whoever gives way to others and is back so soon has given way to nobody.
const NOBODY_THERE: Duration = Duration::from_micros(30);

#[derive(Debug, Default)]
pub(crate) struct Solitude {
    lone_turns: u32,
}

impl Solitude {
    /// A turn with so many messages, after giving way to others for so long.
    pub(crate) fn turn(&mut self, messages: usize, gave_way: Duration) {
        let is_lone = messages == 1 && gave_way < NOBODY_THERE;
        self.lone_turns = if is_lone { self.lone_turns.saturating_add(1) } else { 0 };
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.lone_turns >= LONE_TURNS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONE_TURNS, NOBODY_THERE, Solitude};

    fn alone() -> Solitude {
        let mut solitude = Solitude::default();
        for _ in 0..LONE_TURNS {
            assert!(!solitude.is_certain(), "once is not enough");
            solitude.turn(1, Duration::ZERO);
        }
        solitude
    }

    #[test]
    fn a_second_message_ends_it() {
        let mut solitude = alone();
        assert!(solitude.is_certain());
        solitude.turn(2, Duration::ZERO);
        assert!(!solitude.is_certain());
    }

    #[test]
    fn others_who_had_something_to_do_end_it() {
        let mut solitude = alone();
        solitude.turn(1, NOBODY_THERE);
        assert!(!solitude.is_certain());
    }
}
