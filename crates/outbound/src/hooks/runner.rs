//! Runs the hooks: one task each, which reads events, has a few of them delivered at a time, and writes down how far
//! all of them are done.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tenure_hub::words::Event;
use tenure_hub::{HookCursor, HookProgress, HubHandle, HubRefusal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::body::OutgoingEvent;
use super::delivery::deliver;
use super::settings::HookSettings;
use super::source::{EventSource, SourceItem};

/// How often progress is written to disk. A crash repeats at most what was delivered since.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// A hook that has had nothing to do for this long begins a new watch, which moves its place past all events that it
/// does not want. Otherwise those would be missing one day, and it would report a gap.
const RENEW_AFTER: Duration = Duration::from_secs(300);
/// The pause after the hub has ended a session.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// All hooks of a broker. They end when this is dropped.
#[derive(Debug)]
pub struct HookRunner {
    hub: HubHandle,
    tasks: Vec<JoinHandle<()>>,
    opening: Vec<oneshot::Receiver<()>>,
}

impl HookRunner {
    /// Starts these hooks.
    pub fn start(hub: HubHandle, hooks: Vec<HookSettings>) -> HookRunner {
        let mut runner = HookRunner { hub, tasks: Vec::new(), opening: Vec::new() };
        runner.begin(hooks);
        runner
    }

    /// Replaces all hooks. Each of them goes on where the one of the same name was.
    pub async fn replace(&mut self, hooks: Vec<HookSettings>) {
        for task in self.tasks.drain(..) {
            task.abort();
            // It must not write its file any more when the next one reads it.
            let _ = task.await;
        }
        self.begin(hooks);
        self.opened().await;
    }

    /// Waits until each hook has its place in the event log. A new hook begins there: it gets every event that follows.
    pub async fn opened(&mut self) {
        for opening in self.opening.drain(..) {
            // A hook that cannot open has said why, and tries again.
            let _ = opening.await;
        }
    }

    /// Waits until the hooks have written down how far they are, after the hub has stopped.
    pub async fn ended(&mut self) {
        for task in self.tasks.drain(..) {
            let _ = task.await;
        }
    }

    fn begin(&mut self, hooks: Vec<HookSettings>) {
        let mut all_progress = Vec::new();
        for settings in hooks {
            let progress = Arc::new(HookProgress::new(settings.about()));
            all_progress.push(Arc::clone(&progress));
            let (opened, opening) = oneshot::channel();
            self.opening.push(opening);
            let run = HookRun {
                hub: self.hub.clone(),
                settings: Arc::new(settings),
                progress,
                opened: Some(opened),
                cursor: HookCursor::default(),
                deliveries: FuturesUnordered::new(),
                written: None,
                is_dirty: false,
                write_at: Instant::now(),
            };
            self.tasks.push(tokio::spawn(run.run()));
        }
        self.hub.hooks().set(all_progress);
    }
}

impl Drop for HookRunner {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// One hook at work.
struct HookRun {
    hub: HubHandle,
    settings: Arc<HookSettings>,
    progress: Arc<HookProgress>,
    /// Notified when the first watch is open, or could not be opened.
    opened: Option<oneshot::Sender<()>>,
    cursor: HookCursor,
    deliveries: FuturesUnordered<BoxFuture<'static, u64>>,
    /// What the file holds, and whether it may be out of date.
    written: Option<Vec<u8>>,
    is_dirty: bool,
    write_at: Instant,
}

/// Why a watch is over.
enum WatchEnd {
    Stopped,
    Renew,
}

impl HookRun {
    async fn run(mut self) {
        let hook = self.settings.name.clone();
        match self.hub.read_hook_file(&hook).await {
            Ok(Some(bytes)) => {
                if !self.progress.decode(&bytes) {
                    tracing::error!(%hook, "the progress file of a hook is unreadable; the hook begins with the next event");
                }
                self.cursor = HookCursor::at(self.progress.next_event());
                self.written = Some(bytes);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%hook, %error, "the file of a hook cannot be read"),
        }
        loop {
            match self.watch().await {
                Ok(WatchEnd::Renew) => {}
                Ok(WatchEnd::Stopped) | Err(HubRefusal::Draining) => break,
                Err(why) => {
                    tracing::warn!(%hook, %why, "the events of a hook were interrupted");
                    sleep(REOPEN_AFTER).await;
                }
            }
        }
        self.write().await;
    }

    /// Follows the events until the broker stops, or until it is time for a new watch.
    async fn watch(&mut self) -> Result<WatchEnd, HubRefusal> {
        let HookSettings { name, namespace, events, concurrency, .. } = &*Arc::clone(&self.settings);
        let from = self.cursor.from();
        let source = EventSource::open(&self.hub, name, namespace, events.clone(), from).await;
        self.opened = None;
        let mut source = source?;
        let mut renew_at = Instant::now() + RENEW_AFTER;
        let mut is_live = false;
        loop {
            while self.deliveries.len() < *concurrency
                && let Some(due) = self.progress.take_due()
            {
                self.send(OutgoingEvent { seq: due.seq, kind: due.kind, body: due.body });
            }
            let (progress, has_room) = (Arc::clone(&self.progress), self.deliveries.len() < *concurrency);
            tokio::select! {
                biased;
                () = self.hub.stopped() => return Ok(WatchEnd::Stopped),
                // Before more is read: a new hook has its place on disk before it takes its first event.
                () = sleep_until(self.write_at), if self.is_dirty => self.write().await,
                Some(seq) = self.deliveries.next() => {
                    self.cursor.done(seq);
                    self.record_progress();
                }
                item = source.next(), if has_room => {
                    renew_at = Instant::now() + RENEW_AFTER;
                    is_live |= self.take(item?);
                    self.record_progress();
                }
                () = progress.due(), if has_room => {}
                () = sleep_until(renew_at), if is_live && self.cursor.is_idle() => return Ok(WatchEnd::Renew),
            }
        }
    }

    /// Returns whether all past events were given.
    fn take(&mut self, item: SourceItem) -> bool {
        match item {
            SourceItem::Event(event) => {
                if self.wants(&event) {
                    self.cursor.take(event.seq);
                    self.send(OutgoingEvent::of_event(&self.settings.name, &event));
                } else {
                    self.cursor.pass(event.seq);
                }
                false
            }
            SourceItem::Gap { from, oldest } => {
                let (hook, missed) = (&self.settings.name, oldest.saturating_sub(from));
                tracing::error!(%hook, from, oldest, "the log lacks events of a hook; the hook receives a gap");
                self.progress.missed(missed);
                self.cursor.gap(from, oldest);
                self.send(OutgoingEvent::of_gap(hook, &self.settings.namespace, from, oldest));
                false
            }
            SourceItem::Live { next } => {
                self.cursor.live(next);
                true
            }
        }
    }

    fn wants(&self, event: &Event) -> bool {
        let queues = &self.settings.queues;
        queues.is_empty() || event.queue().is_some_and(|queue| queues.contains(queue))
    }

    fn send(&self, event: OutgoingEvent) {
        let delivery = deliver(Arc::clone(&self.settings), Arc::clone(&self.progress), event);
        self.deliveries.push(Box::pin(delivery));
    }

    /// All events before the first open one are done.
    fn record_progress(&mut self) {
        self.is_dirty = true;
        self.progress.set_in_flight(self.deliveries.len());
        self.progress.advance(self.cursor.next_event());
    }

    /// Writes what has changed. A failed write is tried again.
    async fn write(&mut self) {
        self.write_at = Instant::now() + WRITE_EVERY;
        let bytes = self.progress.encode();
        if self.written.as_ref() == Some(&bytes) {
            self.is_dirty = false;
            return;
        }
        let hook = &self.settings.name;
        match self.hub.write_hook_file(hook, bytes.clone()).await {
            Ok(()) => (self.written, self.is_dirty) = (Some(bytes), false),
            Err(error) => tracing::warn!(%hook, %error, "the progress of a hook cannot be written"),
        }
    }
}
