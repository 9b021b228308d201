//! The broker's figures once a second, kept for some minutes, so that a chart has a past when it is opened. Nothing is
//! measured while no dashboard is open.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_hub::words::{DEFAULT_NAMESPACE, StateName};
use tenure_hub::{Ask, Delivery, HubHandle, Principal, Request, Response, Session, Stats, wall_clock};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

const INTERVAL: Duration = Duration::from_secs(1);
/// How many samples are kept: ten minutes.
const SAMPLES_MAX: usize = 600;
/// How many samples are taken after the last listener has left, for a viewer that comes back.
const UNWATCHED_MAX: u32 = 600;

/// Figures of the whole broker at one moment.
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

    pub(super) fn json(&self) -> Value {
        json!({
            "at": self.at, "submitted": self.submitted, "completed": self.completed, "failed": self.failed,
            "crashed": self.crashed, "ready": self.ready, "running": self.running,
        })
    }
}

/// The samples of one door.
#[derive(Debug)]
pub(crate) struct Pulse {
    kept: Mutex<Kept>,
    /// The number of the latest sample.
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    samples: VecDeque<Sample>,
    is_measuring: bool,
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse { kept: Mutex::default(), latest: watch::channel(0).0 }
    }
}

impl Pulse {
    /// Listens to new samples. The first listener starts the measuring.
    pub(super) fn listen(self: &Arc<Pulse>, hub: &HubHandle) -> watch::Receiver<u64> {
        let listener = self.latest.subscribe();
        let mut kept = self.lock();
        if !kept.is_measuring {
            kept.is_measuring = true;
            tokio::spawn(Arc::clone(self).measure(hub.clone()));
        }
        listener
    }

    /// The samples after this one.
    pub(super) fn after(&self, number: u64) -> Vec<Sample> {
        self.lock().samples.iter().filter(|sample| sample.number > number).copied().collect()
    }

    async fn measure(self: Arc<Pulse>, hub: HubHandle) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (namespace, identity) = (DEFAULT_NAMESPACE.into(), "dashboard".into());
        if let Ok(session) = hub.open(Principal::trusted("http"), namespace, identity) {
            let mut unwatched = 0;
            while unwatched < UNWATCHED_MAX {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = hub.stopped() => break,
                }
                let Some(stats) = ask(&session).await else { break };
                unwatched = if self.latest.receiver_count() == 0 { unwatched + 1 } else { 0 };
                self.put(&stats);
            }
        }
        // A listener may have come meanwhile; it starts the measuring again when it connects anew.
        self.lock().is_measuring = false;
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

/// The broker's figures, unless it stops.
async fn ask(session: &Session) -> Option<Box<Stats>> {
    session.send(vec![Ask { token: 0, request: Request::Stats }]).await.ok()?;
    let mut arrived = Vec::new();
    loop {
        session.mailbox().arrived().await;
        let is_closed = session.mailbox().is_closed();
        session.mailbox().take(&mut arrived);
        for delivery in arrived.drain(..) {
            match delivery {
                Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } => return Some(stats),
                Delivery::Reply { .. } | Delivery::Goodbye | Delivery::Ended(_) => return None,
                // This session has asked for nothing else.
                Delivery::Notice(_)
                | Delivery::Event { .. }
                | Delivery::Gap { .. }
                | Delivery::Live { .. }
                | Delivery::Call { .. }
                | Delivery::CallAnswered { .. }
                | Delivery::CallGivenUp { .. }
                | Delivery::Broadcast(_) => {}
            }
        }
        if is_closed {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_minutes_are_kept_and_numbered() {
        let pulse = Pulse::default();
        for submitted_total in 0..SAMPLES_MAX as u64 + 5 {
            pulse.put(&Stats { submitted_total, ..Stats::default() });
        }
        let all = pulse.after(0);
        assert_eq!((all.len(), all[0].number, all[0].submitted), (SAMPLES_MAX, 6, 5));
        assert_eq!(pulse.after(all[0].number + 1).len(), SAMPLES_MAX - 2);
        assert_eq!(pulse.after(u64::MAX), []);
    }
}
