//! A subscriber whose connection buffers more than it reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tenure_hub::topics::{
    Delivery, DeliveryKind, Recovery, Resume, Sequence, Subscribe, SubscriptionHandle, SubscriptionId,
    TopicFilter, Topics,
};

use super::namespace;
use super::record::{Record, is_durable};
use crate::plan::Mutation;

/// What it sends when it reconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResumeStyle {
    /// The last number of each topic.
    EachTopic,
    /// The last sequence it read, of any topic.
    OneNumber,
    Nothing,
    /// Nothing, but it sometimes acknowledges what it has read.
    Acknowledges,
}

impl ResumeStyle {
    pub(super) const ALL: [ResumeStyle; 4] =
        [ResumeStyle::EachTopic, ResumeStyle::OneNumber, ResumeStyle::Nothing, ResumeStyle::Acknowledges];
}

#[derive(Debug)]
pub(super) struct Subscriber {
    id: SubscriptionId,
    manner: ResumeStyle,
    filters: Vec<TopicFilter>,
    stream: Option<SubscriptionHandle>,
    /// Buffered by the connection, and not read.
    unread: VecDeque<Delivery>,
    heard: BTreeMap<String, BTreeSet<u64>>,
    /// The last sequence of each topic that it has received, or that a gap covered.
    last: BTreeMap<String, u64>,
    last_of_any: Option<u64>,
    /// Plain topics of which the broker said that messages may be lost without a gap.
    excused: BTreeSet<String>,
    is_known: bool,
    /// The latest confirmed number of each durable topic when it subscribed.
    durable_from: BTreeMap<String, u64>,
    mutation: Mutation,
}

impl Subscriber {
    pub(super) fn new(
        number: usize,
        manner: ResumeStyle,
        filters: &[&str],
        mutation: Mutation,
    ) -> Subscriber {
        let filters = filters.iter().map(|text| TopicFilter::parse(text).expect("a good filter")).collect();
        Subscriber {
            id: SubscriptionId::parse(&format!("subscriber-{number}")).expect("a short text"),
            manner,
            filters,
            stream: None,
            unread: VecDeque::new(),
            heard: BTreeMap::new(),
            last: BTreeMap::new(),
            last_of_any: None,
            excused: BTreeSet::new(),
            is_known: false,
            durable_from: BTreeMap::new(),
            mutation,
        }
    }

    pub(super) fn describe(&self) -> String {
        let filters: Vec<&str> = self.filters.iter().map(TopicFilter::as_str).collect();
        format!("{} ({:?}, {filters:?})", self.id, self.manner)
    }

    pub(super) fn wants(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }

    pub(super) fn durable_from(&self, topic: &str) -> u64 {
        self.durable_from.get(topic).copied().unwrap_or(0)
    }

    pub(super) fn has_heard(&self, topic: &str, number: u64) -> bool {
        self.heard.get(topic).is_some_and(|numbers| numbers.contains(&number))
    }

    pub(super) fn connect(&mut self, topics: &Topics, record: &mut Record) {
        self.cut();
        if !self.is_known {
            let subscribe = Subscribe::new(self.id.clone(), self.filters.clone());
            match topics.subscribe(&namespace(), subscribe) {
                Ok((stream, _)) => self.stream = Some(stream),
                Err(refusal) => record.check(false, || format!("{} is refused: {refusal}", self.describe())),
            }
            self.is_known = true;
            return self.begins(record);
        }
        let mut resume = Resume::new(self.id.clone(), Recovery::Replay);
        resume.filters.clone_from(&self.filters);
        match self.manner {
            ResumeStyle::EachTopic => {
                let last = self.last.iter().map(|(topic, last)| (Arc::from(topic.as_str()), Sequence(*last)));
                resume.last_seen = last.collect();
            }
            ResumeStyle::OneNumber => resume.last_seen_single = self.last_of_any.map(Sequence),
            ResumeStyle::Nothing | ResumeStyle::Acknowledges => {}
        }
        match topics.resume(&namespace(), &resume) {
            Ok((stream, resumed)) => {
                self.stream = Some(stream);
                if resumed.has_losses() {
                    let plain = self.last.keys().filter(|topic| !is_durable(topic)).cloned();
                    self.excused.extend(plain.collect::<Vec<_>>());
                }
                if resumed.created {
                    // The broker was killed before it had stored the subscription, and says so.
                    record.check(resumed.has_losses() || resumed.missed == Some(0), || {
                        format!("{} is new and hears of {:?} missed", self.describe(), resumed.missed)
                    });
                    self.begins(record);
                }
            }
            Err(refusal) => record.check(false, || format!("{} is refused: {refusal}", self.describe())),
        }
    }

    /// The connection takes what is available. Returns whether there was something.
    pub(super) fn carry(&mut self, record: &mut Record) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let mut taken = Vec::new();
        if stream.try_take(50, 1 << 20, &mut taken).is_err() {
            record.check(false, || format!("the stream of {} ended by itself", self.id));
            return false;
        }
        let any = !taken.is_empty();
        self.unread.extend(taken);
        any
    }

    /// The program reads this percentage of what the connection buffers.
    pub(super) fn read(&mut self, percent: u64, record: &mut Record) {
        let count = self.unread.len() * percent as usize / 100;
        for _ in 0..count {
            if let Some(delivery) = self.unread.pop_front() {
                self.handle_delivery(&delivery, record);
            }
        }
    }

    pub(super) fn acknowledge(&mut self, topics: &Topics) {
        if self.manner != ResumeStyle::Acknowledges || self.stream.is_none() {
            return;
        }
        let mut read: Vec<(Arc<str>, Sequence)> =
            self.last.iter().map(|(topic, last)| (Arc::from(topic.as_str()), Sequence(*last))).collect();
        if self.mutation == Mutation::ReadEarly {
            read.extend(self.unread.iter().filter_map(|delivery| match delivery {
                Delivery::Message { message, .. } => Some((Arc::clone(&message.topic), message.sequence)),
                _ => None,
            }));
        }
        // The broker may have ended the subscription meanwhile.
        let _ = topics.acknowledge(&namespace(), &self.id, &read);
    }

    /// The connection breaks, with everything unread in it.
    pub(super) fn cut(&mut self) {
        self.stream = None;
        self.unread.clear();
    }

    /// From here on it must receive everything that is confirmed.
    fn begins(&mut self, record: &Record) {
        for topic in record.durable_topics() {
            self.durable_from.insert(topic.clone(), record.latest(topic));
        }
    }

    fn handle_delivery(&mut self, delivery: &Delivery, record: &mut Record) {
        record.deliveries += 1;
        match delivery {
            Delivery::Message { kind, message } => {
                let (topic, number) = (message.topic.to_string(), message.sequence.0);
                let content = std::str::from_utf8(&message.payload).ok().and_then(|text| text.parse().ok());
                record.numbered(&topic, number, content.unwrap_or(0));
                self.heard.entry(topic.clone()).or_default().insert(number);
                if *kind == DeliveryKind::Retained {
                    return;
                }
                self.check_hole(&topic, number, record);
                let last = self.last.entry(topic).or_insert(number);
                *last = number.max(*last);
                self.last_of_any = Some(number);
            }
            Delivery::Gap(gap) => {
                let topic = gap.topic.to_string();
                // Every message of a durable topic is on disk and within its limits, so none may be missing.
                record.check(!is_durable(&topic), || {
                    format!("{} receives a gap of a durable topic: {gap:?}", self.describe())
                });
                self.check_hole(&topic, gap.first_missed.0, record);
                let last = self.last.entry(topic).or_insert(gap.last_missed.0);
                *last = gap.last_missed.0.max(*last);
            }
            Delivery::ReplayComplete(_) | Delivery::Warning(_) => {}
        }
    }

    /// Nothing may be missing between the last sequence and this one without a gap.
    fn check_hole(&mut self, topic: &str, number: u64, record: &mut Record) {
        let excused = self.excused.remove(topic);
        let last = self.last.get(topic).copied();
        record.check(excused || last.is_none_or(|last| number <= last + 1), || {
            format!("{} hears {topic}#{number} after #{last:?}, and nothing about a gap", self.describe())
        });
    }
}
