//! The interface through which the session checks keys.

use std::sync::Arc;

use tenure_hub::words::Name;
use tenure_hub::{ClockReading, Grant, HubRefusal};

/// Checks keys and the rights of their owners.
pub trait RespAuthenticator {
    /// Whether a peer must authenticate.
    fn wants_keys(&self) -> bool;
    /// Whether a key may act as this worker.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal>;
    /// Checks a key.
    fn admit(&self, now: ClockReading, key: &[u8]) -> RespAdmission;
    /// Refuses a namespace that another group serves.
    fn check_placement(&self, _namespace: &Name) -> Result<(), HubRefusal> {
        Ok(())
    }
    /// A peer sent a command before it authenticated.
    fn note_no_key(&self, _now: ClockReading) {}
}

/// The answer to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespAdmission {
    /// The key is known and gives these rights.
    Granted(Arc<Grant>),
    /// The key is unknown, or there were too many wrong ones.
    Wrong,
}
