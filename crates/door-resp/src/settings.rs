//! What the door is told at its start.

use std::time::Duration;

use tenure_door_kit::DoorSettings;
use tenure_door_kit::worker_actor::Heartbeats;
use tenure_hub::limits::BODY_BYTES_MAX;

use crate::codec::RespLimits;

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a job submitted here may run, unless it says otherwise.
    pub run_limit: Duration,
    /// A worker says that it is alive this often; after three times that without a word it is dead.
    pub heartbeat: Duration,
    /// BRPOP of one queue answers the job alone, without its key, to peers that do not greet like a Redis library.
    pub pops_job_alone: bool,
    /// The first pull from `queue:ready` of a worker that only pings is answered with the whole job.
    pub pulls_whole_job: bool,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// What every door is told: caps, deadlines, TLS.
    pub door: DoorSettings,
}

impl Settings {
    /// What is larger could not be stored as a body.
    pub fn limits(&self) -> RespLimits {
        RespLimits::friend_with(self.message_bytes_max.min(BODY_BYTES_MAX))
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
