//! Converts the hub's replies to the wire.

use bytes::Bytes;
use tenure_hub::words::{
    Accepted, Answer, ArrayAccepted, ArrayInfo, Blob, Counts, Devices, Holding, LimitInfo, QueueInfo,
    Refusal, Reply, ResourceInfo, ShareInfo, StateName, TaskInfo, TaskState, WaitedFor, Why, WorkerInfo,
    WorkerStats,
};
use tenure_hub::{Response, Stats};
use tenure_wire::queue::StateCounts;
use tenure_wire::reply::{
    BackedUp, BroadcastSent, BytesReply, Figure, HeldReply, LimitList, QueueList, RefusedEntry, Registered,
    ShareList, StatsReply, TaskList, WorkerList,
};
use tenure_wire::schedule::ScheduleList;
use tenure_wire::verdict::Verdict;
use tenure_wire::why::WhyCode;
use tenure_wire::{array, queue, reply, task as wire_task, why, worker};

use super::hook;
use super::notice::{dependency, terms};
use super::reconcile::reconciled;
use super::refusal::refusal;
use super::schedule::schedule_info;
use super::word::{condition, name, pause_cause, presence, rate, span, task, threshold, time, wanted_word};

/// Converts a reply that needs no further context.
pub(crate) fn response(response: Response) -> tenure_wire::Reply {
    match response {
        Response::Done | Response::Command(Reply::Done) => tenure_wire::Reply::Done,
        Response::Command(Reply::Submitted(each)) => {
            let tasks = each.iter().map(accepted).collect();
            tenure_wire::Reply::Submitted(reply::Submitted { tasks })
        }
        Response::Command(Reply::ArraySubmitted(accepted)) => {
            tenure_wire::Reply::ArraySubmitted(Box::new(array_accepted(&accepted)))
        }
        Response::Command(Reply::Held(each)) => {
            tenure_wire::Reply::Held(HeldReply { refused: refused(&each) })
        }
        Response::Command(Reply::Registered { held, returned }) => {
            tenure_wire::Reply::Registered(Registered { returned, refused: refused(&held) })
        }
        Response::Answer(answer) => answered(answer),
        Response::Stats(stats) => tenure_wire::Reply::Stats(StatsReply { figures: figures(&stats) }),
        Response::Heard(receivers) => tenure_wire::Reply::Sent(BroadcastSent { receivers: receivers as u64 }),
        Response::BackedUp { bytes, position } => {
            tenure_wire::Reply::BackedUp(BackedUp { bytes, position, member: None })
        }
        Response::Reconciled(answer) => tenure_wire::Reply::Reconciled(Box::new(reconciled(&answer))),
        Response::Logs(page) => tenure_wire::Reply::Logs(logs(page)),
        Response::Hooks(hooks) => tenure_wire::Reply::Hooks(hook::hooks(hooks)),
        Response::Undelivered(events) => tenure_wire::Reply::Undelivered(hook::undelivered(events)),
        Response::Redelivered(events) => {
            tenure_wire::Reply::Redelivered(tenure_wire::hook::Redelivered { events: events as u64 })
        }
    }
}

fn logs(page: tenure_hub::PrintedPage) -> reply::LogsReply {
    let row = |kept: tenure_hub::KeptPiece| reply::OutputRow {
        attempt: kept.attempt,
        stream: kept.piece.stream.number(),
        offset: kept.piece.offset,
        at: time(kept.at),
        bytes: kept.piece.bytes,
    };
    reply::LogsReply { pieces: page.pieces.into_iter().map(row).collect(), next: page.next, more: page.more }
}

/// One entry of the answer to a submission.
pub(crate) fn accepted(answer: &Result<Accepted, Refusal>) -> Verdict<wire_task::Accepted> {
    Verdict(match answer {
        Ok(accepted) => Ok(wire_task::Accepted {
            task: task(accepted.task),
            state: name(accepted.state),
            known: accepted.known,
            unserved: accepted.unserved.as_ref().map(reason),
        }),
        Err(no) => Err(refusal(no)),
    })
}

pub(crate) fn bytes(bytes: Bytes) -> tenure_wire::Reply {
    tenure_wire::Reply::Bytes(BytesReply { bytes })
}

/// How a task ended that a client waits for; `None` while it has not.
pub(crate) fn ended(info: &TaskInfo) -> Option<(wire_task::Ended, Blob)> {
    let end = info.state.end()?;
    let row = wire_task::Ended {
        task: task(info.id),
        state: name(info.state.name()),
        exit_code: end.exit_code,
        at: time(end.at),
        message: end.message.clone(),
        worker: end.worker.clone(),
        result_bytes: u64::from(end.result.bytes()),
        result: None,
    };
    Some((row, end.result))
}

/// Numbers by state.
pub(crate) fn counted(by_state: &[u64; StateName::COUNT]) -> StateCounts {
    let [
        created,
        waiting,
        delayed,
        ready,
        assigned,
        running,
        suspended,
        paused,
        completed,
        failed,
        cancelled,
    ] = *by_state;
    StateCounts {
        created,
        waiting,
        delayed,
        ready,
        assigned,
        running,
        suspended,
        paused,
        completed,
        failed,
        cancelled,
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn reason(reason: &Why) -> why::Why {
    let blank = |code| why::Why::new(code, reason.to_string());
    match reason {
        Why::NotWaiting { state } => why::Why { state: Some(name(*state)), ..blank(WhyCode::NotWaiting) },
        Why::Held => blank(WhyCode::Held),
        Why::Dependencies { open, some } => why::Why {
            open: Some(*open),
            some: some.iter().map(waited_for).collect(),
            ..blank(WhyCode::Dependencies)
        },
        Why::NotBefore { until } => why::Why { until: Some(time(*until)), ..blank(WhyCode::NotBefore) },
        Why::Paused => blank(WhyCode::Paused),
        Why::QueuePaused { queue } => why::Why { queue: Some(queue.clone()), ..blank(WhyCode::QueuePaused) },
        Why::NoWorkerEver { queue } => {
            why::Why { queue: Some(queue.clone()), ..blank(WhyCode::NoWorkerEver) }
        }
        Why::AllLost { queue, since } => {
            why::Why { queue: Some(queue.clone()), since: Some(time(*since)), ..blank(WhyCode::AllLost) }
        }
        Why::NeedsUnmet { missing } => why::Why { missing: missing.clone(), ..blank(WhyCode::NeedsUnmet) },
        Why::Quarantined { worker, until } => why::Why {
            worker: Some(worker.clone()),
            until: Some(time(*until)),
            ..blank(WhyCode::Quarantined)
        },
        Why::Draining { workers } => why::Why { workers: Some(*workers), ..blank(WhyCode::Draining) },
        Why::TagLimit { tag, limit, in_use } => why::Why {
            tag: Some(tag.clone()),
            limit: Some(*limit),
            in_use: Some(*in_use),
            ..blank(WhyCode::TagLimit)
        },
        Why::TagRate { tag, rate: of, next_at } => why::Why {
            tag: Some(tag.clone()),
            rate: Some(rate(*of)),
            next_at: Some(time(*next_at)),
            ..blank(WhyCode::TagRate)
        },
        Why::QueueRate { queue, rate: of, next_at } => why::Why {
            queue: Some(queue.clone()),
            rate: Some(rate(*of)),
            next_at: Some(time(*next_at)),
            ..blank(WhyCode::QueueRate)
        },
        Why::AllFull { workers, slots } => {
            why::Why { workers: Some(*workers), slots: Some(*slots), ..blank(WhyCode::AllFull) }
        }
        Why::Short { resource, needed, free, worker } => why::Why {
            resource: Some(resource.clone()),
            needed: Some(needed.0),
            free: Some(free.0),
            worker: Some(worker.clone()),
            ..blank(WhyCode::ResourcesShort)
        },
        Why::TooLarge { resource, needed, total, worker } => why::Why {
            resource: Some(resource.clone()),
            needed: Some(needed.0),
            total: Some(total.0),
            worker: Some(worker.clone()),
            ..blank(WhyCode::TooLarge)
        },
        Why::Reserved { worker, task: waiting } => {
            why::Why { worker: Some(worker.clone()), task: Some(task(*waiting)), ..blank(WhyCode::Reserved) }
        }
        Why::NoWorkerAsks { workers } => why::Why { workers: Some(*workers), ..blank(WhyCode::NoWorkerAsks) },
        Why::AwaitingAcceptance { worker, since } => why::Why {
            worker: Some(worker.clone()),
            since: Some(time(*since)),
            ..blank(WhyCode::AwaitingAcceptance)
        },
        Why::AwaitingDisk => blank(WhyCode::AwaitingDisk),
        Why::AwaitingJournal => blank(WhyCode::AwaitingJournal),
        Why::Suspended { open, some } => why::Why {
            open: Some(*open),
            some: some.iter().map(waited_for).collect(),
            ..blank(WhyCode::Suspended)
        },
        Why::AwaitingSlot { worker } => {
            why::Why { worker: Some(worker.clone()), ..blank(WhyCode::AwaitingSlot) }
        }
        Why::ArrayLimit { array, limit, in_use } => why::Why {
            array: Some(task(*array)),
            limit: Some(*limit),
            in_use: Some(*in_use),
            ..blank(WhyCode::ArrayLimit)
        },
    }
}

fn waited_for(one: &WaitedFor) -> why::WaitedFor {
    why::WaitedFor {
        task: task(one.task),
        condition: condition(one.condition),
        state: Some(name(one.state)),
        name: one.name.clone(),
    }
}

fn array_accepted(accepted: &ArrayAccepted) -> array::ArrayAccepted {
    array::ArrayAccepted {
        array: task(accepted.array),
        size: accepted.size,
        state: name(accepted.state),
        known: accepted.known,
        unserved: accepted.unserved.as_ref().map(reason),
    }
}

fn array_info(info: ArrayInfo) -> array::ArrayInfo {
    array::ArrayInfo {
        id: task(info.id),
        state: name(info.state),
        name: info.name,
        queue: info.queue,
        submitter: Some(info.submitter),
        size: info.size,
        first: info.first,
        step: info.step,
        limit: info.limit,
        submitted_at: time(info.submitted_at),
        ended_at: info.ended_at.map(time),
        counts: counted(&info.counts),
    }
}

fn answered(answer: Answer) -> tenure_wire::Reply {
    match answer {
        Answer::Task(info) => tenure_wire::Reply::Task(Box::new(task_info(&info))),
        Answer::Why { why, reconciliation } => {
            tenure_wire::Reply::Why(Box::new(why::Why { reconciliation, ..reason(&why) }))
        }
        Answer::Tasks { tasks, next } => tenure_wire::Reply::Tasks(TaskList {
            tasks: tasks.iter().map(task_info).collect(),
            next: next.map(|cursor| cursor.to_string().into()),
        }),
        // This door never requests a slice: it lists tasks by cursor, and workers all at once.
        Answer::ScannedTasks { tasks, .. } => {
            tenure_wire::Reply::Tasks(TaskList { tasks: tasks.iter().map(task_info).collect(), next: None })
        }
        Answer::ScannedWorkers { workers, .. } => tenure_wire::Reply::Workers(WorkerList {
            workers: workers.into_iter().map(worker_info).collect(),
        }),
        Answer::Queues(queues) => {
            tenure_wire::Reply::Queues(QueueList { queues: queues.into_iter().map(queue_info).collect() })
        }
        Answer::Workers(workers) => tenure_wire::Reply::Workers(WorkerList {
            workers: workers.into_iter().map(worker_info).collect(),
        }),
        Answer::Limits(limits) => {
            tenure_wire::Reply::Limits(LimitList { limits: limits.into_iter().map(limit_info).collect() })
        }
        Answer::Schedules(schedules) => tenure_wire::Reply::Schedules(ScheduleList {
            schedules: schedules.iter().map(schedule_info).collect(),
        }),
        Answer::Shares(shares) => {
            tenure_wire::Reply::Shares(ShareList { shares: shares.into_iter().map(share_info).collect() })
        }
        Answer::Counts(counts) => tenure_wire::Reply::Counts(Box::new(counts_info(&counts))),
        Answer::Array(info) => tenure_wire::Reply::Array(Box::new(array_info(*info))),
        Answer::Arrays { arrays, next } => tenure_wire::Reply::Arrays(array::Arrays {
            arrays: arrays.into_iter().map(array_info).collect(),
            next: next.map(|cursor| cursor.to_string().into()),
        }),
    }
}

fn refused(each: &[Result<(), Refusal>]) -> Vec<RefusedEntry> {
    let entry = |(index, answer): (usize, &Result<(), Refusal>)| {
        let no = answer.as_ref().err()?;
        Some(RefusedEntry { index: index as u32, refusal: refusal(no) })
    };
    each.iter().enumerate().filter_map(entry).collect()
}

fn task_info(info: &TaskInfo) -> wire_task::TaskInfo {
    let element = info.terms.element(info.id);
    let mut told = wire_task::TaskInfo {
        id: task(info.id),
        state: name(info.state.name()),
        name: info.name.clone(),
        terms: terms(&info.terms),
        parent: info.parent.map(task),
        children: info.children,
        array: element.map(|element| task(element.array)),
        index: element.map(|element| element.index),
        after: info.after.iter().map(dependency).collect(),
        priority: info.priority,
        attempt: info.attempt,
        crashes: info.crashes,
        failures: info.failures,
        submitted_at: time(info.submitted_at),
        not_before: info.not_before.map(time),
        expires_at: info.expires_at.map(time),
        crashed_on: info.crashed_on.clone(),
        body_bytes: u64::from(info.body.bytes()),
        traceparent: info.trace.as_ref().map(|trace| trace.to_string().into()),
        tracestate: info.trace.as_ref().and_then(|trace| trace.state.clone()),
        reconciliation: info.reconciliation.clone(),
        checkpoint: info.checkpoint.map(|checkpoint| wire_task::Checkpoint {
            attempt: checkpoint.attempt,
            at: time(checkpoint.at),
            bytes: u64::from(checkpoint.blob.bytes()),
        }),
        until: None,
        holding: None,
        suspended_since: None,
        open: None,
        pause: info.state.pause().map(|pause| wire_task::PauseInfo {
            since: time(pause.since),
            why: pause_cause(pause.why),
            reason: pause.reason,
        }),
        end: None,
    };
    match &info.state {
        TaskState::Created | TaskState::Waiting { .. } | TaskState::Ready { .. } => {}
        TaskState::Delayed { until } => told.until = Some(time(*until)),
        TaskState::Assigned(holding) | TaskState::Running(holding) => {
            let devices = info.devices.as_deref().cloned().unwrap_or_default();
            told.holding = Some(Box::new(held_by(holding, devices)));
        }
        TaskState::Suspended(suspension) => {
            let devices = info.devices.as_deref().cloned().unwrap_or_default();
            told.holding = Some(Box::new(held_by(&suspension.holding, devices)));
            told.suspended_since = Some(time(suspension.since));
            told.open = Some(suspension.open());
        }
        TaskState::Paused(_) => {}
        TaskState::Completed(end) | TaskState::Failed(end) | TaskState::Cancelled(end) => {
            told.end = Some(Box::new(wire_task::End {
                at: time(end.at),
                event: end.event,
                exit_code: end.exit_code,
                result_bytes: u64::from(end.result.bytes()),
                message: end.message.clone(),
                worker: end.worker.clone(),
            }));
        }
    }
    told
}

fn held_by(holding: &Holding, devices: Devices) -> wire_task::Holding {
    wire_task::Holding {
        worker: holding.worker.clone(),
        since: time(holding.since),
        started_at: holding.started_at.map(time),
        intent: holding.intent.as_ref().map(|intent| wire_task::Intent {
            wanted: wanted_word(intent.wanted),
            reason: intent.reason.clone(),
            delivered: intent.delivered,
        }),
        progress: holding.progress.as_ref().map(|progress| wire_task::Progress {
            percent: progress.percent,
            note: progress.note.clone(),
            at: time(progress.at),
        }),
        cpus: devices.cpus,
        gpus: devices.gpus,
    }
}

fn queue_info(info: QueueInfo) -> queue::QueueInfo {
    queue::QueueInfo {
        queue: info.queue,
        paused: info.paused,
        counts: counted(&info.counts),
        live_workers: info.live_workers,
        ever_served: info.ever_served,
        unserved_since: info.unserved_since.map(time),
        oldest_ready: info.oldest_ready.map(time),
        thresholds: Some(queue::Thresholds {
            depth: info.thresholds.depth,
            age_ms: info.thresholds.age.map(span),
        }),
        backlog: info.passed.all().map(threshold).collect(),
        rate: info.rate.map(rate),
    }
}

fn worker_info(info: WorkerInfo) -> worker::WorkerInfo {
    worker::WorkerInfo {
        worker: info.worker,
        presence: presence(info.presence),
        since: time(info.since),
        last_seen: time(info.last_seen),
        queues: info.queues,
        capabilities: info.capabilities,
        slots: info.slots,
        slots_used: info.slots_used,
        light_slots: info.light_slots,
        light_used: info.light_used,
        resources: info.resources.into_iter().map(resource_info).collect(),
        pulls: info.pulls,
        held: info
            .held
            .iter()
            .map(|held| wire_task::Held { task: task(held.task), attempt: held.attempt })
            .collect(),
        suspended: info.suspended,
        draining: info.draining,
        crashes: info.crashes,
        last_crash: info.last_crash.map(time),
        quarantined_until: info.quarantined_until.map(time),
        heartbeat_ms: span(info.heartbeat),
        lost_after_ms: span(info.lost_after),
        lease_ms: span(info.lease),
        host: info.about.host,
        platform: info.about.platform,
        version: info.about.version,
        door: info.about.door.map(Into::into),
        stats: info.stats.map(|stats| Box::new(worker_stats(stats))),
    }
}

fn resource_info(info: ResourceInfo) -> worker::ResourceInfo {
    worker::ResourceInfo { name: info.name, used: info.used.0, total: info.total.0 }
}

fn worker_stats(stats: WorkerStats) -> worker::WorkerStats {
    worker::WorkerStats {
        cpu_percent: stats.cpu_percent,
        memory_used: stats.memory_used,
        memory_total: stats.memory_total,
        more: stats.more.into_iter().collect(),
    }
}

fn limit_info(info: LimitInfo) -> queue::LimitInfo {
    queue::LimitInfo { tag: info.tag, limit: info.limit, in_use: info.in_use, rate: info.rate.map(rate) }
}

fn share_info(info: ShareInfo) -> queue::ShareInfo {
    queue::ShareInfo { share: info.share, weight: info.weight, ready: info.ready }
}

fn counts_info(counts: &Counts) -> queue::Counts {
    queue::Counts {
        by_state: counted(&counts.by_state),
        live_workers: counts.live_workers,
        lost_workers: counts.lost_workers,
        last_event: counts.last_event,
    }
}

/// The broker's figures under the names of its metrics.
fn figures(stats: &Stats) -> Vec<Figure> {
    let text = stats.render();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some(Figure { name: name.into(), value: value.parse().ok()? })
    };
    lines.filter_map(figure).collect()
}
