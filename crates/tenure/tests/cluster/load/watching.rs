//! A watcher that goes on through every fault: each event has the number after the one before, and says the same to
//! a later watcher.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_client::{EventKind, TaskId, Watch, Watched, Watcher};

use super::{ExpectedState, SETTLES_WITHIN, connect};

/// What an event has said: its kind, its task and its attempt.
pub(super) type Said = (String, Option<TaskId>, u32);

pub(super) async fn watch(addresses: String, expected: Arc<Mutex<ExpectedState>>, is_over: Arc<AtomicBool>) {
    let mut watcher = begin(&addresses).await;
    while !is_over.load(Ordering::Acquire) {
        let Ok(next) = tokio::time::timeout(Duration::from_millis(100), watcher.next()).await else {
            continue;
        };
        match next.expect("the watch goes on").expect("it is read") {
            Watched::Event(event) => {
                let events = &mut expected.lock().expect("no panic").events;
                if let Some((last, _)) = events.last_key_value() {
                    assert_eq!(event.seq, last + 1, "the numbers of events have no hole");
                }
                events.insert(event.seq, (event.kind.to_string(), event.task, event.attempt));
            }
            Watched::Gap { from, to } => panic!("the events {from} to {to} are missing"),
        }
    }
}

/// Reads all events again: those that were seen are the same, every acknowledged task has some, and every attempt that
/// has begun was assigned.
pub(super) async fn compare(
    addresses: &str,
    seen: &BTreeMap<u64, Said>,
    accepted: &[(TaskId, bool)],
    expected: &Mutex<ExpectedState>,
) {
    let mut left: BTreeSet<TaskId> = accepted.iter().map(|(task, _)| *task).collect();
    let mut begun = expected.lock().expect("no panic").attempts.clone();
    let last = seen.keys().next_back().copied().unwrap_or(0);
    let mut watcher = begin(addresses).await;
    let since = Instant::now();
    while !left.is_empty() || !begun.is_empty() || watcher.position() <= last {
        let waited = since.elapsed();
        assert!(
            waited < SETTLES_WITHIN,
            "{} acknowledged tasks have no event; these attempts have begun and were not assigned: {begun:?}",
            left.len()
        );
        let Ok(next) = tokio::time::timeout(Duration::from_secs(1), watcher.next()).await else { continue };
        match next.expect("the watch goes on").expect("it is read") {
            Watched::Event(event) => {
                let said = (event.kind.to_string(), event.task, event.attempt);
                if let Some(before) = seen.get(&event.seq) {
                    assert_eq!(*before, said, "the event {} was another one", event.seq);
                }
                if let Some(task) = event.task {
                    left.remove(&task);
                    if event.kind == EventKind::Assigned {
                        begun.remove(&(task, event.attempt));
                    }
                }
            }
            // A long run exceeds what a broker keeps.
            Watched::Gap { from, to } => {
                println!("the events {from} to {to} are no longer kept");
                return;
            }
        }
    }
}

async fn begin(addresses: &str) -> Watcher {
    let since = Instant::now();
    loop {
        let client = connect(addresses).await;
        match client.watch(Watch::default().from(1)).await {
            Ok(watcher) => return watcher,
            Err(error) => assert!(since.elapsed() < SETTLES_WITHIN, "no watch begins: {error}"),
        }
    }
}
