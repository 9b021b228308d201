//! KEYS and SCAN: which views there are. Only the kinds that a pattern can match are looked up.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenure_hub::words::{Answer, ListQuery, Query, StateName};
use tenure_hub::{Request, Response};

use super::names::{
    ACTIONS, PLANS, is_reserved, job_id, live_states, plan_of_name, queue_key_of, queue_name,
};
use super::pages::{list, workers};
use super::plans::held_in;
use super::refusals::refusal;
use super::render;
use crate::codec::Reply;
use crate::command::Scan;
use crate::errand::Step;
use crate::glob::{glob, literal_prefix};
use crate::key::{Key, QueueKey};

/// How many keys of one kind are listed.
const KEYS_MAX: usize = 10_000;

type Keys = BTreeSet<String>;
type ThenKeys = Box<dyn FnOnce(Keys) -> Step + Send>;

pub(super) fn keys(pattern: Bytes) -> Step {
    matching(pattern, Box::new(|keys| Step::Reply(Reply::array(keys.into_iter().map(Reply::bulk)))))
}

/// The cursor counts keys in their order; a key that comes or goes meanwhile may be seen twice or missed, as in Redis.
pub(super) fn scan(scan: Scan) -> Step {
    let Scan { cursor, pattern, count, kind } = scan;
    let pattern = pattern.unwrap_or_else(|| Bytes::from_static(b"*"));
    matching(
        pattern,
        Box::new(move |keys| {
            let of_kind = |key: &String| {
                kind.as_deref().is_none_or(|kind| Key::parse(key.as_bytes()).redis_type() == Some(kind))
            };
            let keys: Vec<String> = keys.into_iter().filter(of_kind).collect();
            let start = usize::try_from(cursor).unwrap_or(usize::MAX).min(keys.len());
            let end = start.saturating_add(count).min(keys.len());
            let next = if end == keys.len() { 0 } else { end };
            let page = keys[start..end].iter().cloned().map(Reply::bulk);
            Step::Reply(Reply::array([Reply::bulk(next.to_string()), Reply::array(page)]))
        }),
    )
}

/// Whether a queue has ever been heard of.
pub(super) fn queue_exists(queue: &QueueKey, then: impl FnOnce(bool) -> Step + Send + 'static) -> Step {
    let Some(name) = queue_name(queue) else { return then(true) };
    queues(move |names| then(names.contains(&*name)))
}

fn matching(pattern: Bytes, then: ThenKeys) -> Step {
    let prefix = literal_prefix(&pattern).to_vec();
    let may_be =
        move |kind: &str| prefix.starts_with(kind.as_bytes()) || kind.as_bytes().starts_with(&prefix);
    let wanted = ["worker:", "queue:", "plan:", "action:", "job:", "events"].map(may_be);
    let capability = wanted_capability(&pattern);
    let [worker, queue, plan, action, job, events] = wanted;
    let then: ThenKeys =
        Box::new(move |keys| then(keys.into_iter().filter(|key| glob(&pattern, key.as_bytes())).collect()));
    let mut found = Keys::new();
    if events {
        found.insert("events".to_owned());
    }
    of_workers(worker || capability, found, move |found| {
        of_queues(queue, found, move |found| {
            of_held(plan, PLANS, found, move |found| {
                of_held(action, ACTIONS, found, move |found| of_jobs(job, found, then))
            })
        })
    })
}

fn wanted_capability(pattern: &[u8]) -> bool {
    let prefix = literal_prefix(pattern);
    prefix.starts_with(b"capability:") || b"capability:".starts_with(prefix)
}

fn of_workers(wanted: bool, mut found: Keys, then: impl FnOnce(Keys) -> Step + Send + 'static) -> Step {
    if !wanted {
        return then(found);
    }
    workers(move |now, all| {
        for worker in all.iter().take(KEYS_MAX) {
            let name = &worker.worker;
            found.insert(format!("worker:{name}:metadata"));
            if !render::is_alive(worker, now) {
                continue;
            }
            found.insert(format!("worker:{name}:alive"));
            found.insert(format!("worker:{name}:tools"));
            if render::figure(worker, "stats").is_some() {
                found.insert(format!("worker:{name}:stats"));
            }
            for offer in worker.capabilities.iter().filter(|offer| !offer.starts_with("worker=")) {
                found.insert(format!("capability:{offer}:workers"));
            }
        }
        then(found)
    })
}

fn of_queues(wanted: bool, mut found: Keys, then: impl FnOnce(Keys) -> Step + Send + 'static) -> Step {
    if !wanted {
        return then(found);
    }
    queues(move |names| {
        found.extend(names.iter().take(KEYS_MAX).map(|name| queue_key_of(name)));
        then(found)
    })
}

fn of_held(
    wanted: bool,
    queue: &'static str,
    mut found: Keys,
    then: impl FnOnce(Keys) -> Step + Send + 'static,
) -> Step {
    if !wanted {
        return then(found);
    }
    list(
        held_in(queue),
        KEYS_MAX,
        |_| true,
        move |_, tasks| {
            for name in tasks.iter().filter_map(|task| task.name.as_deref()) {
                found.insert(match plan_of_name(name) {
                    Some(plan) => format!("plan:{plan}"),
                    None => name.to_owned(),
                });
            }
            then(found)
        },
    )
}

fn of_jobs(wanted: bool, mut found: Keys, then: ThenKeys) -> Step {
    if !wanted {
        return then(found);
    }
    let states: Vec<StateName> = live_states();
    let query = ListQuery { states, ..ListQuery::default() };
    list(
        query,
        KEYS_MAX,
        |task| !is_reserved(&task.terms.queue),
        move |_, tasks| {
            found.extend(tasks.iter().map(|task| format!("job:{}", job_id(task))));
            then(found)
        },
    )
}

fn queues(then: impl FnOnce(BTreeSet<String>) -> Step + Send + 'static) -> Step {
    Step::ask(Request::Query(Query::Queues), move |_, outcome| match outcome {
        Ok(Response::Answer(Answer::Queues(queues))) => {
            let names = queues.iter().filter(|queue| !is_reserved(&queue.queue));
            then(names.map(|queue| queue.queue.to_string()).collect())
        }
        Ok(_) => Step::error("ERR unexpected answer"),
        Err(reason) => Step::Reply(refusal(&reason)),
    })
}
