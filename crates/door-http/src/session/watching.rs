//! A watch: events from a number on, an explicit gap for those that are gone, and then live events.
//!
//! The watch gives nothing to a peer that does not read. Its mailbox fills, and the hub reads the rest from the log
//! when there is room again, so a slow listener misses nothing and delays no other peer.

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_hub::words::{Event, EventFilter};
use tenure_hub::{Ask, Delivery, HubRefusal, Request, Session, Watch};

use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::translate;

pub(crate) struct EventWatch {
    session: Session,
    arrived: VecDeque<Delivery>,
    taken: Vec<Delivery>,
}

#[derive(Debug)]
pub(crate) enum WatchItem {
    Event(Arc<Event>),
    /// Events before `oldest` are gone.
    Gap {
        from: u64,
        oldest: u64,
    },
    /// All past events have been delivered.
    Live {
        next: u64,
    },
}

impl EventWatch {
    /// Starts the watch, unless it is refused.
    pub(crate) async fn begin(
        peer: &HttpPeer,
        filter: EventFilter,
        from: Option<u64>,
    ) -> Result<EventWatch, ProblemDetails> {
        let session = peer.open()?;
        let request = Request::Watch(Watch { watch: 1, filter, from });
        let stopped = |_| translate::problem(&HubRefusal::Draining);
        session.send(vec![Ask { token: 0, request }]).await.map_err(stopped)?;
        let mut watching = EventWatch { session, arrived: VecDeque::new(), taken: Vec::new() };
        loop {
            match watching.delivery().await {
                Some(Delivery::Reply { reply: Ok(_), .. }) => return Ok(watching),
                Some(Delivery::Reply { reply: Err(no), .. }) => return Err(translate::problem(&no)),
                Some(Delivery::Ended(why)) => return Err(translate::problem(&why)),
                Some(_) => {}
                None => return Err(translate::problem(&HubRefusal::Draining)),
            }
        }
    }

    /// Waits for what comes next.
    pub(crate) async fn next(&mut self) -> Result<WatchItem, HubRefusal> {
        loop {
            let delivery = self.delivery().await.ok_or(HubRefusal::Draining)?;
            if let Some(watched) = watched(delivery)? {
                return Ok(watched);
            }
        }
    }

    /// What has arrived already, if anything has.
    pub(crate) fn next_now(&mut self) -> Option<Result<WatchItem, HubRefusal>> {
        loop {
            match watched(self.arrived.pop_front()?) {
                Ok(Some(watched)) => return Some(Ok(watched)),
                Ok(None) => {}
                Err(no) => return Some(Err(no)),
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

fn watched(delivery: Delivery) -> Result<Option<WatchItem>, HubRefusal> {
    match delivery {
        Delivery::Event { event, .. } => Ok(Some(WatchItem::Event(event))),
        Delivery::Gap { from, oldest, .. } => Ok(Some(WatchItem::Gap { from, oldest })),
        Delivery::Live { next, .. } => Ok(Some(WatchItem::Live { next })),
        Delivery::Goodbye => Err(HubRefusal::Draining),
        Delivery::Ended(why) => Err(why),
        // This session has asked for nothing else.
        Delivery::Reply { .. }
        | Delivery::Notice(_)
        | Delivery::Call { .. }
        | Delivery::CallAnswered { .. }
        | Delivery::CallGivenUp { .. }
        | Delivery::Broadcast(_) => Ok(None),
    }
}
