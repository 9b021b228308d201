//! One file per question: what can be known without changing anything.

mod explain;
mod list;
mod overview;
mod show;

use crate::command::{Answer, Peer, Query};
use crate::engine::Engine;
use crate::refusal::Refusal;

impl Engine {
    /// Answers a query from the asker's namespace.
    pub fn ask(&self, peer: &Peer, query: &Query) -> Result<Answer, Refusal> {
        match query {
            Query::Show { task } => self.show(peer, *task),
            Query::Find { name } => self.find(peer, name),
            Query::Explain { task } => self.explain(peer, *task),
            Query::List(query) => self.list(peer, query),
            Query::Queues => Ok(self.list_queues(peer)),
            Query::Workers => Ok(self.list_workers(peer)),
            Query::Limits => Ok(self.list_limits(peer)),
            Query::Counts => Ok(self.counts(peer)),
        }
    }
}
