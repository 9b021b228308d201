//! Converts single words and values.

use std::time::Duration;

use tenure_hub::words::{
    Condition, DependencyProgress, LostReason, Next, OnBroken, OnClose, OnLost, PauseCause, PresenceName,
    Rate, Refusal, StateName, StopWhy, TaskId, Threshold, Timestamp, Wanted,
};
use tenure_wire::{time::millis, words};

/// A task's id, from the wire.
pub(crate) fn id(task: tenure_wire::TaskId) -> TaskId {
    TaskId(task.0)
}

/// A task's id, for the wire.
pub(crate) fn task(id: TaskId) -> tenure_wire::TaskId {
    tenure_wire::TaskId(id.0)
}

pub(crate) fn time(at: Timestamp) -> tenure_wire::Timestamp {
    tenure_wire::Timestamp(at.0)
}

pub(crate) fn from_time(at: tenure_wire::Timestamp) -> Timestamp {
    Timestamp(at.0)
}

pub(crate) fn span(span: Duration) -> u64 {
    millis(span)
}

pub(crate) fn from_span(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn rate(rate: Rate) -> tenure_wire::rate::Rate {
    let Rate { count, period, burst } = rate;
    tenure_wire::rate::Rate { count, period_ms: span(period), burst: Some(burst) }
}

pub(crate) fn from_rate(rate: tenure_wire::rate::Rate) -> Rate {
    let usual = Rate::new(rate.count, from_span(rate.period_ms));
    Rate { burst: rate.burst.unwrap_or(usual.burst), ..usual }
}

/// The name of a state, for the wire.
pub(crate) fn name(state: StateName) -> words::StateName {
    match state {
        StateName::Created => words::StateName::Created,
        StateName::Waiting => words::StateName::Waiting,
        StateName::Delayed => words::StateName::Delayed,
        StateName::Ready => words::StateName::Ready,
        StateName::Assigned => words::StateName::Assigned,
        StateName::Running => words::StateName::Running,
        StateName::Suspended => words::StateName::Suspended,
        StateName::Paused => words::StateName::Paused,
        StateName::Completed => words::StateName::Completed,
        StateName::Failed => words::StateName::Failed,
        StateName::Cancelled => words::StateName::Cancelled,
    }
}

pub(crate) fn from_name(state: &words::StateName) -> Result<StateName, Refusal> {
    StateName::parse(state.as_str()).ok_or(unknown_word("states"))
}

pub(crate) fn on_lost(policy: OnLost) -> words::OnLost {
    match policy {
        OnLost::Requeue => words::OnLost::Requeue,
        OnLost::Pause => words::OnLost::Pause,
        OnLost::Fail => words::OnLost::Fail,
    }
}

pub(crate) fn from_on_lost(policy: &words::OnLost) -> Result<OnLost, Refusal> {
    match policy {
        words::OnLost::Requeue => Ok(OnLost::Requeue),
        words::OnLost::Pause => Ok(OnLost::Pause),
        words::OnLost::Fail => Ok(OnLost::Fail),
        words::OnLost::Other(_) => Err(unknown_word("on_lost")),
    }
}

pub(crate) fn on_broken(policy: OnBroken) -> words::OnBroken {
    match policy {
        OnBroken::Cancel => words::OnBroken::Cancel,
        OnBroken::Run => words::OnBroken::Run,
        OnBroken::Hold => words::OnBroken::Hold,
    }
}

pub(crate) fn from_on_broken(policy: &words::OnBroken) -> Result<OnBroken, Refusal> {
    OnBroken::parse(policy.as_str()).ok_or(unknown_word("on_broken"))
}

pub(crate) fn condition(condition: Condition) -> words::Condition {
    match condition {
        Condition::Completed => words::Condition::Completed,
        // A worker that waits in the middle of an attempt takes any end.
        Condition::Ended | Condition::Waited => words::Condition::Ended,
        Condition::Failed => words::Condition::Failed,
    }
}

pub(crate) fn from_condition(condition: &words::Condition) -> Result<Condition, Refusal> {
    Condition::parse(condition.as_str()).ok_or(unknown_word("condition"))
}

pub(crate) fn dependency_progress(progress: DependencyProgress) -> words::DependencyProgress {
    match progress {
        DependencyProgress::Open => words::DependencyProgress::Open,
        DependencyProgress::Met => words::DependencyProgress::Met,
        DependencyProgress::Broken | DependencyProgress::Cancelled => words::DependencyProgress::Broken,
    }
}

pub(crate) fn from_on_close(meaning: &words::OnClose) -> Result<OnClose, Refusal> {
    match meaning {
        words::OnClose::MayStillRun => Ok(OnClose::MayStillRun),
        words::OnClose::TasksDie => Ok(OnClose::TasksDie),
        words::OnClose::Other(_) => Err(unknown_word("on_close")),
    }
}

pub(crate) fn wanted_word(wanted: Wanted) -> words::Wanted {
    match wanted {
        Wanted::Cancel => words::Wanted::Cancel,
        Wanted::Pause => words::Wanted::Pause,
    }
}

pub(crate) fn from_wanted(wanted: &words::Wanted) -> Result<Wanted, Refusal> {
    match wanted {
        words::Wanted::Cancel => Ok(Wanted::Cancel),
        words::Wanted::Pause => Ok(Wanted::Pause),
        words::Wanted::Other(_) => Err(unknown_word("wanted")),
    }
}

pub(crate) fn stop_why(why: StopWhy) -> words::StopWhy {
    match why {
        StopWhy::Stale => words::StopWhy::Stale,
        StopWhy::TakenBack => words::StopWhy::TakenBack,
        StopWhy::Cancelled => words::StopWhy::Cancelled,
        StopWhy::Paused => words::StopWhy::Paused,
        StopWhy::RunLimit => words::StopWhy::RunLimit,
        StopWhy::Expired => words::StopWhy::Expired,
    }
}

pub(crate) fn pause_cause(why: PauseCause) -> words::PauseCause {
    match why {
        PauseCause::Asked => words::PauseCause::Asked,
        PauseCause::WorkerLost => words::PauseCause::WorkerLost,
        PauseCause::CrashBudget => words::PauseCause::CrashBudget,
        PauseCause::DependencyBroken => words::PauseCause::DependencyBroken,
    }
}

pub(crate) fn lost_reason(reason: LostReason) -> words::LostReason {
    match reason {
        LostReason::ConnectionClosed => words::LostReason::ConnectionClosed,
        LostReason::HeartbeatMissed => words::LostReason::HeartbeatMissed,
        LostReason::RunLimit => words::LostReason::RunLimit,
        LostReason::WorkerSaidSo => words::LostReason::WorkerSaidSo,
        LostReason::Forgotten => words::LostReason::Forgotten,
        LostReason::NotBackAfterRestart => words::LostReason::NotBackAfterRestart,
    }
}

/// What happens next, and when, if the task is retried later.
pub(crate) fn next(next: Next) -> (words::Next, Option<tenure_wire::Timestamp>) {
    match next {
        Next::Requeued => (words::Next::Requeued, None),
        Next::RetriedAt(at) => (words::Next::Retried, Some(time(at))),
        Next::Paused => (words::Next::Paused, None),
        Next::Failed => (words::Next::Failed, None),
        Next::Cancelled => (words::Next::Cancelled, None),
    }
}

pub(crate) fn presence(presence: PresenceName) -> words::Presence {
    match presence {
        PresenceName::Live => words::Presence::Live,
        PresenceName::Lost => words::Presence::Lost,
        PresenceName::Gone => words::Presence::Gone,
    }
}

pub(crate) fn threshold(threshold: Threshold) -> words::Threshold {
    match threshold {
        Threshold::Depth => words::Threshold::Depth,
        Threshold::Age => words::Threshold::Age,
    }
}

pub(super) fn unknown_word(what: &'static str) -> Refusal {
    Refusal::BadValue { what, why: "is a value that this version of the broker does not know" }
}
