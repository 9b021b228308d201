//! Checks arrays: from the events alone, that each ends once, when its last element has, with the right counts; and
//! from the broker, that the counts are those of the elements.

use std::collections::BTreeMap;

use tenure_hub::core::Core;
use tenure_hub::words::{
    Answer, ArrayInfo, Event, EventData, EventSubject, ListQuery, Next, Peer, Query, StateName, TaskId,
};

#[derive(Debug, Default)]
pub(crate) struct ArrayChecker {
    arrays: BTreeMap<TaskId, Heard>,
    last_event: u64,
}

#[derive(Debug)]
struct Heard {
    size: u32,
    /// How each element ended, if it has.
    elements: BTreeMap<TaskId, Option<StateName>>,
    has_ended: bool,
}

impl Heard {
    fn count(&self, state: StateName) -> u32 {
        self.elements.values().filter(|end| **end == Some(state)).count() as u32
    }

    fn all_ended(&self) -> bool {
        self.elements.len() == self.size as usize && self.elements.values().all(Option::is_some)
    }
}

impl ArrayChecker {
    /// The next event. Returns what is wrong with it.
    pub(crate) fn heard(&mut self, event: &Event) -> Option<String> {
        self.last_event = event.seq;
        let id = event.array()?;
        match (&event.about, &event.kind) {
            (EventSubject::Array { .. }, EventData::ArraySubmitted { size }) => {
                let heard = Heard { size: *size, elements: BTreeMap::new(), has_ended: false };
                let before = self.arrays.insert(id, heard);
                before.map(|_| format!("array {id} was submitted twice"))
            }
            (EventSubject::Array { .. }, EventData::ArrayEnded { completed, failed, cancelled }) => {
                let Some(array) = self.arrays.get_mut(&id) else { return Some(format!("no array {id}")) };
                let told = [*completed, *failed, *cancelled];
                let known = [StateName::Completed, StateName::Failed, StateName::Cancelled]
                    .map(|state| array.count(state));
                let again = std::mem::replace(&mut array.has_ended, true);
                (again || told != known || !array.all_ended())
                    .then(|| format!("array {id} ended with {told:?} of {array:?}, again {again}"))
            }
            (EventSubject::Task { id: element, .. }, kind) => {
                let Some(array) = self.arrays.get_mut(&id) else {
                    return Some(format!("{element} came before its array {id}"));
                };
                if let EventData::Submitted { .. } | EventData::Retried = kind {
                    array.elements.insert(*element, None);
                    array.has_ended = false;
                } else if let Some(state) = end_of(kind) {
                    array.elements.insert(*element, Some(state));
                }
                None
            }
            _ => None,
        }
    }

    /// Compares the arrays of the broker with their elements. Returns what is wrong.
    pub(crate) fn inspect(&self, core: &Core, observer: &Peer) -> Option<String> {
        let engine = core.engine();
        for info in arrays(core, observer) {
            let query = ListQuery { array: Some(info.id), limit: 1_000, ..ListQuery::default() };
            let Ok(Answer::Tasks { tasks, .. }) = engine.ask(observer, &Query::List(Box::new(query))) else {
                return Some("the elements of an array cannot be listed".to_owned());
            };
            let mut counts = [0; StateName::COUNT];
            for task in &tasks {
                counts[task.state.name() as usize] += 1;
            }
            if counts != info.counts || tasks.len() != info.size as usize {
                return Some(format!("array {} counts {:?} of {counts:?}", info.id, info.counts));
            }
            if info.limit.is_some_and(|limit| held(&info) > u64::from(limit)) {
                return Some(format!("array {} has {} held of {:?}", info.id, held(&info), info.limit));
            }
        }
        if self.last_event != engine.last_event() {
            return None;
        }
        // Everything was heard: no end is missing.
        let (id, array) = self.arrays.iter().find(|(_, array)| array.all_ended() != array.has_ended)?;
        Some(format!("the end of array {id} was not told: {array:?}"))
    }
}

pub(crate) fn arrays(core: &Core, observer: &Peer) -> Vec<ArrayInfo> {
    match core.engine().ask(observer, &Query::Arrays { cursor: None, limit: 1_000 }) {
        Ok(Answer::Arrays { arrays, .. }) => arrays,
        _ => Vec::new(),
    }
}

pub(crate) fn held(info: &ArrayInfo) -> u64 {
    info.counts[StateName::Assigned as usize] + info.counts[StateName::Running as usize]
}

fn end_of(kind: &EventData) -> Option<StateName> {
    match kind {
        EventData::Completed { .. } => Some(StateName::Completed),
        EventData::Cancelled { .. } | EventData::Crashed { next: Next::Cancelled, .. } => {
            Some(StateName::Cancelled)
        }
        EventData::Expired
        | EventData::Failed { next: Next::Failed, .. }
        | EventData::Crashed { next: Next::Failed, .. } => Some(StateName::Failed),
        _ => None,
    }
}
