//! A watch: events from a number on, an explicit gap for those that are gone, and then live events.
//!
//! The watch gives nothing to a peer that does not read. Its mailbox fills, and the hub reads the rest from the log
//! when there is room again, so a slow listener misses nothing and delays no other peer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::{Event, EventFilter, Name};
use tenure_hub::{Ask, Delivery, HubHandle, HubRefusal, Principal, Request, Session, Watch};
use tokio::time::{Instant, sleep_until};

use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::translate;

/// How long a watch waits after it has taken events. While many come, they gather in the mailbox meanwhile, and the hub
/// does not have to wake this door for each of its turns. The mailbox has room for what a busy hub publishes in this time.
const TAKE_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct EventWatch {
    session: Session,
    /// The number of the current watch. A session may watch again.
    watch: u64,
    arrived: VecDeque<Delivery>,
    taken: Vec<Delivery>,
    /// When it may take from the mailbox again.
    next_take: Instant,
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
        let mut watching = EventWatch::of(peer.open()?);
        watching.watch(filter, from).await.map_err(|no| translate::problem(&no))?;
        Ok(watching)
    }

    /// A watch of the door itself, from now on.
    pub(super) async fn trusted(
        hub: &HubHandle,
        principal: Principal,
        namespace: Name,
        filter: EventFilter,
    ) -> Result<EventWatch, HubRefusal> {
        let mut watching = EventWatch::of(hub.open(principal, namespace, "feed".into())?);
        watching.watch(filter, None).await?;
        Ok(watching)
    }

    fn of(session: Session) -> EventWatch {
        EventWatch {
            session,
            watch: 0,
            arrived: VecDeque::new(),
            taken: Vec::new(),
            next_take: Instant::now(),
        }
    }

    /// Starts a watch. What is left of an earlier one is dropped.
    pub(super) async fn watch(&mut self, filter: EventFilter, from: Option<u64>) -> Result<(), HubRefusal> {
        self.watch += 1;
        let request = Request::Watch(Watch { watch: self.watch, filter, from });
        self.session
            .send(vec![Ask { token: self.watch, request }])
            .await
            .map_err(|_| HubRefusal::Draining)?;
        loop {
            match self.delivery().await {
                Some(Delivery::Reply { token, reply }) if token == self.watch => return reply.map(drop),
                Some(Delivery::Ended(why)) => return Err(why),
                Some(_) => {}
                None => return Err(HubRefusal::Draining),
            }
        }
    }

    /// Ends the watch. The session stays open.
    pub(super) async fn unwatch(&mut self) -> Result<(), HubRefusal> {
        let request = Request::Unwatch { watch: self.watch };
        self.session.send(vec![Ask { token: 0, request }]).await.map_err(|_| HubRefusal::Draining)
    }

    /// Waits until the session ends, and drops what is left of a watch.
    pub(super) async fn ended(&mut self) -> HubRefusal {
        loop {
            match self.delivery().await {
                None | Some(Delivery::Goodbye) => return HubRefusal::Draining,
                Some(Delivery::Ended(why)) => return why,
                Some(_) => {}
            }
        }
    }

    /// Returns an end that has been taken, to be taken again.
    pub(super) fn put_back(&mut self, why: HubRefusal) {
        self.arrived.push_front(Delivery::Ended(why));
    }

    /// Waits for what comes next.
    pub(crate) async fn next(&mut self) -> Result<WatchItem, HubRefusal> {
        loop {
            let delivery = self.delivery().await.ok_or(HubRefusal::Draining)?;
            if let Some(watched) = watched(delivery, self.watch)? {
                return Ok(watched);
            }
        }
    }

    /// What has arrived already, if anything has.
    pub(crate) fn next_now(&mut self) -> Option<Result<WatchItem, HubRefusal>> {
        loop {
            match watched(self.arrived.pop_front()?, self.watch) {
                Ok(Some(watched)) => return Some(Ok(watched)),
                Ok(None) => {}
                Err(no) => return Some(Err(no)),
            }
        }
    }

    async fn delivery(&mut self) -> Option<Delivery> {
        while self.arrived.is_empty() {
            if Instant::now() < self.next_take {
                sleep_until(self.next_take).await;
            }
            self.session.mailbox().arrived().await;
            self.next_take = Instant::now() + TAKE_INTERVAL;
            let is_closed = self.session.mailbox().is_closed();
            if !self.session.mailbox().take(&mut self.taken) && is_closed {
                return None;
            }
            self.arrived.extend(self.taken.drain(..));
        }
        self.arrived.pop_front()
    }
}

/// What a delivery means for the current watch.
fn watched(delivery: Delivery, current: u64) -> Result<Option<WatchItem>, HubRefusal> {
    match delivery {
        Delivery::Event { watch, event } if watch == current => Ok(Some(WatchItem::Event(event))),
        Delivery::Gap { watch, from, oldest } if watch == current => {
            Ok(Some(WatchItem::Gap { from, oldest }))
        }
        Delivery::Live { watch, next } if watch == current => Ok(Some(WatchItem::Live { next })),
        Delivery::Goodbye => Err(HubRefusal::Draining),
        Delivery::Ended(why) => Err(why),
        // This session has asked for nothing else.
        Delivery::Event { .. }
        | Delivery::Gap { .. }
        | Delivery::Live { .. }
        | Delivery::Reply { .. }
        | Delivery::Notice(_)
        | Delivery::Call { .. }
        | Delivery::CallAnswered { .. }
        | Delivery::CallGivenUp { .. }
        | Delivery::Broadcast(_) => Ok(None),
    }
}
