//! Queries that read many rows. A turn answers a few of them; the rest wait, and the sessions take turns, so
//! that a client that lists without pause delays only its own lists.

use std::collections::{HashMap, VecDeque};

use tenure_engine::{Query, Refusal, SessionId};

use crate::limits::QUERIES_WAITING_MAX;
use crate::refusal::HubRefusal;
use crate::request::{Ask, Request};

/// How many rows the queries of one turn may read.
const ROWS_PER_TURN: usize = 2_000;
/// The cost of a query that reads a whole table.
const ROWS_OF_TABLE: usize = 1_000;

/// The cost of a page of what a task printed, which is read on another thread.
const ROWS_OF_LOGS: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Queries {
    rows_left: usize,
    /// Sessions with waiting queries, in the order of service.
    order: VecDeque<SessionId>,
    waiting: HashMap<SessionId, VecDeque<Ask>>,
}

/// The way in which a request is handled.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Handle it in this turn.
    Now(Ask),
    Waits,
    /// Too many queries of its session are already waiting.
    Refused(Ask, HubRefusal),
}

impl Queries {
    pub(crate) fn begin_turn(&mut self) {
        self.rows_left = ROWS_PER_TURN;
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.order.is_empty()
    }

    pub(crate) fn admit(&mut self, session: SessionId, ask: Ask) -> Admission {
        let rows = rows(&ask.request);
        if rows == 0 {
            return Admission::Now(ask);
        }
        if self.order.is_empty() && self.rows_left > 0 {
            self.rows_left = self.rows_left.saturating_sub(rows);
            return Admission::Now(ask);
        }
        let waiting = self.waiting.entry(session).or_default();
        if waiting.len() >= QUERIES_WAITING_MAX {
            return Admission::Refused(
                ask,
                Refusal::TooMany { what: "queries that wait", limit: QUERIES_WAITING_MAX }.into(),
            );
        }
        if waiting.is_empty() {
            self.order.push_back(session);
        }
        waiting.push_back(ask);
        Admission::Waits
    }

    /// The next query that this turn may answer.
    pub(crate) fn next(&mut self) -> Option<(SessionId, Ask)> {
        if self.rows_left == 0 {
            return None;
        }
        let session = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&session)?;
        let ask = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&session);
        } else {
            self.order.push_back(session);
        }
        self.rows_left = self.rows_left.saturating_sub(rows(&ask.request));
        Some((session, ask))
    }

    /// A session has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if self.waiting.remove(&session).is_some() {
            self.order.retain(|other| *other != session);
        }
    }
}

/// The maximum number of rows that a request reads; zero for cheap requests.
fn rows(request: &Request) -> usize {
    let query = match request {
        Request::Query(query) => query,
        Request::Logs { .. } => return ROWS_OF_LOGS,
        Request::Undelivered { .. } => return ROWS_OF_TABLE,
        Request::Reconcile(page) if page.list.is_some() => return ROWS_OF_TABLE,
        _ => return 0,
    };
    match query {
        Query::List(list) => list.limit.max(1),
        Query::ScanTasks { limit, .. } | Query::ScanWorkers { limit, .. } => (*limit).max(1),
        Query::Queues | Query::Workers | Query::Schedules | Query::Shares => ROWS_OF_TABLE,
        Query::Arrays { limit, .. } => (*limit).max(1),
        Query::Show { .. }
        | Query::Find { .. }
        | Query::Array { .. }
        | Query::FindArray { .. }
        | Query::Explain { .. }
        | Query::Queue { .. }
        | Query::Worker { .. }
        | Query::Schedule { .. }
        | Query::Limits
        | Query::Counts => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ListQuery;

    fn list(token: u64) -> Ask {
        let query = ListQuery { limit: 1_000, ..ListQuery::default() };
        Ask { token, request: Request::Query(Query::List(Box::new(query))) }
    }

    fn answered_in_a_turn(queries: &mut Queries) -> Vec<(u64, u64)> {
        queries.begin_turn();
        std::iter::from_fn(|| queries.next()).map(|(session, ask)| (session.0, ask.token)).collect()
    }

    #[test]
    fn sessions_take_turns_and_a_turn_reads_a_bounded_number_of_rows() {
        let mut queries = Queries::default();
        queries.begin_turn();
        assert!(matches!(queries.admit(SessionId(1), list(1)), Admission::Now(_)));
        assert!(matches!(queries.admit(SessionId(1), list(2)), Admission::Now(_)));
        for token in 3..6 {
            assert!(matches!(queries.admit(SessionId(1), list(token)), Admission::Waits));
        }
        assert!(matches!(queries.admit(SessionId(2), list(1)), Admission::Waits));
        let cheap = Ask { token: 9, request: Request::Query(Query::Counts) };
        assert!(matches!(queries.admit(SessionId(1), cheap), Admission::Now(_)), "it costs nothing");
        assert_eq!(answered_in_a_turn(&mut queries), [(1, 3), (2, 1)]);
        assert_eq!(answered_in_a_turn(&mut queries), [(1, 4), (1, 5)]);
        assert!(!queries.has_waiting());
    }

    #[test]
    fn a_session_has_a_limit_of_waiting_queries_and_leaves_none_behind() {
        let mut queries = Queries::default();
        for token in 0..QUERIES_WAITING_MAX as u64 {
            assert!(matches!(queries.admit(SessionId(1), list(token)), Admission::Waits));
        }
        assert!(matches!(queries.admit(SessionId(1), list(0)), Admission::Refused(..)));
        assert!(matches!(queries.admit(SessionId(2), list(0)), Admission::Waits), "another is not refused");
        queries.forget(SessionId(1));
        assert_eq!(answered_in_a_turn(&mut queries), [(2, 0)]);
        assert!(!queries.has_waiting());
    }
}
