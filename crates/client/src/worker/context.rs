//! A handler's view of its task, and what it can report while it works.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tenure_wire::request::AppendLog;
use tenure_wire::task::{Assignment, DependencyInfo, Held, Terms};
use tenure_wire::words::OnLost;
use tenure_wire::{Name, TaskId, Timestamp};

use crate::log::LogStream;

use super::outbox::{PendingProgress, WorkerOutbox};
use super::pending_checkpoint::Receipt;
use super::signal::{Interrupt, Signal};
use super::stop_request::StopRequest;
use super::waiting::AttemptWait;

/// Maximum length of the note in a progress report; the rest is cut off.
pub const NOTE_BYTES_MAX: usize = 4 << 10;
/// Maximum length of a piece of output.
const LOG_PIECE_BYTES_MAX: usize = 64 << 10;
/// A body up to this size is copied, so that a long task does not keep the whole read buffer in memory.
const BODY_COPIED_BYTES: usize = 16 << 10;

/// A handler's task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    assignment: Assignment,
    terms: Arc<Terms>,
    checkpoint: OnceLock<Bytes>,
    signal: Signal,
    stop: StopRequest,
    outbox: Arc<WorkerOutbox>,
}

impl Context {
    pub(crate) fn new(mut assignment: Assignment, terms: Arc<Terms>, outbox: Arc<WorkerOutbox>) -> Context {
        if assignment.body.len() <= BODY_COPIED_BYTES {
            assignment.body = Bytes::copy_from_slice(&assignment.body);
        }
        let (checkpoint, signal, stop) = (OnceLock::new(), Signal::default(), StopRequest::default());
        Context { inner: Arc::new(Inner { assignment, terms, checkpoint, signal, stop, outbox }) }
    }

    /// The id of the task, the same in every attempt.
    pub fn task(&self) -> TaskId {
        self.inner.assignment.task
    }

    /// Returns the number of this attempt, from 1. Pass it on with side effects of your own, to distinguish this
    /// attempt from a later one.
    pub fn attempt(&self) -> u32 {
        self.inner.assignment.attempt
    }

    /// The bytes that the client submitted.
    pub fn body(&self) -> &Bytes {
        &self.inner.assignment.body
    }

    /// The queue from which the task came.
    pub fn queue(&self) -> &Name {
        &self.inner.terms.queue
    }

    /// The idempotency key, if the client gave one.
    pub fn name(&self) -> Option<&Name> {
        self.inner.assignment.name.as_ref()
    }

    /// The task of which this one is a child.
    pub fn parent(&self) -> Option<TaskId> {
        self.inner.assignment.parent
    }

    /// The array of which this task is an element.
    pub fn array(&self) -> Option<TaskId> {
        self.inner.assignment.array
    }

    /// Returns the index of this element in its array.
    pub fn index(&self) -> Option<u32> {
        self.inner.assignment.array.map(|_| self.inner.assignment.index)
    }

    /// Returns the tasks that this one waited for. [`Client::result`](crate::Client::result) fetches their results.
    pub fn after(&self) -> &[DependencyInfo] {
        &self.inner.assignment.after
    }

    /// Returns the trace that the task belongs to: the parent of the worker's own spans.
    pub fn traceparent(&self) -> Option<&str> {
        self.inner.assignment.traceparent.as_deref()
    }

    /// Returns what tracing systems have added to the trace.
    pub fn tracestate(&self) -> Option<&str> {
        self.inner.assignment.tracestate.as_deref()
    }

    /// The priority with which the task was assigned.
    pub fn priority(&self) -> i32 {
        self.inner.assignment.priority
    }

    /// Returns the identity of the submitter.
    pub fn submitter(&self) -> Option<&Name> {
        self.inner.terms.submitter.as_ref()
    }

    /// When the broker accepted the task, by the broker's clock.
    pub fn submitted_at(&self) -> Timestamp {
        self.inner.assignment.submitted_at
    }

    /// Returns how many workers were lost while running this task.
    pub fn crashes(&self) -> u16 {
        self.inner.assignment.crashes
    }

    /// Returns how often this task has failed before.
    pub fn failures(&self) -> u16 {
        self.inner.assignment.failures
    }

    /// The numbers of the cpus that belong to this attempt, if the task needs cpus.
    pub fn cpus(&self) -> &[u16] {
        &self.inner.assignment.cpus
    }

    /// The numbers of the gpus that belong to this attempt, if the task needs gpus. A part of one shares its number
    /// with other attempts.
    pub fn gpus(&self) -> &[u16] {
        &self.inner.assignment.gpus
    }

    /// Returns everything that the submission specified.
    pub fn terms(&self) -> &Terms {
        &self.inner.terms
    }

    /// Returns the checkpoint of an earlier attempt: continue from there.
    pub fn checkpoint(&self) -> Option<&Bytes> {
        self.inner.checkpoint.get().filter(|checkpoint| !checkpoint.is_empty())
    }

    /// Saves a checkpoint: how far the work is, in bytes that the next attempt understands. They replace the
    /// previous checkpoint and stay with the task, whatever happens to this worker or the broker. The receipt
    /// resolves when they are on the broker's disk; the handler need not wait for it. If checkpoints come faster
    /// than the worker can send them, it sends only the latest.
    ///
    /// ```no_run
    /// # async fn render(_: u32) {}
    /// # async fn handler(context: tenure_client::Context) -> Result<(), tenure_client::Error> {
    /// let done = context.checkpoint().and_then(|bytes| bytes[..].try_into().ok()).map_or(0, u32::from_be_bytes);
    /// for frame in done..1_000 {
    ///     render(frame).await;
    ///     context.save_checkpoint((frame + 1).to_be_bytes().to_vec()).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn save_checkpoint(&self, checkpoint: impl Into<Bytes>) -> Receipt {
        self.inner.outbox.save_checkpoint(self.held(), checkpoint.into())
    }

    /// Waits until these tasks have ended, at most 1,000 of them. Until then the attempt is suspended: it keeps its
    /// memory and its number, but takes no slot of the worker, so that the tasks it waits for can run there. The result
    /// says how each of them ended; [`Client::result`](crate::Client::result) fetches their results. If the task should
    /// wind down meanwhile, the wait ends with [`Error::Interrupted`](crate::Error::Interrupted); a handler that
    /// returns this error confirms the cancellation or the pause.
    ///
    /// If the worker is lost while it waits, the next attempt begins after the tasks have ended. It then waits for them
    /// again, which takes no time.
    ///
    /// ```no_run
    /// # use tenure_client::{Client, Context, Error, Submission};
    /// # async fn handler(client: Client, context: Context) -> Result<String, Error> {
    /// let part = Submission::to("parts").body("part 1").parent(context.task());
    /// let part = client.submit(part).await?.task;
    /// let ends = context.wait_for(&[part]).await?;
    /// # Ok(format!("{:?}", ends[0].state))
    /// # }
    /// ```
    pub fn wait_for(&self, tasks: &[TaskId]) -> AttemptWait {
        AttemptWait::for_tasks(self.held(), &self.inner.outbox, tasks.to_vec())
    }

    /// Waits until the children of this task have ended, like [`Context::wait_for`]. Of a task with more than 1,000
    /// children it waits for the oldest 1,000 that have not ended: call it again until it returns fewer.
    pub fn wait_for_children(&self) -> AttemptWait {
        AttemptWait::for_children(self.held(), &self.inner.outbox)
    }

    /// Waits until a client wants the task paused and the handler may stop in place. Only a worker that
    /// [can](super::WorkerBuilder::stops_in_place) is asked to. The handler then stops what it does, without losing
    /// it, and calls [`Context::wait_for_resume`]. Cancel-safe: use it in a `select!` beside the work.
    pub async fn stop_wanted(&self) {
        self.inner.stop.wanted().await;
    }

    /// Waits until a client resumes the task and the worker has room for it again: the handler has stopped in place.
    /// Until then the attempt takes no slot and no resources. It takes the place of a wait for other tasks, which the
    /// handler drops, and begins again when this one is over. If the task should wind down meanwhile, the wait ends
    /// with [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn wait_for_resume(&self) -> AttemptWait {
        AttemptWait::for_resume(self.held(), &self.inner.outbox)
    }

    /// Reports progress: a percentage if known, and a note for people. Never blocks; if reports come faster than the
    /// worker can send them, it sends only the latest.
    pub fn progress(&self, percent: Option<u8>, note: &str) {
        let note = &note[..note.floor_char_boundary(NOTE_BYTES_MAX)];
        let note = (!note.is_empty()).then(|| note.into());
        let percent = percent.map(|percent| percent.min(100));
        self.inner.outbox.progress(self.held(), PendingProgress { percent, note });
    }

    /// Sends a piece of the task's output, for those who follow it. `offset` is where the piece begins in its stream.
    /// Never blocks. The broker keeps the pieces for a while and promises nothing: if they come faster than the worker
    /// can send them, some are dropped, and readers see the hole. A piece has at most 64 KB; the rest is cut off.
    pub fn append_log(&self, stream: LogStream, offset: u64, bytes: impl Into<Bytes>) {
        let mut bytes = bytes.into();
        bytes.truncate(LOG_PIECE_BYTES_MAX);
        if !bytes.is_empty() {
            let Held { task, attempt } = self.held();
            self.inner.outbox.append_log(AppendLog { task, attempt, stream: stream.number(), offset, bytes });
        }
    }

    /// Whether the task should wind down, and why.
    pub fn interrupt(&self) -> Option<Interrupt> {
        self.inner.signal.get()
    }

    /// Waits until the task should wind down. Cancel-safe: use it in a `select!` beside the work.
    pub async fn interrupted(&self) -> Interrupt {
        self.inner.signal.raised().await
    }

    /// For blocking handlers: sleeps for this long, or until the task should wind down.
    pub fn wait_interrupted(&self, timeout: Duration) -> Option<Interrupt> {
        self.inner.signal.wait(timeout)
    }

    /// Sets a callback for interrupts; it also gets one that is already raised. It runs on the worker's connection, so
    /// it must return at once.
    pub fn on_interrupt(&self, told: impl Fn(&Interrupt) + Send + Sync + 'static) {
        self.inner.signal.on_raise(Box::new(told));
    }

    /// Whether an earlier attempt has a checkpoint that has not been fetched yet.
    pub(crate) fn lacks_checkpoint(&self) -> bool {
        self.inner.assignment.checkpoint_bytes > 0 && self.inner.checkpoint.get().is_none()
    }

    pub(crate) fn fetched(&self, checkpoint: Bytes) {
        let _ = self.inner.checkpoint.set(checkpoint);
    }

    pub(crate) fn held(&self) -> Held {
        Held { task: self.task(), attempt: self.attempt() }
    }

    pub(crate) fn raise(&self, interrupt: Interrupt) {
        self.inner.signal.raise(interrupt);
    }

    pub(crate) fn stop_request(&self) -> &StopRequest {
        &self.inner.stop
    }

    /// Whether the task must not run twice: then its handler starts only after the broker has recorded the start.
    pub(crate) fn is_careful(&self) -> bool {
        self.inner.terms.on_lost != OnLost::Requeue
    }
}
