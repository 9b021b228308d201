//! Redis keys that name a view of the broker's tasks, workers and plans.

use std::borrow::Cow;

use bytes::Bytes;

use crate::json::pushed_name;

/// What a key refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RespKey {
    /// `queue:<queue>`: what waits.
    Queue(RespQueueKey),
    /// `job:<id>` and its fields.
    Job { id: String, field: JobField },
    /// `plan:<id>`.
    Plan { id: String },
    /// `action:<id>` and `action:<id>:jobs`.
    Action { id: String, field: ActionField },
    /// `worker:<id>:…`.
    Worker { id: String, field: WorkerField },
    /// `capability:<name>:workers`.
    Capability { name: String },
    /// `events` and `events:<queue or job>`.
    Events(EventsKey),
    /// Any other key. If it exists, it is stored.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespQueueKey {
    /// `queue:ready` and `queue:default`, one and the same.
    Default,
    /// `queue:scheduled`: what waits for its time, in every queue.
    Scheduled,
    /// `queue:processing`: what workers hold, from every queue.
    Processing,
    Named(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobField {
    Whole,
    Status,
    Worker,
    Stdout,
    Stderr,
    Result,
    Progress,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionField {
    Whole,
    Jobs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerField {
    Metadata,
    Stats,
    Alive,
    Tools,
    Tags,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventsKey {
    All,
    /// A queue or a job; the broker finds out which.
    Of(String),
}

impl RespKey {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        std::str::from_utf8(bytes).map_or(Self::Unknown, Self::parse_text)
    }

    fn parse_text(text: &str) -> Self {
        if text == "events" {
            return Self::Events(EventsKey::All);
        }
        let Some((kind, rest)) = text.split_once(':') else { return Self::Unknown };
        if rest.is_empty() {
            return Self::Unknown;
        }
        match kind {
            "queue" => Self::Queue(RespQueueKey::parse(rest)),
            "job" => parse_job(rest),
            "plan" => Self::Plan { id: rest.to_owned() },
            "action" => match rest.strip_suffix(":jobs") {
                Some(id) => Self::Action { id: id.to_owned(), field: ActionField::Jobs },
                None => Self::Action { id: rest.to_owned(), field: ActionField::Whole },
            },
            "worker" => parse_worker(rest),
            "capability" => match rest.strip_suffix(":workers") {
                Some(name) if !name.is_empty() => Self::Capability { name: name.to_owned() },
                _ => Self::Unknown,
            },
            "events" => Self::Events(EventsKey::Of(rest.to_owned())),
            _ => Self::Unknown,
        }
    }

    /// The name of the hash in which clients store metadata of the view.
    pub(crate) fn metadata(&self) -> Option<Bytes> {
        match self {
            Self::Job { id, field: JobField::Whole } => Some(Bytes::from(format!("job:{id}"))),
            Self::Plan { id } => Some(Bytes::from(format!("plan:{id}"))),
            Self::Queue(_)
            | Self::Job { .. }
            | Self::Action { .. }
            | Self::Worker { .. }
            | Self::Capability { .. }
            | Self::Events(_)
            | Self::Unknown => None,
        }
    }

    /// The reply to TYPE, if the key can exist.
    pub(crate) fn redis_type(&self) -> Option<&'static str> {
        match self {
            Self::Queue(_) | Self::Action { field: ActionField::Jobs, .. } => Some("list"),
            Self::Capability { .. } => Some("set"),
            Self::Events(_) => Some("stream"),
            Self::Job { .. } | Self::Plan { .. } | Self::Action { .. } | Self::Worker { .. } => {
                Some("string")
            }
            Self::Unknown => None,
        }
    }
}

impl RespQueueKey {
    /// From what follows `queue:`, or from a bare queue name.
    pub fn parse(name: &str) -> Self {
        match name {
            "ready" | "default" => Self::Default,
            "scheduled" => Self::Scheduled,
            "processing" => Self::Processing,
            other => Self::Named(other.to_owned()),
        }
    }

    /// The key a client would write.
    pub fn text(&self) -> String {
        match self {
            Self::Default => "queue:ready".to_owned(),
            Self::Scheduled => "queue:scheduled".to_owned(),
            Self::Processing => "queue:processing".to_owned(),
            Self::Named(name) => format!("queue:{name}"),
        }
    }
}

/// The id of a job. Workers that received a whole job use it as the id of that job.
pub(crate) fn job_id_of(text: &str) -> Cow<'_, str> {
    match pushed_name(text.as_bytes()) {
        Ok(Some(name)) => Cow::Owned(name),
        _ => Cow::Borrowed(text),
    }
}

fn parse_job(rest: &str) -> RespKey {
    const FIELDS: [(&str, JobField); 7] = [
        (":status", JobField::Status),
        (":worker", JobField::Worker),
        (":stdout", JobField::Stdout),
        (":stderr", JobField::Stderr),
        (":result", JobField::Result),
        (":progress", JobField::Progress),
        (":error", JobField::Error),
    ];
    for (suffix, field) in FIELDS {
        match rest.strip_suffix(suffix) {
            Some(id) if !id.is_empty() => return RespKey::Job { id: job_id_of(id).into_owned(), field },
            _ => {}
        }
    }
    RespKey::Job { id: job_id_of(rest).into_owned(), field: JobField::Whole }
}

fn parse_worker(rest: &str) -> RespKey {
    let Some((id, field)) = rest.rsplit_once(':') else { return RespKey::Unknown };
    let field = match field {
        "metadata" => WorkerField::Metadata,
        "stats" => WorkerField::Stats,
        "alive" => WorkerField::Alive,
        "tools" => WorkerField::Tools,
        "tags" => WorkerField::Tags,
        _ => return RespKey::Unknown,
    };
    RespKey::Worker { id: id.to_owned(), field }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_and_default_are_one_queue() {
        assert_eq!(RespKey::parse(b"queue:ready"), RespKey::parse(b"queue:default"));
        assert_eq!(RespKey::parse(b"queue:images"), RespKey::Queue(RespQueueKey::Named("images".into())));
    }

    #[test]
    fn a_job_has_fields_and_its_id_may_hold_colons() {
        assert_eq!(RespKey::parse(b"job:a:status"), RespKey::Job { id: "a".into(), field: JobField::Status });
        assert_eq!(RespKey::parse(b"job:a:b"), RespKey::Job { id: "a:b".into(), field: JobField::Whole });
        assert_eq!(
            RespKey::parse(b"job:a:b:worker"),
            RespKey::Job { id: "a:b".into(), field: JobField::Worker }
        );
    }

    #[test]
    fn a_whole_job_stands_for_its_id() {
        let whole = r#"{"job_id":"a","tasks":[{"command":"x:status"}]}"#;
        let key = |field| RespKey::Job { id: "a".into(), field };
        assert_eq!(RespKey::parse(format!("job:{whole}").as_bytes()), key(JobField::Whole));
        assert_eq!(RespKey::parse(format!("job:{whole}:stdout").as_bytes()), key(JobField::Stdout));
    }

    #[test]
    fn the_views_of_a_worker_are_these_and_no_others() {
        assert_eq!(
            RespKey::parse(b"worker:w:alive"),
            RespKey::Worker { id: "w".into(), field: WorkerField::Alive }
        );
        assert_eq!(RespKey::parse(b"worker:w"), RespKey::Unknown);
        assert_eq!(RespKey::parse(b"worker:w:x"), RespKey::Unknown);
    }

    #[test]
    fn a_whole_job_and_a_plan_have_metadata_beside_them() {
        assert_eq!(RespKey::parse(b"job:a").metadata().as_deref(), Some(&b"job:a"[..]));
        assert_eq!(RespKey::parse(b"job:{\"job_id\":\"a\"}").metadata().as_deref(), Some(&b"job:a"[..]));
        assert_eq!(RespKey::parse(b"plan:p").metadata().as_deref(), Some(&b"plan:p"[..]));
        for key in [&b"job:a:status"[..], b"action:a", b"worker:w:alive", b"queue:q", b"stored"] {
            assert_eq!(RespKey::parse(key).metadata(), None);
        }
    }

    #[test]
    fn what_is_no_view_is_unknown() {
        for key in [&b""[..], b"x", b"queue:", b"capability:x", b"capability::workers", b"\xff", b"job"] {
            assert_eq!(RespKey::parse(key), RespKey::Unknown, "{key:?}");
        }
    }
}
