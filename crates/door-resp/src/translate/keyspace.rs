//! KEYS and SCAN: lists the views. Both walk the broker's tables in slices, and only tables that a pattern can match.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_hub::words::{Answer, Name, Query, TaskInfo, Timestamp, WorkerInfo};
use tenure_hub::{HubRefusal, Request, Response};

use super::lookup::{PAGE, one_queue};
use super::names::{ACTIONS, PLANS, is_reserved, job_id, plan_of_recipe, queue_key_of, queue_name};
use super::refusals::refusal;
use super::render;
use super::views::AfterIsThere;
use crate::codec::Reply;
use crate::command::ScanOptions;
use crate::flow::{CommandFlow, FlowOutcome, FlowStep, Input, OTHER_KIND};
use crate::glob::{glob, literal_prefix};
use crate::key::{RespKey, RespQueueKey};

/// How many keys KEYS returns. With more, the error tells the client to use SCAN.
const KEYS_MAX: usize = 100_000;

/// The state of a walk over keys.
#[derive(Debug)]
pub(crate) enum KeyspaceFlow {
    Walking(At, AfterSlice),
    /// Checks whether the broker knows a queue.
    FindingQueue(Name, AfterIsThere),
}

impl KeyspaceFlow {
    pub(crate) fn resume(self, now: Timestamp, input: Input) -> FlowStep {
        match self {
            Self::Walking(at, then) => match at.keys(now, input.answer()) {
                Ok((keys, next)) => then.go(keys, next),
                Err(reason) => FlowStep::Reply(refusal(&reason)),
            },
            Self::FindingQueue(name, then) => match one_queue(input.answer()) {
                Ok(found) => then.go(found.is_some() && !is_reserved(&name)),
                Err(reason) => FlowStep::Reply(refusal(&reason)),
            },
        }
    }
}

/// What to do with a slice of keys.
#[derive(Debug)]
pub(crate) enum AfterSlice {
    Keys(WantedKeys, BTreeSet<String>),
    Scan(WantedKeys),
}

impl AfterSlice {
    fn go(self, found: Vec<String>, next: Option<At>) -> FlowStep {
        match self {
            Self::Keys(wanted, mut keys) => {
                keys.extend(found.into_iter().filter(|key| wanted.key(key)));
                if keys.len() > KEYS_MAX {
                    return FlowStep::error(format!("ERR more than {KEYS_MAX} keys match, use SCAN"));
                }
                match next.and_then(|next| wanted.onwards(next)) {
                    Some(next) => slice(next, PAGE, Self::Keys(wanted, keys)),
                    None => FlowStep::Reply(Reply::array(keys.into_iter().map(Reply::bulk))),
                }
            }
            Self::Scan(wanted) => {
                // A capability has many workers; within a slice it appears once.
                let found: BTreeSet<String> = found.into_iter().filter(|key| wanted.key(key)).collect();
                let next = next.and_then(|next| wanted.onwards(next));
                FlowStep::Reply(scanned(next, found.into_iter().collect()))
            }
        }
    }
}

pub(super) fn keys(pattern: Bytes) -> FlowStep {
    let wanted = WantedKeys { pattern, kind: None };
    match wanted.first() {
        Some(at) => slice(at, PAGE, AfterSlice::Keys(wanted, BTreeSet::new())),
        None => FlowStep::Reply(Reply::Array(Vec::new())),
    }
}

/// The cursor is a position in a table. Entries keep their positions, so an entry that exists throughout is seen.
pub(super) fn scan(scan: ScanOptions) -> FlowStep {
    let ScanOptions { cursor, pattern, count, kind } = scan;
    let wanted = WantedKeys { pattern: pattern.unwrap_or_else(|| Bytes::from_static(b"*")), kind };
    match At::from_cursor(cursor).and_then(|at| wanted.onwards(at)) {
        Some(at) => slice(at, count, AfterSlice::Scan(wanted)),
        None => FlowStep::Reply(scanned(None, Vec::new())),
    }
}

/// Whether the broker has ever heard of a queue.
pub(super) fn queue_exists(queue: &RespQueueKey, then: AfterIsThere) -> FlowStep {
    let Some(name) = queue_name(queue) else { return then.go(true) };
    let query = Query::Queue { queue: name.clone() };
    FlowStep::Ask(Request::Query(query), CommandFlow::Keyspace(KeyspaceFlow::FindingQueue(name, then)))
}

fn scanned(next: Option<At>, keys: Vec<String>) -> Reply {
    let cursor = next.map_or(0, At::cursor).to_string();
    Reply::array([Reply::bulk(cursor), Reply::array(keys.into_iter().map(Reply::bulk))])
}

/// The position of a walk over all keys: a table, and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    table: Table,
    place: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Table {
    /// Queues by their names, after the event log.
    Queues,
    /// Workers and what they offer.
    Workers,
    /// Jobs, plans and actions.
    Tasks,
}

impl Table {
    const ALL: [Self; 3] = [Self::Queues, Self::Workers, Self::Tasks];

    /// How keys in it begin.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Queues => &["queue:", "events"],
            Self::Workers => &["worker:", "capability:"],
            Self::Tasks => &["job:", "plan:", "action:"],
        }
    }
}

impl At {
    /// Cursors stay small: some clients store them as floating-point numbers.
    fn cursor(self) -> u64 {
        (self.table as u64) << 32 | u64::from(self.place)
    }

    fn from_cursor(cursor: u64) -> Option<Self> {
        let table = *Table::ALL.get(usize::try_from(cursor >> 32).ok()?)?;
        Some(Self { table, place: cursor as u32 })
    }

    /// The keys of what was found here, and where to go on.
    fn keys(self, now: Timestamp, outcome: FlowOutcome) -> Result<(Vec<String>, Option<At>), HubRefusal> {
        let Self { table, place } = self;
        let (keys, next) = match outcome {
            // The broker returns all queues at once, so a slice of them may exceed the requested count.
            Ok(Response::Answer(Answer::Queues(queues))) => {
                let names = queues.iter().filter(|queue| !is_reserved(&queue.queue));
                let mut names = names.skip(place as usize).map(|queue| queue_key_of(&queue.queue));
                let mut keys: Vec<String> = names.by_ref().take(PAGE).collect();
                let next = names.next().is_some().then(|| place.saturating_add(PAGE as u32));
                if place == 0 {
                    keys.push("events".to_owned());
                }
                (keys, next)
            }
            Ok(Response::Answer(Answer::ScannedWorkers { workers, next })) => {
                (workers.iter().flat_map(|worker| of_worker(worker, now)).collect(), next)
            }
            Ok(Response::Answer(Answer::ScannedTasks { tasks, next })) => {
                (tasks.iter().filter_map(of_task).collect(), next)
            }
            other => return Err(other.err().unwrap_or(OTHER_KIND)),
        };
        let next = match next {
            Some(place) => Some(At { table, place }),
            None => Table::ALL.into_iter().find(|later| *later > table).map(|table| At { table, place: 0 }),
        };
        Ok((keys, next))
    }
}

/// Which keys are looked for.
#[derive(Debug)]
pub(crate) struct WantedKeys {
    pattern: Bytes,
    kind: Option<String>,
}

impl WantedKeys {
    fn first(&self) -> Option<At> {
        self.onwards(At { table: Table::Queues, place: 0 })
    }

    /// This position, or the start of the next table that may match.
    fn onwards(&self, at: At) -> Option<At> {
        if self.table(at.table) {
            return Some(at);
        }
        let later = Table::ALL.into_iter().find(|table| *table > at.table && self.table(*table));
        later.map(|table| At { table, place: 0 })
    }

    fn table(&self, table: Table) -> bool {
        let prefix = literal_prefix(&self.pattern);
        let fits = |kind: &&str| prefix.starts_with(kind.as_bytes()) || kind.as_bytes().starts_with(prefix);
        table.prefixes().iter().any(fits)
    }

    fn key(&self, key: &str) -> bool {
        let of_kind = |kind: &str| RespKey::parse(key.as_bytes()).redis_type() == Some(kind);
        glob(&self.pattern, key.as_bytes()) && self.kind.as_deref().is_none_or(of_kind)
    }
}

/// Requests this many entries from a position on.
fn slice(at: At, count: usize, then: AfterSlice) -> FlowStep {
    let At { table, place } = at;
    let query = match table {
        Table::Queues => Query::Queues,
        Table::Workers => Query::ScanWorkers { from: place, limit: count.min(PAGE) },
        Table::Tasks => Query::ScanTasks { from: place, limit: count.min(PAGE) },
    };
    FlowStep::Ask(Request::Query(query), CommandFlow::Keyspace(KeyspaceFlow::Walking(at, then)))
}

fn of_worker(worker: &WorkerInfo, now: Timestamp) -> Vec<String> {
    let name = &worker.worker;
    let mut keys = vec![format!("worker:{name}:metadata")];
    if render::is_alive(worker, now) {
        keys.push(format!("worker:{name}:alive"));
        keys.push(format!("worker:{name}:tools"));
        if render::figure(worker, "stats").is_some() {
            keys.push(format!("worker:{name}:stats"));
        }
        let offers = worker.capabilities.iter().filter(|offer| !offer.starts_with("worker="));
        keys.extend(offers.map(|offer| format!("capability:{offer}:workers")));
    }
    keys
}

fn of_task(task: &TaskInfo) -> Option<String> {
    if task.state.name().has_ended() {
        return None;
    }
    match &*task.terms.queue {
        PLANS => plan_of_recipe(task.name.as_deref()?).map(|plan| format!("plan:{plan}")),
        ACTIONS => task.name.as_deref().filter(|_| task.children > 0).map(str::to_owned),
        _ => Some(format!("job:{}", job_id(task))),
    }
}
