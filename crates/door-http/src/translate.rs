//! Converts between the JSON of the API and the hub's types. Every field is always present, ids and times are text.

mod broker;
mod event;
mod hook;
mod reconcile;
mod refusal;
mod resources;
mod schedule;
mod submission;
mod task;
mod topic;
mod why;
mod word;
mod work;

pub(crate) use broker::{array, array_accepted, counts, figures, limit, queue, share, worker};
pub(crate) use event::{event, gap};
pub(crate) use hook::{hook, undelivered};
pub(crate) use reconcile::{ReconcileInput, reconciled};
pub(crate) use refusal::problem;
pub(crate) use schedule::{ScheduleInput, schedule};
pub(crate) use submission::{AfterInput, MoveInput, TaskInput, TimeInput};
pub(crate) use task::{accepted, task};
pub(crate) use topic::{delivery, published, subscription, topic, topic_end, topic_problem};
pub(crate) use why::explanation;
pub(crate) use word::time as moment;
pub(crate) use word::{from_wanted, state, task_id, wanted};
pub(crate) use work::{
    HeartbeatInput, WorkerInput, assignment, assignment_json, assignment_length, held_verdicts, registered,
    result_bytes, worker_news,
};
