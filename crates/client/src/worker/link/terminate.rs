//! SIGTERM, for workers that drain on it.

use crate::error::Error;

pub(super) struct Terminate(tokio::signal::unix::Signal);

impl Terminate {
    pub(super) fn new() -> Result<Terminate, Error> {
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        signal.map(Terminate).map_err(|error| Error::BadSetting {
            what: "draining on SIGTERM",
            why: format!("is not possible here: {error}").into(),
        })
    }
}

pub(super) async fn terminated(terminate: &mut Option<Terminate>) {
    match terminate {
        Some(terminate) => {
            terminate.0.recv().await;
        }
        None => std::future::pending().await,
    }
}
