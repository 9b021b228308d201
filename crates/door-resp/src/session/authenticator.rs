//! Which keys are right. The session asks, the server knows.

use std::sync::Arc;

use tenure_hub::Grant;
use tenure_hub::words::{Refusal, Timestamp};

pub trait RespAuthenticator {
    fn wants_keys(&self) -> bool;
    /// Whether a key may speak as a worker.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal>;
    fn admit(&self, now: Timestamp, key: &[u8]) -> RespAdmission;
    /// A peer asked for something before it has shown a key.
    fn note_no_key(&self, _now: Timestamp) {}
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespAdmission {
    Granted(Arc<Grant>),
    Wrong,
}
