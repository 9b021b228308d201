//! Jobs that were popped as their pushed bytes, until LREM returns these bytes.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};

use bytes::Bytes;

/// How many are tracked on one connection; beyond that, LREM accepts the oldest by its id only.
const ELEMENTS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Elements {
    /// The bytes may be long, so a hash and the length represent them.
    handed: VecDeque<((u64, usize), String)>,
    hasher: RandomState,
}

impl Elements {
    pub(super) fn keep(&mut self, job: String, element: &Bytes) {
        if self.handed.len() == ELEMENTS_MAX {
            self.handed.pop_front();
        }
        self.handed.push_back((self.mark(element), job));
    }

    /// The job that was popped as this element; the first of several equal ones.
    pub(super) fn take(&mut self, element: &Bytes) -> Option<String> {
        if self.handed.is_empty() {
            return None;
        }
        let mark = self.mark(element);
        let index = self.handed.iter().position(|(known, _)| *known == mark)?;
        self.handed.remove(index).map(|(_, job)| job)
    }

    fn mark(&self, element: &Bytes) -> (u64, usize) {
        (self.hasher.hash_one(element), element.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_elements_come_back_one_by_one() {
        let mut elements = Elements::default();
        elements.keep("one".into(), &Bytes::from_static(b"x"));
        elements.keep("two".into(), &Bytes::from_static(b"x"));
        assert_eq!(elements.take(&Bytes::from_static(b"y")), None);
        assert_eq!(elements.take(&Bytes::from_static(b"x")).as_deref(), Some("one"));
        assert_eq!(elements.take(&Bytes::from_static(b"x")).as_deref(), Some("two"));
        assert_eq!(elements.take(&Bytes::from_static(b"x")), None);
    }
}
