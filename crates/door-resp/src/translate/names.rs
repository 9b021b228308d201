//! Maps this door's names to the broker's.

use tenure_hub::words::{Assignment, Name, StateName, TaskId, TaskInfo, TaskState, UNDECLARED};

use crate::command::{CommandError, JobStatus};
use crate::key::RespQueueKey;

/// `queue:ready` and `queue:default`.
pub(crate) const DEFAULT_QUEUE: &str = "default";
/// Plans and actions are tasks that stay held, in queues of their own from which no client can pop.
pub(super) const PLANS: &str = "resp.plans";
pub(super) const ACTIONS: &str = "resp.actions";

/// The queue behind a key; `None` for views that are not queues.
pub(crate) fn queue_name(key: &RespQueueKey) -> Option<Name> {
    match key {
        RespQueueKey::Default => Some(DEFAULT_QUEUE.into()),
        RespQueueKey::Named(name) => Some(name.as_str().into()),
        RespQueueKey::Scheduled | RespQueueKey::Processing => None,
    }
}

/// The queue behind a key that jobs may go to and come from.
pub(super) fn open_queue(key: &RespQueueKey) -> Result<Name, CommandError> {
    queue_name(key).filter(|name| !is_reserved(name)).ok_or_else(|| CommandError::Kept(key.text()))
}

/// The key under which a client finds a queue.
pub(crate) fn queue_key_of(queue: &str) -> String {
    if queue == DEFAULT_QUEUE { "queue:ready".to_owned() } else { format!("queue:{queue}") }
}

pub(super) fn is_reserved(queue: &str) -> bool {
    queue == PLANS || queue == ACTIONS
}

/// The capability that only this worker offers.
pub(crate) fn itself(worker: &str) -> Name {
    format!("worker={worker}").into()
}

/// What the commands of a plan need: a worker that offers them, or one that does not name its tools.
pub(super) fn tool_needs(tools: Vec<String>) -> Vec<String> {
    tools.into_iter().map(|tool| format!("{UNDECLARED}{tool}")).collect()
}

/// A need or an offer as clients know it.
pub(super) fn shown_need(need: &str) -> &str {
    need.strip_prefix(UNDECLARED).unwrap_or(need)
}

/// What a worker itself announces that it offers.
pub(super) fn declared_offers(offers: &[Name]) -> impl Iterator<Item = &str> {
    offers.iter().map(|offer| &**offer).filter(|offer| !offer.starts_with("worker=") && *offer != UNDECLARED)
}

/// What a worker with these tags offers: each tag by its name, and marked as a tag.
pub(super) fn tag_offers(tags: &[String]) -> Vec<Name> {
    tags.iter().flat_map(|tag| [tag.as_str().into(), format!("tag={tag}").into()]).collect()
}

pub(super) fn tags_of(offers: &[Name]) -> impl Iterator<Item = &str> {
    offers.iter().filter_map(|offer| offer.strip_prefix("tag="))
}

/// The tools among what a worker offers.
pub(super) fn tools_of(offers: &[Name]) -> impl Iterator<Item = &str> {
    declared_offers(offers).filter(|offer| !offer.contains('=') && tags_of(offers).all(|tag| tag != *offer))
}

pub(super) fn plan_name(plan: &str) -> Name {
    format!("plan:{plan}").into()
}

/// A recipe is named after its plan. No plan id contains the separator.
pub(super) fn recipe_name(plan: &str, recipe: TaskId) -> Name {
    format!("plan:{plan}#{recipe}").into()
}

pub(super) fn plan_of_recipe(name: &str) -> Option<&str> {
    Some(name.strip_prefix("plan:")?.split_once('#')?.0)
}

pub(super) fn action_name(action: &str) -> Name {
    format!("action:{action}").into()
}

/// The tag that jobs of one plan share.
pub(super) fn plan_tag(plan: &str) -> Name {
    format!("plan:{plan}").into()
}

/// How far a plan is, as the note of a progress report.
pub(crate) fn progress_note(task: u64) -> String {
    format!("current_task={task}")
}

pub(super) fn current_task(note: &str) -> Option<u64> {
    note.strip_prefix("current_task=")?.parse().ok()
}

/// The id under which a client knows a job.
pub(super) fn job_id(task: &TaskInfo) -> String {
    known_as(task.name.as_deref(), task.id)
}

/// The same for a job that has just been assigned.
pub(super) fn assigned_id(assignment: &Assignment) -> String {
    known_as(assignment.name.as_deref(), assignment.task)
}

/// The name its submitter gave it, or else the broker's id.
pub(crate) fn known_as(name: Option<&str>, task: TaskId) -> String {
    name.map_or_else(|| task.to_string(), str::to_owned)
}

pub(super) fn status(state: &TaskState) -> JobStatus {
    match state {
        TaskState::Created | TaskState::Waiting { .. } | TaskState::Ready { .. } => JobStatus::Pending,
        TaskState::Delayed { .. } => JobStatus::Scheduled,
        // Its worker keeps it stopped, as a client asked.
        TaskState::Suspended(suspension) if suspension.is_paused() => JobStatus::Paused,
        TaskState::Assigned(_) | TaskState::Running(_) | TaskState::Suspended(_) => JobStatus::Running,
        TaskState::Paused(_) => JobStatus::Paused,
        TaskState::Completed(_) => JobStatus::Completed,
        TaskState::Failed(end) if end.exit_code == tenure_hub::words::EXIT_CRASHED => JobStatus::Dead,
        TaskState::Failed(_) => JobStatus::Failed,
        TaskState::Cancelled(_) => JobStatus::Cancelled,
    }
}

/// The states in which a job can have this status.
pub(super) fn states(status: JobStatus) -> Vec<StateName> {
    match status {
        JobStatus::Pending => vec![StateName::Created, StateName::Waiting, StateName::Ready],
        JobStatus::Scheduled => vec![StateName::Delayed],
        JobStatus::Running => vec![StateName::Assigned, StateName::Running, StateName::Suspended],
        JobStatus::Paused => vec![StateName::Paused],
        JobStatus::Completed => vec![StateName::Completed],
        JobStatus::Failed | JobStatus::Dead => vec![StateName::Failed],
        JobStatus::Cancelled => vec![StateName::Cancelled],
    }
}

/// States of jobs that have not ended.
pub(super) fn live_states() -> Vec<StateName> {
    StateName::ALL.into_iter().filter(|state| !state.has_ended()).collect()
}

pub(super) fn state_status(state: StateName) -> &'static str {
    match state {
        StateName::Created | StateName::Waiting | StateName::Ready => "pending",
        StateName::Delayed => "scheduled",
        StateName::Assigned | StateName::Running | StateName::Suspended => "running",
        StateName::Paused => "paused",
        StateName::Completed => "completed",
        StateName::Failed => "failed",
        StateName::Cancelled => "cancelled",
    }
}
