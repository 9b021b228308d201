//! What a subscriber wants to hear, and how it comes back when the broker was gone.

use std::fmt;
use std::sync::Arc;

use tenure_wire::Name;
use tenure_wire::topic::{Policy, Recovery, Subscribe as SubscribeRequest, TopicGap};

use crate::error::Error;
use crate::reconnection::ReconnectionPolicy;

/// How the connection of a subscriber is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    Connecting,
    Connected,
    /// It was lost, and is tried again.
    Reconnecting,
    /// It is over: the subscription ended, or was given up.
    Disconnected,
}

pub(crate) type OnState = Arc<dyn Fn(ConnectionState, Option<&Error>) + Send + Sync>;
pub(crate) type OnGap = Arc<dyn Fn(&TopicGap) + Send + Sync>;

/// A subscription to be: which topics, with which queue, and what happens after an absence.
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
    /// Names and patterns: `*` for one level, `>` at the end for all the rest.
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

    /// A name of one's own, under which the subscription is found again by the next process too. Whoever comes with the
    /// same one takes it over.
    #[must_use]
    pub fn id(mut self, id: impl Into<Name>) -> Subscribe {
        self.request.id = Some(id.into());
        self
    }

    /// Share the messages with the other members of this group.
    #[must_use]
    pub fn group(mut self, group: impl Into<Name>) -> Subscribe {
        self.request.group = Some(group.into());
        self
    }

    /// Begin with the last known values.
    #[must_use]
    pub fn retained(mut self) -> Subscribe {
        self.request.retained = true;
        self
    }

    /// How many messages may wait at the broker, and what happens to the next one then.
    #[must_use]
    pub fn queue(mut self, messages: u32, policy: Policy) -> Subscribe {
        self.request.queue = messages;
        self.request.policy = Some(policy);
        self
    }

    /// What comes after an absence: nothing (the default), the last known values, or everything that was missed.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Subscribe {
        self.recovery = recovery;
        self
    }

    /// Begin with this number, as far as the broker still has it; 1 for everything that is kept.
    #[must_use]
    pub fn from(mut self, sequence: u64) -> Subscribe {
        self.request.last = Some(sequence.saturating_sub(1));
        self
    }

    #[must_use]
    pub fn reconnection(mut self, policy: ReconnectionPolicy) -> Subscribe {
        self.policy = policy;
        self
    }

    /// Is called when the connection comes and goes, with what went wrong. It should not take long.
    #[must_use]
    pub fn on_state(
        mut self,
        told: impl Fn(ConnectionState, Option<&Error>) + Send + Sync + 'static,
    ) -> Subscribe {
        self.on_state = Some(Arc::new(told));
        self
    }

    /// Is called for every gap, as soon as it is known. It should not take long.
    #[must_use]
    pub fn on_gap(mut self, told: impl Fn(&TopicGap) + Send + Sync + 'static) -> Subscribe {
        self.on_gap = Some(Arc::new(told));
        self
    }

    /// What to ask of the first connection.
    pub(crate) fn first(&self) -> SubscribeRequest {
        let mut request = self.request.clone();
        request.recovery = match (&request.last, &request.id) {
            (Some(_), _) => Some(Recovery::Replay),
            // A process before this one may have had it.
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
