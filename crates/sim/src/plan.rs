//! The parameters of a world, derived from its seed: how many peers, how many faults.

use crate::random::Random;

/// Deliberate bugs, to show that the checks detect them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    #[default]
    None,
    /// The disk acknowledges every sync and does nothing.
    ForgetSync,
    /// The hub replies before the records are on disk.
    SpeakEarly,
    /// A broker that was stopped for a while does not notice it.
    ForgetAbsence,
    /// The disk does nothing when the topic log is synced.
    ForgetTopicSync,
    /// The disk does nothing when the log of stored keys is synced.
    ForgetKeySync,
    /// A subscriber acknowledges what its connection holds, not what it has read.
    ReadEarly,
    /// A hook's place is the last event that it has read, not the first that is still on its way.
    ForgetOpenEvents,
    /// A worker begins a task that must not run twice before its start is answered.
    BeginEarly,
    /// The timeouts against a worker start when the broker decides, and run while the disk keeps its message back. One
    /// of the two alone does no harm: no timer runs while the disk stalls, and none starts before its message has left.
    StartClocksEarly,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: u64,
    pub workers: u64,
    pub slots_max: u64,
    /// How long, in simulated milliseconds, faults happen.
    pub storm_millis: u64,
    /// Chances in percent, each time a peer acts or the broker syncs.
    pub cut_percent: u64,
    pub worker_dies_percent: u64,
    pub power_fails_percent: u64,
    pub broker_dies_percent: u64,
    pub broker_stops_percent: u64,
    pub disk_stalls_percent: u64,
    /// Maximum delay between a client's actions: if it is long, workers are idle.
    pub client_acts_millis: u64,
    pub delay_max_millis: u64,
    pub tag_limit: u32,
    /// The rate of one queue and of one tag: count, period in milliseconds, burst. The slowest lets three hundred tasks
    /// go in ten calm minutes.
    pub rate: (u32, u64, u32),
    pub mutation: Mutation,
    /// Print everything that happens.
    pub trace: bool,
}

impl Plan {
    pub fn from_seed(seed: u64, mutation: Mutation) -> Plan {
        let mut random = Random::new(seed ^ 0x706c_616e);
        let calm = random.percent(20);
        let mut chance = |max| if calm { 0 } else { random.between(0, max) };
        Plan {
            seed,
            cut_percent: chance(4),
            worker_dies_percent: chance(3),
            power_fails_percent: chance(4),
            broker_dies_percent: chance(3),
            broker_stops_percent: chance(2),
            disk_stalls_percent: chance(12),
            clients: random.between(1, 4),
            workers: random.between(1, 5),
            slots_max: random.between(1, 5),
            storm_millis: random.between(5_000, 40_000),
            delay_max_millis: random.between(2, 400),
            tag_limit: random.between(1, 4) as u32,
            rate: (random.between(1, 10) as u32, random.between(200, 2_000), random.between(1, 6) as u32),
            client_acts_millis: if random.percent(50) { 400 } else { 4_000 },
            mutation,
            trace: false,
        }
    }
}
