//! A watch: events from a number on, an explicit gap for those that are gone, and then live events.
//!
//! The watch sends nothing to a peer that does not read. Its mailbox fills, and the hub reads the rest from the log
//! when there is room again, so a slow watcher misses nothing and delays no other peer.

use std::collections::VecDeque;

use tenure_hub::words::EventFilter;
use tenure_hub::{Ask, Delivery, Request, Session, Watch};
use tonic::Status;

use super::GrpcSession;
use crate::proto::tenure::v1 as pb;
use crate::proto::tenure::v1::watch_response::News;
use crate::translate;

pub(crate) struct Watching {
    session: Session,
    arrived: VecDeque<Delivery>,
    taken: Vec<Delivery>,
}

impl GrpcSession for Watching {
    type Message = pb::WatchResponse;

    async fn next(&mut self) -> Result<Option<pb::WatchResponse>, Status> {
        Ok(Some(pb::WatchResponse { news: Some(self.news().await?) }))
    }
}

impl Watching {
    /// Starts the watch, unless it is refused.
    pub(crate) async fn begin(
        session: Session,
        filter: EventFilter,
        from: Option<u64>,
    ) -> Result<Watching, Status> {
        let request = Request::Watch(Watch { watch: 1, filter, from });
        session.send(vec![Ask { token: 0, request }]).await.map_err(|_| translate::unavailable())?;
        let mut watching = Watching { session, arrived: VecDeque::new(), taken: Vec::new() };
        loop {
            match watching.delivery().await {
                Some(Delivery::Reply { reply: Ok(_), .. }) => return Ok(watching),
                Some(Delivery::Reply { reply: Err(no), .. }) => return Err(translate::status(&no)),
                Some(_) => {}
                None => return Err(translate::unavailable()),
            }
        }
    }

    async fn news(&mut self) -> Result<News, Status> {
        loop {
            match self.delivery().await.ok_or_else(translate::unavailable)? {
                Delivery::Event { event, .. } => return Ok(translate::event(&event)),
                Delivery::Gap { from, oldest, .. } => return Ok(translate::gap(from, oldest)),
                Delivery::Live { next, .. } => return Ok(News::Live(pb::Live { next })),
                Delivery::Goodbye => return Err(translate::unavailable()),
                Delivery::Ended(why) => return Err(translate::status(&why)),
                // This session has asked for nothing else.
                Delivery::Reply { .. }
                | Delivery::Notice(_)
                | Delivery::Call { .. }
                | Delivery::CallAnswered { .. }
                | Delivery::CallGivenUp { .. }
                | Delivery::Broadcast(_) => {}
            }
        }
    }

    async fn delivery(&mut self) -> Option<Delivery> {
        while self.arrived.is_empty() {
            self.session.mailbox().arrived().await;
            let is_closed = self.session.mailbox().is_closed();
            if !self.session.mailbox().take(&mut self.taken) && is_closed {
                return None;
            }
            self.arrived.extend(self.taken.drain(..));
        }
        self.arrived.pop_front()
    }
}
