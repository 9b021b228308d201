//! Open requests and the destinations of their answers. One instance serves all shards.
//!
//! An answer is published to its own name, `_reply.<id>`, so that every protocol that can publish can answer.
//! Such names never become topics: the runtime checks [`is_reply`] first and passes them here. The first
//! answer closes the request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::name::REPLY_PREFIX;
use crate::refusal::TopicRefusal;
use crate::time::Timestamp;

/// The default maximum of open requests.
pub const REQUESTS_MAX: usize = 100_000;

/// Identifies a request. The caller generates it, and should make it hard to guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u128);

/// Whether answers are published to this name.
pub fn is_reply(topic: &str) -> bool {
    topic.starts_with(REPLY_PREFIX)
}

/// The open requests.
#[derive(Debug)]
pub struct Requests {
    open: BTreeMap<RequestId, Timestamp>,
    deadlines: BTreeSet<(Timestamp, RequestId)>,
    limit: usize,
}

impl Requests {
    /// No requests yet, and at most this many at once.
    pub fn new(limit: usize) -> Requests {
        Requests { open: BTreeMap::new(), deadlines: BTreeSet::new(), limit }
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a request and returns its reply topic. If the request then cannot be published,
    /// [`Requests::close`] it.
    pub fn open(
        &mut self,
        id: RequestId,
        timeout: Duration,
        now: Timestamp,
    ) -> Result<Arc<str>, TopicRefusal> {
        if self.open.len() >= self.limit {
            return Err(TopicRefusal::TooManyRequests { limit: self.limit });
        }
        if self.open.contains_key(&id) {
            return Err(TopicRefusal::RequestExists);
        }
        let deadline = now.after(timeout);
        self.open.insert(id, deadline);
        self.deadlines.insert((deadline, id));
        Ok(Arc::from(format!("{REPLY_PREFIX}{:032x}", id.0)))
    }

    /// Handles a message published to a reply topic: returns the request it answers, and closes it.
    pub fn answer(&mut self, topic: &str, now: Timestamp) -> Result<RequestId, TopicRefusal> {
        let digits = topic.strip_prefix(REPLY_PREFIX).ok_or(TopicRefusal::UnknownRequest)?;
        let id = u128::from_str_radix(digits, 16).map(RequestId).map_err(|_| TopicRefusal::UnknownRequest)?;
        let deadline = self.open.get(&id).copied().ok_or(TopicRefusal::UnknownRequest)?;
        if deadline <= now {
            return Err(TopicRefusal::UnknownRequest);
        }
        self.close(id);
        Ok(id)
    }

    /// Closes a request without an answer. Returns false if it was not open.
    pub fn close(&mut self, id: RequestId) -> bool {
        let Some(deadline) = self.open.remove(&id) else { return false };
        self.deadlines.remove(&(deadline, id));
        true
    }

    /// Closes up to `max` expired requests and returns them.
    pub fn expire(&mut self, max: usize, now: Timestamp) -> Vec<RequestId> {
        let mut expired = Vec::new();
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if deadline > now || expired.len() >= max {
                break;
            }
            self.close(id);
            expired.push(id);
        }
        expired
    }

    /// When the next request expires.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }
}

impl Default for Requests {
    fn default() -> Requests {
        Requests::new(REQUESTS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_answer_closes_the_request() {
        let mut requests = Requests::default();
        let name = requests.open(RequestId(7), SECOND, Timestamp(0)).unwrap();
        assert!(is_reply(&name));
        assert_eq!(requests.answer(&name, Timestamp(5)), Ok(RequestId(7)));
        assert_eq!(requests.answer(&name, Timestamp(6)), Err(TopicRefusal::UnknownRequest));
        assert_eq!(requests.next_deadline(), None);
    }

    #[test]
    fn a_late_answer_is_refused_even_before_the_reaper_came() {
        let mut requests = Requests::default();
        let name = requests.open(RequestId(7), SECOND, Timestamp(0)).unwrap();
        assert_eq!(requests.answer(&name, Timestamp(1000)), Err(TopicRefusal::UnknownRequest));
        assert_eq!(requests.expire(10, Timestamp(1000)), vec![RequestId(7)]);
        assert!(requests.is_empty());
    }

    #[test]
    fn open_requests_are_limited_and_have_ids_of_their_own() {
        let mut requests = Requests::new(1);
        requests.open(RequestId(1), SECOND, Timestamp(0)).unwrap();
        let refusal = requests.open(RequestId(2), SECOND, Timestamp(0)).unwrap_err();
        assert_eq!(refusal, TopicRefusal::TooManyRequests { limit: 1 });
        let mut requests = Requests::new(2);
        requests.open(RequestId(1), SECOND, Timestamp(0)).unwrap();
        assert_eq!(requests.open(RequestId(1), SECOND, Timestamp(0)), Err(TopicRefusal::RequestExists));
    }

    #[test]
    fn nonsense_is_no_answer() {
        let mut requests = Requests::default();
        for name in ["_reply.", "_reply.xyz", "_reply.+1", "other"] {
            assert_eq!(requests.answer(name, Timestamp(0)), Err(TopicRefusal::UnknownRequest), "{name}");
        }
    }
}
