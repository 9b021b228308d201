//! The signals that ask a worker to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn catch() -> Result<Signals, Failure> {
        let catch =
            |kind| signal(kind).map_err(|error| Failure::system(format!("cannot catch signals: {error}")));
        Ok(Signals { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
