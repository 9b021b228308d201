//! Hooks, as the doors see them: where notices leave the broker, how far each has come, and what could not be
//! delivered. The part that delivers is elsewhere; it reports here, and takes from here what shall be sent again.

mod cursor;
mod file;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_engine::{Name, Refusal, Timestamp};
use tokio::sync::Notify;

use crate::refusal::HubRefusal;

pub use cursor::HookCursor;

/// How many undelivered events a hook keeps, and how many bytes of them. The oldest make room.
const UNDELIVERED_MAX: usize = 1_000;
const UNDELIVERED_BYTES_MAX: usize = 2 << 20;

/// All hooks of the broker. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    all: Arc<Mutex<Vec<Arc<HookProgress>>>>,
}

impl Hooks {
    /// Replaces the hooks, after a start or a reload.
    pub fn set(&self, hooks: Vec<Arc<HookProgress>>) {
        *lock(&self.all) = hooks;
    }

    /// The hooks of a namespace.
    pub fn list(&self, namespace: &Name) -> Vec<HookInfo> {
        lock(&self.all)
            .iter()
            .filter(|hook| hook.about.namespace == *namespace)
            .map(|hook| hook.info())
            .collect()
    }

    /// The figures of all hooks.
    pub fn figures(&self) -> Vec<HookInfo> {
        lock(&self.all).iter().map(|hook| hook.info()).collect()
    }

    /// The events that a hook could not deliver, oldest first.
    pub fn undelivered(&self, namespace: &Name, hook: &Name) -> Result<Vec<Undelivered>, HubRefusal> {
        Ok(self.find(namespace, hook)?.state().undelivered.iter().cloned().collect())
    }

    /// Sends one undelivered event again, or all of them. Returns how many.
    pub fn redeliver(&self, namespace: &Name, hook: &Name, seq: Option<u64>) -> Result<usize, HubRefusal> {
        let hook = self.find(namespace, hook)?;
        let mut state = hook.state();
        let mut count = 0;
        for undelivered in &mut state.undelivered {
            if seq.is_none_or(|seq| undelivered.seq == seq) {
                count += 1;
                undelivered.is_due = true;
            }
        }
        drop(state);
        if seq.is_some() && count == 0 {
            return Err(Refusal::BadValue {
                what: "event",
                why: "is not among the undelivered events of the hook",
            }
            .into());
        }
        hook.due.notify_one();
        Ok(count)
    }

    fn find(&self, namespace: &Name, hook: &Name) -> Result<Arc<HookProgress>, HubRefusal> {
        let all = lock(&self.all);
        let found = all.iter().find(|known| known.about.name == *hook && known.about.namespace == *namespace);
        found.cloned().ok_or_else(|| HubRefusal::UnknownHook { hook: hook.clone() })
    }
}

/// The description of a hook, without its secret.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAbout {
    pub name: Name,
    pub namespace: Name,
    pub kind: HookKind,
    /// The address without user, password and query, or the program.
    pub target: Box<str>,
    /// Empty: all kinds.
    pub events: Vec<Name>,
    /// Empty: all queues.
    pub queues: Vec<Name>,
}

/// How a hook delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// It posts to an address.
    Webhook,
    /// It starts a program.
    Command,
}

impl HookKind {
    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            HookKind::Webhook => "webhook",
            HookKind::Command => "command",
        }
    }
}

/// A hook, and how it fares.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookInfo {
    pub about: HookAbout,
    /// All events before this one are delivered, or are among the undelivered ones.
    pub next_event: u64,
    pub counts: HookCounts,
    pub in_flight: usize,
    pub undelivered: usize,
    pub last_delivered_at: Option<Timestamp>,
    /// Why the last attempt failed, until one succeeds.
    pub last_error: Option<Box<str>>,
}

/// Counts since the start of the broker.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookCounts {
    pub delivered: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Events that were given up.
    pub given_up: u64,
    /// Events that the broker no longer kept when the hook wanted them.
    pub missed: u64,
    /// Undelivered events that made room for newer ones.
    pub discarded: u64,
}

/// An event that a hook has given up.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    pub seq: u64,
    pub kind: Box<str>,
    pub given_up_at: Timestamp,
    pub attempts: u32,
    pub error: Box<str>,
    pub body: Bytes,
    /// It is sent again.
    pub is_due: bool,
}

/// The state of the deliveries of one hook. The part that delivers writes it; doors read it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Debug)]
pub struct HookProgress {
    pub about: HookAbout,
    state: Mutex<HookState>,
    due: Notify,
}

#[derive(Debug, Default)]
struct HookState {
    next_event: u64,
    counts: HookCounts,
    in_flight: usize,
    undelivered: VecDeque<Undelivered>,
    undelivered_bytes: usize,
    last_delivered_at: Option<Timestamp>,
    last_error: Option<Box<str>>,
}

impl HookProgress {
    /// The state of a hook that has delivered nothing.
    pub fn new(about: HookAbout) -> HookProgress {
        HookProgress { about, state: Mutex::default(), due: Notify::new() }
    }

    /// Takes over the progress that an earlier broker saved.
    fn restore(&self, next_event: u64, undelivered: Vec<Undelivered>) {
        let mut state = self.state();
        state.next_event = next_event;
        for one in undelivered {
            state.keep(one);
        }
    }

    /// The next event that it reads.
    pub fn next_event(&self) -> u64 {
        self.state().next_event
    }

    /// Moves on to this event.
    pub fn advance(&self, next_event: u64) {
        self.state().next_event = next_event;
    }

    /// Says how many deliveries are on their way.
    pub fn set_in_flight(&self, in_flight: usize) {
        self.state().in_flight = in_flight;
    }

    /// Counts a delivered event.
    pub fn delivered(&self, now: Timestamp) {
        let mut state = self.state();
        state.counts.delivered += 1;
        state.last_delivered_at = Some(now);
        state.last_error = None;
    }

    /// Counts a failed attempt.
    pub fn attempt_failed(&self, error: &str) {
        let mut state = self.state();
        state.counts.failed_attempts += 1;
        state.last_error = Some(error.into());
    }

    /// Counts events that the log no longer has.
    pub fn missed(&self, events: u64) {
        self.state().counts.missed += events;
    }

    /// Keeps an event that was given up, or replaces it.
    pub fn give_up(&self, undelivered: Undelivered) {
        let mut state = self.state();
        state.counts.given_up += 1;
        state.forget(undelivered.seq);
        state.keep(undelivered);
    }

    /// An undelivered event was delivered after all.
    pub fn forget(&self, seq: u64) {
        self.state().forget(seq);
    }

    /// The events that were given up.
    pub fn undelivered(&self) -> Vec<Undelivered> {
        self.state().undelivered.iter().cloned().collect()
    }

    /// Takes one event that shall be sent again.
    pub fn take_due(&self) -> Option<Undelivered> {
        let mut state = self.state();
        let due = state.undelivered.iter_mut().find(|undelivered| undelivered.is_due)?;
        due.is_due = false;
        Some(due.clone())
    }

    /// Waits until there may be something to send again.
    pub async fn due(&self) {
        self.due.notified().await;
    }

    fn info(&self) -> HookInfo {
        let state = self.state();
        HookInfo {
            about: self.about.clone(),
            next_event: state.next_event,
            counts: state.counts,
            in_flight: state.in_flight,
            undelivered: state.undelivered.len(),
            last_delivered_at: state.last_delivered_at,
            last_error: state.last_error.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, HookState> {
        lock(&self.state)
    }
}

impl HookState {
    fn keep(&mut self, undelivered: Undelivered) {
        self.undelivered_bytes += undelivered.body.len();
        self.undelivered.push_back(undelivered);
        while self.undelivered.len() > UNDELIVERED_MAX
            || (self.undelivered_bytes > UNDELIVERED_BYTES_MAX && self.undelivered.len() > 1)
        {
            if let Some(oldest) = self.undelivered.pop_front() {
                self.undelivered_bytes -= oldest.body.len();
                self.counts.discarded += 1;
            }
        }
    }

    fn forget(&mut self, seq: u64) {
        if let Some(index) = self.undelivered.iter().position(|known| known.seq == seq)
            && let Some(gone) = self.undelivered.remove(index)
        {
            self.undelivered_bytes -= gone.body.len();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data behind these locks is consistent between any two statements, even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_progress() -> Arc<HookProgress> {
        Arc::new(HookProgress::new(HookAbout {
            name: "ops".into(),
            namespace: "default".into(),
            kind: HookKind::Webhook,
            target: "http://127.0.0.1/".into(),
            events: vec!["failed".into()],
            queues: Vec::new(),
        }))
    }

    fn undelivered(seq: u64, bytes: usize) -> Undelivered {
        Undelivered {
            seq,
            kind: "failed".into(),
            given_up_at: Timestamp(7),
            attempts: 3,
            error: "status 500".into(),
            body: vec![b'x'; bytes].into(),
            is_due: false,
        }
    }

    #[test]
    fn an_undelivered_event_is_sent_again_when_a_client_asks_for_it() {
        let (hooks, progress) = (Hooks::default(), no_progress());
        hooks.set(vec![Arc::clone(&progress)]);
        progress.give_up(undelivered(5, 10));
        progress.give_up(undelivered(9, 10));
        let (namespace, name) = ("default".into(), "ops".into());
        assert_eq!(hooks.redeliver(&namespace, &name, Some(9)), Ok(1));
        assert_eq!(progress.take_due().map(|due| due.seq), Some(9));
        assert_eq!(progress.take_due(), None);
        progress.forget(9);
        assert!(hooks.redeliver(&namespace, &name, Some(9)).is_err());
        assert_eq!(hooks.redeliver(&namespace, &name, None), Ok(1));
        assert_eq!(hooks.list(&namespace)[0].undelivered, 1);
    }

    #[test]
    fn another_namespace_sees_no_hook() {
        let hooks = Hooks::default();
        hooks.set(vec![no_progress()]);
        assert!(hooks.list(&"other".into()).is_empty());
        assert!(hooks.undelivered(&"other".into(), &"ops".into()).is_err());
    }

    #[test]
    fn undelivered_events_are_bounded_and_the_loss_is_counted() {
        let progress = no_progress();
        for seq in 1..=3 {
            progress.give_up(undelivered(seq, UNDELIVERED_BYTES_MAX / 2));
        }
        let kept: Vec<u64> = progress.undelivered().iter().map(|one| one.seq).collect();
        assert_eq!(kept, [2, 3]);
        for seq in 10..10 + UNDELIVERED_MAX as u64 {
            progress.give_up(undelivered(seq, 1));
        }
        assert_eq!(progress.undelivered().len(), UNDELIVERED_MAX);
        assert_eq!(progress.info().counts.discarded, 3);
    }
}
