//! Arbitrary tasks, terms, events and settings for the property tests.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use tenure_engine::event::{Event, EventData, EventSubject, LostReason, Next};
use tenure_engine::record::{LimitSetting, QueueSetting, ShareSetting, WorkerHealth};
use tenure_engine::state::{
    End, Holding, Intent, PauseCause, PauseInfo, Progress, StateName, StopInPlace, Suspension, Wanted,
};
use tenure_engine::terms::{Backoff, OnLost};
use tenure_engine::{
    ArrayEnd, ArrayRecord, ArrayTerms, Blob, CatchUp, Checkpoint, Condition, Demand, Dependency,
    DependencyProgress, Devices, EdgeList, Extras, ForgottenElements, Name, OnBroken, Overlap,
    PassedThresholds, Quantity, Rate, Resource, ScheduleProgress, ScheduleSetting, ScheduleState, SkipReason,
    Task, TaskId, TaskState, Terms, TermsKey, Threshold, Thresholds, Timestamp, TraceContext, Why,
};

use super::settings::Setting;

pub(crate) fn name() -> BoxedStrategy<Name> {
    "[a-zA-Z0-9äöü./-]{1,12}".prop_map(Name::from).boxed()
}

pub(crate) fn text() -> BoxedStrategy<Option<Box<str>>> {
    of(prop_oneof!["\\PC{0,20}", "[a-z ]{120,140}"].prop_map(Box::from)).boxed()
}

pub(crate) fn time() -> BoxedStrategy<Timestamp> {
    prop_oneof![
        9 => (1_700_000_000_000_u64..1_700_000_100_000).prop_map(Timestamp),
        1 => select(vec![Timestamp::ZERO, Timestamp::NEVER]),
    ]
    .boxed()
}

pub(crate) fn id() -> BoxedStrategy<TaskId> {
    any::<[u8; 16]>().prop_map(TaskId).boxed()
}

pub(crate) fn blob() -> BoxedStrategy<Blob> {
    prop_oneof![Just(Blob::EMPTY), (any::<u64>(), 1..u32::MAX).prop_map(|(at, bytes)| Blob::new(at, bytes))]
        .boxed()
}

fn span() -> BoxedStrategy<Duration> {
    (0..u64::MAX / 2, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)).boxed()
}

pub(crate) fn terms() -> BoxedStrategy<Terms> {
    let names = (name(), name(), name(), vec(name(), 0..4), vec(name(), 0..4));
    let policy = select(vec![OnLost::Requeue, OnLost::Pause, OnLost::Fail]);
    let numbers = (policy, any::<u16>(), any::<u16>(), span(), span(), of(span()), of(span()), of(span()));
    let backoff = (span(), span()).prop_map(|(first, max)| Backoff { first, max });
    let on_broken = select(OnBroken::ALL.to_vec());
    let array =
        (id(), any::<u32>(), any::<u32>()).prop_map(|(id, first, step)| ArrayTerms { id, first, step });
    (names, numbers, any::<bool>(), of(backoff), of(span()), on_broken, of(array), (demand(), of(name())))
        .prop_map(|(names, numbers, overrun_fails, crash_backoff, abandon_after, on_broken, array, more)| {
            let (namespace, queue, submitter, needs, tags) = names;
            let (on_lost, crash_budget, retries, first, max, accept_timeout, run_limit, cancel_timeout) =
                numbers;
            let (demand, share) = more;
            let backoff = Backoff { first, max };
            Terms {
                needs,
                tags,
                on_lost,
                crash_budget,
                retries,
                backoff,
                crash_backoff,
                accept_timeout,
                run_limit,
                overrun_fails,
                cancel_timeout,
                abandon_after,
                on_broken,
                demand,
                array,
                share,
                ..Terms::new(namespace, queue, submitter)
            }
        })
        .boxed()
}

fn demand() -> BoxedStrategy<Demand> {
    let resource =
        (name(), any::<u64>()).prop_map(|(name, quantity)| Resource::new(name, Quantity(quantity)));
    let own = (any::<u32>(), vec(resource, 0..3)).prop_map(|(slots, resources)| Demand { slots, resources });
    prop_oneof![Just(Demand::default()), own].boxed()
}

fn devices() -> BoxedStrategy<Box<Devices>> {
    (vec(any::<u16>(), 0..3), vec(any::<u16>(), 0..3))
        .prop_map(|(cpus, gpus)| Box::new(Devices { cpus, gpus }))
        .boxed()
}

fn wanted() -> BoxedStrategy<Wanted> {
    select(vec![Wanted::Cancel, Wanted::Pause]).boxed()
}

fn holding() -> BoxedStrategy<Box<Holding>> {
    let intent = (wanted(), any::<bool>(), text(), any::<bool>())
        .prop_map(|(wanted, in_place, reason, delivered)| Intent { wanted, in_place, reason, delivered });
    let progress =
        (of(any::<u8>()), text(), time()).prop_map(|(percent, note, at)| Progress { percent, note, at });
    (name(), time(), of(time()), of(intent), of(progress), of(devices()))
        .prop_map(|(worker, since, started_at, intent, progress, devices)| {
            let mut holding = Holding::restored(worker, since, started_at, intent, progress);
            holding.devices = devices;
            Box::new(holding)
        })
        .boxed()
}

fn end() -> BoxedStrategy<Box<End>> {
    (time(), any::<u64>(), any::<i32>(), blob(), text(), of(name()))
        .prop_map(|(at, event, exit_code, result, message, worker)| {
            Box::new(End { at, event, exit_code, result, message, worker })
        })
        .boxed()
}

pub(crate) fn state() -> BoxedStrategy<TaskState> {
    let why = select(vec![
        PauseCause::Asked,
        PauseCause::WorkerLost,
        PauseCause::CrashBudget,
        PauseCause::DependencyBroken,
    ]);
    let stop = (text(), any::<bool>()).prop_map(|(reason, is_resumed)| StopInPlace { reason, is_resumed });
    prop_oneof![
        Just(TaskState::Created),
        Just(TaskState::Waiting { open: 0 }),
        time().prop_map(|until| TaskState::Delayed { until }),
        time().prop_map(|since| TaskState::Ready { since }),
        holding().prop_map(TaskState::Assigned),
        holding().prop_map(TaskState::Running),
        (holding(), time(), of(stop)).prop_map(|(holding, since, stop)| {
            TaskState::Suspended(Box::new(Suspension::restored(*holding, since, stop)))
        }),
        (time(), why, text()).prop_map(|(since, why, reason)| TaskState::Paused(Box::new(PauseInfo {
            since,
            why,
            reason
        }))),
        end().prop_map(TaskState::Completed),
        end().prop_map(TaskState::Failed),
        end().prop_map(TaskState::Cancelled),
    ]
    .boxed()
}

fn trace() -> BoxedStrategy<Box<TraceContext>> {
    (any::<[u8; 16]>(), any::<[u8; 8]>(), any::<u8>(), text())
        .prop_map(|(trace_id, parent, flags, state)| {
            Box::new(TraceContext { trace_id, parent, flags, state })
        })
        .boxed()
}

fn extras() -> BoxedStrategy<Box<Extras>> {
    let checkpoint =
        (any::<u32>(), time(), blob()).prop_map(|(attempt, at, blob)| Checkpoint { attempt, at, blob });
    let plain =
        (of(name()), any::<u64>(), of(id()), of(time()), of(time()), vec(name(), 0..3), of(checkpoint));

    (plain, of(span()), of(trace()), of(any::<u8>()))
        .prop_map(|(plain, suspended_for, trace, reconciled_prefix)| {
            let (name, fingerprint, parent, not_before, expires_at, crashed_on, checkpoint) = plain;
            let mut extras = Box::new(Extras::default());
            extras.suspended_for = suspended_for.unwrap_or_default();
            extras.name = name;
            extras.fingerprint = fingerprint;
            extras.parent = parent;
            extras.not_before = not_before;
            extras.expires_at = expires_at;
            extras.crashed_on = crashed_on;
            extras.checkpoint = checkpoint;
            extras.trace = trace;
            extras.reconciled_prefix = reconciled_prefix;
            extras
        })
        .boxed()
}

/// A task with the terms of `key`.
pub(crate) fn task(key: TermsKey) -> BoxedStrategy<Task> {
    let numbers = (any::<i32>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<u64>());
    (id(), blob(), numbers, time(), state(), of(extras()))
        .prop_map(move |(id, body, numbers, submitted_at, state, extras)| {
            let (priority, attempt, crashes, failures, age) = numbers;
            Task {
                id,
                body,
                terms: key,
                priority,
                attempt,
                crashes,
                failures,
                edges: EdgeList::EMPTY,
                age,
                submitted_at,
                state,
                extras,
            }
        })
        .boxed()
}

pub(crate) fn after() -> BoxedStrategy<Vec<Dependency>> {
    let conditions = Condition::ALL.into_iter().chain([Condition::Waited]).collect::<Vec<_>>();
    let one = (id(), select(conditions), select(DependencyProgress::ALL.to_vec()))
        .prop_map(|(task, condition, progress)| Dependency { task, condition, progress });
    prop_oneof![2 => Just(Vec::new()), 1 => vec(one, 1..4)].boxed()
}

fn next() -> BoxedStrategy<Next> {
    prop_oneof![
        select(vec![Next::Requeued, Next::Paused, Next::Failed, Next::Cancelled]),
        time().prop_map(Next::RetriedAt),
    ]
    .boxed()
}

fn lost() -> BoxedStrategy<LostReason> {
    select(LostReason::ALL.to_vec()).boxed()
}

fn why() -> BoxedStrategy<Why> {
    let one = prop_oneof![
        select(StateName::ALL.to_vec()).prop_map(|state| Why::NotWaiting { state }),
        select(vec![Why::Held, Why::Paused, Why::AwaitingDisk, Why::AwaitingJournal]),
        time().prop_map(|until| Why::NotBefore { until }),
        name().prop_map(|queue| Why::QueuePaused { queue }),
        name().prop_map(|queue| Why::NoWorkerEver { queue }),
        (name(), time()).prop_map(|(queue, since)| Why::AllLost { queue, since }),
        vec(name(), 0..3).prop_map(|missing| Why::NeedsUnmet { missing }),
        (name(), time()).prop_map(|(worker, until)| Why::Quarantined { worker, until }),
    ];
    prop_oneof![
        one,
        any::<u32>().prop_map(|workers| Why::Draining { workers }),
        (name(), any::<u32>(), any::<u32>()).prop_map(|(tag, limit, in_use)| Why::TagLimit {
            tag,
            limit,
            in_use
        }),
        (any::<u32>(), any::<u32>()).prop_map(|(workers, slots)| Why::AllFull { workers, slots }),
        (name(), rate(), time()).prop_map(|(tag, rate, next_at)| Why::TagRate { tag, rate, next_at }),
        (name(), rate(), time()).prop_map(|(queue, rate, next_at)| Why::QueueRate { queue, rate, next_at }),
        any::<u32>().prop_map(|workers| Why::NoWorkerAsks { workers }),
        (name(), time()).prop_map(|(worker, since)| Why::AwaitingAcceptance { worker, since }),
        (name(), any::<u64>(), any::<u64>(), name()).prop_map(|(resource, needed, free, worker)| {
            Why::Short { resource, needed: Quantity(needed), free: Quantity(free), worker }
        }),
        (name(), any::<u64>(), any::<u64>(), name()).prop_map(|(resource, needed, total, worker)| {
            Why::TooLarge { resource, needed: Quantity(needed), total: Quantity(total), worker }
        }),
        (name(), id()).prop_map(|(worker, task)| Why::Reserved { worker, task }),
        any::<u32>().prop_map(|open| Why::Suspended { open, some: Vec::new() }),
        name().prop_map(|worker| Why::AwaitingSlot { worker }),
        (id(), any::<u32>(), any::<u32>()).prop_map(|(array, limit, in_use)| Why::ArrayLimit {
            array,
            limit,
            in_use
        }),
    ]
    .boxed()
}

pub(crate) fn kind() -> BoxedStrategy<EventData> {
    let plain = select(vec![
        EventData::Released,
        EventData::Due,
        EventData::Resumed,
        EventData::Retried,
        EventData::Moved,
        EventData::Expired,
        EventData::WorkerRegistered,
        EventData::WorkerReturned,
        EventData::WorkerLeft,
        EventData::WorkerDraining,
        EventData::WorkerCleared,
        EventData::QueuePaused,
        EventData::QueueResumed,
    ]);
    let holders = prop_oneof![
        name().prop_map(|worker| EventData::Assigned { worker }),
        name().prop_map(|worker| EventData::Started { worker }),
        (name(), any::<u32>()).prop_map(|(worker, open)| EventData::Suspended { worker, open }),
        name().prop_map(|worker| EventData::Continued { worker }),
        name().prop_map(|worker| EventData::TakenBack { worker }),
        name().prop_map(|worker| EventData::HolderReturned { worker }),
        (name(), text()).prop_map(|(worker, reason)| EventData::GivenBack { worker, reason }),
        (name(), lost(), time()).prop_map(|(worker, reason, lease_until)| EventData::HolderLost {
            worker,
            reason,
            lease_until
        }),
        (name(), lost(), next(), any::<u16>()).prop_map(|(worker, reason, next, budget_left)| {
            EventData::Crashed { worker, reason, next, budget_left }
        }),
        (wanted(), name()).prop_map(|(wanted, worker)| EventData::IntentDelivered { wanted, worker }),
        (name(), blob()).prop_map(|(worker, result)| EventData::Completed { worker, result }),
    ];
    let others = prop_oneof![
        (of(why()), of(name()))
            .prop_map(|(unserved, reconciliation)| EventData::Submitted { unserved, reconciliation }),
        (of(any::<u8>()), text()).prop_map(|(percent, note)| EventData::Progress { percent, note }),
        any::<u32>().prop_map(|bytes| EventData::Checkpoint { bytes }),
        text().prop_map(|reason| EventData::CancelRequested { reason }),
        text().prop_map(|reason| EventData::PauseRequested { reason }),
        text().prop_map(|reason| EventData::Paused { reason }),
        (of(name()), any::<i32>(), text(), next(), blob()).prop_map(
            |(worker, exit_code, message, next, result)| {
                EventData::Failed { worker, exit_code, message, next, result }
            }
        ),
        (text(), any::<bool>()).prop_map(|(reason, forced)| EventData::Cancelled { reason, forced }),
        lost().prop_map(|reason| EventData::WorkerLost { reason }),
        (time(), any::<u32>()).prop_map(|(until, crashes)| EventData::WorkerQuarantined { until, crashes }),
        vec(name(), 0..3).prop_map(|needs| EventData::QueueUnserved { needs }),
    ];
    prop_oneof![
        plain,
        holders,
        others,
        vec(name(), 0..3).prop_map(|needs| EventData::QueueServed { needs }),
        of(any::<u32>()).prop_map(|limit| EventData::LimitSet { limit }),
        schedule_event(),
        array_kind(),
        of(rate()).prop_map(|rate| EventData::RateSet { rate }),
        of(rate()).prop_map(|rate| EventData::QueueRateSet { rate }),
        backlog().prop_map(|(threshold, depth, age)| EventData::QueueBacklog { threshold, depth, age }),
        backlog().prop_map(|(threshold, depth, age)| EventData::QueueBacklogCleared {
            threshold,
            depth,
            age
        }),
        (of(any::<u32>()), of(span())).prop_map(|(depth, age)| EventData::QueueThresholdsSet { depth, age }),
    ]
    .boxed()
}

fn schedule_event() -> BoxedStrategy<EventData> {
    prop_oneof![
        Just(EventData::ScheduleSet),
        Just(EventData::SchedulePaused),
        Just(EventData::ScheduleResumed),
        Just(EventData::ScheduleRemoved),
        (time(), id()).prop_map(|(due, task)| EventData::ScheduleFired { due, task }),
        (select(SkipReason::ALL.to_vec()), time(), time())
            .prop_map(|(reason, from, to)| EventData::ScheduleSkipped { reason, from, to }),
    ]
    .boxed()
}

fn schedule_progress() -> BoxedStrategy<ScheduleProgress> {
    let names = (name(), name(), select(ScheduleState::ALL.to_vec()));
    (names, time(), of(time()), of(id()), any::<u64>(), any::<u64>())
        .prop_map(|((namespace, name, state), settled, last_due, last_task, fired, skipped)| {
            ScheduleProgress { namespace, name, state, settled, last_due, last_task, fired, skipped }
        })
        .boxed()
}

fn schedule() -> BoxedStrategy<Setting> {
    let timing = ("[0-9* ]{1,20}", of(name()), span(), time(), time());
    let policies = (select(CatchUp::ALL.to_vec()), select(Overlap::ALL.to_vec()));
    let task = (terms(), of(any::<i32>()), of(span()), vec(any::<u8>(), 0..200));
    (schedule_progress(), timing, policies, task)
        .prop_map(|(progress, (when, zone, jitter, created_at, anchor), (catch_up, overlap), task)| {
            let (terms, priority, expires_after, body) = task;
            let terms = Terms { namespace: progress.namespace.clone(), ..terms };
            let schedule = ScheduleSetting {
                namespace: progress.namespace.clone(),
                name: progress.name.clone(),
                when: when.into(),
                zone,
                catch_up,
                overlap,
                jitter,
                created_at,
                anchor,
                terms: Arc::new(terms),
                priority,
                expires_after,
                body: body.into(),
            };
            Setting::Schedule(Box::new(schedule), progress)
        })
        .boxed()
}

fn array_kind() -> impl Strategy<Value = EventData> {
    prop_oneof![
        any::<u32>().prop_map(|size| EventData::ArraySubmitted { size }),
        any::<(u32, u32, u32)>().prop_map(|(completed, failed, cancelled)| EventData::ArrayEnded {
            completed,
            failed,
            cancelled
        }),
        of(any::<u32>()).prop_map(|limit| EventData::ArrayLimitSet { limit }),
    ]
}

fn array() -> impl Strategy<Value = ArrayRecord> {
    let names = (id(), name(), name(), name(), of(name()));
    let numbers = any::<(u64, u32, u32, u32, u64)>();
    let end = of((time(), any::<u64>(), select(StateName::ALL.to_vec())))
        .prop_map(|end| end.map(|(at, event, state)| ArrayEnd { at, event, state }));
    let forgotten = prop_oneof![
        Just(ForgottenElements::default()),
        (1..u64::MAX, any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
            |(through, completed, failed, cancelled)| ForgottenElements {
                through,
                completed,
                failed,
                cancelled
            }
        ),
    ];
    (names, numbers, of(any::<u32>()), blob(), time(), end, forgotten).prop_map(
        |(names, numbers, limit, body, submitted_at, end, forgotten)| {
            let (id, namespace, queue, submitter, name) = names;
            let (fingerprint, first, step, size, age) = numbers;
            ArrayRecord {
                id,
                namespace,
                queue,
                submitter,
                name,
                fingerprint,
                first,
                step,
                size,
                limit,
                body,
                age,
                submitted_at,
                end,
                forgotten,
            }
        },
    )
}

fn rate() -> impl Strategy<Value = Rate> {
    (any::<u32>(), span(), any::<u32>()).prop_map(|(count, period, burst)| Rate { count, period, burst })
}

fn backlog() -> impl Strategy<Value = (Threshold, u64, Duration)> {
    (select(Threshold::ALL.to_vec()), any::<u64>(), span())
}

/// An event without a number yet.
pub(crate) fn event() -> BoxedStrategy<Event> {
    let about = prop_oneof![
        3 => (id(), any::<u32>(), terms())
            .prop_map(|(id, attempt, terms)| EventSubject::Task { id, attempt, terms: Arc::new(terms) }),
        1 => (name(), name()).prop_map(|(namespace, worker)| EventSubject::Worker { namespace, worker }),
        1 => (name(), name()).prop_map(|(namespace, queue)| EventSubject::Queue { namespace, queue }),
        1 => (name(), name()).prop_map(|(namespace, tag)| EventSubject::Tag { namespace, tag }),
        1 => (name(), name()).prop_map(|(namespace, schedule)| EventSubject::Schedule { namespace, schedule }),
        1 => (id(), name(), name(), name(), of(name())).prop_map(|(id, namespace, queue, submitter, name)| {
            EventSubject::Array { id, namespace, queue, submitter, name }
        }),
    ];
    let of_share = (name(), name(), of(any::<u32>())).prop_map(|(namespace, share, weight)| {
        (EventSubject::Share { namespace, share }, EventData::ShareSet { weight })
    });
    let what = prop_oneof![20 => (about, kind()), 1 => of_share];
    (time(), what).prop_map(|(at, (about, kind))| Event { seq: 0, at, about, kind }).boxed()
}

pub(crate) fn setting() -> BoxedStrategy<Setting> {
    let worker = (name(), name(), any::<u32>(), of(time()), vec(time(), 0..4), of(time()), text()).prop_map(
        |(namespace, worker, crashes, last_crash, recent_crashes, quarantined_until, profile)| {
            Setting::Worker(WorkerHealth {
                namespace,
                worker,
                crashes,
                last_crash,
                recent_crashes,
                quarantined_until,
                profile,
            })
        },
    );
    let thresholds = (of(any::<u32>()), of(span())).prop_map(|(depth, age)| Thresholds { depth, age });
    let passed = (any::<bool>(), any::<bool>()).prop_map(|(depth, age)| PassedThresholds { depth, age });
    let flags = (any::<bool>(), any::<bool>());
    let queue = (name(), name(), flags, of(time()), of(thresholds), passed, of(rate())).prop_map(
        |(namespace, queue, (paused, ever_served), unserved_since, thresholds, passed, rate)| {
            Setting::Queue(QueueSetting {
                namespace,
                queue,
                paused,
                ever_served,
                unserved_since,
                thresholds,
                passed,
                rate,
            })
        },
    );
    let limit = (name(), name(), of(any::<u32>()), of(rate())).prop_map(|(namespace, tag, limit, rate)| {
        Setting::Limit(LimitSetting { namespace, tag, limit, rate })
    });
    let progress = schedule_progress().prop_map(Setting::ScheduleProgress);
    let array = array().prop_map(|array| Setting::Array(Box::new(array)));
    let share = (name(), name(), of(any::<u32>()))
        .prop_map(|(namespace, share, weight)| Setting::Share(ShareSetting { namespace, share, weight }));
    let left = name().prop_map(Setting::NamespaceLeft);
    prop_oneof![worker, queue, limit, schedule(), progress, array, share, left].boxed()
}
