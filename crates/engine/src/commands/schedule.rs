//! Schedule: a client sets, pauses, resumes and removes schedules, or runs one now.

use std::sync::Arc;

use tenure_schedules::Timing;

use super::submit::terms_of;
use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::{Event, EventData, EventSubject};
use crate::limits::{
    SCHEDULE_BODIES_BYTES_MAX, SCHEDULE_BODY_BYTES_MAX, SCHEDULE_JITTER_MAX, SCHEDULE_NAME_BYTES_MAX,
    SCHEDULE_TIMING_BYTES_MAX, SCHEDULES_MAX,
};
use crate::name::{self, Name};
use crate::record::{Change, Output};
use crate::refusal::Refusal;
use crate::schedule::{NewSchedule, ScheduleProgress, ScheduleSetting, ScheduleState};
use crate::schedules::{ScheduleEntry, ScheduleKey};
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn set_schedule(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        new: NewSchedule,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let known = self.schedules.find(&peer.namespace, &new.name);
        self.check_schedule(&new, known)?;
        self.check_new(now, &new.task)?;
        let terms = terms_of(peer, &new.task);
        terms.check()?;
        self.check_queue_room(&terms.namespace, std::slice::from_ref(&terms.queue))?;
        let before = known.map(|key| self.schedules.at(key));
        let same_times =
            before.filter(|entry| entry.schedule.when == new.when && entry.schedule.zone == new.zone);
        let anchor = same_times.map_or(now, |entry| entry.schedule.anchor);
        let progress = ScheduleProgress {
            namespace: peer.namespace.clone(),
            name: new.name.clone(),
            state: before
                .map_or(if new.paused { ScheduleState::Paused } else { ScheduleState::Active }, |entry| {
                    entry.progress.state
                }),
            // New times count from now on, also after the clock was wrong.
            settled: same_times.map_or(now, |entry| entry.progress.settled),
            last_due: before.and_then(|entry| entry.progress.last_due),
            last_task: before.and_then(|entry| entry.progress.last_task),
            fired: before.map_or(0, |entry| entry.progress.fired),
            skipped: before.map_or(0, |entry| entry.progress.skipped),
        };
        let schedule = ScheduleSetting {
            namespace: peer.namespace.clone(),
            name: new.name,
            when: new.when,
            zone: new.zone,
            catch_up: new.catch_up,
            overlap: new.overlap,
            jitter: new.jitter,
            created_at: before.map_or(now, |entry| entry.schedule.created_at),
            anchor,
            terms: Arc::new(terms),
            priority: new.task.priority,
            expires_after: new.expires_after,
            body: new.body,
        };
        let armed_at = before.map_or(Timestamp::NEVER, |entry| entry.armed_at);
        let mut entry = ScheduleEntry::new(schedule, progress);
        entry.armed_at = armed_at;
        let key = self.schedules.put(entry);
        let seq = self.take_event();
        let ScheduleEntry { schedule, progress, .. } = self.schedules.at(key);
        let about =
            EventSubject::Schedule { namespace: schedule.namespace.clone(), schedule: schedule.name.clone() };
        let change = Change::Schedule { schedule, progress };
        out.record(Event { seq, at: now, about, kind: EventData::ScheduleSet }, change);
        self.arm_schedule(key);
        Ok(Reply::Done)
    }

    fn check_schedule(&self, new: &NewSchedule, known: Option<ScheduleKey>) -> Result<(), Refusal> {
        name::check("schedule", &new.name)?;
        if new.name.len() > SCHEDULE_NAME_BYTES_MAX {
            return Err(Refusal::BadName { what: "schedule", why: "is longer than 200 bytes" });
        }
        name::check_text("bytes in a timing", Some(&new.when), SCHEDULE_TIMING_BYTES_MAX)?;
        Timing::parse(&new.when, new.zone.as_deref())
            .map_err(|error| Refusal::BadSchedule { why: error.to_string().into() })?;
        if new.jitter > SCHEDULE_JITTER_MAX {
            return Err(Refusal::BadValue { what: "jitter", why: "is longer than a day" });
        }
        let task = &new.task;
        if task.name.is_some() || task.parent.is_some() || !task.after.is_empty() {
            let why = "gives each task its own name, without a parent or dependencies: leave these out";
            return Err(Refusal::BadValue { what: "a schedule", why });
        }
        if task.hold || task.not_before.is_some() || task.expires_at.is_some() {
            let why = "says itself when its tasks run: leave hold, delay and expiry out";
            return Err(Refusal::BadValue { what: "a schedule", why });
        }
        if new.body.len() > SCHEDULE_BODY_BYTES_MAX {
            return Err(Refusal::TooMany {
                what: "bytes in a scheduled body",
                limit: SCHEDULE_BODY_BYTES_MAX,
            });
        }
        let replaced = known.map_or(0, |key| self.schedules.at(key).schedule.body.len());
        if self.schedules.body_bytes - replaced + new.body.len() > SCHEDULE_BODIES_BYTES_MAX {
            let limit = SCHEDULE_BODIES_BYTES_MAX as u64;
            return Err(Refusal::Full { what: "bytes in the bodies of schedules", limit });
        }
        if known.is_none() && self.schedules.len() >= SCHEDULES_MAX {
            return Err(Refusal::Full { what: "schedules", limit: SCHEDULES_MAX as u64 });
        }
        Ok(())
    }

    pub(crate) fn pause_schedule(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        name: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        self.set_schedule_state(now, peer, name, ScheduleState::Paused, EventData::SchedulePaused, out)
    }

    pub(crate) fn resume_schedule(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        name: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        self.set_schedule_state(now, peer, name, ScheduleState::Active, EventData::ScheduleResumed, out)
    }

    fn set_schedule_state(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        name: &Name,
        state: ScheduleState,
        kind: EventData,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.schedule_of(peer, name)?;
        if self.schedules.at(key).progress.state != state {
            self.schedules.at_mut(key).progress.state = state;
            self.emit_schedule_progress(now, key, kind, out);
            self.arm_schedule(key);
        }
        Ok(Reply::Done)
    }

    /// Tasks that were submitted stay.
    pub(crate) fn remove_schedule(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        name: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.schedule_of(peer, name)?;
        self.schedules.at_mut(key).progress.state = ScheduleState::Removed;
        self.emit_schedule_progress(now, key, EventData::ScheduleRemoved, out);
        self.arm_schedule(key);
        self.schedules.remove(key);
        Ok(Reply::Done)
    }

    pub(crate) fn schedule_of(&self, peer: &Peer, name: &Name) -> Result<ScheduleKey, Refusal> {
        let found = self.schedules.find(&peer.namespace, name);
        found.ok_or_else(|| Refusal::UnknownSchedule { schedule: name.clone() })
    }

    pub(crate) fn emit_schedule_progress(
        &mut self,
        now: Timestamp,
        key: ScheduleKey,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let seq = self.take_event();
        let progress = &self.schedules.at(key).progress;
        let about =
            EventSubject::Schedule { namespace: progress.namespace.clone(), schedule: progress.name.clone() };
        out.record(Event { seq, at: now, about, kind }, Change::ScheduleProgress(progress));
    }
}
