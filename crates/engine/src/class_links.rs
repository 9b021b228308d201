//! Links between worker classes and the dispatch groups they can serve. The links change when a dispatch
//! group or a class is added or removed, never when a task is.

use std::collections::BTreeSet;

use crate::classes::{ClassKey, ClassSpec, offers};
use crate::demand::Demand;
use crate::dispatch_groups::{DispatchGroup, GroupKey};
use crate::engine::Engine;
use crate::event::{Event, EventData, EventSubject};
use crate::id::WorkerKey;
use crate::name::Name;
use crate::queues::QueueKey;
use crate::ready_queues::{ReadyOffer, ReadyQueueKey};
use crate::record::{Change, Output};
use crate::shares::ShareKey;
use crate::tags::TagKey;
use crate::time::Timestamp;

impl Engine {
    /// The ready queue for tasks of this queue with these needs, this demand, these tags and this share key.
    pub(crate) fn open_ready_queue(
        &mut self,
        queue: QueueKey,
        needs: &[Name],
        demand: &Demand,
        tags: Vec<TagKey>,
        share: Option<ShareKey>,
    ) -> ReadyQueueKey {
        let group = match self.find_group(queue, needs, demand) {
            Some(group) => group,
            None => self.open_group(queue, needs, demand),
        };
        if let Some(ready_queue) = self.ready_queues.find(group, &tags, share) {
            return ready_queue;
        }
        let of_share =
            share.map(|share| (share, self.open_ready_queue(queue, needs, demand, tags.clone(), None)));
        if let Some((_, parent)) = of_share {
            self.ready_queues.retain(parent);
        }
        for tag in &tags {
            self.tags.retain(*tag);
        }
        let key = self.ready_queues.insert(group, queue, tags, of_share);
        self.groups.at_mut(group).ready_queues.insert(key);
        self.join_turns(queue, key);
        key
    }

    fn find_group(&self, queue: QueueKey, needs: &[Name], demand: &Demand) -> Option<GroupKey> {
        if demand.is_plain() {
            return self.groups.find(queue, needs, None);
        }
        let demand = self.demands.find(self.queues.at(queue).namespace_key, demand)?;
        self.groups.find(queue, needs, Some(demand))
    }

    fn open_group(&mut self, queue: QueueKey, needs: &[Name], demand: &Demand) -> GroupKey {
        let namespace_key = self.queues.at(queue).namespace_key;
        let demand = (!demand.is_plain()).then(|| self.demands.retain(namespace_key, demand));
        let classes = self.queues.at(queue).classes.iter().copied();
        let able = classes.filter(|class| offers(&self.classes.at(*class).spec.capabilities, needs));
        let able: Vec<ClassKey> = able.collect();
        let key = self.groups.insert(queue, needs, demand, able.clone());
        for class in able {
            self.classes.at_mut(class).groups.insert(key);
            if let Some(demand) = demand {
                self.link_demand(class, demand);
            }
        }
        self.queues.at_mut(queue).groups.insert(key);
        key
    }

    /// Drops one set of terms, or one child, that uses this ready queue.
    pub(crate) fn release_ready_queue(&mut self, key: ReadyQueueKey) {
        // A ready queue is empty when it loses its last user, and an empty one is hidden, so there is no
        // offer to remove.
        let Some(ready_queue) = self.ready_queues.release(key) else { return };
        assert_eq!(
            (ready_queue.ranked.len(), ready_queue.children.len(), ready_queue.offer),
            (0, 0, ReadyOffer::Hidden),
            "a ready queue with tasks has terms that lead to it"
        );
        for tag in ready_queue.tags {
            self.tags.release(tag);
        }
        self.groups.at_mut(ready_queue.group).ready_queues.remove(&key);
        self.leave_turns(ready_queue.queue, ready_queue.share, key);
        if let Some(parent) = ready_queue.parent {
            self.release_ready_queue(parent);
            return;
        }
        if self.groups.at(ready_queue.group).ready_queues.is_empty() {
            self.close_group(ready_queue.group);
        }
    }

    fn close_group(&mut self, key: GroupKey) {
        let group = self.groups.remove(key);
        for class in group.classes {
            self.classes.at_mut(class).groups.remove(&key);
            if let Some(demand) = group.demand {
                self.unlink_demand(class, demand);
            }
        }
        if let Some(demand) = group.demand {
            self.demands.release(demand);
        }
        assert!(group.reserved.is_none(), "no worker waits for a group without tasks");
        self.queues.at_mut(group.queue).groups.remove(&key);
        self.close_queue_if_unused(group.queue);
    }

    /// The class of workers that serve these queues with these capabilities. Increments its user count.
    pub(crate) fn retain_class(
        &mut self,
        namespace: &Name,
        queues: &[Name],
        capabilities: &[Name],
    ) -> ClassKey {
        let namespace_key = self.namespaces.open(namespace);
        let mut keys: Vec<QueueKey> =
            queues.iter().map(|queue| self.queues.open(namespace, queue, namespace_key)).collect();
        keys.sort();
        keys.dedup();
        let mut capabilities = capabilities.to_vec();
        capabilities.sort();
        capabilities.dedup();
        let spec = ClassSpec { queues: keys, capabilities };
        let key = match self.classes.find(&spec) {
            Some(key) => key,
            None => self.open_class(spec),
        };
        self.classes.retain(key);
        key
    }

    fn open_class(&mut self, spec: ClassSpec) -> ClassKey {
        let of_queues = spec.queues.iter().flat_map(|queue| self.queues.at(*queue).groups.iter().copied());
        let able = of_queues.filter(|group| offers(&spec.capabilities, &self.groups.at(*group).needs));
        let groups: BTreeSet<GroupKey> = able.collect();
        let queues = spec.queues.clone();
        let key = self.classes.insert(spec, groups.clone());
        for queue in queues {
            self.queues.at_mut(queue).classes.insert(key);
        }
        for group in groups {
            self.groups.at_mut(group).classes.push(key);
            if let Some(demand) = self.groups.at(group).demand {
                self.classes.at_mut(key).demands.entry(demand).or_default().groups += 1;
            }
        }
        key
    }

    pub(crate) fn release_class(&mut self, key: ClassKey) {
        let Some(class) = self.classes.release(key) else { return };
        assert_eq!((class.live, class.free.len()), (0, 0), "a class with workers has users");
        let is_empty = class.demands.values().all(|fitting| fitting.live == 0 && fitting.free.is_empty());
        assert!(is_empty, "a class with workers has users");
        for group in class.groups {
            self.groups.at_mut(group).classes.retain(|other| *other != key);
        }
        for queue in class.spec.queues {
            self.queues.at_mut(queue).classes.remove(&key);
            self.close_queue_if_unused(queue);
        }
    }

    /// Moves a worker to the class that serves these queues. Queues that it serves both before and after see
    /// no change.
    pub(crate) fn join_class(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        queues: &[Name],
        capabilities: &[Name],
        out: &mut dyn Output,
    ) {
        let namespace = self.workers.at(key).health.namespace.clone();
        let after = self.retain_class(&namespace, queues, capabilities);
        let before = self.workers.at_mut(key).class.replace(after);
        self.cancel_reservation(key);
        self.recount_sizes(key);
        if self.workers.at(key).counted {
            self.count_in(now, after, out);
        }
        if let Some(before) = before {
            if self.workers.at(key).counted {
                self.count_out(now, before, out);
            }
            self.reindex_worker(key);
            self.release_class(before);
        }
    }

    /// Removes a worker that no longer counts as live from its class.
    pub(crate) fn leave_class(&mut self, key: WorkerKey) {
        self.stop_asking(key);
        if let Some(class) = self.workers.at_mut(key).class.take() {
            self.recount_sizes(key);
            self.release_class(class);
        }
    }

    /// Updates whether a worker counts among those that may take tasks, and emits the events for its queues.
    pub(crate) fn update_served_counts(&mut self, now: Timestamp, key: WorkerKey, out: &mut dyn Output) {
        let worker = self.workers.at(key);
        let may_work = worker.may_work();
        if worker.is_live() && !may_work {
            self.sidelined.insert(key);
        } else {
            self.sidelined.remove(&key);
        }
        if let Some(class) = worker.class
            && worker.counted != may_work
        {
            self.workers.at_mut(key).counted = may_work;
            if may_work {
                self.count_in(now, class, out);
            } else {
                self.count_out(now, class, out);
            }
            self.recount_sizes(key);
        }
        self.reindex_worker(key);
        if may_work {
            self.dirty.workers.push(key);
        }
    }

    /// Counts one more worker of a class that may take tasks.
    fn count_in(&mut self, now: Timestamp, class: ClassKey, out: &mut dyn Output) {
        // Tasks that lack a capability get their event when a worker brings it; the others get the event of
        // their queue.
        let relieved = self.waiting_for_class(class);
        self.classes.at_mut(class).live += 1;
        for key in self.classes.at(class).spec.queues.clone() {
            let queue = self.queues.at_mut(key);
            queue.live += 1;
            if queue.live == 1 {
                queue.setting.ever_served = true;
                queue.setting.unserved_since = None;
                self.emit_queue_record(now, key, EventData::QueueServed { needs: Vec::new() }, out);
            }
        }
        for (queue, needs) in relieved {
            self.emit_queue_record(now, queue, EventData::QueueServed { needs }, out);
        }
    }

    /// Counts one worker of a class less that may take tasks.
    fn count_out(&mut self, now: Timestamp, class: ClassKey, out: &mut dyn Output) {
        self.classes.at_mut(class).live -= 1;
        for key in self.classes.at(class).spec.queues.clone() {
            let queue = self.queues.at_mut(key);
            queue.live -= 1;
            if queue.live == 0 {
                queue.setting.unserved_since = Some(now);
                self.emit_queue_record(now, key, EventData::QueueUnserved { needs: Vec::new() }, out);
            }
        }
        for (queue, needs) in self.waiting_for_class(class) {
            if self.queues.at(queue).live > 0 {
                self.emit_queue_record(now, queue, EventData::QueueUnserved { needs }, out);
            }
        }
    }

    /// The needs of tasks that wait for a worker of this class because no class with live workers can take
    /// them.
    fn waiting_for_class(&self, class: ClassKey) -> Vec<(QueueKey, Vec<Name>)> {
        if self.classes.at(class).live > 0 {
            return Vec::new();
        }
        let groups = self.classes.at(class).groups.iter().map(|group| self.groups.at(*group));
        let has_work = |group: &&DispatchGroup| {
            group.ready_queues.iter().any(|ready_queue| self.ready_queues.at(*ready_queue).ranked.len() > 0)
        };
        groups
            .filter(|group| !group.needs.is_empty() && !self.is_offered(group))
            .filter(has_work)
            .map(|group| (group.queue, group.needs.clone()))
            .collect()
    }

    /// Whether a live worker offers what the tasks of this dispatch group need.
    pub(crate) fn is_offered(&self, group: &DispatchGroup) -> bool {
        group.classes.iter().any(|class| self.classes.at(*class).live > 0)
    }

    /// Whether a live worker can take the tasks of this dispatch group: it offers what they need and is large
    /// enough.
    pub(crate) fn is_served(&self, group: &DispatchGroup) -> bool {
        let Some(demand) = group.demand else { return self.is_offered(group) };
        group.classes.iter().any(|class| self.classes.at(*class).demands[&demand].live > 0)
    }

    pub(crate) fn emit_queue_record(
        &mut self,
        now: Timestamp,
        key: QueueKey,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let setting = &self.queues.at(key).setting;
        let about =
            EventSubject::Queue { namespace: setting.namespace.clone(), queue: setting.queue.clone() };
        out.record(Event { seq, at: now, about, kind }, Change::Queue(setting));
    }
}
