//! The interface through which the session checks keys.

use std::sync::Arc;

use tenure_hub::{ClockReading, Grant, HubRefusal};

pub trait RespAuthenticator {
    fn wants_keys(&self) -> bool;
    /// Whether a key may act as this worker.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal>;
    fn admit(&self, now: ClockReading, key: &[u8]) -> RespAdmission;
    /// A peer sent a command before it authenticated.
    fn note_no_key(&self, _now: ClockReading) {}
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespAdmission {
    Granted(Arc<Grant>),
    Wrong,
}
