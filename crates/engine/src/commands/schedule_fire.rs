//! Fire: what happens when a schedule is due. Each due time submits one task whose name says which one it is, so a due
//! time that comes again, after a crash or a clock that was set back, meets its task and does nothing.

use std::time::Duration;

use crate::command::{NewTask, Peer, Reply};
use crate::dependency::{After, AfterTask, Condition};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{SessionId, TaskId};
use crate::limits::{FIRINGS_PER_TICK, ON_TIME};
use crate::name::Name;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::schedule::{CatchUp, Overlap, ScheduleSetting, SkipReason};
use crate::schedules::ScheduleKey;
use crate::terms::Terms;
use crate::time::Timestamp;

impl Engine {
    /// Settles due times, a bounded number per tick.
    pub(crate) fn fire_schedules(&mut self, now: Timestamp, out: &mut dyn Output) {
        for _ in 0..FIRINGS_PER_TICK {
            let Some(key) = self.schedules.take_due() else { return };
            self.settle_due(now, key, out);
            let entry = self.schedules.at(key);
            if entry.due(now).times.is_empty() {
                self.arm_schedule(key);
            } else {
                self.schedules.mark_due(key);
            }
        }
    }

    /// Settles the first due time that is not settled; with it those that the schedule does not make up for.
    fn settle_due(&mut self, now: Timestamp, key: ScheduleKey, out: &mut dyn Output) {
        let entry = self.schedules.at(key);
        let due = entry.due(now);
        let (Some(oldest), Some(newest)) = (due.times.first(), due.times.last()) else { return };
        let next = Timestamp(if entry.schedule.catch_up == CatchUp::All { *oldest } else { *newest });
        let first = entry.first_due().unwrap_or(next);
        if first < next {
            let before = entry.latest(Timestamp(next.0 - 1), 1);
            let last = before.times.last().map_or(first, |last| Timestamp(*last));
            self.skip(now, key, SkipReason::Missed, first, last, out);
        }
        let entry = self.schedules.at(key);
        if entry.schedule.catch_up == CatchUp::None && now.since(entry.fires_at(next)) > ON_TIME {
            self.skip(now, key, SkipReason::Missed, next, next, out);
        } else {
            self.fire_due(now, key, next, out);
        }
    }

    fn fire_due(&mut self, now: Timestamp, key: ScheduleKey, due: Timestamp, out: &mut dyn Output) {
        let entry = self.schedules.at(key);
        let (overlap, schedule) = (entry.schedule.overlap, entry.schedule.name.clone());
        let last = entry.progress.last_task.filter(|task| self.is_unended(task));
        match (overlap, last) {
            (Overlap::Skip, Some(_)) => {
                return self.skip(now, key, SkipReason::Overlap, due, due, out);
            }
            (Overlap::CancelOld, Some(last)) => {
                let slot = self.tasks.find(&last).expect("it has not ended");
                let reason = format!("schedule {schedule} is due again");
                self.cancel_family(now, slot, Some(&reason), out);
            }
            (Overlap::Queue, _) | (_, None) => {}
        }
        let after = last.filter(|_| overlap == Overlap::Queue);
        match self.submit_scheduled(now, key, due, after, out) {
            Ok(task) => {
                let progress = &mut self.schedules.at_mut(key).progress;
                progress.settled = due;
                self.note_fired(now, key, due, task, out);
            }
            Err(reason) => self.skip(now, key, reason, due, due, out),
        }
    }

    fn is_unended(&self, task: &TaskId) -> bool {
        self.find_task(task).is_some_and(|task| !task.state.name().has_ended())
    }

    fn skip(
        &mut self,
        now: Timestamp,
        key: ScheduleKey,
        reason: SkipReason,
        from: Timestamp,
        to: Timestamp,
        out: &mut dyn Output,
    ) {
        let progress = &mut self.schedules.at_mut(key).progress;
        progress.settled = to;
        progress.skipped += 1;
        self.emit_schedule_progress(now, key, EventData::ScheduleSkipped { reason, from, to }, out);
    }

    fn note_fired(
        &mut self,
        now: Timestamp,
        key: ScheduleKey,
        due: Timestamp,
        task: TaskId,
        out: &mut dyn Output,
    ) {
        let progress = &mut self.schedules.at_mut(key).progress;
        progress.last_due = Some(due);
        progress.last_task = Some(task);
        progress.fired += 1;
        self.emit_schedule_progress(now, key, EventData::ScheduleFired { due, task }, out);
    }

    /// Submits the task of a due time. If a crash has hidden that this happened, the task of that name is the one.
    fn submit_scheduled(
        &mut self,
        now: Timestamp,
        key: ScheduleKey,
        due: Timestamp,
        after: Option<TaskId>,
        out: &mut dyn Output,
    ) -> Result<TaskId, SkipReason> {
        let schedule = std::sync::Arc::clone(&self.schedules.at(key).schedule);
        let was_fired = self.schedules.at(key).progress.last_due >= Some(due);
        let mut new = self.new_task_of(&schedule, now, due, out);
        new.after = after
            .into_iter()
            .map(|task| After { task: AfterTask::Id(task), condition: Condition::Ended })
            .collect();
        let body = new.body;
        let peer = peer_of(&schedule);
        let Reply::Submitted(mut each) = self.submit(now, &peer, &[new], out) else {
            unreachable!("a submission is answered for each task")
        };
        let answer = each.remove(0);
        if !matches!(&answer, Ok(accepted) if !accepted.known) && !body.is_empty() {
            out.freed(body);
        }
        match answer {
            Ok(accepted) if accepted.known && was_fired => Err(SkipReason::Exists),
            Ok(accepted) => Ok(accepted.task),
            // Submitted before a crash, when the last task had not ended yet.
            Err(Refusal::NameTaken { task, .. }) if task == first_id(&schedule, due) && !was_fired => {
                Ok(task)
            }
            Err(Refusal::NameTaken { .. }) => Err(SkipReason::Exists),
            Err(_) => Err(SkipReason::Refused),
        }
    }

    /// Submits the task of a schedule now. Its times are not concerned.
    pub(crate) fn run_schedule(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        name: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.schedule_of(peer, name)?;
        let schedule = std::sync::Arc::clone(&self.schedules.at(key).schedule);
        let new = self.new_task_of(&schedule, now, now, out);
        let body = new.body;
        let reply = self.submit(now, &peer_of(&schedule), &[new], out);
        let Reply::Submitted(each) = &reply else { return Ok(reply) };
        match &each[0] {
            Ok(accepted) if !accepted.known => self.note_fired(now, key, now, accepted.task, out),
            Ok(_) | Err(_) if !body.is_empty() => out.freed(body),
            Ok(_) | Err(_) => {}
        }
        Ok(reply)
    }

    fn new_task_of(
        &self,
        schedule: &ScheduleSetting,
        now: Timestamp,
        due: Timestamp,
        out: &mut dyn Output,
    ) -> NewTask {
        let name = task_name(schedule, due);
        NewTask {
            name: Some(name),
            priority: schedule.priority,
            expires_at: schedule.expires_after.map(|span: Duration| now + span),
            body: out.body(&schedule.body),
            body_digest: hash(0, &schedule.body),
            ..task_of_terms(self.free_id(schedule, due), &schedule.terms)
        }
    }

    /// An id that depends on the schedule and its due time alone, unless another task or array has it.
    fn free_id(&self, schedule: &ScheduleSetting, due: Timestamp) -> TaskId {
        let is_free = |id: &TaskId| self.tasks.find(id).is_none() && self.arrays.owner(id).is_none();
        (0..).map(|salt| salted_id(schedule, due, salt)).find(is_free).expect("there are 2^64 ids")
    }
}

fn first_id(schedule: &ScheduleSetting, due: Timestamp) -> TaskId {
    salted_id(schedule, due, 0)
}

fn salted_id(schedule: &ScheduleSetting, due: Timestamp, salt: u64) -> TaskId {
    let text = format!("{} {} {} {salt}", schedule.namespace, schedule.name, due.0);
    id_of(due, hash(1, text.as_bytes()), hash(2, text.as_bytes()))
}

/// The client of a scheduled task is the one that set the schedule. It has no session.
fn peer_of(schedule: &ScheduleSetting) -> Peer {
    Peer {
        session: SessionId(0),
        namespace: schedule.namespace.clone(),
        identity: schedule.terms.submitter.clone(),
    }
}

/// `nightly@2026-11-18T02:00:00Z`
fn task_name(schedule: &ScheduleSetting, due: Timestamp) -> Name {
    let time = due.rfc3339();
    let time = time.strip_suffix(".000Z").map_or(time.clone(), |time| format!("{time}Z"));
    format!("{}@{time}", schedule.name).into()
}

/// Every term is named here, so that a new one cannot be forgotten.
fn task_of_terms(id: TaskId, terms: &Terms) -> NewTask {
    let Terms {
        namespace: _,
        queue,
        needs,
        tags,
        submitter: _,
        on_lost,
        crash_budget,
        retries,
        backoff,
        crash_backoff,
        accept_timeout,
        run_limit,
        overrun_fails,
        cancel_timeout,
        abandon_after,
        on_broken,
        demand,
        share,
        // A schedule submits plain tasks.
        array: _,
    } = terms;
    NewTask {
        needs: needs.clone(),
        tags: tags.clone(),
        on_lost: *on_lost,
        crash_budget: *crash_budget,
        retries: *retries,
        backoff: *backoff,
        crash_backoff: *crash_backoff,
        accept_timeout: *accept_timeout,
        run_limit: *run_limit,
        overrun_fails: *overrun_fails,
        cancel_timeout: *cancel_timeout,
        abandon_after: *abandon_after,
        on_broken: *on_broken,
        demand: demand.clone(),
        share: share.clone(),
        ..NewTask::new(id, queue.clone())
    }
}

/// A UUID of version 7: the time in front, a hash behind it.
fn id_of(due: Timestamp, high: u64, low: u64) -> TaskId {
    let time = u128::from(due.0 & 0xffff_ffff_ffff) << 80;
    let hash = u128::from(high & 0x0fff) << 64 | u128::from(low >> 2);
    TaskId::from_u128(time | 7 << 76 | hash | 2 << 62)
}

fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash =
        bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
