//! A connection's access to the stored keys of its namespace. Most connections never use it.

use tenure_hub::keyspace::{KeyspaceAnswer, KeyspaceCall, KeyspaceClient, Keyspaces};
use tenure_hub::wall_clock;
use tenure_hub::words::Name;

/// Calls of one connection run until their replies hold this many bytes.
const REPLY_BYTES_AT_ONCE: usize = 1 << 20;

pub(super) struct StoredKeys {
    keyspaces: Keyspaces,
    client: Option<(Name, KeyspaceClient)>,
}

impl StoredKeys {
    pub(super) fn new(keyspaces: Keyspaces) -> StoredKeys {
        StoredKeys { keyspaces, client: None }
    }

    /// Runs calls in order, until the replies hold much memory, and returns the replies that need not wait. The calls
    /// that it has run are removed.
    pub(super) async fn call(
        &mut self,
        namespace: &Name,
        calls: &mut Vec<(u64, KeyspaceCall)>,
    ) -> Vec<(u64, KeyspaceAnswer)> {
        if self.client.as_ref().is_none_or(|(known, _)| known != namespace) {
            // Another key has another namespace; watches and blocking commands of the first one end.
            self.client = None;
            match self.keyspaces.connect(namespace) {
                Ok(client) => self.client = Some((namespace.clone(), client)),
                Err(failure) => {
                    return calls
                        .drain(..)
                        .map(|(token, _)| (token, KeyspaceAnswer::Failed(failure)))
                        .collect();
                }
            }
        }
        let Some((_, client)) = &mut self.client else { return Vec::new() };
        client.room().await;
        let mut rest = std::mem::take(calls).into_iter();
        client.run_up_to(wall_clock(), &mut rest, REPLY_BYTES_AT_ONCE);
        *calls = rest.collect();
        client.take_answered()
    }

    /// Answers that are ready.
    pub(super) fn take_answered(&mut self) -> Option<Vec<(u64, KeyspaceAnswer)>> {
        let (_, client) = self.client.as_mut()?;
        Some(client.take_answered()).filter(|answers| !answers.is_empty())
    }

    /// Waits for replies; never returns if nothing was called.
    pub(super) async fn answered(&mut self) -> Vec<(u64, KeyspaceAnswer)> {
        match &mut self.client {
            Some((_, client)) => client.answered().await,
            None => std::future::pending().await,
        }
    }
}
