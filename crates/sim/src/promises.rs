//! Records what the peers of a simulated world have been promised, and checks whether the broker keeps it.

use std::collections::{BTreeMap, BTreeSet};

use tenure_hub::core::Core;
use tenure_hub::words::{
    Answer, Demand, Event, Held, ListQuery, Name, Peer, PresenceName, Query, Resource, SessionId, StateName,
    TaskId, TaskInfo, TraceContext, Why, WorkerInfo,
};

use crate::arrays::{self, ArrayChecker};
use crate::order::OrderChecker;
use crate::random::Random;
use crate::rates::RateChecker;
use crate::running_attempts::RunningAttempts;
use crate::traces::TraceChecker;

#[derive(Debug, Default)]
pub(crate) struct PromiseChecker {
    acknowledged: BTreeSet<TaskId>,
    /// Submitted once, and refused because the journal was away.
    refused: BTreeSet<TaskId>,
    /// Every attempt that reached a worker, and which worker.
    handed_out: BTreeMap<(TaskId, u32), Name>,
    completed: BTreeMap<TaskId, u32>,
    retried: BTreeSet<TaskId>,
    /// The size of the last checkpoint that a worker sent, and of the last one the broker has accepted. Each
    /// checkpoint of a task is larger than the previous one, so its size identifies it.
    checkpoints: BTreeMap<TaskId, (u32, u32)>,
    /// Events as the watchers received them: all watchers must receive the same.
    events: BTreeMap<u64, String>,
    pub(crate) begun: RunningAttempts,
    pub(crate) order: OrderChecker,
    pub(crate) traces: TraceChecker,
    arrays: ArrayChecker,
    rates: RateChecker,
    broken: Vec<String>,
    pub(crate) restarts: u64,
}

impl PromiseChecker {
    pub(crate) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// One of the acknowledged tasks.
    pub(crate) fn some_acknowledged(&self, random: &mut Random) -> Option<TaskId> {
        let count = self.acknowledged.len() as u64;
        if count == 0 {
            return None;
        }
        self.acknowledged.iter().nth(random.between(0, count) as usize).copied()
    }

    pub(crate) fn tasks(&self) -> usize {
        self.acknowledged.len()
    }

    pub(crate) fn acknowledged(&mut self, task: TaskId) {
        self.acknowledged.insert(task);
    }

    /// A refused submission must never be taken.
    pub(crate) fn refused(&mut self, task: TaskId) {
        self.refused.insert(task);
    }

    pub(crate) fn refusals(&self) -> usize {
        self.refused.len()
    }

    pub(crate) fn retried(&mut self, task: TaskId) {
        self.retried.insert(task);
        self.order.retried(task);
        self.completed.remove(&task);
    }

    /// An attempt goes to one worker, once, even after a crash of the broker. It comes with the last checkpoint that
    /// the broker has accepted, or a later one whose reply was lost.
    pub(crate) fn handed_out(
        &mut self,
        held: Held,
        worker: &Name,
        checkpoint: u32,
        trace: Option<&TraceContext>,
    ) {
        let wrong = self.traces.handed_out(held.task, trace);
        self.check(wrong.is_none(), || wrong.unwrap_or_default());
        // A retry may follow a completion, which ends a checkpoint.
        if !self.retried.contains(&held.task) {
            let (sent, taken) = self.checkpoints.get(&held.task).copied().unwrap_or_default();
            self.check((taken..=sent).contains(&checkpoint), || {
                format!("{} came with checkpoint {checkpoint}, {taken} of {sent} was taken", held.task)
            });
        }
        let before = self.handed_out.insert((held.task, held.attempt), worker.clone());
        self.check(before.is_none(), || {
            format!("attempt {} of {} went to {worker} and before to {before:?}", held.attempt, held.task)
        });
    }

    /// A worker begins what it was sent, and says so.
    pub(crate) fn begins(&mut self, held: Held, worker: &Name) {
        let twice = self.begun.begins(held, worker);
        self.check(twice.is_none(), || twice.unwrap_or_default());
    }

    /// A worker sends the next checkpoint of a task: its size.
    pub(crate) fn checkpoint_sent(&mut self, task: TaskId) -> u32 {
        let (sent, _) = self.checkpoints.entry(task).or_default();
        *sent += 1;
        *sent
    }

    pub(crate) fn checkpoint_taken(&mut self, task: TaskId, size: u32) {
        let (_, taken) = self.checkpoints.entry(task).or_default();
        *taken = size.max(*taken);
    }

    /// The broker has accepted a completion: it is permanent, and happens only once.
    pub(crate) fn completed(&mut self, held: Held) {
        let newest = self
            .handed_out
            .range((held.task, 0)..=(held.task, u32::MAX))
            .next_back()
            .map(|((_, attempt), _)| *attempt);
        // A newer attempt that was assigned after the completion belongs to a retry.
        let is_newest =
            newest.is_none_or(|newest| newest <= held.attempt) || self.retried.contains(&held.task);
        self.check(is_newest, || {
            format!(
                "a completion of attempt {} of {} was accepted after attempt {newest:?}",
                held.attempt, held.task
            )
        });
        if !self.retried.contains(&held.task) {
            self.completed.insert(held.task, held.attempt);
        }
    }

    pub(crate) fn heard(&mut self, event: &Event) {
        let told = format!("{:?} {:?} {:?} {:?}", event.at, event.task(), event.array(), event.kind);
        match self.events.get(&event.seq) {
            Some(known) if *known != told => {
                let what = format!("event {} was delivered as {known} and as {told}", event.seq);
                self.check(false, || what);
            }
            Some(_) => {}
            None => {
                self.events.insert(event.seq, told);
                self.rates.heard(event);
                for wrong in [self.order.heard(event), self.arrays.heard(event)] {
                    self.check(wrong.is_none(), || wrong.unwrap_or_default());
                }
            }
        }
    }

    /// Inspects the broker: checks that everything promised is there.
    pub(crate) fn inspect(&mut self, core: &Core) {
        for task in self.acknowledged.clone() {
            let found = core.engine().find_task(&task);
            self.check(found.is_some(), || format!("task {task} was acknowledged and is lost"));
            let Some(found) = found else { continue };
            if let Some(attempt) = self.completed.get(&task).copied() {
                let state = found.state.name();
                self.check(state == StateName::Completed, || {
                    format!("attempt {attempt} of {task} was accepted as completed and the task is {state}")
                });
            }
            let newest = self
                .handed_out
                .range((task, 0)..=(task, u32::MAX))
                .next_back()
                .map(|((_, attempt), _)| *attempt);
            let attempt = found.attempt;
            self.check(newest.is_none_or(|newest| newest <= attempt), || {
                format!("attempt {newest:?} of {task} was handed out, the broker remembers {attempt}")
            });
        }
        for task in self.refused.clone() {
            let found = core.engine().find_task(&task);
            self.check(found.is_none(), || format!("task {task} was refused and is there"));
        }
        let last = core.engine().last_event();
        let heard = self.events.last_key_value().map(|(seq, _)| *seq);
        self.check(heard.is_none_or(|heard| heard <= last), || {
            format!("event {heard:?} was heard, the broker's last is {last}")
        });
        let wrong = self.arrays.inspect(core, &observer());
        self.check(wrong.is_none(), || wrong.unwrap_or_default());
        self.inspect_limits(core);
        self.inspect_waiting(core);
        self.inspect_backlogs(core);
    }

    /// The broker was stopped for a while: all workers known before must be known after.
    pub(crate) fn compare_workers(&mut self, before: usize, after: usize) {
        self.check(before == after, || {
            format!("{before} workers were live when the broker was stopped, and {after} when it went on")
        });
    }

    fn inspect_limits(&mut self, core: &Core) {
        let Ok(Answer::Limits(limits)) = core.engine().ask(&observer(), &Query::Limits) else { return };
        for limit in limits {
            let within = limit.limit.is_none_or(|most| limit.in_use <= most);
            self.check(within, || {
                format!("tag {} has {} in use and a limit of {:?}", limit.tag, limit.in_use, limit.limit)
            });
        }
    }

    /// The broker has reported every queue above its threshold, and no other.
    fn inspect_backlogs(&mut self, core: &Core) {
        let Ok(Answer::Queues(queues)) = core.engine().ask(&observer(), &Query::Queues) else { return };
        for queue in queues {
            let ready = queue.counts[StateName::Ready as usize];
            let threshold = queue.thresholds.depth.map(u64::from);
            let told = queue.passed.depth;
            let is_past = !queue.paused && threshold.is_some_and(|threshold| ready >= threshold);
            let is_over = threshold.is_none_or(|threshold| ready <= threshold / 2);
            self.check(told || !is_past, || {
                format!("queue {} has {ready} ready of {threshold:?} and did not tell", queue.queue)
            });
            self.check(!told || !is_over, || {
                format!("queue {} has {ready} ready of {threshold:?} and told of a backlog", queue.queue)
            });
        }
    }

    /// No task is forgotten: a ready task must have been assigned if a suitable worker is free.
    fn inspect_waiting(&mut self, core: &Core) {
        let engine = core.engine();
        let (Ok(Answer::Workers(workers)), Ok(Answer::Queues(queues)), Ok(Answer::Limits(limits))) = (
            engine.ask(&observer(), &Query::Workers),
            engine.ask(&observer(), &Query::Queues),
            engine.ask(&observer(), &Query::Limits),
        ) else {
            return;
        };
        let free: Vec<_> = workers
            .iter()
            .filter(|worker| {
                worker.presence == PresenceName::Live
                    && !worker.draining
                    && worker.quarantined_until.is_none()
            })
            .collect();
        if free.is_empty() {
            return;
        }
        let query = ListQuery { states: vec![StateName::Ready], limit: 1_000, ..ListQuery::default() };
        let Ok(Answer::Tasks { tasks, .. }) = engine.ask(&observer(), &Query::List(Box::new(query))) else {
            return;
        };
        let is_full =
            |tag: &Name| limits.iter().any(|limit| limit.tag == *tag && limit.limit == Some(limit.in_use));
        let full_arrays: BTreeSet<TaskId> = arrays::arrays(core, &observer())
            .into_iter()
            .filter(|info| info.limit.is_some_and(|limit| arrays::held(info) >= u64::from(limit)))
            .map(|info| info.id)
            .collect();
        let could_run = |task: &&TaskInfo| {
            let paused = queues.iter().any(|queue| queue.queue == task.terms.queue && queue.paused);
            let array_is_full = task.terms.array.is_some_and(|array| full_arrays.contains(&array.id));
            let blocked = array_is_full || task.terms.tags.iter().any(is_full);
            let able = free.iter().any(|worker| {
                worker.queues.contains(&task.terms.queue)
                    && task.terms.needs.iter().all(|need| worker.capabilities.contains(need))
                    && has_room(worker, &task.terms.demand)
            });
            let why = || engine.ask(&observer(), &Query::Explain { task: task.id });
            let is_reserved = || matches!(why(), Ok(Answer::Why { why: Why::Reserved { .. }, .. }));
            !paused && !blocked && able && !is_reserved()
        };
        let waits_for_token = |task: &&TaskInfo| {
            let why = engine.ask(&observer(), &Query::Explain { task: task.id });
            matches!(why, Ok(Answer::Why { why: Why::TagRate { .. } | Why::QueueRate { .. }, .. }))
        };
        let forgotten =
            tasks.iter().filter(could_run).find(|task| !waits_for_token(task)).map(|task| task.id);
        self.check(forgotten.is_none(), || {
            format!("task {forgotten:?} waits although a worker is free for it")
        });
    }

    /// At the end: no rate was exceeded at any time.
    pub(crate) fn inspect_rates(&mut self) {
        self.broken.extend(self.rates.exceeded());
    }

    /// At the end, in the calm phase, everything that was acknowledged has ended.
    pub(crate) fn all_ended(&self, core: &Core) -> bool {
        let ended =
            |id: &TaskId| core.engine().find_task(id).is_none_or(|task| task.state.name().has_ended());
        self.acknowledged.iter().all(ended)
    }

    /// The first few that have not, and why.
    pub(crate) fn unfinished(&self, core: &Core) -> Vec<String> {
        let engine = core.engine();
        let unfinished = self.acknowledged.iter().filter_map(|id| {
            let task = engine.find_task(id).filter(|task| !task.state.name().has_ended())?;
            let why = engine.ask(&observer(), &Query::Explain { task: *id });
            Some(format!("{task:?} because {why:?}"))
        });
        unfinished.take(3).collect()
    }
}

pub(crate) fn live_workers(core: &Core) -> usize {
    let Ok(Answer::Workers(workers)) = core.engine().ask(&observer(), &Query::Workers) else { return 0 };
    workers.iter().filter(|worker| worker.presence == PresenceName::Live).count()
}

fn observer() -> Peer {
    Peer { session: SessionId(u64::MAX), namespace: "default".into(), identity: "observer".into() }
}

/// Whether a worker certainly has room for a task. Parts of gpus may be on different ones, so only an idle gpu counts.
fn has_room(worker: &WorkerInfo, demand: &Demand) -> bool {
    let has_slots = match demand.slots {
        0 => worker.light_used < worker.light_slots,
        slots => worker.slots_used + slots <= worker.slots,
    };
    let has = |wanted: &Resource| {
        worker.resources.iter().any(|resource| {
            let is_shared = &*resource.name == "gpus" && resource.used.0 > 0;
            resource.name == wanted.name
                && !is_shared
                && resource.used.0 + wanted.quantity.0 <= resource.total.0
        })
    };
    has_slots && demand.resources.iter().all(has)
}
