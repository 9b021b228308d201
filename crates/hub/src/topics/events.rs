//! The topics of the broker's own events: `task.<id>`, `queue.<name>`, `worker.<name>`. Their messages come
//! from a watch on the events; see `feed`.

use std::collections::HashMap;
use std::sync::Arc;

use tenure_engine::{Event, EventFilter, TaskId};
use tenure_topics::{Delivery, Recovery, Resume, SubscriptionId, TopicFilter, TopicRefusal};

/// First levels that are reserved for the broker.
pub const EVENT_PREFIXES: [&str; 3] = ["task", "queue", "worker"];

/// The reserved prefix of a name or pattern. A pattern must begin with the word itself: `>` and `*.x` match
/// only other topics.
pub(crate) fn event_prefix(text: &str) -> Option<&'static str> {
    let (first, _) = text.split_once('.')?;
    EVENT_PREFIXES.into_iter().find(|prefix| *prefix == first)
}

pub(super) fn refuse_read_only(topic: &str) -> Result<(), TopicRefusal> {
    event_prefix(topic).map_or(Ok(()), |prefix| Err(TopicRefusal::ReadOnly { prefix }))
}

/// The number of an event in a delivery.
pub(super) fn event_number(delivery: &Delivery) -> Option<u64> {
    match delivery {
        Delivery::Message { message, .. } => event_prefix(&message.topic).map(|_| message.sequence.0),
        Delivery::Gap(gap) => event_prefix(&gap.topic).map(|_| gap.first_missed.0),
        Delivery::ReplayComplete(_) | Delivery::Warning(_) => None,
    }
}

/// Which events a subscription wants.
#[derive(Debug)]
pub(super) struct Interest {
    pub(super) filters: Vec<TopicFilter>,
    /// The first event it wants; `None`: from now on.
    pub(super) from: Option<u64>,
    /// A resumed subscription wants the events it missed. It gets the end of its replay even if its position
    /// is unknown.
    pub(super) replay: bool,
    /// The last number that the client saw of each of these topics.
    last_seen: HashMap<Arc<str>, u64>,
}

impl Interest {
    /// `None` if no filter is about events.
    pub(super) fn new(filters: &[TopicFilter]) -> Option<Interest> {
        let filters: Vec<TopicFilter> =
            filters.iter().filter(|filter| event_prefix(filter.as_str()).is_some()).cloned().collect();
        if filters.is_empty() {
            None
        } else {
            Some(Interest { filters, from: None, replay: false, last_seen: HashMap::new() })
        }
    }

    /// Where a resumed subscription continues: the client's position, else the broker's.
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

    /// The numbers that the client has seen are not those of this log.
    pub(super) fn forget_seen(&mut self) {
        self.last_seen.clear();
    }

    /// The narrowest event filter that includes all wanted events.
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

    /// The wanted topics of an event.
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

/// Whether a single last-seen number applies to events. All events share one sequence, so one number is
/// enough, but not if the subscription has other topics as well, unless it is new to the broker.
pub(super) fn single_counts(all: &[TopicFilter], is_known: bool) -> bool {
    !is_known || all.iter().all(|filter| event_prefix(filter.as_str()).is_some())
}

/// The resume request for the shard, without events, which the shard does not know.
pub(super) fn without_events(resume: &Resume, all: &[TopicFilter], is_known: bool) -> Resume {
    let mut resume = resume.clone();
    resume.last_seen.retain(|(topic, _)| event_prefix(topic).is_none());
    if is_known && all.iter().any(|filter| event_prefix(filter.as_str()).is_some()) {
        resume.last_seen_single = None;
    }
    resume
}

/// A number by subscription: the first event that a subscription without a stream has not taken, or its place
/// among the durable messages.
pub(super) type Positions = HashMap<SubscriptionId, u64, foldhash::fast::RandomState>;
