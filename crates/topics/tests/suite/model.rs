//! Random histories, checked against what is promised.

use std::collections::BTreeMap;

use crate::common::{Stage, id, subscribe};
use proptest::collection::vec;
use proptest::prelude::*;
use tenure_topics::{
    Delivery, DeliveryKind, MESSAGE_OVERHEAD_BYTES, MessageId, Policy, Publish, Recovery, Resume, Sequence,
    Settings, ShutdownKind, Subscribe, Ticket, Timestamp,
};

const TOPICS: [&str; 4] = ["a", "b.x", "b.y", "c.x.y"];
const FILTERS: [&[&str]; 5] = [&["a", "b.x"], &[">"], &["b.*", "a"], &["b.>", "*.x", "b.y"], &["c.x.y"]];

/// A subscriber that writes down the last number of each topic and checks every new one against it.
struct Follower {
    name: String,
    last: BTreeMap<String, u64>,
}

impl Follower {
    /// Nothing is skipped in silence, nothing comes twice, nothing comes out of order.
    fn hear(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::Message { kind: DeliveryKind::Live | DeliveryKind::Replay, message } => {
                self.advance(&message.topic, message.sequence, message.sequence);
            }
            Delivery::Gap(gap) => {
                assert!(gap.first_missed <= gap.last_missed && gap.last_missed < gap.oldest_kept);
                self.advance(&gap.topic, gap.first_missed, gap.last_missed);
            }
            Delivery::ReplayComplete(complete) => {
                assert_eq!(self.last_of(&complete.topic), complete.latest.0, "{}", complete.topic);
            }
            Delivery::Message { kind: DeliveryKind::Retained, .. } | Delivery::Warning(_) => {}
        }
    }

    fn advance(&mut self, topic: &str, first: Sequence, last: Sequence) {
        let before = self.last_of(topic);
        assert_eq!(first.0, before + 1, "{} in {topic}", self.name);
        self.last.insert(topic.to_owned(), last.0);
    }

    fn last_of(&self, topic: &str) -> u64 {
        self.last.get(topic).copied().unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish {
        topic: usize,
    },
    Take {
        follower: usize,
        max: usize,
    },
    /// The stream breaks; this many of what was taken last never arrived.
    Pause {
        follower: usize,
        unsent: usize,
    },
    Resume {
        follower: usize,
        knows: bool,
    },
    GiveUp,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..TOPICS.len()).prop_map(|topic| Step::Publish { topic }),
        4 => (0..FILTERS.len(), 1..6_usize).prop_map(|(follower, max)| Step::Take { follower, max }),
        1 => (0..FILTERS.len(), 0..3_usize).prop_map(|(follower, unsent)| Step::Pause { follower, unsent }),
        1 => (0..FILTERS.len(), any::<bool>()).prop_map(|(follower, knows)| Step::Resume { follower, knows }),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Restart),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::DropOldest), Just(Policy::DropNewest), Just(Policy::Block)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_number_is_heard_or_named_in_a_gap_exactly_once_and_in_order(
        steps in vec(step(), 0..120), policy in policy(),
        ring_messages in 0..6_usize, kept in 0..10_usize, queue_messages in 1..5_u32, waiting_messages in 1..4_usize,
    ) {
        let settings = Settings {
            policy, ring_messages, queue_messages, waiting_messages,
            ring_bytes: kept * (MESSAGE_OVERHEAD_BYTES + 1),
            ..Settings::default()
        };
        let mut world = World::new(settings);
        for step in steps {
            world.step(&step);
        }
        world.finish();
    }

    #[test]
    fn an_expired_message_is_never_heard_and_the_accounts_always_balance(
        steps in vec((0..TOPICS.len(), 0..400_u64, 0..5_usize, any::<bool>()), 1..150),
        policy in policy(), ring_messages in 0..6_usize, queue_messages in 1..5_u32,
    ) {
        let mut stage = Stage::with(Settings { policy, ring_messages, queue_messages, ..Settings::default() });
        for (number, topics) in FILTERS.iter().enumerate() {
            stage.subscribe(Subscribe { retained: true, ..subscribe(&number.to_string(), topics) }).unwrap();
        }
        for (topic, millis, taker, retain) in steps {
            let mut publish = Publish::new(TOPICS[topic], MessageId(0), "x");
            publish.retain = retain;
            if millis > 0 {
                publish = publish.ttl(std::time::Duration::from_millis(millis));
            }
            stage.publish(publish).unwrap();
            stage.pass(37);
            let now = stage.now;
            for delivery in stage.take(&taker.to_string(), 2) {
                if let Delivery::Message { message, .. } = delivery {
                    prop_assert!(message.expires_at > now);
                }
            }
            if stage.shard.next_deadline().is_some_and(|due| due <= now) {
                stage.reap();
                prop_assert!(stage.shard.next_deadline().is_none_or(|due| due > now));
            }
            check_accounts(&stage)?;
        }
        stage.pass(1000);
        stage.reap();
        prop_assert!(stage.shard.next_deadline().is_none(), "nothing that expires is left");
        check_accounts(&stage)?;
    }
}

/// What came in went out, was dropped, or is still there.
fn check_accounts(stage: &Stage) -> Result<(), TestCaseError> {
    let settings = stage.shard.settings();
    let stats = stage.shard.stats();
    prop_assert!(stats.kept_bytes <= settings.ring_bytes);
    let page = stage.shard.topics(0, 1000, None, stage.now);
    prop_assert_eq!(page.items.iter().map(|topic| topic.kept).sum::<usize>(), stats.kept_messages);
    prop_assert!(page.items.iter().all(|topic| topic.kept <= settings.ring_messages));
    prop_assert_eq!(stats.kept_bytes == 0, stats.kept_messages == 0);
    for info in stage.shard.subscriptions(0, 1000, stage.now).items {
        let stats = info.stats;
        prop_assert!(stats.depth <= stats.high_watermark && stats.high_watermark <= stats.limit);
        let out = u64::from(stats.depth) + stats.delivered + stats.dropped.total() - stats.dropped.newest;
        // A message that waited for a blocking subscriber may expire before it comes in.
        if info.policy == Policy::Block {
            prop_assert!(out >= stats.enqueued, "{:?}", stats);
        } else {
            prop_assert_eq!(out, stats.enqueued, "{:?}", stats);
        }
    }
    Ok(())
}

struct World {
    stage: Stage,
    followers: Vec<Follower>,
    /// What each follower was given last and may still lose.
    in_flight: Vec<Vec<Delivery>>,
    tickets: Vec<Ticket>,
    published: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(settings: Settings) -> World {
        let mut stage = Stage::with(settings);
        let mut followers = Vec::new();
        for (number, topics) in FILTERS.iter().enumerate() {
            let name = format!("follower {number}");
            stage.join(&name, topics);
            followers.push(Follower { name, last: BTreeMap::new() });
        }
        let in_flight = vec![Vec::new(); followers.len()];
        World { stage, followers, in_flight, tickets: Vec::new(), published: BTreeMap::new() }
    }

    fn step(&mut self, step: &Step) {
        self.stage.pass(1);
        match *step {
            Step::Publish { topic } => self.publish(TOPICS[topic]),
            Step::Take { follower, max } if !self.is_paused(follower) => {
                self.arrive(follower, 0);
                let name = self.followers[follower].name.clone();
                self.in_flight[follower] = self.stage.take(&name, max);
                self.drop_released();
            }
            Step::Pause { follower, unsent } if !self.is_paused(follower) => self.pause(follower, unsent),
            Step::Resume { follower, knows } => self.resume(follower, knows),
            Step::GiveUp => {
                for ticket in std::mem::take(&mut self.tickets) {
                    self.stage.shard.give_up(ticket, self.stage.now);
                }
                self.stage.shard.released();
            }
            Step::Restart => self.restart(),
            Step::Take { .. } | Step::Pause { .. } => {}
        }
    }

    /// All subscribers come back and receive the rest: then all are up to date.
    fn finish(&mut self) {
        for follower in 0..self.followers.len() {
            self.arrive(follower, 0);
            if self.is_paused(follower) {
                self.resume(follower, false);
            }
            let key = self.stage.key(&self.followers[follower].name);
            let mut out = Vec::new();
            while self.stage.shard.take(key, 3, self.stage.now, &mut out).unwrap().more {}
            self.in_flight[follower] = out;
            self.arrive(follower, 0);
            for (topic, &number) in &self.published {
                if self.wants(follower, topic) {
                    assert_eq!(self.followers[follower].last_of(topic), number, "{follower} {topic}");
                }
            }
        }
        self.drop_released();
        assert_eq!(self.tickets, [], "no publisher waits for those who took everything");
    }

    fn publish(&mut self, topic: &'static str) {
        let published = self.stage.say(topic, "x");
        let count = self.published.entry(topic).or_default();
        *count += 1;
        assert_eq!(published.sequence.0, *count);
        self.tickets.extend(published.ticket);
        self.drop_released();
    }

    fn pause(&mut self, follower: usize, unsent: usize) {
        let lost = self.arrive(follower, unsent);
        let key = self.stage.key(&self.followers[follower].name);
        self.stage.shard.pause(key, &lost, self.stage.now, &mut self.stage.wake).unwrap();
        self.drop_released();
    }

    fn resume(&mut self, follower: usize, knows: bool) {
        // A stream that is taken over had its chance to arrive.
        self.arrive(follower, 0);
        let one = &self.followers[follower];
        let mut resume = Resume::new(id(&one.name), Recovery::Replay);
        if knows {
            resume.last_seen =
                one.last.iter().map(|(topic, last)| crate::common::last_seen(topic, *last)).collect();
        }
        let missed: u64 = self
            .published
            .iter()
            .filter(|(topic, _)| self.wants(follower, topic))
            .map(|(topic, number)| number - one.last_of(topic))
            .sum();
        let resumed = self.stage.resume(&resume).unwrap();
        assert_eq!(resumed.missed, Some(missed));
        assert!(resumed.lost <= missed);
        self.drop_released();
    }

    /// Stops the broker with everything that is in flight on its way, and starts it again.
    fn restart(&mut self) {
        for follower in 0..self.followers.len() {
            self.arrive(follower, 0);
        }
        let snapshot = self.stage.shard.snapshot(ShutdownKind::Clean, self.stage.now);
        let mut stage = Stage::with(self.stage.shard.settings().clone());
        stage.now = self.stage.now;
        stage.shard.restore(snapshot, ShutdownKind::Clean, stage.now).unwrap();
        self.stage = stage;
        self.tickets.clear();
    }

    /// All but the last few items in flight arrive. Returns the others.
    fn arrive(&mut self, follower: usize, unsent: usize) -> Vec<Delivery> {
        let mut arrived = std::mem::take(&mut self.in_flight[follower]);
        let lost = arrived.split_off(arrived.len().saturating_sub(unsent));
        for delivery in &arrived {
            self.followers[follower].hear(delivery);
        }
        lost
    }

    fn drop_released(&mut self) {
        let released = self.stage.shard.released();
        self.tickets.retain(|ticket| !released.contains(ticket));
    }

    fn is_paused(&self, follower: usize) -> bool {
        let key = self.stage.key(&self.followers[follower].name);
        self.stage.shard.subscription(key, Timestamp(0)).unwrap().paused_until.is_some()
    }

    fn wants(&self, follower: usize, topic: &str) -> bool {
        crate::common::filters(FILTERS[follower]).iter().any(|filter| filter.matches(topic))
    }
}
