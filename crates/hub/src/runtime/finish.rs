//! The end of the event loop when a handle stops it.

use std::time::{Duration, Instant};

use tenure_store::{Pace, StoreError};

use super::{EventLoop, HubEnd};

/// How long a stop waits for a replicated journal that does not answer.
const DRAIN_AWAY_MAX: Duration = Duration::from_secs(10);

impl EventLoop {
    /// Stops cleanly: notifies sessions, writes what is decided, takes a last snapshot.
    pub(super) async fn finish(mut self) -> Result<HubEnd, StoreError> {
        let _ = self.stopping.send(true);
        tokio::join!(self.handle.topics().stop(), self.handle.keyspaces().stop());
        self.handle.task_logs().stop();
        self.permits.close();
        self.core.drain();
        self.core.begin_last_snapshot();
        let mut away_since: Option<Instant> = None;
        loop {
            let now = self.read_clock();
            self.pace = self.core.tick(now);
            self.write()?;
            self.check_lease();
            self.look_for_hung_append(now);
            self.core.flush_outbox();
            if let Some(end) = self.deposed.take() {
                return Ok(self.step_down(end));
            }
            if !self.writing.is_busy() && self.core.is_idle() && self.pace == Pace::Idle {
                break;
            }
            away_since = if self.journal_away { away_since.or_else(|| Some(Instant::now())) } else { None };
            if away_since.is_some_and(|since| since.elapsed() > DRAIN_AWAY_MAX) {
                tracing::warn!(
                    "the replicated journal does not answer; the broker stops without its last records, which were \
                     not acknowledged"
                );
                return Ok(HubEnd::Stopped);
            }
            tokio::select! {
                written = self.writing.report() => {
                    let now = self.read_clock();
                    self.written(now, written)?;
                }
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        self.core.flush_outbox();
        match self.writing.close() {
            Err(StoreError::Failed) => self.why_failed().await,
            closed => closed.map(|()| HubEnd::Stopped),
        }
    }

    /// The writer has failed since the last look, such as with a renewal. The last report of its thread says why.
    async fn why_failed(&mut self) -> Result<HubEnd, StoreError> {
        loop {
            let written = self.writing.report().await;
            let now = self.read_clock();
            self.written(now, written)?;
            if let Some(end) = self.deposed.take() {
                return Ok(self.step_down(end));
            }
        }
    }
}
