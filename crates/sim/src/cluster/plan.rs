//! The parameters of a world with three brokers, derived from its seed.

use tenure_store::{JournalFaults, ReplicationMutation};

use crate::random::Random;

#[derive(Clone, Debug)]
pub struct ClusterPlan {
    pub seed: u64,
    pub clients: u64,
    pub workers: u64,
    pub storm_millis: u64,
    pub delay_max_millis: u64,
    /// Chances in percent, each time the leader's writer works.
    pub leader_dies_percent: u64,
    pub power_fails_percent: u64,
    pub leader_stops_percent: u64,
    pub journal_away_percent: u64,
    pub fail_over_percent: u64,
    pub lagging_fail_over_percent: u64,
    /// Chance in percent, each time a standby polls.
    pub standby_dies_percent: u64,
    pub cut_percent: u64,
    pub worker_dies_percent: u64,
    /// Of the calls of the journal.
    pub faults: JournalFaults,
    pub mutation: Option<ReplicationMutation>,
    pub trace: bool,
}

impl ClusterPlan {
    pub fn from_seed(seed: u64, mutation: Option<ReplicationMutation>) -> ClusterPlan {
        let mut random = Random::new(seed ^ 0x636c_7573);
        let quiet = random.percent(10);
        let mut chance = |max| if quiet { 0 } else { random.between(0, max) };
        ClusterPlan {
            seed,
            leader_dies_percent: chance(4),
            power_fails_percent: chance(3),
            leader_stops_percent: chance(3),
            journal_away_percent: chance(3),
            fail_over_percent: chance(4),
            lagging_fail_over_percent: chance(3),
            standby_dies_percent: chance(3),
            cut_percent: chance(3),
            worker_dies_percent: chance(2),
            faults: JournalFaults {
                cut: chance(5),
                answer_lost: chance(6),
                late: chance(6),
                doubt: chance(6),
            },
            clients: random.between(1, 4),
            workers: random.between(1, 4),
            storm_millis: random.between(8_000, 40_000),
            delay_max_millis: random.between(2, 200),
            mutation,
            trace: false,
        }
    }
}
