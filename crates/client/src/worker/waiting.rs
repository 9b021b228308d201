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
pub struct AttemptWait {
    reply: oneshot::Receiver<Result<Vec<WaitEnd>, Error>>,
    held: Held,
    outbox: Arc<WorkerOutbox>,
    /// Nothing is to be given up any more.
    is_over: bool,
}

impl AttemptWait {
    pub(crate) fn for_tasks(held: Held, outbox: &Arc<WorkerOutbox>, on: Vec<TaskId>) -> AttemptWait {
        let Held { task, attempt } = held;
        AttemptWait::new(held, outbox, Suspend { task, attempt, on, children: false, resume: false })
    }

    pub(crate) fn for_children(held: Held, outbox: &Arc<WorkerOutbox>) -> AttemptWait {
        let Held { task, attempt } = held;
        AttemptWait::new(
            held,
            outbox,
            Suspend { task, attempt, on: Vec::new(), children: true, resume: false },
        )
    }

    pub(crate) fn for_resume(held: Held, outbox: &Arc<WorkerOutbox>) -> AttemptWait {
        let Held { task, attempt } = held;
        AttemptWait::new(
            held,
            outbox,
            Suspend { task, attempt, on: Vec::new(), children: false, resume: true },
        )
    }

    fn new(held: Held, outbox: &Arc<WorkerOutbox>, suspend: Suspend) -> AttemptWait {
        let (tell, reply) = oneshot::channel();
        // Only a client ends the wait for a client.
        let can_be_given_up = !suspend.resume;
        outbox.suspend(held, PendingWait { suspend, tell: Some(tell), sent: false, is_second: false });
        AttemptWait { reply, held, outbox: Arc::clone(outbox), is_over: !can_be_given_up }
    }

    /// For blocking handlers: waits until it resolves.
    pub fn wait(mut self) -> Result<Vec<WaitEnd>, Error> {
        self.is_over = true;
        let (_, reply) = oneshot::channel();
        std::mem::replace(&mut self.reply, reply).blocking_recv().unwrap_or_else(|_| Err(over()))
    }
}

impl Future for AttemptWait {
    type Output = Result<Vec<WaitEnd>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply =
            Pin::new(&mut self.reply).poll(context).map(|reply| reply.unwrap_or_else(|_| Err(over())));
        self.is_over |= reply.is_ready();
        reply
    }
}

impl Drop for AttemptWait {
    fn drop(&mut self) {
        if !self.is_over {
            self.outbox.suspend(self.held, PendingWait::given_up(self.held));
        }
    }
}

/// A wait in the middle of an attempt, sent or to be sent to the broker.
#[derive(Debug)]
pub(crate) struct PendingWait {
    pub(crate) suspend: Suspend,
    tell: Option<oneshot::Sender<Result<Vec<WaitEnd>, Error>>>,
    /// Sent over the present connection.
    pub(crate) sent: bool,
    /// It took the place of a wait that was not answered. Until the broker has accepted it, a notice may answer that one.
    pub(crate) is_second: bool,
}

impl PendingWait {
    /// The handler has given up its wait: to wait for nothing is to go on.
    pub(crate) fn given_up(held: Held) -> PendingWait {
        let Held { task, attempt } = held;
        let suspend = Suspend { task, attempt, on: Vec::new(), children: false, resume: false };
        PendingWait { suspend, tell: None, sent: false, is_second: false }
    }

    pub(crate) fn resolve(self, reply: Result<Vec<WaitEnd>, Error>) {
        if let Some(tell) = self.tell {
            let _ = tell.send(reply);
        }
    }

    /// Whether a handler waits for the answer.
    pub(crate) fn is_heard(&self) -> bool {
        self.tell.is_some()
    }

    /// Whether only a client ends it.
    pub(crate) fn is_for_resume(&self) -> bool {
        self.suspend.resume
    }

    /// Whether these ends answer this wait, and not one that the handler has given up.
    pub(crate) fn is_answered_by(&self, ends: &[WaitEnd]) -> bool {
        let ended: BTreeSet<TaskId> = ends.iter().map(|end| end.task).collect();
        let is_open = self.suspend.children || self.suspend.resume;
        !self.is_second && (is_open || self.suspend.on.iter().copied().collect::<BTreeSet<_>>() == ended)
    }
}

/// The error of a wait whose attempt is over.
fn over() -> Error {
    Refusal::new(Code::StaleAttempt, "the attempt is over; it no longer waits").into()
}

#[cfg(test)]
mod tests {
    use tenure_wire::words::StateName;

    use super::*;

    #[test]
    fn an_answer_to_the_wait_before_does_not_resume_a_paused_attempt() {
        let (task, attempt) = (TaskId([1; 16]), 1);
        let suspend = Suspend { task, attempt, on: Vec::new(), children: false, resume: true };
        let mut wait = PendingWait { suspend, tell: None, sent: true, is_second: true };
        let ends = [WaitEnd { task: TaskId([2; 16]), state: StateName::Completed }];
        assert!(!wait.is_answered_by(&ends) && !wait.is_answered_by(&[]));
        // The broker has accepted it: it answers no other wait any more.
        wait.is_second = false;
        assert!(wait.is_answered_by(&ends) && wait.is_answered_by(&[]));
    }
}
