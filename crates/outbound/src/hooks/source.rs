//! The events of one hook, from a number on: a watch of the hub, as any client may have one.

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_hub::words::{Event, EventFilter, Name};
use tenure_hub::{Ask, Delivery, HubHandle, HubRefusal, Principal, Request, Session, Watch};

pub(super) struct EventSource {
    session: Session,
    arrived: VecDeque<Delivery>,
    taken: Vec<Delivery>,
}

#[derive(Debug)]
pub(super) enum SourceItem {
    Event(Arc<Event>),
    /// Events before `oldest` are gone.
    Gap {
        from: u64,
        oldest: u64,
    },
    /// All past events were given; the next one has this number.
    Live {
        next: u64,
    },
}

impl EventSource {
    /// `from` is the first event wanted; `None` is from now on.
    pub(super) async fn open(
        hub: &HubHandle,
        hook: &Name,
        namespace: &Name,
        kinds: Vec<Name>,
        from: Option<u64>,
    ) -> Result<EventSource, HubRefusal> {
        let identity = format!("hook-{hook}").into();
        let session = hub.open(Principal::trusted("hooks"), namespace.clone(), identity)?;
        let filter = EventFilter { kinds, ..EventFilter::default() };
        let request = Request::Watch(Watch { watch: 1, filter, from });
        session.send(vec![Ask { token: 0, request }]).await.map_err(|_| HubRefusal::Draining)?;
        Ok(EventSource { session, arrived: VecDeque::new(), taken: Vec::new() })
    }

    /// Waits for what comes next. Nothing is lost if this is dropped before it returns.
    pub(super) async fn next(&mut self) -> Result<SourceItem, HubRefusal> {
        loop {
            match self.delivery().await.ok_or(HubRefusal::Draining)? {
                Delivery::Event { event, .. } => return Ok(SourceItem::Event(event)),
                Delivery::Gap { from, oldest, .. } => return Ok(SourceItem::Gap { from, oldest }),
                Delivery::Live { next, .. } => return Ok(SourceItem::Live { next }),
                Delivery::Reply { reply: Err(no), .. } | Delivery::Ended(no) => return Err(no),
                Delivery::Goodbye => return Err(HubRefusal::Draining),
                // This session has asked for nothing else.
                Delivery::Reply { reply: Ok(_), .. }
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
