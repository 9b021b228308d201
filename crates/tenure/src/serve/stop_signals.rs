//! The signals that a broker obeys: one that reloads, and those that stop.

use tokio::signal::unix::{Signal, SignalKind};

use crate::exit::{self, Failure};
use crate::signals;

pub(crate) struct StopSignals {
    stop: signals::Signals,
    hang_up: Signal,
    is_draining: bool,
    /// A reload was asked for when it could not be done.
    is_reload_due: bool,
}

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    Reload,
    Stop,
}

impl StopSignals {
    pub(crate) fn catch() -> Result<StopSignals, Failure> {
        let hang_up = signals::catch(SignalKind::hangup())?;
        Ok(StopSignals {
            stop: signals::Signals::catch()?,
            hang_up,
            is_draining: false,
            is_reload_due: false,
        })
    }

    /// The next request. The second one to stop ends the process at once.
    pub(crate) async fn next(&mut self) -> SignalRequest {
        if std::mem::take(&mut self.is_reload_due) {
            return SignalRequest::Reload;
        }
        self.received().await
    }

    async fn received(&mut self) -> SignalRequest {
        tokio::select! {
            Some(()) = self.hang_up.recv() => return SignalRequest::Reload,
            () = self.stop.next() => {}
        }
        if self.is_draining {
            tracing::warn!("stopping at once; everything acknowledged is on disk");
            std::process::exit(i32::from(exit::TASK_CANCELLED));
        }
        self.is_draining = true;
        SignalRequest::Stop
    }

    /// Does something before there is anything to drain. `None`: a signal has asked to stop meanwhile. A reload is done
    /// afterwards.
    pub(crate) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                asked = self.received() => match asked {
                    SignalRequest::Stop => return None,
                    SignalRequest::Reload => self.is_reload_due = true,
                },
            }
        }
    }

    /// Whether a signal has asked to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }
}
