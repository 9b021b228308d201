//! How far a hook has come in the events: which it has read, and which of those are still on their way.

use std::collections::BTreeSet;

/// The place of a hook in the log. Several events may be on their way at once, and may arrive in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookCursor {
    /// The number after the last event that was read; 0 if the hook has no place yet.
    read: u64,
    /// Events that were read and are neither delivered nor given up.
    open: BTreeSet<u64>,
}

impl HookCursor {
    /// A hook that goes on at this event; 0 for one that has no place yet.
    pub fn at(next_event: u64) -> HookCursor {
        HookCursor { read: next_event, open: BTreeSet::new() }
    }

    /// The next event to read; `None` means from now on.
    pub fn from(&self) -> Option<u64> {
        Some(self.read).filter(|read| *read > 0)
    }

    /// An event was read, and has to be delivered.
    pub fn take(&mut self, seq: u64) {
        self.read = seq + 1;
        self.open.insert(seq);
    }

    /// An event was read that the hook does not want.
    pub fn pass(&mut self, seq: u64) {
        self.read = seq + 1;
    }

    /// Events from `from` to before `oldest` are gone, or the log begins again with `oldest`. A notice of that has to be
    /// delivered, under the first number.
    pub fn gap(&mut self, from: u64, oldest: u64) {
        self.read = oldest;
        self.open.insert(from);
    }

    /// All events before `next` were read, as far as the hook wants them.
    pub fn live(&mut self, next: u64) {
        self.read = self.read.max(next);
    }

    /// An event was delivered, or given up.
    pub fn done(&mut self, seq: u64) {
        self.open.remove(&seq);
    }

    /// Whether no event is on its way.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// All events before this one are done. A broker that starts again goes on here.
    pub fn next_event(&self) -> u64 {
        self.open.first().map_or(self.read, |first| self.read.min(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::HookCursor;

    #[test]
    fn a_log_that_begins_again_takes_the_place_back() {
        let mut cursor = HookCursor::at(100);
        cursor.gap(100, 24);
        assert_eq!((cursor.next_event(), cursor.from()), (24, Some(24)));
        cursor.take(24);
        cursor.done(24);
        assert_eq!(cursor.next_event(), 25, "the notice of the gap does not hold the place beyond the log");
    }

    #[test]
    fn the_first_open_event_holds_the_place() {
        let mut cursor = HookCursor::at(4);
        cursor.take(4);
        cursor.take(6);
        cursor.pass(7);
        cursor.done(6);
        assert_eq!((cursor.next_event(), cursor.from()), (4, Some(8)));
        cursor.done(4);
        assert_eq!(cursor.next_event(), 8);
        cursor.live(20);
        assert_eq!((cursor.next_event(), cursor.is_idle()), (20, true));
    }

    #[test]
    fn a_gap_is_reported_again_until_it_is_delivered() {
        let mut cursor = HookCursor::at(3);
        cursor.gap(3, 9);
        cursor.take(9);
        cursor.done(9);
        assert_eq!((cursor.next_event(), cursor.from()), (3, Some(10)));
        cursor.done(3);
        assert_eq!(cursor.next_event(), 10);
    }

    #[test]
    fn a_new_hook_begins_now() {
        assert_eq!(HookCursor::default().from(), None);
    }
}
