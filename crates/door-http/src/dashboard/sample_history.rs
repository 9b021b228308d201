//! The broker's figures once a second, kept for some minutes, so that a chart has a past when it is opened. Nothing is
//! measured while no dashboard is open. A key that is bound to a namespace gets the figures of that namespace.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_hub::words::{Answer, DEFAULT_NAMESPACE, Name, Query, StateName};
use tenure_hub::{Grant, HubHandle, HubRefusal, Principal, Right, Rights, Session, Stats, wall_clock};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::codec::sse;
use crate::problem::ProblemDetails;
use crate::session::{HubAccess, ask_stats};
use crate::translate;

const INTERVAL: Duration = Duration::from_secs(1);
/// How many samples are kept: ten minutes.
const SAMPLES_MAX: usize = 600;
/// How many samples are taken after the last listener has left, for a viewer that comes back.
const UNWATCHED_MAX: u32 = 600;

/// Figures of the whole broker or of a namespace at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    number: u64,
    at: u64,
    submitted: u64,
    completed: u64,
    failed: u64,
    crashed: u64,
    ready: u64,
    running: u64,
}

impl Sample {
    fn of(number: u64, at: u64, stats: &Stats) -> Sample {
        let in_state = |state: StateName| stats.gauges.by_state[state as usize];
        Sample {
            number,
            at,
            submitted: stats.submitted_total,
            completed: stats.completed_total,
            failed: stats.failed_total,
            crashed: stats.crashes_total.iter().sum(),
            ready: in_state(StateName::Ready),
            running: in_state(StateName::Running) + in_state(StateName::Assigned),
        }
    }

    fn json(&self) -> Value {
        json!({
            "at": self.at, "submitted": self.submitted, "completed": self.completed, "failed": self.failed,
            "crashed": self.crashed, "ready": self.ready, "running": self.running,
        })
    }
}

/// The samples of one door: of the whole broker, and of each namespace to which a key with an open page is bound.
#[derive(Debug, Default)]
pub(crate) struct SampleTable {
    whole: Arc<SampleHistory>,
    of_namespaces: Mutex<HashMap<Name, Arc<SampleHistory>>>,
}

impl SampleTable {
    /// The samples that a key may see.
    pub(super) fn of(&self, grant: &Grant) -> Arc<SampleHistory> {
        let Some(namespace) = &grant.namespace else { return Arc::clone(&self.whole) };
        let mut all = self.of_namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are no longer measured have no page.
        all.retain(|_, history| history.lock().is_measuring);
        let history = all.entry(namespace.clone()).or_insert_with(|| {
            Arc::new(SampleHistory { namespace: Some(namespace.clone()), ..SampleHistory::default() })
        });
        Arc::clone(history)
    }
}

/// The samples of the broker or of a namespace.
#[derive(Debug)]
pub(crate) struct SampleHistory {
    /// `None`: the whole broker.
    namespace: Option<Name>,
    kept: Mutex<Kept>,
    /// The number of the latest sample.
    latest: watch::Sender<u64>,
    /// What all pages of a namespace get with the latest sample.
    shared: tokio::sync::Mutex<HashMap<Name, SharedSamples>>,
}

/// The counts of a namespace with one sample, encoded.
#[derive(Clone, Debug)]
struct SharedSamples {
    number: u64,
    counts: Value,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Sample>,
    is_measuring: bool,
}

impl Default for SampleHistory {
    fn default() -> SampleHistory {
        SampleHistory {
            namespace: None,
            kept: Mutex::default(),
            latest: watch::channel(0).0,
            shared: tokio::sync::Mutex::default(),
        }
    }
}

impl SampleHistory {
    /// Listens to new samples. The first listener starts the measuring.
    pub(super) fn listen(self: &Arc<SampleHistory>, hub: &HubHandle) -> watch::Receiver<u64> {
        let listener = self.latest.subscribe();
        let mut kept = self.lock();
        if !kept.is_measuring {
            kept.is_measuring = true;
            tokio::spawn(Arc::clone(self).measure(hub.clone()));
        }
        listener
    }

    /// The counts of the namespace and the samples after this one, as they stand in the stream, and the number of the
    /// latest sample. However many pages are open, the hub counts a namespace once for each sample.
    pub(super) async fn part(
        &self,
        namespace: &Name,
        sent: u64,
        hub: &mut HubAccess,
    ) -> Result<(Bytes, u64), ProblemDetails> {
        let mut shared = self.shared.lock().await;
        let number = *self.latest.borrow();
        if shared.get(namespace).is_none_or(|shared| shared.number != number) {
            let Answer::Counts(counts) = hub.query(Query::Counts).await? else {
                return Err(ProblemDetails::unexpected());
            };
            // A namespace without a page is forgotten.
            shared.retain(|_, shared| shared.number + 1 >= number);
            let counts = translate::counts(&counts);
            let bytes = encoded(&counts, &self.between(number.saturating_sub(1), number));
            shared.insert(namespace.clone(), SharedSamples { number, counts, bytes });
        }
        let of_namespace = shared.get(namespace).ok_or_else(ProblemDetails::unexpected)?;
        let bytes = match sent + 1 == number {
            true => of_namespace.bytes.clone(),
            false => encoded(&of_namespace.counts, &self.between(sent, number)),
        };
        Ok((bytes, number))
    }

    fn between(&self, after: u64, last: u64) -> Vec<Sample> {
        let mut samples = self.after(after);
        samples.retain(|sample| sample.number <= last);
        samples
    }

    /// The samples after this one.
    fn after(&self, number: u64) -> Vec<Sample> {
        self.lock().samples.iter().filter(|sample| sample.number > number).copied().collect()
    }

    async fn measure(self: Arc<SampleHistory>, hub: HubHandle) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        if let Ok(session) = self.session(&hub) {
            let mut unwatched = 0;
            while unwatched < UNWATCHED_MAX {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = hub.stopped() => break,
                }
                let Some(stats) = ask_stats(&session).await else { break };
                unwatched = if self.latest.receiver_count() == 0 { unwatched + 1 } else { 0 };
                self.put(&stats);
            }
        }
        // A listener may have come meanwhile; it starts the measuring again when it connects again.
        self.lock().is_measuring = false;
    }

    /// A session of the door itself, which sees no more than the listeners may.
    fn session(&self, hub: &HubHandle) -> Result<Session, HubRefusal> {
        let mut principal = Principal::trusted("http");
        if let Some(namespace) = &self.namespace {
            let rights = Rights::of(&[Right::Read]);
            let namespace = Some(namespace.clone());
            principal.grant = Arc::new(Grant { namespace, rights, ..Grant::everything() });
        }
        let namespace = self.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.into());
        hub.open(principal, namespace, "dashboard".into())
    }

    fn put(&self, stats: &Stats) {
        let mut kept = self.lock();
        let number = kept.samples.back().map_or(1, |sample| sample.number + 1);
        if kept.samples.len() == SAMPLES_MAX {
            kept.samples.pop_front();
        }
        kept.samples.push_back(Sample::of(number, wall_clock().0, stats));
        self.latest.send_replace(number);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Pushing and reading cannot stop half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn encoded(counts: &Value, samples: &[Sample]) -> Bytes {
    let samples: Vec<Value> = samples.iter().map(Sample::json).collect();
    let mut out = String::new();
    sse::append(&mut out, Some("samples"), None, &json!({ "counts": counts, "samples": samples }));
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_minutes_are_kept_and_numbered() {
        let samples = SampleHistory::default();
        for submitted_total in 0..SAMPLES_MAX as u64 + 5 {
            samples.put(&Stats { submitted_total, ..Stats::default() });
        }
        let all = samples.after(0);
        assert_eq!((all.len(), all[0].number, all[0].submitted), (SAMPLES_MAX, 6, 5));
        assert_eq!(samples.after(all[0].number + 1).len(), SAMPLES_MAX - 2);
        assert_eq!(samples.after(u64::MAX), []);
    }

    #[test]
    fn a_key_that_is_bound_to_a_namespace_has_samples_of_its_own() {
        let table = SampleTable::default();
        let lab = Grant { namespace: Some("lab".into()), ..Grant::everything() };
        let other = Grant { namespace: Some("other".into()), ..Grant::everything() };
        let whole = table.of(&Grant::everything());
        whole.put(&Stats { submitted_total: 7, ..Stats::default() });
        let of_lab = table.of(&lab);
        assert_eq!((of_lab.after(0), whole.after(0).len()), (Vec::new(), 1));
        assert_eq!(of_lab.namespace.as_deref(), Some("lab"));
        of_lab.lock().is_measuring = true;
        assert!(Arc::ptr_eq(&of_lab, &table.of(&lab)), "all pages of a namespace share them");
        assert!(!Arc::ptr_eq(&of_lab, &table.of(&other)));
        assert!(Arc::ptr_eq(&whole, &table.of(&Grant::everything())));
    }
}
