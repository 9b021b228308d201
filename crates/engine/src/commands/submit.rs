//! Submit: a client submits tasks; the engine accepts or refuses each on its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::blob::Blob;
use crate::command::{Accepted, NewTask, Peer, Reply};
use crate::demand::Demand;
use crate::dependency::{AfterTask, Dependency, DependencyProgress, OnBroken};
use crate::edges::{Awaited, EdgeList};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, TaskId};
use crate::limits::{DEMANDS_MAX, NAMESPACES_MAX};
use crate::name::{self, Name};
use crate::ready_queues::ReadyQueueKey;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{StateName, TaskState, Wanted};
use crate::task::{Extras, Task, TermsKey};
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::why::Why;

impl Engine {
    pub(crate) fn submit(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        tasks: &[NewTask],
        out: &mut dyn Output,
    ) -> Reply {
        let found = self.tasks.find_all(tasks.iter().map(|new| &new.id));
        let mut unserved = None;
        let mut each = Vec::with_capacity(tasks.len());
        for (new, found) in tasks.iter().zip(found) {
            let answer = self.submit_one(now, peer, new, found, &each, &mut unserved, out);
            each.push(answer);
        }
        // A task may end at once, because a dependency had ended otherwise than it should.
        self.retire_ended(now, out);
        Reply::Submitted(each)
    }

    #[expect(clippy::too_many_arguments, reason = "what all tasks of one submission share")]
    fn submit_one(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        new: &NewTask,
        found: Option<Slot>,
        earlier: &[Result<Accepted, Refusal>],
        last: &mut Option<(ReadyQueueKey, Option<Why>)>,
        out: &mut dyn Output,
    ) -> Result<Accepted, Refusal> {
        if let Some(known) = self.known_by_name(peer, new)? {
            return Ok(known);
        }
        // An earlier task of the same submission may have the same id.
        if found.is_some() || self.tasks.find(&new.id).is_some() || self.arrays.owner(&new.id).is_some() {
            return Err(Refusal::IdTaken { task: new.id });
        }
        let parent = self.parent_of(peer, new)?;
        self.check_new(now, new)?;
        let after = self.dependencies_of(peer, new, earlier)?;
        let id = new.id;
        let fingerprint = if new.name.is_some() { fingerprint(new) } else { 0 };
        let priority = self.priority_of(new, parent);
        let state = Engine::first_state(now, new, &after);
        let extras = extras_of(new, fingerprint);
        let body = new.body;
        let expires_at = new.expires_at;
        let terms = self.terms_for(peer, new)?;
        let first = state.name();
        let task = self.new_task(now, id, terms, priority, body, state, extras);
        let unserved = self.add_task(now, task, parent, &after, expires_at, last, out);
        // A broken dependency changes the state at once.
        let state = if after.is_empty() {
            first
        } else {
            self.tasks.find(&id).map_or(StateName::Cancelled, |slot| self.state_name(slot))
        };
        Ok(Accepted { task: id, known: false, state, unserved })
    }

    pub(super) fn priority_of(&self, new: &NewTask, parent: Option<Slot>) -> i32 {
        new.priority.unwrap_or_else(|| match parent {
            // A parent often waits for its children. If they were not more urgent, waiting parents would fill
            // all slots.
            Some(parent) => self.tasks.at(parent).priority.saturating_add(1),
            None => 0,
        })
    }

    pub(super) fn first_state(now: Timestamp, new: &NewTask, after: &[(Awaited, Dependency)]) -> TaskState {
        match new.not_before {
            _ if new.hold => TaskState::Created,
            _ if Engine::holds_up(after, new.on_broken) => TaskState::Waiting { open: open_count(after) },
            Some(until) if until > now => TaskState::Delayed { until },
            _ => TaskState::Ready { since: now },
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what distinguishes one new task from another")]
    pub(super) fn new_task(
        &self,
        now: Timestamp,
        id: TaskId,
        terms: TermsKey,
        priority: i32,
        body: Blob,
        state: TaskState,
        extras: Option<Box<Extras>>,
    ) -> Task {
        Task {
            id,
            body,
            terms,
            priority,
            attempt: 0,
            crashes: 0,
            failures: 0,
            edges: EdgeList::EMPTY,
            age: self.next_event,
            submitted_at: now,
            state,
            extras,
        }
    }

    /// Adds a task that is checked. Returns why no live worker can take it, if so.
    #[expect(clippy::too_many_arguments, reason = "what a new task brings")]
    pub(super) fn add_task(
        &mut self,
        now: Timestamp,
        task: Task,
        parent: Option<Slot>,
        after: &[(Awaited, Dependency)],
        expires_at: Option<Timestamp>,
        last: &mut Option<(ReadyQueueKey, Option<Why>)>,
        out: &mut dyn Output,
    ) -> Option<Why> {
        self.terms.retain(task.terms);
        let slot = self.tasks.insert(&self.terms, task);
        if !after.is_empty() {
            self.add_dependencies(slot, after);
        }
        if let Some(parent) = parent {
            let age = self.tasks.at(slot).age;
            self.tasks.at_mut(parent).extras_mut().children.insert((age, slot));
        }
        if let Some(at) = expires_at {
            self.timers.arm(at, Timer::Expires(slot));
        }
        let unserved = self.unserved(slot, last);
        let reconciliation = self.tasks.at(slot).reconciliation().map(Name::from);
        let submitted = EventData::Submitted { unserved: unserved.clone(), reconciliation };
        self.emit_task_record(now, slot, submitted, out);
        self.enter_state(slot);
        self.break_new(now, slot, after, out);
        unserved
    }

    /// The terms of a new task. A client that submits many tasks mostly uses the same terms, so the last used
    /// ones are tried first, before anything is built or looked up.
    fn terms_for(&mut self, peer: &Peer, new: &NewTask) -> Result<TermsKey, Refusal> {
        if let Some(recent) = self.terms.recent(peer.session, &new.demand)
            && asks_for(self.terms.get(recent), peer, new)
        {
            return Ok(recent);
        }
        let terms = terms_of(peer, new);
        let key = match self.terms.find(&terms) {
            // They were checked when they were new.
            Some(key) => key,
            None => {
                terms.check()?;
                self.check_queue_room(&terms.namespace, std::slice::from_ref(&terms.queue))?;
                self.check_demand_room(&terms.namespace, &terms.demand)?;
                self.terms_key(terms)
            }
        };
        self.terms.note_recent(peer.session, key);
        Ok(key)
    }

    /// The task that was submitted under this name before, if the request was the same.
    fn known_by_name(&self, peer: &Peer, new: &NewTask) -> Result<Option<Accepted>, Refusal> {
        let Some(name) = &new.name else { return Ok(None) };
        name::check("task", name)?;
        if let Some(key) = self.arrays.find_name(&peer.namespace, name) {
            let task = self.arrays.at(key).record.id;
            return Err(Refusal::NameTaken { name: name.clone(), task });
        }
        let Some(slot) = self.tasks.find_name(&self.terms, &peer.namespace, name) else { return Ok(None) };
        let task = self.tasks.at(slot);
        let known = task.extras.as_ref().map_or(0, |extras| extras.fingerprint);
        if known != fingerprint(new) {
            return Err(Refusal::NameTaken { name: name.clone(), task: task.id });
        }
        Ok(Some(Accepted { task: task.id, known: true, state: task.state.name(), unserved: None }))
    }

    pub(super) fn parent_of(&self, peer: &Peer, new: &NewTask) -> Result<Option<Slot>, Refusal> {
        let Some(parent) = new.parent else { return Ok(None) };
        let refusal = Refusal::BadParent { parent };
        let slot = self.task_of(peer, parent).map_err(|_| refusal.clone())?;
        // A child of a task that is being cancelled would outlive its parent.
        if self.state_name(slot) == StateName::Cancelled || self.wanted_of(slot) == Some(Wanted::Cancel) {
            return Err(refusal);
        }
        Ok(Some(slot))
    }

    pub(super) fn check_new(&self, now: Timestamp, new: &NewTask) -> Result<(), Refusal> {
        if let Some(deadline) = new.expires_at
            && deadline <= now
        {
            return Err(Refusal::TooLate { deadline });
        }
        if new.run_limit.is_some_and(|limit| limit.is_zero()) {
            return Err(Refusal::BadValue { what: "run limit", why: "is zero: leave it out for no limit" });
        }
        if new.accept_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Refusal::BadValue {
                what: "accept timeout",
                why: "is zero: no worker could confirm in time",
            });
        }
        if [Some(new.backoff), new.crash_backoff].into_iter().flatten().any(|one| one.first > one.max) {
            return Err(Refusal::BadValue { what: "backoff", why: "starts above its maximum" });
        }
        if self.tasks.len() >= self.settings.tasks_max {
            return Err(Refusal::Full { what: "tasks", limit: self.settings.tasks_max as u64 });
        }
        Ok(())
    }

    /// Refuses new queues or a new namespace beyond the limits.
    pub(crate) fn check_queue_room(&self, namespace: &Name, queues: &[Name]) -> Result<(), Refusal> {
        let namespace_key = self.namespaces.find(namespace);
        if namespace_key.is_none() {
            name::check("namespace", namespace)?;
            if self.namespaces.len() >= NAMESPACES_MAX {
                return Err(Refusal::Full { what: "namespaces", limit: NAMESPACES_MAX as u64 });
            }
        }
        let (limit, own_limit) = (self.settings.queues_max, self.settings.queues_per_namespace_max);
        let (all, own) =
            (self.queues.len(), namespace_key.map_or(0, |namespace_key| self.queues.count_in(namespace_key)));
        if all + queues.len() <= limit && own + queues.len() <= own_limit {
            return Ok(());
        }
        let fresh = queues.iter().filter(|queue| self.queues.find(namespace, queue).is_none()).count();
        if fresh > 0 && own + fresh > own_limit {
            return Err(Refusal::Full { what: "queues of this namespace", limit: own_limit as u64 });
        }
        if fresh > 0 && all + fresh > limit {
            return Err(Refusal::Full { what: "queues", limit: limit as u64 });
        }
        Ok(())
    }

    pub(super) fn check_demand_room(&self, namespace: &Name, demand: &Demand) -> Result<(), Refusal> {
        let Some(namespace_key) = self.namespaces.find(namespace) else { return Ok(()) };
        let is_new = !demand.is_plain() && self.demands.find(namespace_key, demand).is_none();
        if is_new && self.demands.count_in(namespace_key) >= DEMANDS_MAX {
            return Err(Refusal::Full { what: "different demands for resources", limit: DEMANDS_MAX as u64 });
        }
        Ok(())
    }

    /// Why no live worker can take a task that is about to wait. Tasks of one submission mostly wait in the
    /// same ready queue, so the last answer is reused.
    fn unserved(&self, slot: Slot, last: &mut Option<(ReadyQueueKey, Option<Why>)>) -> Option<Why> {
        let task = self.tasks.at(slot);
        if task.state.name() != StateName::Ready {
            return None;
        }
        let ready_queue = self.terms.ready_queue(task.terms);
        if self.is_served(self.groups.at(self.ready_queues.at(ready_queue).group)) {
            return None;
        }
        match last {
            Some((of, why)) if *of == ready_queue => why.clone(),
            _ => {
                let why = Some(self.why_waiting(ready_queue)).filter(Why::is_unserved);
                *last = Some((ready_queue, why.clone()));
                why
            }
        }
    }
}

fn open_count(after: &[(Awaited, Dependency)]) -> u32 {
    after.iter().filter(|(_, each)| each.progress == DependencyProgress::Open).count() as u32
}

pub(super) fn extras_of(new: &NewTask, fingerprint: u64) -> Option<Box<Extras>> {
    if new.name.is_none()
        && new.parent.is_none()
        && new.not_before.is_none()
        && new.expires_at.is_none()
        && new.trace.is_none()
    {
        return None;
    }
    Some(Box::new(Extras {
        name: new.name.clone(),
        fingerprint,
        parent: new.parent,
        not_before: new.not_before,
        expires_at: new.expires_at,
        crashed_on: Vec::new(),
        checkpoint: None,
        suspended_for: std::time::Duration::ZERO,
        trace: new.trace.clone(),
        reconciled_prefix: new.name.as_ref().and(new.reconciled_prefix),
        children: BTreeSet::new(),
    }))
}

pub(super) fn terms_of(peer: &Peer, new: &NewTask) -> Terms {
    let mut terms = Terms {
        namespace: peer.namespace.clone(),
        queue: new.queue.clone(),
        needs: new.needs.clone(),
        tags: new.tags.clone(),
        submitter: peer.identity.clone(),
        on_lost: new.on_lost,
        crash_budget: new.crash_budget,
        retries: new.retries,
        backoff: new.backoff,
        crash_backoff: new.crash_backoff,
        accept_timeout: new.accept_timeout,
        run_limit: new.run_limit,
        overrun_fails: new.overrun_fails,
        cancel_timeout: new.cancel_timeout,
        abandon_after: new.abandon_after,
        on_broken: new.on_broken,
        demand: new.demand.clone(),
        array: None,
        share: new.share.clone(),
    };
    terms.normalize();
    terms
}

/// Whether a new task asks for exactly these terms.
fn asks_for(terms: &Terms, peer: &Peer, new: &NewTask) -> bool {
    // Names from one client often share one allocation.
    let same = |one: &Name, other: &Name| Arc::ptr_eq(one, other) || one == other;
    same(&terms.queue, &new.queue)
        && same(&terms.submitter, &peer.identity)
        && same(&terms.namespace, &peer.namespace)
        && terms.needs == new.needs
        && terms.tags == new.tags
        && terms.on_lost == new.on_lost
        && terms.crash_budget == new.crash_budget
        && terms.retries == new.retries
        && terms.backoff == new.backoff
        && terms.crash_backoff == new.crash_backoff
        && terms.accept_timeout == new.accept_timeout
        && terms.run_limit == new.run_limit
        && terms.overrun_fails == new.overrun_fails
        && terms.cancel_timeout == new.cancel_timeout
        && terms.abandon_after == new.abandon_after
        && terms.on_broken == new.on_broken
        && terms.demand == new.demand
        && terms.array.is_none()
        && terms.share == new.share
}

/// Identifies a named request. It is stored, so it must be the same in every version: FNV-1a over a plain
/// rendering of the request. Points in time are left out: a client that says "in a minute" and retries means
/// another moment but the same task.
pub(super) fn fingerprint(new: &NewTask) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.text(&new.queue);
    hash.number(u64::from_le_bytes(i64::from(new.priority.unwrap_or(i32::MIN)).to_le_bytes()));
    for (mark, names) in [(1, &new.needs), (2, &new.tags)] {
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        hash.number(mark);
        sorted.iter().for_each(|name| hash.text(name));
    }
    hash.bytes(new.parent.as_ref().map_or(&[0; 16], |parent| parent.as_bytes()));
    hash.number(u64::from(new.hold));
    hash.number(new.on_lost as u64);
    hash.number(u64::from(new.crash_budget) << 16 | u64::from(new.retries));
    for span in [Some(new.backoff.first), Some(new.backoff.max), new.accept_timeout, new.run_limit] {
        hash.number(span.map_or(u64::MAX, |span| span.as_millis() as u64));
    }
    hash.number(u64::from(new.body.bytes()));
    hash.number(new.body_digest);
    // Hash a newer field only if it is set, so that requests from before it existed keep their fingerprint.
    if let Some(timeout) = new.cancel_timeout {
        hash.number(timeout.as_millis() as u64);
    }
    if new.overrun_fails {
        hash.text("overrun fails");
    }
    for (mark, span) in [
        (3, new.crash_backoff.map(|backoff| backoff.first)),
        (4, new.crash_backoff.map(|backoff| backoff.max)),
        (5, new.abandon_after),
    ] {
        if let Some(span) = span {
            hash.number(mark);
            hash.number(span.as_millis() as u64);
        }
    }
    for after in &new.after {
        hash.number(6);
        hash.number(after.condition as u64);
        match &after.task {
            AfterTask::Id(id) => hash.bytes(id.as_bytes()),
            AfterTask::Name(name) => hash.text(name),
            AfterTask::Index(index) => hash.number(u64::from(*index)),
        }
    }
    if new.on_broken != OnBroken::default() {
        hash.text(new.on_broken.as_str());
    }
    if !new.demand.is_plain() {
        hash_demand(&mut hash, &new.demand);
    }

    if let Some(share) = &new.share {
        hash.text("share");
        hash.text(share);
    }
    hash.0
}

fn hash_demand(hash: &mut Fnv, demand: &Demand) {
    let mut demand = demand.clone();
    demand.normalize();
    hash.number(7);
    hash.number(u64::from(demand.slots));
    for resource in &demand.resources {
        hash.text(&resource.name);
        hash.number(resource.quantity.0);
    }
}

pub(super) struct Fnv(pub(super) u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// The length keeps "ab", "c" apart from "a", "bc".
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }
}
