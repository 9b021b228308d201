//! One file per query. Queries change nothing.

mod arrays;
mod explain;
mod list;
mod overview;
mod scan;
mod schedules;
mod show;

use crate::command::{Answer, Peer, Query};
use crate::engine::Engine;
use crate::refusal::Refusal;

impl Engine {
    /// Answers a query, limited to the peer's namespace.
    pub fn ask(&self, peer: &Peer, query: &Query) -> Result<Answer, Refusal> {
        match query {
            Query::Show { task } => self.show(peer, *task),
            Query::Find { name } => self.find(peer, name),
            Query::Explain { task } => self.explain(peer, *task),
            Query::List(query) => self.list(peer, query),
            Query::ScanTasks { from, limit } => self.slice_tasks(peer, *from, *limit),
            Query::ScanWorkers { from, limit } => self.slice_workers(peer, *from, *limit),
            Query::Queues => Ok(self.list_queues(peer)),
            Query::Queue { queue } => Ok(self.one_queue(peer, queue)),
            Query::Workers => Ok(self.list_workers(peer)),
            Query::Worker { worker } => Ok(self.one_worker(peer, worker)),
            Query::Limits => Ok(self.list_limits(peer)),
            Query::Schedules => Ok(self.list_schedules(peer)),
            Query::Schedule { schedule } => self.one_schedule(peer, schedule),
            Query::Shares => Ok(self.list_shares(peer)),
            Query::Counts => Ok(self.counts(peer)),
            Query::Array { array } => self.show_array(peer, *array),
            Query::FindArray { name } => self.find_array(peer, name),
            Query::Arrays { cursor, limit } => self.list_arrays(peer, *cursor, *limit),
        }
    }
}
