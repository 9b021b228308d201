//! Runs handlers: async ones on the program's runtime, blocking ones on a thread each. A panic becomes a failure.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use tenure_wire::task::Held;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::context::Context;
use super::outbox::WorkerOutbox;
use super::outcome::{Failure, IntoOutcome, Outcome};

/// Exit code for a panic in a handler, as for a Rust program that panics.
const EXIT_PANICKED: i32 = 101;

/// Starts a handler. Returns an abort handle for an async one.
pub(crate) type Runner = Box<dyn Fn(Context, Finish) -> Option<AbortHandle> + Send + Sync>;

/// How a program's handler becomes a runner, once the runtime is known.
pub(crate) enum Handler {
    Async(Box<dyn FnOnce(Handle) -> Runner + Send + Sync>),
    Blocking(Runner),
}

impl Handler {
    pub(crate) fn new_async<F, Fut>(handler: F) -> Handler
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        Handler::Async(Box::new(move |runtime| {
            Box::new(move |context, finish| {
                let handler = Arc::clone(&handler);
                // The handler is called inside the task, so that its synchronous part cannot delay the link.
                let work = async move { handler(context).await.into_outcome() };
                let task = runtime.spawn(async move { finish.with(caught(work).await) });
                Some(task.abort_handle())
            })
        }))
    }

    /// For handlers that another runtime runs: they start there, and pass on their outcome at the end.
    pub(crate) fn new_handed_over<F>(handler: F) -> Handler
    where
        F: Fn(Context, Finish) + Send + Sync + 'static,
    {
        Handler::Blocking(Box::new(move |context, finish| {
            handler(context, finish);
            None
        }))
    }

    pub(crate) fn new_blocking<F, O>(handler: F) -> Handler
    where
        F: Fn(Context) -> O + Send + Sync + 'static,
        O: IntoOutcome,
    {
        let handler = Arc::new(handler);
        Handler::Blocking(Box::new(move |context, finish| {
            let handler = Arc::clone(&handler);
            let name = format!("task-{}", context.task());
            let work = move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| handler(context).into_outcome()));
                finish.with(outcome.unwrap_or_else(|panic| panicked(panic.as_ref())));
            };
            // If no thread can be created, dropping `finish` reports that the handler did not end.
            if let Err(error) = std::thread::Builder::new().name(name).spawn(work) {
                tracing::error!(%error, "cannot start a thread for a handler");
            }
            None
        }))
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Handler::Async(_) => "an async handler",
            Handler::Blocking(_) => "a blocking handler",
        })
    }
}

/// Passes on how a handler ended. If it is dropped before, the attempt counts as crashed.
#[derive(Debug)]
pub struct Finish {
    held: Held,
    outbox: Option<Arc<WorkerOutbox>>,
}

impl Finish {
    pub(crate) fn new(held: Held, outbox: Arc<WorkerOutbox>) -> Finish {
        Finish { held, outbox: Some(outbox) }
    }

    /// Ends the attempt with this outcome.
    pub fn with(mut self, outcome: Outcome) {
        if let Some(outbox) = self.outbox.take() {
            outbox.finished(self.held, Some(outcome));
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        if let Some(outbox) = self.outbox.take() {
            outbox.finished(self.held, None);
        }
    }
}

/// Runs a future and converts a panic into its outcome.
async fn caught(work: impl Future<Output = Outcome> + Send) -> Outcome {
    let mut work = Box::pin(work);
    let polled = std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(Ok(outcome)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    polled.await.unwrap_or_else(|panic| panicked(panic.as_ref()))
}

fn panicked(panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
    Outcome::Failed(Failure::new(EXIT_PANICKED, format!("the handler panicked: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_failure_that_says_what_happened() {
        let outcome = caught(async {
            tokio::task::yield_now().await;
            panic!("no such scan: {}", 7)
        });
        let Outcome::Failed(failure) = outcome.await else { panic!("it failed") };
        assert_eq!((failure.exit_code, &*failure.message), (101, "the handler panicked: no such scan: 7"));
    }

    #[test]
    fn a_handler_that_never_ends_is_reported_all_the_same() {
        let outbox = Arc::new(WorkerOutbox::default());
        let held = Held { task: tenure_wire::TaskId::default(), attempt: 1 };
        drop(Finish::new(held, Arc::clone(&outbox)));
        Finish::new(held, Arc::clone(&outbox)).with(Outcome::complete(""));
        let finished: Vec<bool> =
            outbox.take_finished().iter().map(|finished| finished.outcome.is_some()).collect();
        assert_eq!(finished, [false, true]);
    }
}
