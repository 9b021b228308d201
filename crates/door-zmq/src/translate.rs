//! Translates between Majordomo's terms and the broker's. No other module of this crate knows both.

mod health;
mod job;
mod notices;
mod requests;

use std::time::Duration;

use tenure_hub::words::{
    Held, Name, NewTask, OnClose, Refusal, TaskId, Timestamp, WorkerAbout, WorkerSpec, WorkerStats,
};
use tenure_hub::{HubRefusal, fresh_id};
use uuid::Uuid;

use crate::codec::Identity;
use crate::mdp::{MdpAddress, MdpRegistration, MdpStats};
use crate::settings::{PingPongSettings, Settings};

pub(crate) use health::{free_slots, health, slots};
pub(crate) use job::job_frames;
pub(crate) use notices::{NOTICE_KINDS, gap_notice, notices, refused};
pub(crate) use requests::{abandon, given_up, held_in, report, submission, unfinished_of, watch_ends};

/// Longer than any computation: the engine's value for "as long as its connection lives".
const NO_LEASE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How many queues the engine lets one worker serve.
const WORKER_QUEUES_MAX: usize = 256;

/// A peer's name in the broker: its identity as text. A name that is too long is cut and made unique by a hash of the
/// whole.
pub(crate) fn peer_name(identity: &Identity) -> Name {
    const NAME_BYTES_MAX: usize = 255;
    let text = identity.to_string();
    if text.len() <= NAME_BYTES_MAX {
        return text.into();
    }
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut end = 200;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{hash:016x}", &text[..end]).into()
}

/// Whether a peer's name in the broker was assigned by the door.
pub(crate) fn is_given_name(name: &Name) -> bool {
    name.starts_with("@00")
}

/// The address frame for an attempt that a worker is given, and the attempt of an address frame.
pub(crate) fn address_of(held: Held, worker: &Name) -> MdpAddress {
    MdpAddress { task: Uuid::from_bytes(held.task.0), attempt: held.attempt, worker: worker.to_string() }
}

pub(crate) fn held_of(address: &MdpAddress) -> Held {
    Held { task: TaskId(*address.task.as_bytes()), attempt: address.attempt }
}

/// A job of a Majordomo client.
pub(crate) fn job(service: &str, now: Timestamp, may_return: bool, settings: &Settings) -> NewTask {
    NewTask {
        crash_budget: settings.retry_attempts,
        crash_backoff: settings.crash_backoff,
        expires_at: settings.expire.map(|expire| now + expire),
        abandon_after: settings.expire_gone.filter(|_| !may_return),
        ..NewTask::new(fresh_id(), service)
    }
}

/// Work of a READY / PING / PONG client.
pub(crate) fn work(now: Timestamp, may_return: bool, settings: &PingPongSettings) -> NewTask {
    NewTask {
        crash_budget: settings.retry_attempts,
        expires_at: settings.expire.map(|expire| now + expire),
        abandon_after: settings.expire_gone.filter(|_| !may_return),
        ..NewTask::new(fresh_id(), settings.queue.clone())
    }
}

/// A worker of MDP/0.1 or 0.2: one job at a time, silent while it computes, dead when its connection closes.
pub(crate) fn simple_worker(worker: &Name, service: &str, settings: &Settings) -> WorkerSpec {
    let lost_after = settings.heartbeat * settings.liveness;
    WorkerSpec {
        heartbeat: settings.heartbeat,
        lost_after,
        busy_lost_after: Some(settings.busy_lease.unwrap_or(NO_LEASE).max(lost_after)),
        lease: lost_after,
        on_close: OnClose::TasksDie,
        starts_on_assign: true,
        // It computes one job at a time.
        light_slots: 0,
        about: about("mdp", None),
        ..WorkerSpec::new(worker.clone(), vec![service.into()], 1)
    }
}

/// A `_PL` worker: as many jobs as it has threads, and it sends heartbeats while it computes.
pub(crate) fn plugin_worker(
    worker: &Name,
    registration: &MdpRegistration,
    held: Vec<Held>,
    settings: &Settings,
) -> WorkerSpec {
    let lost_after = settings.heartbeat * settings.liveness;
    let queues =
        registration.plugins.iter().take(WORKER_QUEUES_MAX).map(|plugin| plugin.path.as_str().into());
    WorkerSpec {
        heartbeat: settings.heartbeat,
        lost_after,
        lease: lost_after,
        on_close: OnClose::TasksDie,
        held,
        // Some choose a new identity with each connection.
        inherits_crashes: true,
        // It computes as many jobs as it has threads.
        light_slots: 0,
        about: about("mdp", Some(&registration.name)),
        ..WorkerSpec::new(worker.clone(), queues.collect(), registration.threads)
    }
}

/// A worker that is only known by the attempts it returns with: it gets nothing new.
pub(crate) fn returned_worker(worker: &Name, held: Vec<Held>, settings: &Settings) -> WorkerSpec {
    let slots = held.len().max(1) as u32;
    let mut spec = simple_worker(worker, "", settings);
    spec.queues = Vec::new();
    spec.pulls = true;
    spec.slots = slots;
    spec.held = held;
    spec
}

/// A worker of the READY / PING / PONG door.
pub(crate) fn ping_pong_worker(worker: &Name, settings: &PingPongSettings) -> WorkerSpec {
    let lost_after = settings.worker_expire;
    WorkerSpec {
        heartbeat: (lost_after / 3).max(Duration::from_millis(1)),
        lost_after,
        busy_lost_after: Some(settings.busy_lease.unwrap_or(NO_LEASE).max(lost_after)),
        lease: lost_after,
        on_close: OnClose::TasksDie,
        starts_on_assign: true,
        light_slots: 0,
        about: about("pingpong", None),
        ..WorkerSpec::new(worker.clone(), vec![settings.queue.clone()], 1)
    }
}

/// The figures of a `_PL` heartbeat.
pub(crate) fn stats(stats: &MdpStats) -> WorkerStats {
    let whole = |figure: Option<f64>| figure.map(|figure| figure.max(0.0) as u64);
    let mut more: Vec<(Box<str>, Box<str>)> = Vec::new();
    if let Some(free) = stats.free_threads {
        more.push((FREE_THREADS.into(), free.to_string().into()));
    }
    for (name, figure) in [(PROCESS_MEMORY, stats.process_memory), (PROCESS_CPU, stats.process_cpu)] {
        if let Some(figure) = figure {
            more.push((name.into(), figure.to_string().into()));
        }
    }
    WorkerStats {
        cpu_percent: stats.total_cpu.map(|cpu| cpu as f32),
        memory_used: whole(stats.used_memory),
        memory_total: whole(stats.total_memory),
        more,
    }
}

const FREE_THREADS: &str = "free_threads";
const PROCESS_MEMORY: &str = "process_memory";
const PROCESS_CPU: &str = "process_cpu";

/// A refusal as the three digits that `mmi` answers with.
pub(crate) fn status(refusal: &HubRefusal) -> &'static str {
    match refusal {
        HubRefusal::Engine(refusal) => engine_status(refusal),
        HubRefusal::UnknownHook { .. } | HubRefusal::NoListener { .. } => "404",
        HubRefusal::Trimmed { .. } => "410",
        HubRefusal::Unreadable { .. } => "500",
        HubRefusal::DiskFull
        | HubRefusal::Draining
        | HubRefusal::JournalAway
        | HubRefusal::Deposed { .. } => "503",
        HubRefusal::Elsewhere { .. } => "421",
    }
}

fn engine_status(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownTask { .. }
        | Refusal::UnknownName { .. }
        | Refusal::UnknownWorker { .. }
        | Refusal::UnknownQueue { .. }
        | Refusal::UnknownSchedule { .. } => "404",
        Refusal::NotAllowed { .. } => "403",
        Refusal::NotAWorker
        | Refusal::StaleAttempt { .. }
        | Refusal::WrongState { .. }
        | Refusal::WorkerTaken { .. }
        | Refusal::IdTaken { .. }
        | Refusal::NameTaken { .. } => "409",
        Refusal::BadParent { .. }
        | Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::BadSchedule { .. }
        | Refusal::TooMany { .. }
        | Refusal::TooLate { .. } => "400",
        Refusal::Full { .. } => "503",
    }
}

fn about(door: &'static str, host: Option<&str>) -> WorkerAbout {
    WorkerAbout {
        door: Some(door),
        host: host.filter(|host| !host.is_empty()).map(Into::into),
        ..WorkerAbout::default()
    }
}
