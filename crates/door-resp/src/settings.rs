//! The settings of the door.

use std::time::Duration;

use tenure_door_kit::DoorSettings;
use tenure_door_kit::worker_actor::Heartbeats;
use tenure_hub::limits::BODY_BYTES_MAX;

use crate::codec::RespLimits;

/// The settings of the RESP door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Default run limit of a job submitted here.
    pub run_limit: Duration,
    /// The heartbeat interval of workers; after three intervals of silence a worker counts as dead.
    pub heartbeat: Duration,
    /// BRPOP of one queue returns the job alone, without its key, to peers that do not send a Redis library's
    /// greeting.
    pub pops_job_alone: bool,
    /// The first pull from `queue:ready` of a worker that only pings is answered with the whole job.
    pub pulls_whole_job: bool,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Settings that all doors share: limits, deadlines, TLS.
    pub door: DoorSettings,
}

impl Settings {
    /// A larger message could not be stored as a body.
    pub fn limits(&self) -> RespLimits {
        RespLimits::trusted_with(self.message_bytes_max.min(BODY_BYTES_MAX))
    }

    /// How long a worker may be silent.
    pub fn heartbeats(&self) -> Heartbeats {
        Heartbeats(self.heartbeat)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            run_limit: Duration::from_secs(3600),
            heartbeat: Duration::from_secs(30),
            pops_job_alone: false,
            pulls_whole_job: true,
            message_bytes_max: RespLimits::MESSAGE_BYTES_MAX,
            door: DoorSettings {
                connections_max: 50_000,
                connections_per_address_max: 50_000,
                ..DoorSettings::default()
            },
        }
    }
}
