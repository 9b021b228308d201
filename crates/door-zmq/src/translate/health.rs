//! Workers of any door in the form that Majordomo's monitors expect.

use tenure_hub::words::{WorkerInfo, WorkerStats};

use super::{PROCESS_CPU, PROCESS_MEMORY};
use crate::mdp::{MdpStats, MmiWorkerHealth, WorkerThread};

/// A worker and its figures.
pub(crate) fn health(info: &WorkerInfo) -> MmiWorkerHealth {
    MmiWorkerHealth {
        identity: info.worker.to_string(),
        name: name(info),
        threads: info.slots,
        stats: info.stats.as_ref().map(figures).unwrap_or_default(),
        crashes: info.crashes,
        score: score(info),
    }
}

/// Every slot of a worker.
pub(crate) fn slots(info: &WorkerInfo) -> impl Iterator<Item = WorkerThread> + '_ {
    (0..info.slots).map(|thread| slot(info, thread))
}

/// The free slots. Only the door and the worker know which thread has which job; here they are just counted.
pub(crate) fn free_slots(info: &WorkerInfo) -> impl Iterator<Item = WorkerThread> + '_ {
    (info.held.len() as u32..info.slots).map(|thread| slot(info, thread))
}

fn slot(info: &WorkerInfo, thread: u32) -> WorkerThread {
    WorkerThread { thread, identity: info.worker.to_string(), name: name(info) }
}

fn name(info: &WorkerInfo) -> String {
    info.about.host.as_deref().unwrap_or_default().to_owned()
}

/// From 100 (never crashed) down with every crash on its record; 0 while it is in quarantine.
fn score(info: &WorkerInfo) -> u32 {
    if info.quarantined_until.is_some() { 0 } else { 100 / (1 + info.crashes.min(99)) }
}

fn figures(stats: &WorkerStats) -> MdpStats {
    let more = |wanted: &str| {
        let found = stats.more.iter().find(|(name, _)| &**name == wanted);
        found.and_then(|(_, figure)| figure.parse().ok())
    };
    MdpStats {
        free_threads: None,
        total_memory: stats.memory_total.map(|bytes| bytes as f64),
        used_memory: stats.memory_used.map(|bytes| bytes as f64),
        process_memory: more(PROCESS_MEMORY),
        total_cpu: stats.cpu_percent.map(f64::from),
        process_cpu: more(PROCESS_CPU),
    }
}
