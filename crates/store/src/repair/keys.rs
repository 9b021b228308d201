//! Repairs the key log. It is cut at the first damage, and later files are renamed, so the keys are as they
//! were at that moment.

use super::Work;
use crate::error::StoreError;
use crate::files;
use crate::key_log;
use crate::recover::Inventory;
use crate::topic_log::{LogFamily, check_file, good_part};

impl Work<'_> {
    pub(super) fn keys(&mut self) -> Result<(), StoreError> {
        // Renaming a file changes which one is the last, so check all of them again.
        while self.mend_keys()? {}
        Ok(())
    }

    /// Returns whether it changed something.
    fn mend_keys(&mut self) -> Result<bool, StoreError> {
        let starts = Inventory::take(self.disk)?.keys;
        for (index, start) in starts.iter().enumerate() {
            let next = starts.get(index + 1).copied();
            let damage = match check_file(self.disk, LogFamily::Keys, *start, next) {
                Ok(_) => continue,
                Err(StoreError::Damaged(damage)) => damage,
                Err(other) => return Err(other),
            };
            let later = match good_part(self.disk, LogFamily::Keys, *start)? {
                Some((segment, end)) => {
                    self.keep_range(&segment, end, segment.file_end()?)?;
                    segment.cut_and_rewrite(end, end)?;
                    self.report(format!("{damage}. It was cut there: what keys changed later is lost"));
                    index + 1
                }
                None => {
                    self.report(format!("{damage}. Keys are as they were before this file"));
                    index
                }
            };
            for start in &starts[later..] {
                self.set_keys_aside(*start)?;
            }
            return Ok(true);
        }
        match key_log::read(self.disk) {
            Ok(_) => Ok(false),
            Err(StoreError::Damaged(damage)) => {
                self.report(format!(
                    "{damage}. Keys whose whole value was in it are lost, the others are kept"
                ));
                key_log::record_lost_start(self.disk, &starts)?;
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }

    fn set_keys_aside(&mut self, start: u64) -> Result<(), StoreError> {
        let name = files::keys(start);
        let aside = self.set_aside(&name)?;
        self.report(format!("{name} was renamed to {aside}"));
        Ok(())
    }
}
