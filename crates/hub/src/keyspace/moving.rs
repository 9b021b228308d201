//! Brings the stored keys of a namespace from the log of one group into that of another, while no broker serves them.

use std::collections::{BTreeMap, BTreeSet};

use tenure_engine::Name;
use tenure_keyspace::{Effect, Keyspace, Record, Settings, SweepPlace};
use tenure_store::{Damage, KeyLog, KeyRecords, Reader, StoreError};

use super::NAMESPACES_MAX;
use crate::namespace_logs::{LogMoveError, Renew, commit};

/// How much goes into one frame. One value may be longer.
const FRAME_BYTES: usize = 1 << 20;

/// The open log of keys of a group that no broker serves.
#[derive(Debug)]
pub(crate) struct IdleKeys {
    log: KeyLog,
}

/// Keys of namespaces, rebuilt from the records of a log.
#[derive(Debug, Default)]
pub(crate) struct KeyReplay {
    spaces: BTreeMap<Name, Keyspace>,
    failed: Option<String>,
}

impl KeyReplay {
    pub(crate) fn add(&mut self, namespace: &str, record: &[u8]) {
        match rmp_serde::from_slice::<Record>(record) {
            Ok(record) => {
                let space = self.spaces.entry(namespace.into());
                space.or_insert_with(|| Keyspace::new(Settings::default())).restore(&record);
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    /// The namespaces that have keys.
    pub(crate) fn namespaces(self) -> Result<BTreeSet<Name>, StoreError> {
        let spaces = self.checked()?.into_iter();
        Ok(spaces.filter(|(_, space)| !space.is_empty()).map(|(namespace, _)| namespace).collect())
    }

    fn checked(self) -> Result<BTreeMap<Name, Keyspace>, StoreError> {
        match self.failed {
            None => Ok(self.spaces),
            Some(why) => Err(Damage::new("the log of keys", 0, why).into()),
        }
    }
}

impl IdleKeys {
    pub(crate) fn open(reader: &Reader) -> Result<IdleKeys, StoreError> {
        Ok(IdleKeys { log: reader.open_keys()?.log })
    }

    /// The namespaces that have keys.
    pub(crate) fn namespaces(&self) -> Result<BTreeSet<Name>, StoreError> {
        self.replay(|_| true)?.namespaces()
    }

    /// How many keys a namespace has.
    pub(crate) fn count_of(&self, namespace: &str) -> Result<u64, StoreError> {
        Ok(self.keys_of(namespace)?.len() as u64)
    }

    /// Removes all keys of a namespace.
    pub(crate) fn drop_namespace(&mut self, namespace: &str, renew: Renew<'_>) -> Result<(), LogMoveError> {
        self.append_each(namespace, &self.keys_of(namespace)?, renew, |effect| Effect::Delete {
            key: effect.key().clone(),
        })
    }

    /// Adds a namespace of another log, in place of what this one has of it.
    pub(crate) fn add_namespace(
        &mut self,
        from: &IdleKeys,
        namespace: &str,
        renew: Renew<'_>,
    ) -> Result<(), LogMoveError> {
        self.drop_namespace(namespace, renew)?;
        let keys = from.keys_of(namespace)?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut others = BTreeSet::new();
        self.log.records(|of, _| {
            if !others.contains(of) {
                others.insert(of.to_vec());
            }
        })?;
        if others.len() >= NAMESPACES_MAX && !others.contains(namespace.as_bytes()) {
            return Err(LogMoveError::TooManyNamespaces { of: "keys", limit: NAMESPACES_MAX });
        }
        self.append_each(namespace, &keys, renew, |effect| effect)
    }

    /// Appends a record about every key. Returns when they are committed.
    fn append_each(
        &mut self,
        namespace: &str,
        keys: &Keyspace,
        renew: Renew<'_>,
        effect_of: impl Fn(Effect) -> Effect,
    ) -> Result<(), LogMoveError> {
        let mut place = Some(SweepPlace::default());
        while let Some(from) = place {
            let (Record(effects), next) = keys.sweep(&from, FRAME_BYTES);
            place = next;
            if effects.is_empty() {
                continue;
            }
            let record = Record(effects.into_iter().map(&effect_of).collect());
            let mut records = KeyRecords::default();
            records.add(namespace.as_bytes(), &rmp_serde::to_vec(&record).expect("a record can be written"));
            self.log.append(&records)?;
            commit(|| self.log.sync(), renew)?;
        }
        Ok(())
    }

    fn keys_of(&self, namespace: &str) -> Result<Keyspace, StoreError> {
        let mut spaces = self.replay(|of| of == namespace)?.checked()?;
        Ok(spaces.remove(namespace).unwrap_or_else(|| Keyspace::new(Settings::default())))
    }

    fn replay(&self, is_wanted: impl Fn(&str) -> bool) -> Result<KeyReplay, StoreError> {
        let mut replay = KeyReplay::default();
        self.log.records(|namespace, record| {
            let namespace = String::from_utf8_lossy(namespace);
            if is_wanted(&namespace) {
                replay.add(&namespace, record);
            }
        })?;
        Ok(replay)
    }
}
