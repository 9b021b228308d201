//! A worker with a name of its own has connected: the door asks the hub what this worker holds, and queues the
//! worker's messages until the answer comes.

use tenure_hub::words::{Answer, ListQuery, Name, Query, StateName, TaskInfo};
use tenure_hub::{HubRefusal, Request, Response};

/// For workers bound to one connection. Workers that outlive connections have a [`super::WorkerActor`].
#[derive(Debug)]
pub struct Arrival<M> {
    early: Vec<M>,
    early_max: usize,
}

impl<M> Arrival<M> {
    /// `early_max` limits the queued messages.
    pub fn new(early_max: usize) -> Arrival<M> {
        Arrival { early: Vec::new(), early_max }
    }

    /// Queues a message. Returns whether there was room.
    pub fn keep(&mut self, message: M) -> bool {
        let has_room = self.early.len() < self.early_max;
        if has_room {
            self.early.push(message);
        }
        has_room
    }

    /// Returns what the worker holds, and its queued messages.
    pub fn finish(self, reply: Result<Response, HubRefusal>) -> (Vec<TaskInfo>, Vec<M>) {
        let held = match reply {
            Ok(Response::Answer(Answer::Tasks { tasks, .. })) => tasks,
            _ => Vec::new(),
        };
        (held, self.early)
    }
}

/// Asks for the first attempts that a worker of this name holds in one of these states.
pub(super) fn held_by(worker: &Name, states: &[StateName], limit: usize) -> ListQuery {
    ListQuery { states: states.to_vec(), worker: Some(worker.clone()), limit, ..ListQuery::default() }
}

/// Asks for the attempts that a worker has started, according to the disk. Assigned attempts that have not started go
/// to other workers when the connection ends.
pub fn begun_by(worker: &Name, limit: usize) -> Request {
    Request::Query(Query::List(Box::new(held_by(worker, &[StateName::Running], limit))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_too_early_waits_up_to_a_limit() {
        let mut arrival = Arrival::new(2);
        assert!(arrival.keep('a') && arrival.keep('b') && !arrival.keep('c'));
        let (held, early) = arrival.finish(Err(HubRefusal::Draining));
        assert!(held.is_empty());
        assert_eq!(early, ['a', 'b']);
    }
}
