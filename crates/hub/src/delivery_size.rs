//! The approximate size of a delivery in a mailbox.

use std::mem::size_of;

use crate::hooks::{HookInfo, Undelivered};
use crate::request::{Broadcast, CallAnswer, Delivery, Response};
use crate::stats::{QueueFigures, Stats};

/// A refusal is a sentence with one or two names.
const REFUSAL_BYTES: usize = 256;

impl Delivery {
    pub(crate) fn bytes(&self) -> usize {
        let beside = match self {
            Delivery::Reply { reply: Ok(response), .. } => response.bytes(),
            Delivery::Reply { reply: Err(_), .. } => REFUSAL_BYTES,
            Delivery::Notice(notice) => notice.size(),
            Delivery::Event { event, .. } => event.size(),
            Delivery::Call { from, address, body, .. } => from.len() + address.len() + body.len(),
            Delivery::CallAnswered { answer, .. } => match answer {
                CallAnswer::Result(bytes) | CallAnswer::Error(bytes) => bytes.len(),
                CallAnswer::Cancelled | CallAnswer::Pending => 0,
            },
            Delivery::Broadcast(Broadcast { sender, subject, correlation, body }) => {
                let names = [sender, subject, correlation].into_iter().flatten();
                body.len() + names.map(|name| name.len()).sum::<usize>()
            }
            Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::Goodbye
            | Delivery::Ended(_) => 0,
        };
        size_of::<Delivery>() + beside
    }
}

impl Response {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Response::Command(reply) => reply.size(),
            Response::Answer(answer) => answer.size(),
            Response::Stats(stats) => {
                size_of::<Stats>()
                    + stats.gauges.limits.len() * 64
                    + stats.doors.len() * 64
                    + stats.queues.len() * size_of::<QueueFigures>()
            }
            Response::Logs(page) => page.pieces.iter().map(|kept| kept.piece.bytes.len() + 64).sum(),
            Response::Hooks(hooks) => hooks.len() * size_of::<HookInfo>() * 2,
            Response::Undelivered(events) => {
                events.iter().map(|one| size_of::<Undelivered>() + one.body.len() + one.error.len()).sum()
            }
            Response::Done | Response::Heard(_) | Response::BackedUp { .. } | Response::Redelivered(_) => 0,
            Response::Reconciled(answer) => {
                let names = answer.names.iter().map(|name| name.len() + 16).sum::<usize>();
                names + answer.tasks.iter().map(|task| task.name.len() + 128).sum::<usize>()
            }
        }
    }
}
