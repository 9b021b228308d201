//! The names under which the broker tells what happens in it: `task.<id>`, `queue.<name>`, `worker.<name>`. They are
//! read from the events, by a watch like any other; see `feed`.

use std::collections::HashMap;
use std::sync::Arc;

use tenure_engine::{Event, EventFilter, TaskId};
use tenure_topics::{Delivery, Recovery, Resume, SubscriptionId, TopicFilter, TopicRefusal};

/// First levels that belong to the broker.
pub const EVENT_PREFIXES: [&str; 3] = ["task", "queue", "worker"];

/// The prefix of a name or pattern that belongs to the broker. A pattern has to begin with the word itself: `>` and
/// `*.x` are about other topics.
pub(crate) fn event_prefix(text: &str) -> Option<&'static str> {
    let (first, _) = text.split_once('.')?;
    EVENT_PREFIXES.into_iter().find(|prefix| *prefix == first)
}

pub(super) fn refuse_read_only(topic: &str) -> Result<(), TopicRefusal> {
    event_prefix(topic).map_or(Ok(()), |prefix| Err(TopicRefusal::ReadOnly { prefix }))
}

/// The number of an event that is waiting to be taken.
pub(super) fn event_number(delivery: &Delivery) -> Option<u64> {
    match delivery {
        Delivery::Message { message, .. } => event_prefix(&message.topic).map(|_| message.sequence.0),
        Delivery::Gap(gap) => event_prefix(&gap.topic).map(|_| gap.first_missed.0),
        Delivery::ReplayComplete(_) | Delivery::Warning(_) => None,
    }
}

/// What a subscription wants to hear of events.
#[derive(Debug)]
pub(super) struct Interest {
    pub(super) filters: Vec<TopicFilter>,
    /// The first event it wants; from now on if absent.
    pub(super) from: Option<u64>,
    /// It comes back and wants what it missed, so it is told when it has come, even if nobody knows where it stood.
    pub(super) replay: bool,
    /// The last number it saw of each of these topics.
    last_seen: HashMap<Arc<str>, u64>,
}

impl Interest {
    /// Nothing if none of the filters is about events.
    pub(super) fn new(filters: &[TopicFilter]) -> Option<Interest> {
        let filters: Vec<TopicFilter> =
            filters.iter().filter(|filter| event_prefix(filter.as_str()).is_some()).cloned().collect();
        if filters.is_empty() {
            None
        } else {
            Some(Interest { filters, from: None, replay: false, last_seen: HashMap::new() })
        }
    }

    /// Where one that comes back goes on: where the client says, else where the broker remembers.
    pub(super) fn resume(
        mut self,
        resume: &Resume,
        single_counts: bool,
        remembered: Option<u64>,
    ) -> Interest {
        if resume.recovery != Recovery::Replay {
            return self;
        }
        self.replay = true;
        for (topic, last) in &resume.last_seen {
            if event_prefix(topic).is_some() {
                self.last_seen.insert(Arc::clone(topic), last.0);
            }
        }
        let said = self.last_seen.values().min().copied();
        let single = resume.last_seen_single.filter(|_| single_counts).map(|last| last.0);
        let next = said.or(single).map(|last| last.saturating_add(1));
        self.from = next.or(remembered).map(|from| from.max(1));
        self
    }

    /// The narrowest filter that lets everything through.
    pub(super) fn event_filter(&self) -> EventFilter {
        let all = EventFilter::default();
        let [only] = &self.filters[..] else { return all };
        if only.is_wild() {
            return all;
        }
        match only.as_str().split_once('.') {
            Some(("task", id)) => EventFilter { task: id.parse::<TaskId>().ok(), ..all },
            Some(("queue", name)) => EventFilter { queue: Some(name.into()), ..all },
            Some(("worker", name)) => EventFilter { worker: Some(name.into()), ..all },
            _ => all,
        }
    }

    /// The topics of an event that are wanted.
    pub(super) fn topics_of(&self, event: &Event) -> Vec<Arc<str>> {
        let names = [
            event.task().map(|id| format!("task.{id}")),
            event.queue().map(|name| format!("queue.{name}")),
            event.worker().map(|name| format!("worker.{name}")),
        ];
        let wanted = names.into_iter().flatten().filter(|name| {
            self.filters.iter().any(|filter| filter.matches(name))
                && self.last_seen.get(name.as_str()).is_none_or(|last| event.seq > *last)
        });
        wanted.map(Arc::from).collect()
    }
}

/// Whether a single number counts for events. It is enough for all of them, because they have one sequence; not if
/// there are other topics too, unless the subscription is new and the number is all there is.
pub(super) fn single_counts(all: &[TopicFilter], is_known: bool) -> bool {
    !is_known || all.iter().all(|filter| event_prefix(filter.as_str()).is_some())
}

/// What the shard is told of one that comes back: it knows nothing of events.
pub(super) fn without_events(resume: &Resume, all: &[TopicFilter], is_known: bool) -> Resume {
    let mut resume = resume.clone();
    resume.last_seen.retain(|(topic, _)| event_prefix(topic).is_none());
    if is_known && all.iter().any(|filter| event_prefix(filter.as_str()).is_some()) {
        resume.last_seen_single = None;
    }
    resume
}

/// Where subscriptions stand in the events that have no stream: the first event they have not taken.
pub(super) type Positions = HashMap<SubscriptionId, u64, foldhash::fast::RandomState>;
