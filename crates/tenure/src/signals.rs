//! The signals that ask this program to end, and which of them are duplicates.
//!
//! `timeout` signals its child and then the whole process group, and a terminal signals every process of the
//! foreground group: the program gets one request twice. A signal within [`DEBOUNCE`] of the previous one is the same
//! request.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::exit::Failure;

/// A repeat within this time says nothing new.
pub(crate) const DEBOUNCE: Duration = Duration::from_secs(1);

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    debounce: SignalDebounce,
}

impl Signals {
    pub(crate) fn catch() -> Result<Signals, Failure> {
        Ok(Signals {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            debounce: SignalDebounce::default(),
        })
    }

    /// Waits for the next one that is not a repetition of the last.
    pub(crate) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if self.debounce.is_new(Instant::now()) {
                return;
            }
        }
    }
}

pub(crate) fn catch(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::system(format!("cannot catch signals: {error}")))
}

/// Remembers when the last signal came that counted.
#[derive(Debug, Default)]
struct SignalDebounce {
    last: Option<Instant>,
}

impl SignalDebounce {
    fn is_new(&mut self, now: Instant) -> bool {
        let is_new = self.last.is_none_or(|last| now.duration_since(last) >= DEBOUNCE);
        if is_new {
            self.last = Some(now);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_within_a_second_is_the_same_signal_and_a_later_one_is_another() {
        let (mut debounce, first) = (SignalDebounce::default(), Instant::now());
        let at = |millis| first + Duration::from_millis(millis);
        let heard: Vec<bool> =
            [0, 1, 500, 999, 1_000, 1_001, 2_500].map(|millis| debounce.is_new(at(millis))).into();
        assert_eq!(heard, [true, false, false, false, true, false, true]);
    }
}
