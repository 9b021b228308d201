//! Waiting in the middle of an attempt: the handler waits for other tasks, and its attempt takes no slot meanwhile.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tenure_wire::request::Suspend;
use tenure_wire::task::{Held, WaitEnd};
use tenure_wire::{Code, Refusal, TaskId};
use tokio::sync::oneshot;

use super::outbox::WorkerOutbox;
use crate::error::Error;

/// Resolves when the tasks have ended and the attempt has a slot again, with how each of them ended. It can be awaited,
/// or waited for in a blocking handler. A handler that drops it goes on at once; its attempt takes a slot as soon as one
/// is free.
#[derive(Debug)]
#[must_use = "the attempt waits only if this is awaited or waited for"]
pub struct Waiting {
    told: oneshot::Receiver<Result<Vec<WaitEnd>, Error>>,
    held: Held,
    outbox: Arc<WorkerOutbox>,
    is_over: bool,
}

impl Waiting {
    pub(crate) fn new(held: Held, outbox: &Arc<WorkerOutbox>, on: Vec<TaskId>, children: bool) -> Waiting {
        let (tell, told) = oneshot::channel();
        let Held { task, attempt } = held;
        let suspend = Suspend { task, attempt, on, children };
        outbox.suspend(held, PendingWait { suspend, tell: Some(tell), sent: false });
        Waiting { told, held, outbox: Arc::clone(outbox), is_over: false }
    }

    /// For blocking handlers: waits until it resolves.
    pub fn wait(mut self) -> Result<Vec<WaitEnd>, Error> {
        self.is_over = true;
        let (_, told) = oneshot::channel();
        std::mem::replace(&mut self.told, told).blocking_recv().unwrap_or_else(|_| Err(over()))
    }
}

impl Future for Waiting {
    type Output = Result<Vec<WaitEnd>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let told = Pin::new(&mut self.told).poll(context).map(|told| told.unwrap_or_else(|_| Err(over())));
        self.is_over = told.is_ready();
        told
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_over {
            self.outbox.suspend(self.held, PendingWait::given_up(self.held));
        }
    }
}

/// What an attempt waits for.
#[derive(Debug)]
pub(crate) struct PendingWait {
    pub(crate) suspend: Suspend,
    tell: Option<oneshot::Sender<Result<Vec<WaitEnd>, Error>>>,
    /// Sent over the present connection.
    pub(crate) sent: bool,
}

impl PendingWait {
    /// The handler has given up its wait: to wait for nothing is to go on.
    pub(crate) fn given_up(held: Held) -> PendingWait {
        let Held { task, attempt } = held;
        let suspend = Suspend { task, attempt, on: Vec::new(), children: false };
        PendingWait { suspend, tell: None, sent: false }
    }

    pub(crate) fn resolve(self, told: Result<Vec<WaitEnd>, Error>) {
        if let Some(tell) = self.tell {
            let _ = tell.send(told);
        }
    }

    /// Whether a handler waits for the answer.
    pub(crate) fn is_heard(&self) -> bool {
        self.tell.is_some()
    }

    /// Whether these ends answer this wait, and not one that the handler has given up.
    pub(crate) fn is_answered_by(&self, ends: &[WaitEnd]) -> bool {
        let ended: BTreeSet<TaskId> = ends.iter().map(|end| end.task).collect();
        self.suspend.children || self.suspend.on.iter().copied().collect::<BTreeSet<_>>() == ended
    }
}

/// The error of a wait whose attempt is over.
fn over() -> Error {
    Refusal::new(Code::StaleAttempt, "the attempt is over; it no longer waits").into()
}
