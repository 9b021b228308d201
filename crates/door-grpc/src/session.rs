//! Sessions with the hub: single requests, and longer ones. Each holds a hub session and drops it when its call ends,
//! is cancelled or breaks, which is how the hub learns of it.

use std::future::Future;

use futures::Stream;
use tonic::Status;

mod call;
mod listening;
mod publishing;
mod submitting;
mod waiting;
mod watching;
mod working;

pub(crate) use call::GrpcCall;
pub(crate) use listening::Listening;
pub(crate) use publishing::Publishing;
pub(crate) use submitting::{CallerTrace, Submitting, submit};
pub(crate) use waiting::wait;
pub(crate) use watching::Watching;
pub(crate) use working::Working;

/// A session that sends more than one reply.
pub(crate) trait GrpcSession: Send + 'static {
    type Message: Send;

    /// The next reply; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Message>, Status>> + Send;
}

/// The session as a stream of replies. It is polled for the next one when the connection has room.
pub(crate) fn stream<C: GrpcSession>(
    conversation: C,
) -> impl Stream<Item = Result<C::Message, Status>> + Send {
    futures::stream::unfold(Some(conversation), |conversation| async move {
        let mut conversation = conversation?;
        match conversation.next().await {
            Ok(Some(said)) => Some((Ok(said), Some(conversation))),
            Ok(None) => None,
            Err(status) => Some((Err(status), None)),
        }
    })
}
