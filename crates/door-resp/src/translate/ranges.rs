//! LLEN and LRANGE: reading lists without taking anything.
//!
//! In Redis a push goes to the head and a pop takes the last element. So index 0 is the last task in line, and a
//! range is the queue read backwards. It is walked page by page, and only the requested part is kept.

use bytes::Bytes;
use tenure_hub::words::{Answer, ListQuery, Query, StateName, TaskInfo};
use tenure_hub::{HubRefusal, Request, Response};

use super::actions::{AfterAction, find_action};
use super::last::LastReply;
use super::lists::{ready, waiting_in, whole};
use super::lookup::{AfterPage, one_queue, page};
use super::names::{job_id, queue_name};
use super::refusals::refusal;
use crate::codec::{Reply, bulks};
use crate::flow::{CommandFlow, FlowOutcome, FlowStep, Input};
use crate::key::{ActionField, RespKey, RespQueueKey};

/// How many elements one LRANGE answers with.
const RANGE_MAX: usize = 1_000_000;

/// The state of a waiting range.
#[derive(Debug)]
pub(crate) enum RangeFlow {
    Counting { queue: RespQueueKey, start: i64, stop: i64 },
}

impl RangeFlow {
    pub(crate) fn resume(self, input: Input) -> FlowStep {
        let Self::Counting { queue, start, stop } = self;
        let count = match count_of(&queue, input.answer()) {
            Ok(count) => count,
            Err(reason) => return FlowStep::Reply(refusal(&reason)),
        };
        let Some((first, length)) = part(count, start, stop) else {
            return FlowStep::Reply(Reply::Array(Vec::new()));
        };
        if length > RANGE_MAX {
            return FlowStep::error(format!("ERR the range is too long, at most {RANGE_MAX} at a time"));
        }
        // The queue is walked from its front, which is the end of the list.
        let skip = usize::try_from(count).unwrap_or(usize::MAX) - first - length;
        let window = Window { skip, left: length, count: 0, parts: Vec::new() };
        page(of(&queue), AfterPage::Range(window))
    }
}

pub(super) fn length(key: RespKey) -> FlowStep {
    match key {
        RespKey::Queue(queue) => FlowStep::Last(Request::Query(counting(&queue)), LastReply::Length(queue)),
        RespKey::Action { id, field: ActionField::Jobs } => find_action(&id, AfterAction::Length),
        _ => FlowStep::Reply(Reply::Integer(0)),
    }
}

pub(super) fn range(key: RespKey, start: i64, stop: i64) -> FlowStep {
    match key {
        RespKey::Queue(queue) => {
            let request = Request::Query(counting(&queue));
            FlowStep::Ask(request, CommandFlow::Range(RangeFlow::Counting { queue, start, stop }))
        }
        RespKey::Action { id, field: ActionField::Jobs } => {
            find_action(&id, AfterAction::Range { start, stop })
        }
        _ => FlowStep::Reply(Reply::Array(Vec::new())),
    }
}

/// How much to skip and to keep, and what has been kept: page by page, each ready to be sent.
#[derive(Debug)]
pub(crate) struct Window {
    skip: usize,
    left: usize,
    count: usize,
    parts: Vec<Bytes>,
}

impl Window {
    pub(super) fn go(mut self, tasks: &[TaskInfo], next: Option<ListQuery>) -> FlowStep {
        let skipped = self.skip.min(tasks.len());
        let kept = &tasks[skipped..][..self.left.min(tasks.len() - skipped)];
        self.skip -= skipped;
        self.left -= kept.len();
        self.count += kept.len();
        if !kept.is_empty() {
            self.parts.push(bulks(kept.iter().rev().map(job_id)));
        }
        match next {
            Some(next) if self.left > 0 => page(next, AfterPage::Range(self)),
            _ => {
                self.parts.reverse();
                FlowStep::Reply(Reply::Written { count: self.count, parts: self.parts })
            }
        }
    }
}

/// The first index and the number of elements of a range, both ends included, negative ones counted from the end.
pub(super) fn part(count: i64, start: i64, stop: i64) -> Option<(usize, usize)> {
    let index = |at: i64| if at < 0 { count.saturating_add(at) } else { at };
    let (start, stop) = (index(start).max(0), index(stop).min(count - 1));
    (start <= stop).then(|| {
        let whole = |number: i64| usize::try_from(number).unwrap_or(0);
        (whole(start), whole(stop - start + 1))
    })
}

fn of(queue: &RespQueueKey) -> ListQuery {
    match queue_name(queue) {
        Some(name) => waiting_in(name),
        None => ListQuery { states: states(queue).to_vec(), ..ListQuery::default() },
    }
}

/// The states that a view over all queues shows.
fn states(queue: &RespQueueKey) -> &'static [StateName] {
    match queue {
        RespQueueKey::Scheduled => &[StateName::Delayed],
        RespQueueKey::Processing => &[StateName::Assigned, StateName::Running],
        RespQueueKey::Default | RespQueueKey::Named(_) => &[StateName::Ready],
    }
}

fn counting(queue: &RespQueueKey) -> Query {
    queue_name(queue).map_or(Query::Counts, |queue| Query::Queue { queue })
}

pub(super) fn count_of(queue: &RespQueueKey, outcome: FlowOutcome) -> Result<i64, HubRefusal> {
    if let Ok(Response::Answer(Answer::Counts(counts))) = &outcome {
        return Ok(whole(states(queue).iter().map(|state| counts.by_state[*state as usize]).sum()));
    }
    Ok(one_queue(outcome)?.map_or(0, |queue| ready(&queue)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_list() {
        assert_eq!(part(5, 0, -1), Some((0, 5)));
        assert_eq!(part(5, 1, 2), Some((1, 2)));
        assert_eq!(part(5, -2, -1), Some((3, 2)));
        assert_eq!(part(5, i64::MIN, i64::MAX), Some((0, 5)));
        assert_eq!(part(5, 5, 9), None);
        assert_eq!(part(5, 0, -6), None);
        assert_eq!(part(0, 0, -1), None);
    }
}
