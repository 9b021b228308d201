//! The topic subscriptions of one connection: one for each channel and each pattern, and the path of their messages.
//!
//! Each subscription has a task that forwards its messages. The queue to the connection is short on purpose: a peer
//! that does not read fills it, the task waits, and the broker drops the oldest messages of that subscription and
//! reports which.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tenure_hub::topics::{
    Delivery, Publish, PublishReceipt, Subscribe, SubscriptionHandle, SubscriptionId, TopicFilter,
    TopicRefusal, Topics, fresh_message_id, fresh_subscription_id,
};
use tenure_hub::words::Name;
use tokio::sync::mpsc;

use super::locked;
use crate::channel::{BroadFilter, ChannelListener};
use crate::glob::glob;

/// Maximum number of batches in the queue to a connection.
const UNDER_WAY_MAX: usize = 4;
const BATCH_MESSAGES_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Messages for a listener.
pub(super) struct ChannelDeliveries {
    pub(super) listener: Arc<ChannelListener>,
    pub(super) deliveries: Vec<Delivery>,
}

pub(super) struct ChannelReceivers {
    topics: Topics,
    patterns: Arc<ChannelPatterns>,
    open: HashMap<Arc<ChannelListener>, Open>,
    /// Created with the first listener: most connections never listen.
    way: Option<(mpsc::Sender<ChannelDeliveries>, mpsc::Receiver<ChannelDeliveries>)>,
}

struct Open {
    namespace: Name,
    id: SubscriptionId,
    filter: BroadFilter,
}

impl ChannelReceivers {
    pub(super) fn new(topics: Topics, patterns: Arc<ChannelPatterns>) -> ChannelReceivers {
        ChannelReceivers { topics, patterns, open: HashMap::new(), way: None }
    }

    pub(super) fn begin(
        &mut self,
        namespace: Name,
        listener: ChannelListener,
        filter: BroadFilter,
        client: &str,
    ) -> Result<(), TopicRefusal> {
        let id = fresh_subscription_id();
        let mut subscribe = Subscribe::new(id.clone(), vec![filter.filter.clone()]);
        subscribe.client = Arc::from(client);
        let (subscription, _) = self.topics.subscribe(&namespace, subscribe)?;
        let listener = Arc::new(listener);
        let (sender, _) = self.way.get_or_insert_with(|| mpsc::channel(UNDER_WAY_MAX));
        tokio::spawn(carry(subscription, Arc::clone(&listener), sender.clone()));
        self.patterns.add(&namespace, &listener, &filter);
        self.open.insert(listener, Open { namespace, id, filter });
        Ok(())
    }

    pub(super) fn end(&mut self, listener: &ChannelListener) {
        let Some(Open { namespace, id, filter }) = self.open.remove(listener) else { return };
        self.patterns.remove(&namespace, listener, &filter);
        // Its stream ends with it, and so does the forwarding task.
        let _ = self.topics.unsubscribe(&namespace, &id);
    }

    /// A batch that has already arrived.
    pub(super) fn try_receive(&mut self) -> Option<ChannelDeliveries> {
        self.way.as_mut().and_then(|(_, way)| way.try_recv().ok())
    }

    /// Waits for the next batch; never returns if there is no listener.
    pub(super) async fn receive(&mut self) -> ChannelDeliveries {
        match &mut self.way {
            // This struct also holds the sender, so the queue stays open.
            Some((_, way)) => way.recv().await.expect("the way is open"),
            None => std::future::pending().await,
        }
    }

    /// Publishes at once, so that the messages of one peer keep their order.
    pub(super) fn publish(
        &self,
        namespace: &Name,
        channel: &str,
        message: Bytes,
    ) -> Result<Sent, TopicRefusal> {
        let unwanted = self.patterns.count_unwanted(namespace, channel);
        let publish = Publish::new(channel, fresh_message_id(), message);
        Ok(Sent { receipt: self.topics.publish_now(namespace, publish)?, unwanted })
    }
}

impl Drop for ChannelReceivers {
    fn drop(&mut self) {
        let listeners: Vec<Arc<ChannelListener>> = self.open.keys().cloned().collect();
        for listener in listeners {
            self.end(&listener);
        }
    }
}

async fn carry(
    mut subscription: SubscriptionHandle,
    listener: Arc<ChannelListener>,
    way: mpsc::Sender<ChannelDeliveries>,
) {
    loop {
        let mut deliveries = Vec::new();
        if subscription.take(BATCH_MESSAGES_MAX, BATCH_BYTES_MAX, &mut deliveries).await.is_err() {
            return;
        }
        if way.send(ChannelDeliveries { listener: Arc::clone(&listener), deliveries }).await.is_err() {
            return;
        }
    }
}

/// A published message that may still wait for the disk or for slow subscribers.
pub(super) struct Sent {
    receipt: PublishReceipt,
    unwanted: u64,
}

impl Sent {
    pub(super) fn is_settled(&self) -> bool {
        self.receipt.is_settled()
    }

    /// How many received it, as Redis counts: every channel and every pattern that matches.
    pub(super) async fn heard_by(self) -> Result<u64, String> {
        let Sent { receipt, unwanted } = self;
        let published = receipt.settled().await.map_err(|refusal| refusal.to_string())?;
        Ok(u64::from(published.receivers).saturating_sub(unwanted))
    }
}

/// Patterns of all connections whose filter matches more than the pattern, so that PUBLISH does not count them for
/// messages they do not want.
#[derive(Debug, Default)]
pub(super) struct ChannelPatterns {
    wide: Mutex<HashMap<Name, ByPattern>>,
}

/// The filter of each pattern, and how many listen with it.
type ByPattern = BTreeMap<Bytes, (TopicFilter, u64)>;

impl ChannelPatterns {
    fn add(&self, namespace: &Name, listener: &ChannelListener, filter: &BroadFilter) {
        let (ChannelListener::Pattern(pattern), false) = (listener, filter.is_exact) else { return };
        let mut wide = locked(&self.wide);
        let entry = wide.entry(namespace.clone()).or_default().entry(pattern.clone());
        entry.or_insert_with(|| (filter.filter.clone(), 0)).1 += 1;
    }

    fn remove(&self, namespace: &Name, listener: &ChannelListener, filter: &BroadFilter) {
        let (ChannelListener::Pattern(pattern), false) = (listener, filter.is_exact) else { return };
        let mut wide = locked(&self.wide);
        let Some(patterns) = wide.get_mut(namespace) else { return };
        if let Some((_, count)) = patterns.get_mut(pattern) {
            *count -= 1;
            if *count == 0 {
                patterns.remove(pattern);
            }
        }
        if patterns.is_empty() {
            wide.remove(namespace);
        }
    }

    /// How many get a message of this topic without wanting it.
    fn count_unwanted(&self, namespace: &Name, topic: &str) -> u64 {
        let wide = locked(&self.wide);
        let Some(patterns) = wide.get(namespace) else { return 0 };
        let unwanted = |(pattern, (filter, _)): &(&Bytes, &(TopicFilter, u64))| {
            filter.matches(topic) && !glob(pattern, topic.as_bytes())
        };
        patterns.iter().filter(unwanted).map(|(_, (_, count))| count).sum()
    }
}
