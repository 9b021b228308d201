//! The options of a subscription, including what happens after a reconnect.

use std::fmt;
use std::sync::Arc;

use tenure_wire::Name;
use tenure_wire::topic::{Policy, Recovery, Subscribe as SubscribeRequest, TopicGap};

use crate::error::Error;
use crate::reconnection::ReconnectionPolicy;

/// The state of a subscriber's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first connection is being made.
    Connecting,
    /// Messages arrive.
    Connected,
    /// The connection was lost, and the subscriber reconnects.
    Reconnecting,
    /// The subscription ended, or the subscriber gave up.
    Disconnected,
}

pub(crate) type OnState = Arc<dyn Fn(ConnectionState, Option<&Error>) + Send + Sync>;
pub(crate) type OnGap = Arc<dyn Fn(&TopicGap) + Send + Sync>;

/// The options of a subscription: topics, queue limit, and recovery after an absence.
///
/// ```no_run
/// use tenure_client::{Client, Received, Recovery, Subscribe};
///
/// # async fn example(client: Client) -> Result<(), tenure_client::Error> {
/// let subscribe = Subscribe::to(["sensor.*.temp"]).id("dashboard").recovery(Recovery::Replay);
/// let mut subscriber = client.subscribe(subscribe).await?;
/// while let Some(received) = subscriber.next().await {
///     match received? {
///         Received::Message { message, .. } => println!("{} {}", message.topic, message.sequence),
///         Received::Gap(gap) => println!("{}: {} to {} are gone", gap.topic, gap.first_missed, gap.last_missed),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Subscribe {
    pub(crate) request: SubscribeRequest,
    pub(crate) recovery: Recovery,
    pub(crate) policy: ReconnectionPolicy,
    pub(crate) on_state: Option<OnState>,
    pub(crate) on_gap: Option<OnGap>,
}

impl Subscribe {
    /// Subscribes to these names and patterns: `*` matches one level, `>` at the end all remaining levels.
    pub fn to<N: Into<Name>>(topics: impl IntoIterator<Item = N>) -> Subscribe {
        let topics = topics.into_iter().map(Into::into).collect();
        Subscribe {
            request: SubscribeRequest { topics, ..SubscribeRequest::default() },
            recovery: Recovery::None,
            policy: ReconnectionPolicy::default(),
            on_state: None,
            on_gap: None,
        }
    }

    /// Sets the id of the subscription, under which a later process can resume it. A subscriber that uses the same id
    /// takes the subscription over.
    #[must_use]
    pub fn id(mut self, id: impl Into<Name>) -> Subscribe {
        self.request.id = Some(id.into());
        self
    }

    /// Shares the messages with the other members of this group.
    #[must_use]
    pub fn group(mut self, group: impl Into<Name>) -> Subscribe {
        self.request.group = Some(group.into());
        self
    }

    /// Starts with the retained values.
    #[must_use]
    pub fn retained(mut self) -> Subscribe {
        self.request.retained = true;
        self
    }

    /// Sets how many messages may wait at the broker, and what happens when the queue is full.
    #[must_use]
    pub fn queue(mut self, messages: u32, policy: Policy) -> Subscribe {
        self.request.queue = messages;
        self.request.policy = Some(policy);
        self
    }

    /// Sets what the subscriber receives after an absence: nothing (the default), the retained values, or all missed
    /// messages.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Subscribe {
        self.recovery = recovery;
        self
    }

    /// Starts at this sequence, as far as the broker still keeps it; 1 for everything that is kept.
    #[must_use]
    pub fn from(mut self, sequence: u64) -> Subscribe {
        self.request.last = Some(sequence.saturating_sub(1));
        self
    }

    /// Sets how often and how fast to reconnect after a lost connection.
    #[must_use]
    pub fn reconnection(mut self, policy: ReconnectionPolicy) -> Subscribe {
        self.policy = policy;
        self
    }

    /// Sets a callback for changes of the connection state, with the error if there is one. It should return quickly.
    #[must_use]
    pub fn on_state(
        mut self,
        callback: impl Fn(ConnectionState, Option<&Error>) + Send + Sync + 'static,
    ) -> Subscribe {
        self.on_state = Some(Arc::new(callback));
        self
    }

    /// Sets a callback for gaps, called as soon as a gap is known. It should return quickly.
    #[must_use]
    pub fn on_gap(mut self, callback: impl Fn(&TopicGap) + Send + Sync + 'static) -> Subscribe {
        self.on_gap = Some(Arc::new(callback));
        self
    }

    /// The request for the first connection.
    pub(crate) fn first(&self) -> SubscribeRequest {
        let mut request = self.request.clone();
        request.recovery = match (&request.last, &request.id) {
            (Some(_), _) => Some(Recovery::Replay),
            // An earlier process may have used this id.
            (None, Some(_)) => Some(self.recovery.clone()),
            (None, None) => None,
        };
        request
    }
}

impl fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribe")
            .field("request", &self.request)
            .field("recovery", &self.recovery)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
