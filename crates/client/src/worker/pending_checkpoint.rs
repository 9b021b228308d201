//! Checkpoints in flight, and their receipts.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tenure_wire::{Code, Refusal};
use tokio::sync::oneshot;

use crate::error::Error;

/// Resolves when a checkpoint is on the broker's disk. It can be awaited, waited for, or dropped.
#[derive(Debug)]
#[must_use = "the receipt tells when the checkpoint is on disk; drop it if that does not matter"]
pub struct Receipt(oneshot::Receiver<Result<(), Error>>);

impl Receipt {
    /// A receipt for an attempt that is over.
    pub(crate) fn closed() -> Receipt {
        Receipt(oneshot::channel().1)
    }

    /// For blocking handlers: waits until it resolves.
    pub fn wait(self) -> Result<(), Error> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(over()))
    }
}

impl Future for Receipt {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|told| told.unwrap_or_else(|_| Err(over())))
    }
}

/// A checkpoint and its receipts: the handler's own, and those of the checkpoints it replaced.
#[derive(Debug, Default)]
pub(crate) struct PendingCheckpoint {
    pub(crate) checkpoint: Bytes,
    waiting: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl PendingCheckpoint {
    /// A later checkpoint replaces an earlier one.
    pub(crate) fn replace(&mut self, checkpoint: Bytes) -> Receipt {
        self.checkpoint = checkpoint;
        // A handler that has dropped its receipt needs no answer.
        self.waiting.retain(|waiting| !waiting.is_closed());
        let (tell, told) = oneshot::channel();
        self.waiting.push(tell);
        Receipt(told)
    }

    /// Takes over the receipts of an earlier checkpoint.
    pub(crate) fn follow(&mut self, earlier: PendingCheckpoint) {
        self.waiting.extend(earlier.waiting);
    }

    pub(crate) fn resolve(self, outcome: &Result<(), Error>) {
        for waiting in self.waiting {
            let _ = waiting.send(outcome.clone());
        }
    }
}

/// The error of a receipt whose attempt is over.
pub(crate) fn over() -> Error {
    Refusal::new(Code::StaleAttempt, "the attempt is over; the checkpoint was not saved").into()
}
