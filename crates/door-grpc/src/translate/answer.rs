//! Converts the hub's replies to the messages of `proto/`.

use std::collections::BTreeMap;

use tenure_hub::Stats;
use tenure_hub::words::{
    Accepted, ArrayAccepted, ArrayInfo, Blob, Counts, Devices, Holding, LimitInfo, PauseInfo, QueueInfo,
    Rate, Refusal, ShareInfo, StateName, TaskInfo, TaskState, Why, WorkerInfo, WorkerStats,
};

use super::notice::{dependency, numbers, terms};
use super::refusal::{map, refusal};
use super::word::{millis, text, texts, wanted_word};
use crate::proto::tenure::v1 as pb;

/// One entry of the answer to a submission.
pub(crate) fn accepted(answer: &Result<Accepted, Refusal>) -> pb::Verdict {
    let verdict = match answer {
        Ok(accepted) => pb::verdict::Verdict::Accepted(pb::Accepted {
            task: accepted.task.to_string(),
            state: accepted.state.to_string(),
            known: accepted.known,
            unserved: accepted.unserved.as_ref().map(why),
        }),
        Err(no) => pb::verdict::Verdict::Refused(refusal(no)),
    };
    pb::Verdict { verdict: Some(verdict) }
}

/// Of the attempts that were presented, those that must stop.
pub(crate) fn refused(each: &[Result<(), Refusal>]) -> Vec<pb::RefusedAttempt> {
    let entry = |(index, answer): (usize, &Result<(), Refusal>)| {
        let no = answer.as_ref().err()?;
        Some(pb::RefusedAttempt { index: index as u32, refusal: Some(refusal(no)) })
    };
    each.iter().enumerate().filter_map(entry).collect()
}

/// How a task ended that a client waits for; `None` while it has not.
pub(crate) fn has_ended(info: &TaskInfo) -> Option<(pb::Ended, Blob)> {
    let end = info.state.end()?;
    let row = pb::Ended {
        task: info.id.to_string(),
        state: info.state.name().to_string(),
        exit_code: end.exit_code,
        at: end.at.0,
        message: text(end.message.as_deref()),
        worker: text(end.worker.as_deref()),
        result_bytes: u64::from(end.result.bytes()),
        result: None,
    };
    Some((row, end.result))
}

/// The end of an array. Its exit code is 0 if all elements have completed, and 1 if not; the message counts them.
pub(crate) fn array_has_ended(info: &ArrayInfo) -> Option<pb::Ended> {
    let at = info.ended_at?;
    let counts = StateName::ALL.iter().zip(info.counts).filter(|(_, count)| *count > 0);
    let message: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
    Some(pb::Ended {
        task: info.id.to_string(),
        state: info.state.to_string(),
        exit_code: i32::from(info.state != StateName::Completed),
        at: at.0,
        message: message.join(", "),
        ..pb::Ended::default()
    })
}

pub(crate) fn why(reason: &Why) -> pb::Why {
    let facts = match reason {
        Why::NotWaiting { state } => vec![("state", state.to_string())],
        Why::Dependencies { open, some } | Why::Suspended { open, some } => {
            let tasks: Vec<String> = some.iter().map(|one| one.task.to_string()).collect();
            vec![("open", open.to_string()), ("some", tasks.join(","))]
        }
        Why::NotBefore { until } => vec![("until", until.to_string())],
        Why::QueuePaused { queue } | Why::NoWorkerEver { queue } => vec![("queue", queue.to_string())],
        Why::AllLost { queue, since } => vec![("queue", queue.to_string()), ("since", since.to_string())],
        Why::NeedsUnmet { missing } => vec![("missing", missing.join(","))],
        Why::Quarantined { worker, until } => {
            vec![("worker", worker.to_string()), ("until", until.to_string())]
        }
        Why::Draining { workers } | Why::NoWorkerAsks { workers } => vec![("workers", workers.to_string())],
        Why::ArrayLimit { array, limit, in_use } => {
            vec![("array", array.to_string()), ("limit", limit.to_string()), ("in_use", in_use.to_string())]
        }
        Why::TagLimit { tag, limit, in_use } => {
            vec![("tag", tag.to_string()), ("limit", limit.to_string()), ("in_use", in_use.to_string())]
        }
        Why::TagRate { tag, rate, next_at } => {
            vec![("tag", tag.to_string()), ("rate", rate.to_string()), ("next_at", next_at.to_string())]
        }
        Why::QueueRate { queue, rate, next_at } => {
            vec![("queue", queue.to_string()), ("rate", rate.to_string()), ("next_at", next_at.to_string())]
        }
        Why::AllFull { workers, slots } => {
            vec![("workers", workers.to_string()), ("slots", slots.to_string())]
        }
        Why::Short { resource, needed, free, worker } => vec![
            ("resource", resource.to_string()),
            ("needed", needed.0.to_string()),
            ("free", free.0.to_string()),
            ("worker", worker.to_string()),
        ],
        Why::TooLarge { resource, needed, total, worker } => vec![
            ("resource", resource.to_string()),
            ("needed", needed.0.to_string()),
            ("total", total.0.to_string()),
            ("worker", worker.to_string()),
        ],
        Why::Reserved { worker, task } => vec![("worker", worker.to_string()), ("task", task.to_string())],
        Why::AwaitingSlot { worker } => vec![("worker", worker.to_string())],
        Why::AwaitingAcceptance { worker, since } => {
            vec![("worker", worker.to_string()), ("since", since.to_string())]
        }
        Why::Held | Why::Paused | Why::AwaitingDisk | Why::AwaitingJournal => Vec::new(),
    };
    pb::Why { code: reason.code().to_owned(), message: reason.to_string(), facts: map(facts) }
}

/// Why a task is not running, with the reconciliation that submitted it, if one did.
pub(crate) fn explanation(reason: &Why, reconciliation: Option<&str>) -> pb::Why {
    let mut told = why(reason);
    told.facts.extend(reconciliation.map(|prefix| ("reconciliation".to_owned(), prefix.to_owned())));
    told
}

pub(crate) fn tasks(tasks: &[TaskInfo], next: Option<String>) -> pb::ListResponse {
    pb::ListResponse { tasks: tasks.iter().map(task_info).collect(), next: next.unwrap_or_default() }
}

pub(crate) fn task_info(info: &TaskInfo) -> pb::Task {
    use pb::task::Data;
    let data = match &info.state {
        TaskState::Created | TaskState::Waiting { .. } | TaskState::Ready { .. } => None,
        TaskState::Delayed { until } => Some(Data::Until(until.0)),
        TaskState::Assigned(holding) | TaskState::Running(holding) => {
            Some(Data::Holding(held_by(holding, info.devices.as_deref())))
        }
        TaskState::Suspended(suspension) => {
            Some(Data::Holding(held_by(&suspension.holding, info.devices.as_deref())))
        }
        TaskState::Paused(pause) => Some(Data::Pause(pause_info(pause))),
        TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => {
            Some(Data::End(pb::End {
                at: end.at.0,
                event: end.event,
                exit_code: end.exit_code,
                result_bytes: u64::from(end.result.bytes()),
                message: text(end.message.as_deref()),
                worker: text(end.worker.as_deref()),
            }))
        }
    };
    let suspension = match &info.state {
        TaskState::Suspended(suspension) => Some(suspension),
        _ => None,
    };
    let element = info.terms.element(info.id);
    pb::Task {
        suspended_since: suspension.map(|suspension| suspension.since.0),
        open: suspension.map(|suspension| suspension.open()),
        stopped: suspension.and_then(|_| info.state.pause()).as_ref().map(pause_info),
        id: info.id.to_string(),
        array: element.map(|element| element.array.to_string()).unwrap_or_default(),
        index: element.map(|element| element.index),
        reconciliation: info.reconciliation.as_deref().map(str::to_owned),
        state: info.state.name().to_string(),
        name: text(info.name.as_deref()),
        terms: Some(terms(&info.terms)),
        parent: info.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        children: info.children,
        priority: info.priority,
        attempt: info.attempt,
        crashes: u32::from(info.crashes),
        failures: u32::from(info.failures),
        submitted_at: info.submitted_at.0,
        not_before: info.not_before.map(|at| at.0),
        expires_at: info.expires_at.map(|at| at.0),
        crashed_on: texts(&info.crashed_on),
        body_bytes: u64::from(info.body.bytes()),
        after: info.after.iter().map(dependency).collect(),
        traceparent: info.trace.as_ref().map(ToString::to_string).unwrap_or_default(),
        tracestate: text(info.trace.as_ref().and_then(|trace| trace.state.as_deref())),
        checkpoint: info.checkpoint.map(|checkpoint| pb::TaskCheckpoint {
            attempt: checkpoint.attempt,
            at: checkpoint.at.0,
            bytes: u64::from(checkpoint.blob.bytes()),
        }),
        data,
    }
}

fn held_by(holding: &Holding, devices: Option<&Devices>) -> pb::Holding {
    pb::Holding {
        worker: holding.worker.to_string(),
        since: holding.since.0,
        started_at: holding.started_at.map(|at| at.0),
        intent: holding.intent.as_ref().map(|intent| pb::Intent {
            wanted: wanted_word(intent.wanted).to_owned(),
            reason: text(intent.reason.as_deref()),
            delivered: intent.delivered,
        }),
        progress: holding.progress.as_ref().map(|progress| pb::ProgressNote {
            percent: progress.percent.map(u32::from),
            note: text(progress.note.as_deref()),
            at: progress.at.0,
        }),
        cpus: devices.map_or_else(Vec::new, |devices| numbers(&devices.cpus)),
        gpus: devices.map_or_else(Vec::new, |devices| numbers(&devices.gpus)),
    }
}

fn pause_info(pause: &PauseInfo) -> pb::PauseInfo {
    pb::PauseInfo {
        since: pause.since.0,
        why: pause_cause(pause.why).to_owned(),
        reason: text(pause.reason.as_deref()),
    }
}

fn pause_cause(why: tenure_hub::words::PauseCause) -> &'static str {
    use tenure_hub::words::PauseCause;
    match why {
        PauseCause::Asked => "asked",
        PauseCause::WorkerLost => "worker-lost",
        PauseCause::CrashBudget => "crash-budget",
        PauseCause::DependencyBroken => "dependency-broken",
    }
}

pub(crate) fn queues(queues: Vec<QueueInfo>) -> pb::QueuesResponse {
    let queue = |info: QueueInfo| pb::Queue {
        queue: info.queue.to_string(),
        paused: info.paused,
        counts: by_state(&info.counts),
        live_workers: info.live_workers,
        ever_served: info.ever_served,
        unserved_since: info.unserved_since.map(|at| at.0),
        oldest_ready: info.oldest_ready.map(|at| at.0),
        thresholds: Some(pb::Thresholds {
            depth: info.thresholds.depth,
            age_ms: info.thresholds.age.map(millis),
        }),
        backlog: info.passed.all().map(|threshold| threshold.as_str().to_owned()).collect(),
        rate: info.rate.map(rate),
    };
    pb::QueuesResponse { queues: queues.into_iter().map(queue).collect() }
}

pub(crate) fn workers(workers: Vec<WorkerInfo>) -> pb::ListWorkersResponse {
    pb::ListWorkersResponse { workers: workers.into_iter().map(worker_info).collect() }
}

fn worker_info(info: WorkerInfo) -> pb::Worker {
    let attempt =
        |held: &tenure_hub::words::Held| pb::Attempt { task: held.task.to_string(), attempt: held.attempt };
    pb::Worker {
        worker: info.worker.to_string(),
        presence: info.presence.as_str().to_owned(),
        since: info.since.0,
        last_seen: info.last_seen.0,
        queues: texts(&info.queues),
        capabilities: texts(&info.capabilities),
        slots: info.slots,
        pulls: info.pulls,
        draining: info.draining,
        held: info.held.iter().map(attempt).collect(),
        crashes: info.crashes,
        last_crash: info.last_crash.map(|at| at.0),
        quarantined_until: info.quarantined_until.map(|at| at.0),
        heartbeat_ms: millis(info.heartbeat),
        lost_after_ms: millis(info.lost_after),
        lease_ms: millis(info.lease),
        host: text(info.about.host.as_deref()),
        platform: text(info.about.platform.as_deref()),
        version: text(info.about.version.as_deref()),
        door: text(info.about.door),
        stats: info.stats.map(worker_stats),
        slots_used: info.slots_used,
        light_slots: info.light_slots,
        light_used: info.light_used,
        resources: info.resources.iter().map(|of| (of.name.to_string(), of.total.0)).collect(),
        resources_used: info.resources.iter().map(|of| (of.name.to_string(), of.used.0)).collect(),
        suspended: info.suspended,
    }
}

fn worker_stats(stats: WorkerStats) -> pb::WorkerStats {
    pb::WorkerStats {
        cpu_percent: stats.cpu_percent,
        memory_used: stats.memory_used,
        memory_total: stats.memory_total,
        more: stats.more.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    }
}

pub(crate) fn limits(limits: Vec<LimitInfo>) -> pb::LimitsResponse {
    let limit = |info: LimitInfo| pb::Limit {
        tag: info.tag.to_string(),
        limit: info.limit,
        in_use: info.in_use,
        rate: info.rate.map(rate),
    };
    pb::LimitsResponse { limits: limits.into_iter().map(limit).collect() }
}

pub(crate) fn shares(shares: Vec<ShareInfo>) -> pb::SharesResponse {
    let share =
        |info: ShareInfo| pb::Share { share: info.share.to_string(), weight: info.weight, ready: info.ready };
    pb::SharesResponse { shares: shares.into_iter().map(share).collect() }
}

pub(super) fn rate(rate: Rate) -> pb::Rate {
    pb::Rate { count: rate.count, period_ms: millis(rate.period), burst: Some(rate.burst) }
}

pub(crate) fn counts(counts: &Counts) -> pb::CountsResponse {
    pb::CountsResponse {
        by_state: by_state(&counts.by_state),
        live_workers: counts.live_workers,
        lost_workers: counts.lost_workers,
        last_event: counts.last_event,
    }
}

pub(crate) fn array_accepted(accepted: &ArrayAccepted) -> pb::ArrayAccepted {
    pb::ArrayAccepted {
        array: accepted.array.to_string(),
        size: accepted.size,
        state: accepted.state.to_string(),
        known: accepted.known,
        unserved: accepted.unserved.as_ref().map(why),
    }
}

pub(crate) fn array_info(info: &ArrayInfo) -> pb::ArrayInfo {
    pb::ArrayInfo {
        id: info.id.to_string(),
        state: info.state.to_string(),
        name: text(info.name.as_deref()),
        queue: info.queue.to_string(),
        submitter: info.submitter.to_string(),
        size: info.size,
        first: info.first,
        step: info.step,
        limit: info.limit,
        submitted_at: info.submitted_at.0,
        ended_at: info.ended_at.map(|at| at.0),
        counts: by_state(&info.counts),
    }
}

/// The broker's figures under the names of its metrics.
pub(crate) fn stats(stats: &Stats) -> pb::StatsResponse {
    let text = stats.render();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    pb::StatsResponse { figures: lines.filter_map(figure).collect() }
}

fn by_state(counts: &[u64; StateName::COUNT]) -> BTreeMap<String, u64> {
    let named = StateName::ALL.iter().zip(counts);
    named.filter(|(_, count)| **count > 0).map(|(state, count)| (state.to_string(), *count)).collect()
}

/// What a task printed.
pub(crate) fn logs(page: tenure_hub::PrintedPage) -> pb::LogsResponse {
    let piece = |kept: tenure_hub::KeptPiece| pb::LogPiece {
        attempt: kept.attempt,
        stream: u32::from(kept.piece.stream.number()),
        offset: kept.piece.offset,
        at: kept.at.0,
        bytes: kept.piece.bytes,
    };
    pb::LogsResponse {
        pieces: page.pieces.into_iter().map(piece).collect(),
        next: page.next,
        more: page.more,
    }
}
