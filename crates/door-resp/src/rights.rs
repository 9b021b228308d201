//! Which right each command needs. The hub enforces the same rights on requests. This door checks first, because one
//! command may be several requests, and because a worker may read what it holds.

use tenure_hub::words::{Refusal, TaskInfo};
use tenure_hub::{Grant, HubRefusal, Needs, Right, Rights, TopicAct};

use crate::channel::{OWN, channel_filter};
use crate::command::{
    ActionCommand, ArrayCommand, AskedKey, Command, EventsCommand, JobCommand, KeyspaceCommand, PlanCommand,
    QueueCommand, RespListCommand, ScheduleCommand, ViewCommand, WorkerCommand,
};
use crate::glob::literal_prefix;
use crate::json::Challenge;
use crate::key::RespKey;

const SUBMIT: Need = Need::Right(Needs::Right(Right::Submit));
const READ: Need = Need::Right(Needs::Right(Right::Read));
const WORK: Need = Need::Right(Needs::Right(Right::Work));
const MANAGE: Need = Need::Right(Needs::Right(Right::Manage));
const NOTHING: Need = Need::Right(Needs::Nothing);

/// Prefixes of the channels on which the broker reports on tasks, queues and workers.
const EVENTS: [&str; 4] = [OWN, "task.", "queue.", "worker."];

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Right(Needs),
    /// `read`; with `work` alone, a worker reads what concerns its own work.
    ReadOwn,
}

impl Need {
    /// `worker` is the worker of the connection.
    pub(crate) fn of(command: &Command, worker: Option<&str>) -> Need {
        match command {
            // INFO shows figures only with `read`; libraries ask for the rest when they connect.
            Command::Connection(_) => NOTHING,
            Command::List(command) => match command {
                RespListCommand::Push { .. } => SUBMIT,
                RespListCommand::Claim(_) | RespListCommand::Remove { .. } => WORK,
                RespListCommand::Length { .. } | RespListCommand::Range { .. } => READ,
            },
            // The listing also contains views, which need more.
            Command::Keyspace(KeyspaceCommand::List { then: Some(_), .. }) => READ,
            Command::Keyspace(command) => Need::Right(command.act().needs()),
            Command::View(command) => of_view(command, worker),
            Command::Worker(command) => match command {
                WorkerCommand::Register(_)
                | WorkerCommand::Heartbeat { .. }
                | WorkerCommand::Unregister { .. } => WORK,
                WorkerCommand::Verify { challenge: Challenge::Answer { .. }, .. } => WORK,
                WorkerCommand::Verify { challenge: Challenge::Ask { .. }, .. } => MANAGE,
                WorkerCommand::List | WorkerCommand::Search { .. } => READ,
            },
            Command::Job(command) => match command {
                JobCommand::Submit(_) | JobCommand::Steer { .. } => SUBMIT,
                JobCommand::Update { .. } => WORK,
                JobCommand::Get { .. } | JobCommand::Status { .. } => Need::ReadOwn,
                JobCommand::Ids { .. } | JobCommand::List { .. } | JobCommand::Search { .. } => READ,
            },
            Command::Plan(command) => match command {
                PlanCommand::Submit { .. } | PlanCommand::Delete { .. } => SUBMIT,
                PlanCommand::Get { .. } => Need::ReadOwn,
                PlanCommand::List { .. } => READ,
            },
            Command::Action(command) => match command {
                ActionCommand::Submit(_) => SUBMIT,
                ActionCommand::Get { .. } | ActionCommand::Status { .. } | ActionCommand::List { .. } => READ,
            },
            Command::Schedule(command) => match command {
                ScheduleCommand::Get { .. } | ScheduleCommand::List => READ,
                ScheduleCommand::Set { .. }
                | ScheduleCommand::Delete { .. }
                | ScheduleCommand::Pause { .. }
                | ScheduleCommand::Resume { .. }
                | ScheduleCommand::Run { .. } => SUBMIT,
            },
            Command::Array(command) => match command {
                ArrayCommand::Get { .. } | ArrayCommand::List { .. } => READ,
                ArrayCommand::Submit(_) | ArrayCommand::Limit { .. } | ArrayCommand::Steer { .. } => SUBMIT,
            },
            Command::Reconcile(command) if command.page.apply => SUBMIT,
            Command::Reconcile(_) => READ,
            Command::Queue(command) => match command {
                QueueCommand::Stats { .. }
                | QueueCommand::Peek { .. }
                | QueueCommand::Metrics(_)
                | QueueCommand::Limits
                | QueueCommand::Shares => READ,
                QueueCommand::Threshold { .. }
                | QueueCommand::Limit { .. }
                | QueueCommand::TagRate { .. }
                | QueueCommand::QueueRate { .. }
                | QueueCommand::Share { .. } => MANAGE,
            },
            Command::Events(command) => match command {
                EventsCommand::Read(_) | EventsCommand::Range { .. } | EventsCommand::Logs(_) => READ,
                EventsCommand::Subscribe(channels) => subscribing(channels, |channel| {
                    if channel.starts_with(OWN.as_bytes()) {
                        return TopicAct::SubscribeToEvents;
                    }
                    channel_filter(channel).map_or(TopicAct::Subscribe, |wide| {
                        TopicAct::subscribe_to([wide.filter.as_str()].into_iter())
                    })
                }),
                EventsCommand::SubscribePattern(patterns) => subscribing(patterns, |pattern| {
                    match EVENTS.iter().any(|events| may_begin_with(pattern, events)) {
                        true => TopicAct::SubscribeToEvents,
                        false => TopicAct::Subscribe,
                    }
                }),
                EventsCommand::Unsubscribe(_) | EventsCommand::UnsubscribePattern(_) => NOTHING,
                EventsCommand::Publish { .. } => Need::Right(TopicAct::Publish.needs()),
            },
        }
    }

    /// Refuses, by name, what these rights do not allow.
    pub(crate) fn check(self, rights: Rights) -> Result<(), HubRefusal> {
        match self {
            Need::Right(needs) => rights.check(needs),
            Need::ReadOwn if rights.contains(Right::Work) => Ok(()),
            Need::ReadOwn => rights.check(Needs::Right(Right::Read)),
        }
    }
}

/// Whose jobs a connection may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobReader {
    Everyone,
    /// Without `read`, a worker reads the jobs that it holds.
    Holder,
}

impl JobReader {
    /// A connection that needs no key reads everything.
    pub(crate) fn of(grant: Option<&Grant>) -> JobReader {
        match grant {
            Some(grant) if !grant.rights.contains(Right::Read) => JobReader::Holder,
            Some(_) | None => JobReader::Everyone,
        }
    }
}

pub(crate) fn is_held_by(task: &TaskInfo, worker: Option<&str>) -> bool {
    worker.is_some() && task.state.holding().map(|holding| &*holding.worker) == worker
}

/// The refusal of a reader without `read` that asks for a job which its worker does not hold.
pub(crate) fn not_own_job() -> HubRefusal {
    Refusal::NotAllowed { what: "read jobs that this worker does not hold" }.into()
}

fn of_view(command: &ViewCommand, worker: Option<&str>) -> Need {
    let own = |key: &RespKey| match key {
        RespKey::Worker { id, .. } => worker == Some(id),
        RespKey::Queue(_)
        | RespKey::Job { .. }
        | RespKey::Plan { .. }
        | RespKey::Action { .. }
        | RespKey::Capability { .. }
        | RespKey::Events(_)
        | RespKey::Unknown => false,
    };
    let own_or_stored = |key: &AskedKey| match key {
        AskedKey::View(key) => own(key),
        AskedKey::Stored(_) => true,
    };
    match command {
        // Whether it holds the job is checked when the job is found.
        ViewCommand::Get(RespKey::Job { .. } | RespKey::Plan { .. })
        | ViewCommand::Hash { key: RespKey::Job { .. } | RespKey::Plan { .. }, .. } => Need::ReadOwn,
        ViewCommand::Get(key)
        | ViewCommand::Hash { key, .. }
        | ViewCommand::TimeToLive { key, .. }
        | ViewCommand::Type(key)
            if own(key) =>
        {
            Need::ReadOwn
        }
        ViewCommand::GetMany(keys) | ViewCommand::Exists(keys) if keys.iter().all(own_or_stored) => {
            Need::ReadOwn
        }
        ViewCommand::Set { .. } => WORK,
        ViewCommand::Get(_)
        | ViewCommand::GetMany(_)
        | ViewCommand::Hash { .. }
        | ViewCommand::Keys { .. }
        | ViewCommand::Scan(_)
        | ViewCommand::TimeToLive { .. }
        | ViewCommand::Exists(_)
        | ViewCommand::Type(_)
        | ViewCommand::Members(_)
        | ViewCommand::IsMember { .. }
        | ViewCommand::MemberCount(_) => READ,
    }
}

/// Whether a pattern may match a channel with this prefix.
fn may_begin_with(pattern: &[u8], events: &str) -> bool {
    let prefix = literal_prefix(pattern);
    prefix.starts_with(events.as_bytes()) || events.as_bytes().starts_with(prefix)
}

/// Events need more than topics, and one channel of them is enough.
fn subscribing<T: AsRef<[u8]>>(channels: &[T], act: impl Fn(&[u8]) -> TopicAct) -> Need {
    let events = channels.iter().any(|channel| act(channel.as_ref()) == TopicAct::SubscribeToEvents);
    Need::Right(if events { TopicAct::SubscribeToEvents.needs() } else { TopicAct::Subscribe.needs() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Decoder, RespLimits};

    fn need(line: &str) -> Need {
        let mut decoder = Decoder::new(RespLimits::trusted());
        decoder.feed(line.as_bytes());
        decoder.feed(b"\r\n");
        let request = decoder.next_request().expect("framing").expect("a command");
        Need::of(&Command::parse(&request).expect(line), Some("w"))
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn every_kind_of_command_needs_its_right() {
        let plan = r#"'{"plan_id":"p","tasks":[{"task_number":1,"command":"ls"}]}'"#;
        let action = r#"'{"plan_id":"p","inputs":[1]}'"#;
        let worker = r#"'{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":[]}'"#;
        let topic = Need::Right(Needs::SubmitOrWork);
        let cases: Vec<(String, Need)> = [
            ("PING", NOTHING),
            ("INFO", NOTHING),
            ("LPUSH queue:a x", SUBMIT),
            ("JOB.SUBMIT '{\"body\":\"x\"}'", SUBMIT),
            ("JOB.CANCEL j", SUBMIT),
            ("JOB.RETRY j", SUBMIT),
            ("JOB.PAUSE j", SUBMIT),
            ("JOB.RESUME j", SUBMIT),
            ("SCHEDULE.SET s '{\"when\":\"@daily\",\"job\":{\"body\":\"\"}}'", SUBMIT),
            ("SCHEDULE.DELETE s", SUBMIT),
            ("SCHEDULE.PAUSE s", SUBMIT),
            ("SCHEDULE.RESUME s", SUBMIT),
            ("SCHEDULE.RUN s", SUBMIT),
            ("SCHEDULE.GET s", READ),
            ("SCHEDULE.LIST", READ),
            ("ARRAY.SUBMIT '{\"size\":2,\"job\":{\"body\":\"\"}}'", SUBMIT),
            ("ARRAY.LIMIT a NONE", SUBMIT),
            ("ARRAY.CANCEL a", SUBMIT),
            ("ARRAY.PAUSE a TERMINATE later", SUBMIT),
            ("ARRAY.RESUME a", SUBMIT),
            ("ARRAY.RETRY a", SUBMIT),
            ("ARRAY.GET a", READ),
            ("ARRAY.LIST 5", READ),
            ("RECONCILE p '{\"apply\":true}'", SUBMIT),
            ("RECONCILE p '{\"list\":true}'", READ),
            ("PLAN.DELETE p", SUBMIT),
            ("BRPOP queue:a 1", WORK),
            ("RPOP queue:a", WORK),
            ("LREM queue:processing 1 j", WORK),
            ("JOB.UPDATE j '{\"status\":\"completed\"}'", WORK),
            ("SET job:j:status completed", WORK),
            ("SET worker:w:alive 1", WORK),
            ("WORKER.HEARTBEAT w", WORK),
            ("WORKER.UNREGISTER w", WORK),
            ("WORKER.VERIFY sort '{\"command\":\"sort\"}'", MANAGE),
            ("WORKERS.LIST", READ),
            ("LLEN queue:a", READ),
            ("LRANGE queue:a 0 -1", READ),
            ("QUEUE.PEEK a", READ),
            ("QUEUE.STATS", READ),
            ("QUEUE.THRESHOLD a DEPTH 10", MANAGE),
            ("LIMIT.SET gpu 2", MANAGE),
            ("LIMIT.DELETE gpu", MANAGE),
            ("LIMIT.LIST", READ),
            ("LIMIT.RATE gpu 10/m", MANAGE),
            ("QUEUE.RATE default NONE", MANAGE),
            ("SHARE.SET alice 3", MANAGE),
            ("SHARE.DELETE alice", MANAGE),
            ("SHARE.LIST", READ),
            ("JOB.LIST", READ),
            ("JOBS.LIST", READ),
            ("JOBS.SEARCH pending", READ),
            ("ACTION.GET a", READ),
            ("ACTION.LIST", READ),
            ("PLAN.LIST", READ),
            ("KEYS *", READ),
            ("SCAN 0", READ),
            ("MGET job:a job:b", READ),
            ("EXISTS job:a", READ),
            ("MGET job:a stored", READ),
            ("MGET worker:w:alive stored", Need::ReadOwn),
            ("EXISTS stored worker:other:alive", READ),
            ("HSET job:j field value", Need::Right(Needs::SubmitOrWork)),
            ("HDEL plan:p field", Need::Right(Needs::SubmitOrWork)),
            ("HEXISTS job:j field", Need::ReadOwn),
            ("TTL job:a:worker", READ),
            ("GET worker:other:metadata", READ),
            ("SMEMBERS capability:sort:workers", READ),
            ("XREAD STREAMS events 0", READ),
            ("XRANGE events 0 9", READ),
            ("XREAD STREAMS logs:j 0", READ),
            ("XRANGE logs:j - +", READ),
            ("XLEN logs:j", READ),
            ("SUBSCRIBE job:updates", READ),
            ("SUBSCRIBE news task.created", READ),
            ("PSUBSCRIBE *", READ),
            ("PSUBSCRIBE job:*", READ),
            ("PSUBSCRIBE t*", READ),
            ("SUBSCRIBE news", topic),
            ("PSUBSCRIBE news.*", topic),
            ("PUBLISH news x", topic),
            ("UNSUBSCRIBE", NOTHING),
            ("JOB.GET j", Need::ReadOwn),
            ("JOB.STATUS j", Need::ReadOwn),
            ("GET job:j", Need::ReadOwn),
            ("GET job:j:stdout", Need::ReadOwn),
            ("HGETALL job:j", Need::ReadOwn),
            ("GET plan:p", Need::ReadOwn),
            ("PLAN.GET p", Need::ReadOwn),
            ("GET worker:w:metadata", Need::ReadOwn),
            ("TTL worker:w:alive", Need::ReadOwn),
        ]
        .into_iter()
        .map(|(line, need)| (line.to_owned(), need))
        .chain([
            (format!("PLAN.SUBMIT {plan}"), SUBMIT),
            (format!("HSET plan:p json {plan}"), SUBMIT),
            (format!("ACTION.SUBMIT {action}"), SUBMIT),
            (format!("WORKER.REGISTER {worker}"), WORK),
        ])
        .collect();
        for (line, wanted) in &cases {
            assert_eq!(need(line), *wanted, "{line}");
        }
    }

    #[test]
    fn work_reads_its_own_and_nothing_else() {
        let (work, read) = (Rights::of(&[Right::Work]), Rights::of(&[Right::Read]));
        assert!(Need::ReadOwn.check(work).is_ok() && Need::ReadOwn.check(read).is_ok());
        assert!(Need::ReadOwn.check(Rights::of(&[Right::Submit])).is_err());
        assert!(READ.check(work).is_err() && WORK.check(read).is_err());
    }
}
