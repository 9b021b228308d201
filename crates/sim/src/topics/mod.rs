//! Topics in a simulated world: publishers, subscribers that read slowly and lose their connections, and a broker that
//! is killed, loses its power, or stops properly. Shards, saver and log are real; time, disk and network are
//! simulated.

mod record;
mod subscriber;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_hub::topics::{
    MessageId, Publish, PublishResult, ShardSettings, SteppedTopics, TopicFilter, TopicLogSettings,
    TopicRefusal, TopicSettings, TopicTime,
};
use tenure_hub::words::{Name, Settings, Timestamp};
use tenure_store::{MemoryDisk, Opened, Parts, Store, StoreError, StoreSettings};

use crate::plan::Mutation;
use crate::random::Random;
use record::Record;
use subscriber::{ResumeStyle, Subscriber};

/// Names of topics. Those under `audit` are durable.
const TOPICS: [&str; 6] = ["audit.a", "audit.b", "audit.c", "plain.a", "plain.b", "plain.c"];
/// What subscribers ask for.
const FILTERS: [&[&str]; 5] = [&["audit.>"], &["plain.*"], &[">"], &["audit.a", "plain.a"], &["audit.b"]];

type PublishFuture = Pin<Box<dyn Future<Output = Result<PublishResult, TopicRefusal>> + Send>>;

/// A publish that is not confirmed yet.
struct Pending {
    topic: &'static str,
    message: u64,
    settling: PublishFuture,
}

struct World {
    random: Random,
    now: u64,
    disk: MemoryDisk,
    broker: Option<SteppedTopics>,
    pending: Vec<Pending>,
    subscribers: Vec<Subscriber>,
    record: Record,
    messages: u64,
    mutation: Mutation,
}

/// What came of it.
#[derive(Debug)]
pub struct TopicsOutcome {
    pub broken: Vec<String>,
    pub messages: u64,
    pub restarts: u64,
    pub deliveries: u64,
}

/// Simulates the topics of one seed.
pub fn live(seed: u64, mutation: Mutation) -> TopicsOutcome {
    let mut random = Random::new(seed ^ 0x746f_7069_6373);
    let mut world = World {
        now: 1_000_000,
        disk: MemoryDisk::new(),
        broker: None,
        pending: Vec::new(),
        subscribers: Vec::new(),
        record: Record::default(),
        messages: 0,
        mutation,
        random: Random::new(random.next()),
    };
    let subscribers = random.between(1, 5) as usize;
    for number in 0..subscribers {
        let manner = *random.pick(&ResumeStyle::ALL);
        let filters = random.pick(&FILTERS);
        world.subscribers.push(Subscriber::new(number, manner, filters, mutation));
    }
    world.start();
    for _ in 0..random.between(100, 500) {
        world.step();
    }
    world.calm();
    TopicsOutcome {
        broken: world.record.broken().to_vec(),
        messages: world.messages,
        restarts: world.record.restarts,
        deliveries: world.record.deliveries,
    }
}

impl World {
    fn step(&mut self) {
        self.now += self.random.between(1, 400);
        if let Some(broker) = &self.broker {
            broker.set_time(TopicTime(self.now));
        }
        match self.random.between(0, 100) {
            0..35 => self.publish(),
            35..55 => self.save(),
            55..78 => self.someone_reads(),
            78..86 => self.someone_is_cut(),
            86..94 => self.someone_comes_back(),
            94..96 => self.tick(),
            96..98 => self.kill(),
            98 => self.lose_power(),
            _ => self.stop(),
        }
        self.settle();
    }

    fn publish(&mut self) {
        let topic = *self.random.pick(&TOPICS);
        for _ in 0..self.random.between(1, 30) {
            let Some(broker) = &self.broker else { return };
            self.messages += 1;
            let message = self.messages;
            let publish = Publish::new(topic, MessageId(message.into()), message.to_string());
            if let Ok(receipt) = broker.topics().publish_now(&namespace(), publish) {
                let settling = Box::pin(receipt.settled());
                self.pending.push(Pending { topic, message, settling });
            }
        }
    }

    /// Checks which publishes are confirmed.
    fn settle(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let record = &mut self.record;
        self.pending.retain_mut(|pending| match pending.settling.as_mut().poll(&mut context) {
            Poll::Ready(Ok(published)) => {
                record.confirmed(pending.topic, published.sequence.0, pending.message);
                false
            }
            Poll::Ready(Err(_)) => false,
            Poll::Pending => true,
        });
    }

    fn save(&mut self) {
        let Some(broker) = &mut self.broker else { return };
        if self.random.percent(4) {
            // In the middle of the next few changes of the disk.
            self.disk.fail_power_after(self.random.between(0, 4));
        }
        if broker.save().is_err() {
            self.die(true);
        }
    }

    fn someone_reads(&mut self) {
        let number = self.random.between(0, self.subscribers.len() as u64) as usize;
        let share = self.random.between(0, 101);
        let acknowledges = self.random.percent(50);
        let Some(broker) = &self.broker else { return };
        let subscriber = &mut self.subscribers[number];
        subscriber.carry(&mut self.record);
        subscriber.read(share, &mut self.record);
        if acknowledges {
            subscriber.acknowledge(broker.topics());
        }
    }

    fn someone_is_cut(&mut self) {
        let number = self.random.between(0, self.subscribers.len() as u64) as usize;
        self.subscribers[number].cut();
    }

    fn someone_comes_back(&mut self) {
        let number = self.random.between(0, self.subscribers.len() as u64) as usize;
        if let Some(broker) = &self.broker {
            self.subscribers[number].connect(broker.topics(), &mut self.record);
        }
    }

    fn tick(&mut self) {
        if let Some(broker) = &self.broker {
            broker.tick();
        }
    }

    fn kill(&mut self) {
        self.die(false);
    }

    fn lose_power(&mut self) {
        self.die(true);
    }

    fn stop(&mut self) {
        self.hang_up();
        if let Some(broker) = self.broker.take()
            && broker.stop().is_err()
        {
            return self.die(true);
        }
        self.disk = self.disk.reopen();
        self.start();
    }

    fn die(&mut self, power_fails: bool) {
        self.broker = None;
        self.hang_up();
        self.disk = if power_fails { self.disk.crash(self.random.next()) } else { self.disk.reopen() };
        self.start();
    }

    fn hang_up(&mut self) {
        for subscriber in &mut self.subscribers {
            subscriber.cut();
        }
        // A publisher without a reply does not know the outcome of its message.
        self.pending.clear();
    }

    fn start(&mut self) {
        match self.mutation {
            Mutation::ForgetSync => self.disk.ignore_sync(true),
            Mutation::ForgetTopicSync => self.disk.ignore_sync_of("topics"),
            Mutation::None
            | Mutation::SpeakEarly
            | Mutation::ForgetAbsence
            | Mutation::ForgetKeySync
            | Mutation::ReadEarly
            | Mutation::ForgetOpenEvents
            | Mutation::BeginEarly
            | Mutation::StartClocksEarly => {}
        }
        self.record.restarts += u64::from(self.messages > 0);
        match open(&self.disk, self.now) {
            Ok(broker) => self.broker = Some(broker),
            Err(error) => self.record.check(false, || format!("topics do not start again: {error}")),
        }
    }

    /// No more faults: all subscribers reconnect and read everything.
    fn calm(&mut self) {
        for _ in 0..3 {
            self.save();
            self.settle();
        }
        for number in 0..self.subscribers.len() {
            let Some(broker) = &mut self.broker else { return };
            let subscriber = &mut self.subscribers[number];
            subscriber.connect(broker.topics(), &mut self.record);
            while subscriber.carry(&mut self.record) {}
            subscriber.read(100, &mut self.record);
            self.record.check_all_heard(subscriber);
        }
    }
}

fn open(disk: &MemoryDisk, now: u64) -> Result<SteppedTopics, StoreError> {
    let store = StoreSettings::default();
    let Opened { store, .. } =
        Store::open(Arc::new(disk.clone()), store, Settings::default(), Timestamp(now))?;
    let Parts { reader, .. } = store.split();
    SteppedTopics::open(&reader, settings(), TopicTime(now))
}

/// Small enough that log files are created and removed, and large enough that durable topics keep everything.
fn settings() -> TopicSettings {
    TopicSettings {
        topics: ShardSettings {
            ring_messages: 20,
            paused_ttl: Duration::from_secs(3600),
            ..ShardSettings::default()
        },
        durable: vec![TopicFilter::parse("audit.>").expect("a good filter")],
        durable_messages: 1_000_000,
        log: TopicLogSettings { segment_bytes: 4 << 10, ..TopicLogSettings::default() },
    }
}

fn namespace() -> Name {
    Name::from("default")
}
