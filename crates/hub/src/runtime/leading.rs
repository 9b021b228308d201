//! The event loop of a leader: its lease, and its end when another broker leads.

use std::time::Duration;

use tenure_engine::Timestamp;

use super::EventLoop;
use crate::clock::monotonic_clock;

/// After this long without an answer to an append, the replicated journal counts as away.
const APPEND_WITHIN: Duration = Duration::from_millis(1_500);

/// Why a hub has ended.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEnd {
    /// A handle stopped it.
    Stopped,
    /// Another broker leads the group.
    Deposed { holder: String, epoch: u64 },
}

impl EventLoop {
    /// Another broker leads. What is decided and not committed is forgotten here: it never happened.
    pub(super) fn step_down(&mut self, end: HubEnd) -> HubEnd {
        let _ = self.stopping.send(true);
        self.permits.close();
        if let HubEnd::Deposed { holder, .. } = &end {
            self.core.deposed(holder);
        }
        end
    }

    /// The replicated journal does not answer.
    pub(super) fn journal_is_away(&mut self, now: Timestamp, why: &str) {
        self.core.journal_is_away(now);
        self.handle.set_journal_away(true);
        if !std::mem::replace(&mut self.journal_away, true) {
            tracing::warn!(
                why,
                "the replicated journal does not answer; nothing is acknowledged until it does"
            );
        }
    }

    /// An append that hangs gives no error before the lease ends: its commit waits for a standby, or the server is
    /// stopped. Clients need not wait that long for a refusal.
    pub(super) fn look_for_hung_append(&mut self, now: Timestamp) {
        let hangs = self.writing.waits_for().is_some_and(|waited| waited >= APPEND_WITHIN);
        if hangs && self.lease.is_some() && !self.journal_away {
            self.journal_is_away(now, "an append has no answer");
        }
        // Without an append, nothing but the renewals shows it. A lease that was ended is another matter: the next
        // append says who leads.
        let has_run_out = self.lease.as_ref().is_some_and(|lease| lease.has_run_out(monotonic_clock()));
        if has_run_out && !self.journal_away {
            self.lease_was_lost = true;
            self.journal_is_away(now, "the lease cannot be renewed");
        } else if !hangs && self.has_lease() && std::mem::take(&mut self.lease_was_lost) {
            self.journal_is_back(now);
        }
    }

    /// Whether no other broker can lead, as far as this one knows. A broker alone needs no lease.
    fn has_lease(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.holds(monotonic_clock()))
    }

    /// When to look for it at the latest.
    pub(super) fn append_answer_due(&self) -> Option<Duration> {
        let waited = self.writing.waits_for().filter(|_| self.lease.is_some() && !self.journal_away)?;
        Some(APPEND_WITHIN.saturating_sub(waited))
    }

    /// The replicated journal has answered.
    pub(super) fn journal_is_back(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.journal_away) {
            tracing::info!("the replicated journal answers again; pending records are committed");
            self.core.journal_is_back(now);
            self.handle.set_journal_away(false);
        }
    }

    /// Replies that need no record leave only while no other broker can lead.
    pub(super) fn check_lease(&mut self) {
        self.core.set_lease(self.has_lease());
    }
}
