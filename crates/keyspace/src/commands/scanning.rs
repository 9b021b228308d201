//! Pages of SCAN, HSCAN, SSCAN and ZSCAN. The cursor is the hash of the next item, so added and removed items
//! do not move the others.

use bytes::Bytes;

use crate::glob::glob;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;

/// Where a page begins, which items match, and about how many it examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where to continue; 0 begins.
    pub cursor: u64,
    /// Only names that match.
    pub pattern: Option<Bytes>,
    /// About how many entries to look at.
    pub count: usize,
}

impl Page {
    pub(crate) fn wants(&self, name: &Bytes) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| glob(pattern, name))
    }

    /// Examines items in the order of their hashes. Returns where the next page begins; 0 if there is none.
    pub(crate) fn walk<T>(
        &self,
        items: impl Iterator<Item = (u64, T)>,
        mut look: impl FnMut(T) -> Result<(), KeyspaceRefusal>,
    ) -> Result<u64, KeyspaceRefusal> {
        let (mut seen, mut last) = (0, None);
        for (hash, item) in items {
            // Items with the same hash are on the same page, because the cursor cannot separate them.
            if seen >= self.count && last != Some(hash) {
                return Ok(hash);
            }
            (seen, last) = (seen + 1, Some(hash));
            look(item)?;
        }
        Ok(0)
    }
}

pub(crate) fn scanned(cursor: u64, found: Vec<Bytes>) -> Reply {
    Reply::Array(vec![Reply::Bulk(Bytes::from(cursor.to_string())), Reply::bulks(found)])
}
