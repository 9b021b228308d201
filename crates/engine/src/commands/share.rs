//! Share: the weight of a share key, and the turns that the keys take.

use crate::command::{Peer, Reply};
use crate::dispatch_order::OfferRank;
use crate::engine::Engine;
use crate::event::{Event, EventData, EventSubject};
use crate::fair_queueing::Turns;
use crate::id::Slot;
use crate::limits::{SHARES_MAX, WEIGHT_MAX};
use crate::name::{self, Name};
use crate::queues::QueueKey;
use crate::ready_queues::{ReadyOffer, ReadyQueueKey};
use crate::record::{Change, Output, ShareSetting};
use crate::refusal::Refusal;
use crate::shares::ShareKey;
use crate::time::Timestamp;

impl Engine {
    /// A new weight counts from the key's next task on.
    pub(crate) fn set_share(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        share: &Name,
        weight: Option<u32>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        name::check("share", share)?;
        name::check("namespace", &peer.namespace)?;
        if weight.is_some_and(|weight| weight == 0 || weight > WEIGHT_MAX) {
            return Err(Refusal::BadValue { what: "weight", why: "is not between 1 and 1000" });
        }
        if weight.is_some()
            && self.shares.len() >= SHARES_MAX
            && self.shares.find(&peer.namespace, share).is_none()
        {
            return Err(Refusal::Full { what: "shares", limit: SHARES_MAX as u64 });
        }
        let key = self.shares.open(&peer.namespace, share);
        self.shares.set_weight(key, weight);
        let seq = self.take_event();
        let setting = ShareSetting { namespace: peer.namespace.clone(), share: share.clone(), weight };
        let about = EventSubject::Share { namespace: peer.namespace.clone(), share: share.clone() };
        out.record(
            Event { seq, at: now, about, kind: EventData::ShareSet { weight } },
            Change::Share(&setting),
        );
        Ok(Reply::Done)
    }

    /// The first task of a ready queue and its children, and the ready queue in which it waits.
    pub(crate) fn first_of(&self, key: ReadyQueueKey) -> Option<(OfferRank, ReadyQueueKey)> {
        let ready_queue = self.ready_queues.at(key);
        let own = ready_queue.ranked.first().map(|slot| (self.offer_rank(slot, self.turn_of(key)), key));
        own.into_iter().chain(ready_queue.children.first().copied()).min()
    }

    /// A task's rank among the offers of its queue, if its key has this turn. With aging, tasks whose
    /// effective priorities are less than a step apart take turns.
    pub(crate) fn offer_rank(&self, slot: Slot, turn: u64) -> OfferRank {
        let task = self.rank_of(slot);
        let level = match self.settings.aging {
            None => task.weight,
            Some(step) => task.weight.div_euclid(i64::try_from(step.as_millis()).unwrap_or(i64::MAX).max(1)),
        };
        OfferRank { level, turn, task }
    }

    pub(crate) fn first_task(&self, key: ReadyQueueKey) -> Slot {
        let ready_queue = self.ready_queues.at(key);
        let of = match ready_queue.children.first() {
            None => ready_queue,
            Some((_, child)) if ready_queue.ranked.len() == 0 => self.ready_queues.at(*child),
            Some(_) => {
                let (_, of) = self.first_of(key).expect("a listed ready queue has a task");
                self.ready_queues.at(of)
            }
        };
        of.ranked.first().expect("a listed ready queue has a task")
    }

    pub(crate) fn turn_of(&self, key: ReadyQueueKey) -> u64 {
        let ready_queue = self.ready_queues.at(key);
        self.queues.at(ready_queue.queue).turns.as_ref().map_or(0, |turns| turns.turn(ready_queue.share))
    }

    /// Counts an assignment for the task's share key. The task's own ready queue is indexed again when the
    /// task leaves it.
    pub(crate) fn charge_turn(&mut self, slot: Slot) {
        let key = self.terms.ready_queue(self.tasks.at(slot).terms);
        let (queue, share) = (self.ready_queues.at(key).queue, self.ready_queues.at(key).share);
        let weight = self.shares.weight(share);
        let Some(turns) = &mut self.queues.at_mut(queue).turns else { return };
        let gone = turns.charge(share, weight);
        let flow = turns.flow(share).expect("it was charged");
        if flow.ready_queues.len() > 1 {
            let others: Vec<ReadyQueueKey> =
                flow.ready_queues.iter().copied().filter(|other| *other != key).collect();
            for other in others {
                self.reindex_ready_queue(other);
            }
        }
        for share in gone {
            self.shares.release(share);
        }
    }

    /// Lists a ready queue of a share key under its parent.
    pub(crate) fn reindex_child(&mut self, key: ReadyQueueKey) {
        let first = self.ready_queues.at(key).ranked.first();
        let offer = first
            .map_or(ReadyOffer::Hidden, |slot| ReadyOffer::Listed(self.offer_rank(slot, self.turn_of(key))));
        self.set_offer(key, offer);
    }

    /// Adds a new ready queue to the turns of its queue. The first share key of a queue starts them.
    pub(crate) fn join_turns(&mut self, queue: QueueKey, key: ReadyQueueKey) {
        let share = self.ready_queues.at(key).share;
        if self.queues.at(queue).turns.is_none() && share.is_some() {
            let mut turns = Turns::default();
            for plain in self.ready_queues_in(queue).into_iter().filter(|plain| *plain != key) {
                turns.join(None, plain, self.ready_queues.at(plain).ranked.len() as u64);
            }
            self.queues.at_mut(queue).turns = Some(Box::new(turns));
        }
        if let Some(turns) = &mut self.queues.at_mut(queue).turns
            && turns.join(share, key, 0)
            && let Some(share) = share
        {
            self.shares.retain(share);
        }
    }

    /// Removes a ready queue from the turns of its queue. The last one with a share key ends them.
    pub(crate) fn leave_turns(&mut self, queue: QueueKey, share: Option<ShareKey>, key: ReadyQueueKey) {
        let Some(turns) = &mut self.queues.at_mut(queue).turns else { return };
        let mut gone = turns.leave(share, key);
        let ends = turns.is_idle();
        if ends {
            gone.extend(turns.flows().filter_map(|(share, _)| share));
            self.queues.at_mut(queue).turns = None;
        }
        for share in gone {
            self.shares.release(share);
        }
        if ends {
            for plain in self.ready_queues_in(queue) {
                self.reindex_ready_queue(plain);
            }
        }
    }

    fn ready_queues_in(&self, queue: QueueKey) -> Vec<ReadyQueueKey> {
        let groups = self.queues.at(queue).groups.iter();
        groups.flat_map(|group| self.groups.at(*group).ready_queues.iter().copied()).collect()
    }
}
