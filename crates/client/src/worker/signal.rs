//! Tells a handler that its task should wind down.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tenure_wire::words::StopWhy;
use tokio::sync::Notify;

/// Why a handler should wind down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The worker leaves soon: finish quickly, or give the task back.
    Leaving,
    /// A client wants the task paused. Wind down and return [`Outcome::Paused`](super::Outcome::Paused).
    Pause {
        /// The reason that the client gave.
        reason: Option<Box<str>>,
    },
    /// A client wants the task cancelled. Wind down and return [`Outcome::Cancelled`](super::Outcome::Cancelled).
    Cancel {
        /// The reason that the client gave.
        reason: Option<Box<str>>,
    },
    /// The attempt is over: the worker does not report what the handler returns. Another worker may already have the
    /// task.
    Stop {
        /// Why the broker ended the attempt.
        why: StopWhy,
    },
}

impl Interrupt {
    /// In a few words, for messages.
    pub fn as_str(&self) -> &'static str {
        match self {
            Interrupt::Leaving => "the worker leaves",
            Interrupt::Pause { .. } => "a client wants the task paused",
            Interrupt::Cancel { .. } => "a client wants the task cancelled",
            Interrupt::Stop { .. } => "the attempt is over",
        }
    }

    /// A later interrupt replaces an earlier one only if it weighs more.
    fn weight(&self) -> u8 {
        match self {
            Interrupt::Leaving => 1,
            Interrupt::Pause { .. } => 2,
            Interrupt::Cancel { .. } => 3,
            Interrupt::Stop { .. } => 4,
        }
    }
}

/// The callback for each interrupt.
type OnRaise = Box<dyn Fn(&Interrupt) + Send + Sync>;

/// One handler's signal. Handlers can poll it, await it, block on it or set a callback.
#[derive(Default)]
pub(crate) struct Signal {
    interrupt: Mutex<Option<Interrupt>>,
    on_raise: OnceLock<OnRaise>,
    blocked: Condvar,
    awaiting: Notify,
}

impl Signal {
    pub(crate) fn raise(&self, interrupt: Interrupt) {
        let mut current = self.lock();
        if current.as_ref().is_none_or(|current| current.weight() < interrupt.weight()) {
            if let Some(told) = self.on_raise.get() {
                told(&interrupt);
            }
            *current = Some(interrupt);
            self.blocked.notify_all();
            self.awaiting.notify_waiters();
        }
    }

    /// Only the first callback is kept. It also gets an interrupt that is already raised.
    pub(crate) fn on_raise(&self, told: OnRaise) {
        let current = self.lock();
        if self.on_raise.set(told).is_ok()
            && let (Some(told), Some(interrupt)) = (self.on_raise.get(), current.as_ref())
        {
            told(interrupt);
        }
    }

    pub(crate) fn get(&self) -> Option<Interrupt> {
        self.lock().clone()
    }

    pub(crate) async fn raised(&self) -> Interrupt {
        loop {
            let mut notified = std::pin::pin!(self.awaiting.notified());
            // Enabled before the check, so that no interrupt in between is missed.
            notified.as_mut().enable();
            if let Some(interrupt) = self.get() {
                return interrupt;
            }
            notified.await;
        }
    }

    pub(crate) fn wait(&self, timeout: Duration) -> Option<Interrupt> {
        let waited = self.blocked.wait_timeout_while(self.lock(), timeout, |interrupt| interrupt.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Interrupt>> {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("interrupt", &self.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_receives_each_interrupt_once() {
        let signal = Signal::default();
        signal.raise(Interrupt::Leaving);
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let hearing = std::sync::Arc::clone(&heard);
        signal.on_raise(Box::new(move |interrupt| hearing.lock().unwrap().push(interrupt.clone())));
        signal.raise(Interrupt::Leaving);
        signal.raise(Interrupt::Cancel { reason: None });
        assert_eq!(*heard.lock().unwrap(), [Interrupt::Leaving, Interrupt::Cancel { reason: None }]);
    }

    #[test]
    fn the_weightier_interrupt_stays() {
        let signal = Signal::default();
        assert_eq!(signal.get(), None);
        signal.raise(Interrupt::Leaving);
        signal.raise(Interrupt::Cancel { reason: Some("wrong scan".into()) });
        signal.raise(Interrupt::Pause { reason: None });
        signal.raise(Interrupt::Leaving);
        assert_eq!(signal.get(), Some(Interrupt::Cancel { reason: Some("wrong scan".into()) }));
        signal.raise(Interrupt::Stop { why: StopWhy::Stale });
        assert_eq!(signal.wait(Duration::from_secs(60)), Some(Interrupt::Stop { why: StopWhy::Stale }));
    }

    #[tokio::test]
    async fn a_waiter_gets_the_signal_whether_early_or_late() {
        let signal = std::sync::Arc::new(Signal::default());
        let early = tokio::spawn({
            let signal = std::sync::Arc::clone(&signal);
            async move { signal.raised().await }
        });
        tokio::task::yield_now().await;
        signal.raise(Interrupt::Leaving);
        assert_eq!(early.await.unwrap(), Interrupt::Leaving);
        assert_eq!(signal.raised().await, Interrupt::Leaving);
        assert_eq!(signal.wait(Duration::ZERO), Some(Interrupt::Leaving));
    }
}
