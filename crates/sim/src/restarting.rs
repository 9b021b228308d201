//! What worlds with one broker share: the disk answers now, later or never, and the broker starts again.

use std::time::Duration;

use tenure_hub::words::Timestamp;

use crate::broker::{Broker, Step};
use crate::plan::Mutation;
use crate::random::Random;

/// A world with one broker that loses power and starts again.
pub(crate) trait RestartingWorld {
    /// The longest time without a broker, in milliseconds.
    const DOWN_MILLIS: u64;

    fn parts(&mut self) -> WorldParts<'_>;

    /// The broker has started again: its peers come back.
    fn reconnect(&mut self);

    /// Takes what has arrived from the broker.
    fn hear(&mut self);

    /// The disk answers now, later, or not before the power fails.
    fn after(&mut self, step: &Step) {
        if matches!(step, Step::Writing) && self.parts().random.percent(70) {
            self.sync();
        }
        self.hear();
    }

    fn sync(&mut self) {
        let WorldParts { broker, now, .. } = self.parts();
        if let Step::Dead = broker.sync(*now) {
            self.restart(true);
        }
    }

    /// Lets everything reach the disk and the peers.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            let WorldParts { broker, now, .. } = self.parts();
            match broker.turn(*now) {
                Step::Fine => break,
                Step::Writing | Step::Dead => self.sync(),
            }
        }
        self.hear();
    }

    fn restart(&mut self, power_failure: bool) {
        let WorldParts { random, now, broker, mutation, broken } = self.parts();
        *now = *now + Duration::from_millis(random.between(1, Self::DOWN_MILLIS));
        let disk = broker.disk.clone();
        let disk = if power_failure { disk.crash(random.next()) } else { disk.reopen() };
        match Broker::start(disk, random.next(), *now, mutation) {
            Ok(started) => *broker = started,
            Err(error) => return broken.push(format!("the broker does not start again: {error}")),
        }
        self.reconnect();
    }
}

/// The parts of a world that a restart changes.
pub(crate) struct WorldParts<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) now: &'a mut Timestamp,
    pub(crate) broker: &'a mut Broker,
    pub(crate) mutation: Mutation,
    pub(crate) broken: &'a mut Vec<String>,
}
