//! Restores the keys from the records of the log.

use tenure_engine::Name;
use tenure_keyspace::Record;
use tenure_store::{KeyLog, KeysOpened, Reader, StoreError};

use super::saver::KeySaver;
use super::{KeyspaceSettings, Keyspaces, locked};

impl Keyspaces {
    /// Opens the log beside the journal and restores all keys. The caller starts the saver thread.
    pub fn open(reader: &Reader, settings: KeyspaceSettings) -> Result<(Keyspaces, KeySaver), StoreError> {
        let KeysOpened { log, cut } = reader.open_keys()?;
        if let Some(cut) = cut {
            tracing::warn!(
                file = cut.file,
                offset = cut.offset,
                why = cut.why,
                "the key log ended in an incomplete frame; it was cut off"
            );
        }
        let keyspaces = Keyspaces::new(settings, reader.lease());
        keyspaces.restore(&log)?;
        let saver = KeySaver::new(&keyspaces, log);
        Ok((keyspaces, saver))
    }

    fn restore(&self, log: &KeyLog) -> Result<(), StoreError> {
        let mut failed = None;
        log.records(|namespace, record| {
            if failed.is_none()
                && let Err(why) = self.restore_record(namespace, record)
            {
                failed = Some(why);
            }
        })?;
        match failed {
            None => Ok(()),
            Some(why) => Err(tenure_store::Damage::new("the log of keys", 0, why).into()),
        }
    }

    fn restore_record(&self, namespace: &[u8], record: &[u8]) -> Result<(), String> {
        let namespace: Name = std::str::from_utf8(namespace).map_err(|error| error.to_string())?.into();
        let record: Record = rmp_serde::from_slice(record).map_err(|error| error.to_string())?;
        let state = self.space(&namespace).map_err(|failure| failure.to_string())?;
        locked(&state).space.restore(&record);
        Ok(())
    }
}
