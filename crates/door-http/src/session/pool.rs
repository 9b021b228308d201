//! The idle sessions of one connection. A client that sends one request after the other uses one session for all.

use std::sync::{Mutex, PoisonError};

use tenure_hub::Session;

use crate::authentication::HttpPeer;

/// How many sessions wait for the next request. An HTTP/1.1 connection needs one.
const IDLE_MAX: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct SessionPool {
    idle: Mutex<Vec<(HttpPeer, Session)>>,
}

impl SessionPool {
    /// A session that was opened for the same peer, if one is idle and still open.
    pub(super) fn take(&self, peer: &HttpPeer) -> Option<Session> {
        let mut idle = self.lock();
        idle.retain(|(_, session)| !session.mailbox().is_closed());
        let index = idle.iter().position(|(other, _)| other.is_same(peer))?;
        Some(idle.swap_remove(index).1)
    }

    pub(super) fn put_back(&self, peer: HttpPeer, session: Session) {
        let mut idle = self.lock();
        if idle.len() == IDLE_MAX {
            idle.remove(0);
        }
        idle.push((peer, session));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(HttpPeer, Session)>> {
        // Taking and pushing cannot stop half-way.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
