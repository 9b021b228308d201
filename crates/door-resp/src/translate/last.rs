//! The last request of a command: its reply becomes the command's reply.

use serde_json::{Map, Value, json};
use tenure_hub::words::{
    Answer, LimitInfo, QueueInfo, Refusal, Reply as Decided, ShareInfo, StateName, Threshold, Timestamp,
};
use tenure_hub::{HubRefusal, Response};

use super::arrays::array_json;
use super::jobs::NOT_FAILED;
use super::lists::whole;
use super::lookup::one_queue;
use super::ranges::count_of;
use super::reconcile::reconciled_json;
use super::refusals::refusal;
use super::render::time;
use super::schedules::schedule_json;
use super::submit::accepted;
use crate::codec::Reply;
use crate::command::{JobStatus, JobVerb, MetricsFormat};
use crate::flow::FlowOutcome;
use crate::key::RespQueueKey;

/// How to convert the last reply.
#[derive(Debug)]
pub(crate) enum LastReply {
    /// This reply, unless the broker refuses.
    Done(Reply),
    /// The id of the job: its submitter's, or else the broker's.
    Submitted {
        name: Option<String>,
    },
    Steered {
        job: String,
        verb: JobVerb,
        from: JobStatus,
        is_running: bool,
    },
    Counts,
    Queue,
    Length(RespQueueKey),
    Metrics(MetricsFormat),
    Limits,
    Shares,
    Schedule,
    Schedules,
    /// The id of the array.
    ArraySubmitted,
    Array,
    Arrays,
    Reconciled,
    Info {
        sections: Vec<String>,
    },
}

impl LastReply {
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn reply(self, now: Timestamp, outcome: FlowOutcome) -> Reply {
        match self {
            Self::Done(reply) => outcome.map_or_else(|reason| refusal(&reason), |_| reply),
            Self::Submitted { name } => match accepted(outcome) {
                Err(reason) => refusal(&reason),
                Ok(each) => {
                    let task = each.first().map(|accepted| accepted.task.to_string()).unwrap_or_default();
                    Reply::bulk(name.unwrap_or(task))
                }
            },
            Self::Steered { job, verb, from, is_running } => steered(&job, verb, from, is_running, outcome),
            Self::Counts => match outcome {
                Ok(Response::Answer(Answer::Counts(counts))) => Reply::array([
                    Reply::word("pending_jobs"),
                    Reply::Integer(whole(counts.by_state[StateName::Ready as usize])),
                    Reply::word("scheduled_jobs"),
                    Reply::Integer(whole(counts.by_state[StateName::Delayed as usize])),
                ]),
                Ok(_) => Reply::error("ERR unexpected answer"),
                Err(reason) => refusal(&reason),
            },
            Self::Queue => match one_queue(outcome) {
                Ok(None) => Reply::Null,
                Ok(Some(queue)) => queue_stats(&queue, now),
                Err(reason) => refusal(&reason),
            },
            Self::Length(queue) => {
                count_of(&queue, outcome).map_or_else(|reason| refusal(&reason), Reply::Integer)
            }
            Self::Metrics(format) => match outcome {
                Ok(Response::Stats(stats)) => metrics(format, &stats.metrics()),
                Ok(_) => Reply::error("ERR unexpected answer"),
                Err(reason) => refusal(&reason),
            },
            Self::Limits => match outcome {
                Ok(Response::Answer(Answer::Limits(limits))) => Reply::array(limits.iter().map(|limit| {
                    let LimitInfo { tag, limit, in_use, rate } = limit;
                    let mut shown = json!({"tag": &**tag, "limit": limit, "in_use": in_use});
                    if let Some(rate) = rate {
                        shown["rate"] = rate.to_string().into();
                    }
                    Reply::bulk(shown.to_string())
                })),
                Ok(_) => Reply::error("ERR unexpected answer"),
                Err(reason) => refusal(&reason),
            },
            Self::Shares => match outcome {
                Ok(Response::Answer(Answer::Shares(shares))) => Reply::array(shares.iter().map(|info| {
                    let ShareInfo { share, weight, ready } = info;
                    Reply::bulk(json!({"share": &**share, "weight": weight, "ready": ready}).to_string())
                })),
                Ok(_) => Reply::error("ERR unexpected answer"),
                Err(reason) => refusal(&reason),
            },
            Self::Schedule => match outcome {
                Ok(Response::Answer(Answer::Schedules(found))) if found.len() == 1 => {
                    Reply::bulk(schedule_json(&found[0]).to_string())
                }
                other => unexpected(other),
            },
            Self::Schedules => match outcome {
                Ok(Response::Answer(Answer::Schedules(found))) => {
                    Reply::array(found.iter().map(|info| Reply::bulk(schedule_json(info).to_string())))
                }
                other => unexpected(other),
            },
            Self::ArraySubmitted => match outcome {
                Ok(Response::Command(Decided::ArraySubmitted(accepted))) => {
                    Reply::bulk(accepted.array.to_string())
                }
                other => unexpected(other),
            },
            Self::Array => match outcome {
                Ok(Response::Answer(Answer::Array(array))) => Reply::bulk(array_json(&array).to_string()),
                other => unexpected(other),
            },
            Self::Arrays => match outcome {
                Ok(Response::Answer(Answer::Arrays { arrays, .. })) => {
                    Reply::array(arrays.iter().map(|array| Reply::bulk(array_json(array).to_string())))
                }
                other => unexpected(other),
            },
            Self::Reconciled => match outcome {
                Ok(Response::Reconciled(answer)) => Reply::bulk(reconciled_json(&answer).to_string()),
                other => unexpected(other),
            },
            Self::Info { sections } => crate::session::info(&sections, now, outcome),
        }
    }
}

fn unexpected(outcome: FlowOutcome) -> Reply {
    match outcome {
        Ok(_) => Reply::error("ERR unexpected answer"),
        Err(reason) => refusal(&reason),
    }
}

/// The same figures in both formats. In JSON, figures with labels are objects with one entry per set of labels.
fn metrics(format: MetricsFormat, text: &str) -> Reply {
    if format == MetricsFormat::Prometheus {
        return Reply::bulk(text.to_owned());
    }
    let mut shown = Map::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let value: Value = value.parse::<f64>().map_or(Value::Null, Value::from);
        match name.split_once('{') {
            None => {
                shown.insert(name.to_owned(), value);
            }
            Some((name, labels)) => {
                let labels = labels.trim_end_matches('}').replace('"', "");
                let of_name = shown.entry(name).or_insert_with(|| Value::Object(Map::new()));
                of_name[labels] = value;
            }
        }
    }
    Reply::bulk(Value::Object(shown).to_string())
}

/// A running job must be stopped by its worker first; until then the broker remembers the command.
fn steered(job: &str, verb: JobVerb, from: JobStatus, is_running: bool, outcome: FlowOutcome) -> Reply {
    match outcome {
        Ok(_) => Reply::simple(match verb {
            JobVerb::Cancel if is_running => "OK cancellation requested",
            JobVerb::Pause | JobVerb::PauseAndTerminate if is_running => "OK pause requested",
            JobVerb::Retry => "OK job re-queued",
            JobVerb::Cancel => "OK job cancelled",
            JobVerb::Pause | JobVerb::PauseAndTerminate => "OK job paused",
            JobVerb::Resume => "OK job resumed",
        }),
        Err(HubRefusal::Engine(Refusal::WrongState { .. })) => Reply::error(match verb {
            JobVerb::Retry => NOT_FAILED.to_owned(),
            JobVerb::Resume => format!("ERR Job not paused: {job} is {}", from.word()),
            JobVerb::Cancel => format!("ERR Job cannot be cancelled: {job} is {}", from.word()),
            JobVerb::Pause | JobVerb::PauseAndTerminate => {
                format!("ERR Job cannot be paused: {job} is {}", from.word())
            }
        }),
        Err(reason) => refusal(&reason),
    }
}

fn queue_stats(queue: &QueueInfo, now: Timestamp) -> Reply {
    let count = |state: StateName| queue.counts[state as usize];
    let age = queue.oldest_ready.map(|at| now.since(at).as_secs());
    let shown = json!({
        "queue": &*queue.queue, "paused": queue.paused, "pending": count(StateName::Ready),
        "length": count(StateName::Ready), "waiting": count(StateName::Waiting), "scheduled": count(StateName::Delayed),
        "running": count(StateName::Assigned) + count(StateName::Running) + count(StateName::Suspended),
        "held": count(StateName::Paused), "completed": count(StateName::Completed),
        "failed": count(StateName::Failed), "cancelled": count(StateName::Cancelled),
        "workers": queue.live_workers, "oldest_job_age_seconds": age,
        "oldest_job_at": queue.oldest_ready.map(time),
        "unserved_since": queue.unserved_since.map(time),
        "depth_threshold": queue.thresholds.depth,
        "age_threshold_seconds": queue.thresholds.age.map(|age| age.as_secs_f64()),
        "backlog": queue.passed.all().map(Threshold::as_str).collect::<Vec<_>>(),
    });
    Reply::bulk(shown.to_string())
}
