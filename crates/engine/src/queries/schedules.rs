//! Schedules of one namespace, with their next due times.

use std::sync::Arc;

use crate::command::{Answer, Peer};
use crate::engine::Engine;
use crate::name::Name;
use crate::refusal::Refusal;
use crate::schedule::ScheduleInfo;
use crate::schedules::ScheduleEntry;

impl Engine {
    pub(crate) fn list_schedules(&self, peer: &Peer) -> Answer {
        Answer::Schedules(self.schedules.of(&peer.namespace).map(schedule_info).collect())
    }

    pub(crate) fn one_schedule(&self, peer: &Peer, name: &Name) -> Result<Answer, Refusal> {
        let key = self.schedule_of(peer, name)?;
        Ok(Answer::Schedules(vec![schedule_info(self.schedules.at(key))]))
    }
}

fn schedule_info(entry: &ScheduleEntry) -> ScheduleInfo {
    ScheduleInfo {
        schedule: Arc::clone(&entry.schedule),
        progress: entry.progress.clone(),
        next: entry.next_times(),
    }
}
