//! The files of hooks in the database. A hook's file is replaced often and may become shorter, so each version has a name
//! of its own (`hook-ops@00000000000000000007`), and the highest one counts: a statement that arrives late cannot
//! bring an older one back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::leader::LeaderState;
use super::{FileEntry, ReplicatedSession, ReplicationError};
use crate::files::{self, Named};

/// The newest version of each hook's file, by the name of the file.
pub(super) fn newest(entries: &[FileEntry]) -> BTreeMap<&str, (u64, &FileEntry)> {
    let mut newest = BTreeMap::new();
    for entry in entries {
        if let Some((name, version)) = parse(&entry.name) {
            let known = newest.entry(name).or_insert((version, entry));
            if known.0 < version {
                *known = (version, entry);
            }
        }
    }
    newest
}

/// Whether the database holds the file of a hook under this name.
pub(super) fn is_version(name: &str) -> bool {
    parse(name).is_some()
}

fn parse(name: &str) -> Option<(&str, u64)> {
    let (name, version) = name.split_once('@')?;
    let is_hook = files::named(name) == Named::Hook && version.len() == 20;
    is_hook.then(|| version.parse().ok().map(|version| (name, version)))?
}

/// The connection of a leader for the files of hooks.
#[derive(Debug, Default)]
pub(super) struct HookUploads {
    session: Mutex<Option<Box<dyn ReplicatedSession>>>,
}

impl LeaderState {
    /// Stores a new version of a hook's file, and removes the older ones.
    pub(crate) fn put_hook_file(&self, name: &str, bytes: &[u8]) -> Result<(), ReplicationError> {
        let mut kept = self.hooks.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut session = match kept.take() {
            Some(session) => session,
            None => self.journal.connect()?,
        };
        let state = session.look()?;
        let leadership = self.leadership();
        let version = newest(&state.files).get(name).map_or(1, |(version, _)| version + 1);
        session.put_file(&leadership, &format!("{name}@{version:020}"), bytes)?;
        for entry in &state.files {
            if parse(&entry.name).is_some_and(|(known, _)| known == name) {
                session.remove_file(&leadership, &entry.name)?;
            }
        }
        *kept = Some(session);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_counts() {
        let entry = |name: &str| FileEntry { name: name.to_owned(), bytes: 1, crc: 2 };
        let entries = [
            entry("hook-ops@00000000000000000009"),
            entry("hook-ops@00000000000000000010"),
            entry("hook-ops@7"),
            entry("hook-mail@00000000000000000001"),
            entry("snapshot-00000000000000000010"),
        ];
        let newest = newest(&entries);
        assert_eq!(newest.keys().copied().collect::<Vec<_>>(), ["hook-mail", "hook-ops"]);
        assert_eq!(newest["hook-ops"].0, 10);
        assert!(
            is_version(&entries[0].name) && !is_version(&entries[2].name) && !is_version(&entries[4].name)
        );
    }
}
