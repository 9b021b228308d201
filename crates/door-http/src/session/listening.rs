//! A listener: past events with a watch of its own, then live ones, from a feed if several listeners follow the same.

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::HubRefusal;
use tenure_hub::words::EventFilter;
use tokio::sync::watch;

use super::feed::{Encode, EventFeed, FeedPlace, FeedRead, FeedTable};
use super::watching::{EventWatch, WatchItem};
use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;

/// How many bytes are sent at a time.
const BATCH_BYTES: usize = 64 << 10;

pub(crate) struct EventListener {
    /// Its session also learns when the key of the peer is revoked.
    watching: EventWatch,
    filter: EventFilter,
    place: FeedPlace,
    encode: Encode,
    peer: HttpPeer,
    shared: Option<SharedFeed>,
    /// All events up to this one have been sent. `None` while past events are read.
    sent: Option<u64>,
    /// A watch that begins with this event is still to be started.
    wanted_from: Option<u64>,
}

struct SharedFeed {
    feed: Arc<EventFeed>,
    version: watch::Receiver<u64>,
}

impl EventListener {
    /// Starts to listen, unless it is refused.
    pub(crate) async fn begin(
        peer: &HttpPeer,
        feeds: &Arc<FeedTable>,
        filter: EventFilter,
        from: Option<u64>,
        encode: Encode,
    ) -> Result<EventListener, ProblemDetails> {
        let watching = EventWatch::begin(peer, filter.clone(), from).await?;
        let place = feeds.enter(peer.namespace.clone(), filter.clone());
        Ok(EventListener {
            watching,
            filter,
            place,
            encode,
            peer: peer.clone(),
            shared: None,
            sent: None,
            wanted_from: None,
        })
    }

    /// Waits for what comes next, encoded.
    pub(crate) async fn next(&mut self) -> Result<Bytes, HubRefusal> {
        loop {
            // A caller that gives up waiting may call this again.
            if self.wanted_from.is_some() {
                self.watching.watch(self.filter.clone(), self.wanted_from).await?;
                self.wanted_from = None;
            }
            self.share().await?;
            let Some(shared) = &mut self.shared else { return self.next_of_own().await };
            shared.version.borrow_and_update();
            match shared.feed.after(self.sent.unwrap_or_default()) {
                FeedRead::Events(bytes, last) => {
                    self.sent = Some(last);
                    return Ok(bytes);
                }
                FeedRead::Ended(why) => return Err(why),
                // This listener was too slow. It continues with a watch of its own.
                FeedRead::Missing => {
                    self.shared = None;
                    self.wanted_from = self.sent.take().map(|sent| sent + 1);
                }
                FeedRead::Nothing => {
                    tokio::select! {
                        _ = shared.version.changed() => {}
                        ended = self.watching.ended() => return Err(ended),
                    }
                }
            }
        }
    }

    /// Changes from its own watch to the feed when it is live and the feed has all that comes next.
    async fn share(&mut self) -> Result<(), HubRefusal> {
        let (None, Some(sent)) = (&self.shared, self.sent) else { return Ok(()) };
        let Some(feed) = self.place.feed(&self.peer.hub, self.encode) else { return Ok(()) };
        if feed.after(sent) == FeedRead::Missing {
            return Ok(());
        }
        self.shared = Some(SharedFeed { version: feed.subscribe(), feed });
        self.watching.unwatch().await
    }

    /// What its own watch has: the next item and all that has arrived, as much as is sent at a time.
    async fn next_of_own(&mut self) -> Result<Bytes, HubRefusal> {
        let mut item = self.watching.next().await?;
        let mut out = String::new();
        loop {
            match &item {
                WatchItem::Live { next } => self.sent = Some(next.saturating_sub(1)),
                WatchItem::Event(event) => self.sent = self.sent.map(|_| event.seq),
                WatchItem::Gap { oldest, .. } => self.sent = self.sent.map(|_| oldest.saturating_sub(1)),
            }
            (self.encode)(&mut out, &item);
            if out.len() >= BATCH_BYTES {
                break;
            }
            match self.watching.next_now() {
                Some(Ok(next)) => item = next,
                // Nothing more is expected after this: what has arrived is sent first.
                Some(Err(why)) if out.is_empty() => return Err(why),
                Some(Err(why)) => {
                    self.watching.put_back(why);
                    break;
                }
                None => break,
            }
        }
        Ok(Bytes::from(out))
    }
}
