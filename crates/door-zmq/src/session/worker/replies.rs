//! Replies of a `_PL` worker that become results when their jobs are finished.

use std::collections::HashMap;

use bytes::Bytes;
use tenure_hub::limits::BODY_BYTES_MAX;

/// Maximum size of a worker's waiting replies: a worker sends the report that ends the job right after.
const REPLIES_BYTES_MAX: usize = 4 * BODY_BYTES_MAX;

/// The last reply for each client.
#[derive(Debug, Default)]
pub(super) struct Replies {
    by_client: HashMap<Bytes, Vec<Bytes>>,
    bytes: usize,
}

impl Replies {
    /// Stores a reply in place of the previous one. Returns false, and stores nothing, if there is no room.
    pub(super) fn insert(&mut self, client: Bytes, reply: Vec<Bytes>) -> bool {
        self.remove(&client);
        let bytes = size(&reply);
        if self.bytes + bytes > REPLIES_BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        self.by_client.insert(client, reply);
        true
    }

    pub(super) fn remove(&mut self, client: &Bytes) -> Vec<Bytes> {
        let reply = self.by_client.remove(client).unwrap_or_default();
        self.bytes -= size(&reply);
        reply
    }
}

fn size(reply: &[Bytes]) -> usize {
    reply.iter().map(|frame| size_of::<Bytes>() + frame.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_take_the_place_of_older_ones_and_are_bounded_together() {
        let mut replies = Replies::default();
        let large = vec![Bytes::from(vec![0; BODY_BYTES_MAX])];
        for _ in 0..10 {
            assert!(replies.insert("one".into(), large.clone()));
        }
        for client in ["two", "three"] {
            assert!(replies.insert(client.into(), large.clone()));
        }
        assert!(!replies.insert("four".into(), large.clone()));
        assert_eq!(replies.remove(&"one".into()), large);
        assert_eq!(replies.remove(&"one".into()), Vec::<Bytes>::new());
        assert!(replies.insert("four".into(), large));
    }
}
