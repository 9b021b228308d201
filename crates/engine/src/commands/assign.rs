//! Who gets which task. Work is driven by events: a lane that got a task looks for a free worker, a worker that got a
//! free slot looks for a lane. Neither looks at the backlog behind the first task of a lane.

use crate::blob::Which;
use crate::classes::{Choice, ClassKey};
use crate::engine::{Engine, rank};
use crate::event::Kind;
use crate::id::{Slot, WorkerKey};
use crate::lanes::{LaneKey, Stand};
use crate::notice::{Assignment, Notice};
use crate::record::Output;
use crate::state::{Holding, TaskState};
use crate::tags::TagKey;
use crate::terms::OnLost;
use crate::time::Timestamp;

/// How many unconfirmed tasks a free worker looks at before it stays idle.
const TAKE_BACK_LOOKS: usize = 16;

impl Engine {
    /// Brings tasks and workers together until nothing moves.
    pub(crate) fn settle(&mut self, now: Timestamp, out: &mut dyn Output) {
        loop {
            // What was stirred may be gone by now, or its place taken by another: looking once too often is harmless.
            let mut lanes = std::mem::take(&mut self.stirred.lanes);
            lanes.retain(|lane| self.lanes.has(*lane));
            // Everybody is in place before anything is handed out, so that the most urgent task goes first, and to
            // the least loaded worker, whatever the order in which they were stirred.
            for index in 0..self.stirred.workers.len() {
                let worker = self.stirred.workers[index];
                if self.workers.has(worker) {
                    self.rechoose(worker);
                }
            }
            for lane in &lanes {
                self.relist(*lane);
            }
            self.list_parked(&mut lanes);
            for lane in &lanes {
                self.serve(now, *lane, out);
            }
            // The list is kept for its capacity.
            lanes.clear();
            if self.stirred.lanes.is_empty() {
                self.stirred.lanes = lanes;
            }
            if !self.stirred.lanes.is_empty() || !self.stirred.tags.is_empty() {
                continue;
            }
            match self.stirred.workers.pop() {
                Some(worker) if self.workers.has(worker) => self.fill(now, worker, out),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Lists the lanes that waited for a tag that has room again. All of them, because the most urgent may be blocked
    /// by another tag or have no worker; those that find the tag full are parked again when a worker meets them.
    fn list_parked(&mut self, lanes: &mut Vec<LaneKey>) {
        for tag in std::mem::take(&mut self.stirred.tags) {
            if !self.tags.has(tag) || !self.tags.at(tag).has_room() {
                continue;
            }
            let from = lanes.len();
            lanes.extend(self.tags.at(tag).parked.iter().map(|(_, lane)| *lane));
            for lane in &lanes[from..] {
                self.relist(*lane);
            }
        }
    }

    /// Finds workers for a lane until it is empty, blocked, or nobody is free.
    fn serve(&mut self, now: Timestamp, lane: LaneKey, out: &mut dyn Output) {
        while let Stand::Listed(_) = self.lanes.at(lane).stand {
            let Some(worker) = self.best_worker(lane, &[]) else { return };
            // The worker takes the most urgent task it can, which may be one of another lane.
            let took = self.take_one(now, worker, out);
            self.rechoose(worker);
            if !took {
                return;
            }
        }
    }

    /// Gives a worker work until it is full or there is none for it.
    fn fill(&mut self, now: Timestamp, worker: WorkerKey, out: &mut dyn Output) {
        while self.take_one(now, worker, out) {}
        self.rechoose(worker);
        self.take_back_for(now, worker, out);
    }

    /// Assigns one task because this worker is free. Says whether one was assigned. The worker's place among the free
    /// ones is not brought in line yet: it may take more.
    fn take_one(&mut self, now: Timestamp, worker: WorkerKey, out: &mut dyn Output) -> bool {
        let Some((lane, slot)) = self.most_urgent(worker) else { return false };
        let better = self.prefer(lane, slot, worker);
        if better == worker {
            self.assign(now, slot, worker, out);
        } else if let Some((_, slot)) = self.most_urgent(better) {
            // It takes the most urgent task it can, which may be another one.
            self.assign(now, slot, better, out);
            self.rechoose(better);
        }
        true
    }

    /// The first task a worker could take. Lanes that wait for a tag are put aside on the way.
    fn most_urgent(&mut self, worker: WorkerKey) -> Option<(LaneKey, Slot)> {
        let class = self.class_to_serve(worker)?;
        loop {
            let groups = self.classes.at(class).groups.iter();
            let (_, lane) = groups.filter_map(|group| self.groups.at(*group).open.first().copied()).min()?;
            match self.full_tag(lane) {
                Some(tag) => self.park(lane, tag),
                None => {
                    return Some((lane, self.lanes.at(lane).line.first().expect("a listed lane has a task")));
                }
            }
        }
    }

    /// Sends a ready task to a worker.
    pub(crate) fn assign(&mut self, now: Timestamp, slot: Slot, worker: WorkerKey, out: &mut dyn Output) {
        let next_event = self.next_event;
        let entry = self.workers.at_mut(worker);
        entry.last_assigned = next_event;
        // One ask is good for one task.
        let asked = entry.asking.take();
        let name = entry.name().clone();
        let session = entry.session().expect("a free worker has a session");
        let starts_on_assign = entry.starts_on_assign;
        if let Some(class) = asked {
            self.rechoose(worker);
            self.release_class(class);
        }
        let task = self.tasks.at_mut(slot);
        task.attempt += 1;
        let terms = self.terms.get(self.tasks.at(slot).terms);
        let starts_now = starts_on_assign && terms.on_lost != OnLost::Requeue;
        let holding = Holding {
            worker: name.clone(),
            key: worker,
            place: 0,
            since: now,
            started_at: None,
            intent: None,
            progress: None,
            // The event that tells of the assignment. The clock starts when the notice leaves (`spoken.rs`).
            waits_for: self.next_event,
            told_at: Timestamp::NEVER,
            check_at: Timestamp::NEVER,
        };
        self.unspoken.push_back((self.next_event, slot));
        self.become_state(
            now,
            slot,
            TaskState::Assigned(Box::new(holding)),
            Kind::Assigned { worker: name },
            out,
        );
        if starts_now {
            self.mark_started(now, slot, out);
        }
        let assignment = self.assignment(slot);
        out.notice(session, Notice::Assign(Box::new(assignment)));
    }

    fn assignment(&self, slot: Slot) -> Assignment {
        let task = self.tasks.at(slot);
        Assignment {
            task: task.id,
            attempt: task.attempt,
            priority: task.priority,
            body: task.body,
            checkpoint: Which::Checkpoint.of(task),
            terms: self.terms.get(task.terms).clone(),
            name: task.name().cloned(),
            parent: task.parent(),
            submitted_at: task.submitted_at,
            crashes: task.crashes,
            failures: task.failures,
        }
    }

    /// The worker to send this task to: the free one, unless the task crashed on it and another is free as well.
    fn prefer(&self, lane: LaneKey, slot: Slot, worker: WorkerKey) -> WorkerKey {
        let Some(extras) = &self.tasks.at(slot).extras else { return worker };
        if !extras.crashed_on.contains(self.workers.at(worker).name()) {
            return worker;
        }
        self.best_worker(lane, &extras.crashed_on).unwrap_or(worker)
    }

    /// The free worker to choose first for a lane, leaving out some names.
    fn best_worker(&self, lane: LaneKey, without: &[crate::Name]) -> Option<WorkerKey> {
        let classes = &self.groups.at(self.lanes.at(lane).group).classes;
        let allowed =
            |choice: &&Choice| without.is_empty() || !without.contains(self.workers.at(choice.worker).name());
        let best =
            classes.iter().filter_map(|class| self.classes.at(*class).free.iter().find(allowed)).min()?;
        Some(best.worker)
    }

    pub(crate) fn full_tag(&self, lane: LaneKey) -> Option<TagKey> {
        self.lanes.at(lane).tags.iter().copied().find(|tag| !self.tags.at(*tag).has_room())
    }

    fn park(&mut self, lane: LaneKey, tag: TagKey) {
        let first = self.lanes.at(lane).line.first().expect("a listed lane has a task");
        self.set_stand(lane, Stand::Parked(tag, self.rank_of(first)));
    }

    /// Brings a lane's offer in line with its first task.
    pub(crate) fn relist(&mut self, key: LaneKey) {
        let lane = self.lanes.at(key);
        let paused = self.queues.at(lane.queue).setting.paused;
        let first = lane.line.first().filter(|_| !paused);
        let stand = match (first, lane.stand) {
            (None, _) => Stand::Hidden,
            (Some(slot), Stand::Parked(tag, _)) if !self.tags.at(tag).has_room() => {
                Stand::Parked(tag, rank(self.tasks.at(slot), self.settings.aging))
            }
            (Some(slot), _) => Stand::Listed(rank(self.tasks.at(slot), self.settings.aging)),
        };
        self.set_stand(key, stand);
    }

    pub(crate) fn set_stand(&mut self, key: LaneKey, stand: Stand) {
        let lane = self.lanes.at_mut(key);
        if lane.stand == stand {
            return;
        }
        let before = std::mem::replace(&mut lane.stand, stand);
        if let Stand::Parked(tag, rank) = before {
            self.tags.at_mut(tag).parked.remove(&(rank, key));
        }
        let open = &mut self.groups.at_mut(self.lanes.at(key).group).open;
        if let Stand::Listed(rank) = before {
            open.remove(&(rank, key));
        }
        if let Stand::Listed(rank) = stand {
            open.insert((rank, key));
        }
        if let Stand::Parked(tag, rank) = stand {
            self.tags.at_mut(tag).parked.insert((rank, key));
        }
    }

    /// Brings a worker's place among the free ones in line with its load and its asking.
    pub(crate) fn rechoose(&mut self, key: WorkerKey) {
        let choice = self.choice_of(key);
        let before = self.workers.at(key).choice;
        if before == choice {
            return;
        }
        if let Some((class, choice)) = before {
            self.classes.at_mut(class).free.remove(&choice);
        }
        if let Some((class, choice)) = choice {
            self.classes.at_mut(class).free.insert(choice);
        }
        self.workers.at_mut(key).choice = choice;
    }

    /// Where a worker stands among the free ones: nowhere, if it has no free slot or does not ask.
    pub(crate) fn choice_of(&self, key: WorkerKey) -> Option<(ClassKey, Choice)> {
        let class = self.class_to_serve(key)?;
        let worker = self.workers.at(key);
        let choice = Choice {
            load_permille: worker.load_permille(),
            recent_crashes: worker.health.recent_crashes.len() as u32,
            last_assigned: worker.last_assigned,
            worker: key,
        };
        Some((class, choice))
    }

    /// The class in which a worker may be given a task now.
    fn class_to_serve(&self, key: WorkerKey) -> Option<ClassKey> {
        let worker = self.workers.at(key);
        let is_free = worker.may_work() && worker.slots_in_use() < worker.slots as usize;
        let class = if worker.pulls { worker.asking } else { worker.class };
        class.filter(|_| is_free)
    }

    /// Takes a task back that another holds unconfirmed, so that this idle worker may have it. It stands in line again
    /// like any other: if it frees a tag that somebody more urgent waits for, that one goes first.
    fn take_back_for(&mut self, now: Timestamp, worker: WorkerKey, out: &mut dyn Output) {
        let Some((class, _)) = self.workers.at(worker).choice else { return };
        let candidates = self.overdue.iter().take(TAKE_BACK_LOOKS).copied();
        let found = candidates.into_iter().find(|slot| self.would_be_freer(*slot, class, worker));
        if let Some(slot) = found {
            self.take_back_blaming(now, slot, out);
        }
    }

    fn would_be_freer(&self, slot: Slot, class: ClassKey, worker: WorkerKey) -> bool {
        let task = self.tasks.at(slot);
        let lane = self.lanes.at(self.terms.lane(task.terms));
        let holder = task.state.holding().expect("an overdue task is assigned").key;
        let crashed_here = task
            .extras
            .as_ref()
            .is_some_and(|extras| extras.crashed_on.contains(self.workers.at(worker).name()));
        // The task leaves its tags and joins them again; where a limit was lowered meanwhile, it waits.
        let has_room = |tag: &TagKey| {
            let tag = self.tags.at(*tag);
            tag.limit.is_none_or(|limit| tag.in_use <= limit)
        };
        self.classes.at(class).groups.contains(&lane.group)
            && lane.tags.iter().all(has_room)
            && !crashed_here
            && !self.queues.at(lane.queue).setting.paused
            && self.workers.at(holder).load_permille() > self.workers.at(worker).load_permille()
    }
}
