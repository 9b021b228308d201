//! Checks rates from the events alone: in no span of time are more tasks handed out than the burst and what the span
//! gives, whatever happens to the broker meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use tenure_hub::words::{Event, EventData, EventSubject, Name, Rate, TaskId};

#[derive(Debug, Default)]
pub(crate) struct RateChecker {
    queues: BTreeMap<Name, Rate>,
    tags: BTreeMap<Name, Rate>,
    /// When each attempt was assigned, and what limits it.
    assigned: BTreeMap<(TaskId, u32), Assigned>,
    started: BTreeSet<(TaskId, u32)>,
}

#[derive(Debug)]
struct Assigned {
    seq: u64,
    at: u64,
    queue: Name,
    tags: Vec<Name>,
}

impl RateChecker {
    pub(crate) fn heard(&mut self, event: &Event) {
        match (&event.about, &event.kind) {
            (EventSubject::Queue { queue, .. }, EventData::QueueRateSet { rate: Some(rate) }) => {
                self.queues.insert(queue.clone(), *rate);
            }
            (EventSubject::Tag { tag, .. }, EventData::RateSet { rate: Some(rate) }) => {
                self.tags.insert(tag.clone(), *rate);
            }
            (EventSubject::Task { id, attempt, terms }, EventData::Assigned { .. }) => {
                let queue = terms.queue.clone();
                let assigned =
                    Assigned { seq: event.seq, at: event.at.millis(), queue, tags: terms.tags.clone() };
                self.assigned.insert((*id, *attempt), assigned);
            }
            (EventSubject::Task { id, attempt, .. }, EventData::Started { .. }) => {
                self.started.insert((*id, *attempt));
            }
            // A task that comes back unstarted returns its tokens, also if it is paused or cancelled on the way.
            (
                EventSubject::Task { id, attempt, .. },
                EventData::GivenBack { .. }
                | EventData::TakenBack { .. }
                | EventData::Paused { .. }
                | EventData::Cancelled { .. },
            ) if !self.started.contains(&(*id, *attempt)) => {
                self.assigned.remove(&(*id, *attempt));
            }
            _ => {}
        }
    }

    /// What was handed out too early.
    pub(crate) fn exceeded(&self) -> Vec<String> {
        let mut in_order: Vec<&Assigned> = self.assigned.values().collect();
        in_order.sort_by_key(|assigned| assigned.seq);
        let queues = self.queues.iter().filter_map(|(queue, rate)| {
            let times = in_order.iter().filter(|one| one.queue == *queue).map(|one| one.at);
            Some(format!("queue {queue} exceeds its rate of {rate} at {}", first_above(*rate, times)?))
        });
        let tags = self.tags.iter().filter_map(|(tag, rate)| {
            let times = in_order.iter().filter(|one| one.tags.contains(tag)).map(|one| one.at);
            Some(format!("tag {tag} exceeds its rate of {rate} at {}", first_above(*rate, times)?))
        });
        queues.chain(tags).collect()
    }
}

/// The first time at which some span up to it has too many. A bucket that starts full and follows the clock runs dry
/// exactly then.
fn first_above(rate: Rate, times: impl Iterator<Item = u64>) -> Option<u64> {
    let token = rate.period.as_millis() as i128;
    let full = i128::from(rate.burst) * token;
    let (mut parts, mut last) = (full, 0);
    for at in times {
        let grown = i128::from(at.saturating_sub(last)) * i128::from(rate.count);
        (parts, last) = ((parts + grown).min(full) - token, at);
        if parts < 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_task_too_many_in_a_span_is_found() {
        let rate = Rate { count: 2, period: Duration::from_secs(1), burst: 2 };
        assert_eq!(first_above(rate, [1_000, 1_000, 1_500, 2_000].into_iter()), None);
        assert_eq!(first_above(rate, [1_000, 1_000, 1_499].into_iter()), Some(1_499));
        assert_eq!(first_above(rate, [1_000, 9_000, 9_000, 9_000].into_iter()), Some(9_000));
    }
}
