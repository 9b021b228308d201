//! What needs a person: lost and quarantined workers, queues that no worker serves, hooks that gave up, a full disk.

use maud::{Markup, html};
use tenure_hub::words::{PresenceName, QueueInfo, StateName, Timestamp, WorkerInfo};
use tenure_hub::{HookInfo, Stats};

use super::format::{ago, bytes, counted, escaped, since};

/// How many of a kind are named.
const NAMED_MAX: usize = 5;
/// Below this much space the disk is mentioned.
const DISK_LOW_BYTES: u64 = 1 << 30;

pub(super) fn list(
    workers: &[WorkerInfo],
    queues: &[QueueInfo],
    hooks: &[HookInfo],
    stats: &Stats,
    now: Timestamp,
) -> Markup {
    let mut items: Vec<(&str, Markup)> = Vec::new();
    if stats.disk_full {
        items.push(("bad", html! { strong { "The disk is full." } " The broker accepts no new tasks." }));
    } else if let Some(free) = stats.disk_free_bytes.filter(|free| *free < DISK_LOW_BYTES) {
        items.push(("warn", html! { strong { (bytes(free)) " are left" } " on the disk." }));
    }
    let lost = workers.iter().filter(|worker| worker.presence == PresenceName::Lost);
    named(&mut items, lost, "lost worker", "lost workers", |worker| {
        let html = html! {
            "Worker " a href={ "/workers/" (escaped(&worker.worker)) } { (worker.worker) } " is lost, last seen "
            (ago(worker.last_seen, now)) ". It holds " (counted(worker.held.len() as u64, "task", "tasks")) "."
        };
        ("bad", html)
    });
    let quarantined =
        workers.iter().filter(|worker| worker.quarantined_until.is_some_and(|until| until > now));
    named(&mut items, quarantined, "worker in quarantine", "workers in quarantine", |worker| {
        let html = html! {
            "Worker " a href={ "/workers/" (escaped(&worker.worker)) } { (worker.worker) }
            " is in quarantine after " (counted(u64::from(worker.crashes), "crash", "crashes")) "."
        };
        ("bad", html)
    });
    let waiting = |queue: &QueueInfo| queue.counts[StateName::Ready as usize];
    let is_unserved = |queue: &QueueInfo| queue.live_workers == 0 && waiting(queue) > 0 && !queue.paused;
    let unserved = queues.iter().filter(|queue| is_unserved(queue));
    named(&mut items, unserved, "queue without a worker", "queues without a worker", |queue| {
        let html = html! {
            "Queue " a href={ "/queues/" (escaped(&queue.queue)) } { (queue.queue) } " has "
            (counted(waiting(queue), "ready task", "ready tasks")) " and no live worker"
            @if let Some(at) = queue.unserved_since { " for " (since(at, now)) } "."
        };
        ("warn", html)
    });
    // A queue without a worker is in the list already.
    let is_behind = |queue: &&QueueInfo| (queue.passed.depth || queue.passed.age) && !is_unserved(queue);
    let behind = queues.iter().filter(is_behind);
    named(&mut items, behind, "queue with a backlog", "queues with a backlog", |queue| {
        let html = html! {
            "Queue " a href={ "/queues/" (escaped(&queue.queue)) } { (queue.queue) } " has a backlog: "
            (counted(waiting(queue), "ready task", "ready tasks")) "."
        };
        ("warn", html)
    });
    let given_up = hooks.iter().filter(|hook| hook.undelivered > 0);
    named(&mut items, given_up, "hook with undelivered events", "hooks with undelivered events", |hook| {
        let html = html! {
            "Hook " a href="/hooks" { (hook.about.name) } " has given up "
            (counted(hook.undelivered as u64, "event", "events")) "."
        };
        ("bad", html)
    });
    html! {
        section.attention aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            @if items.is_empty() { p.calm { "Nothing. All workers answer, and every queue with tasks has one." } }
            @else { ul { @for (level, item) in items { li data-level=(level) { (item) } } } }
        }
    }
}

/// Names some, and counts the others.
fn named<'a, T: 'a>(
    items: &mut Vec<(&'static str, Markup)>,
    all: impl Iterator<Item = &'a T>,
    one: &str,
    many: &str,
    item: impl Fn(&'a T) -> (&'static str, Markup),
) {
    let mut all = all;
    items.extend(all.by_ref().take(NAMED_MAX).map(item));
    let rest = all.count() as u64;
    if rest > 0 {
        items.push(("plain", html! { "and " (counted(rest, one, many)) " more" }));
    }
}
