//! Repairs the topic log. A damaged file in the middle also removes those before it; the last one is cut.

use super::Work;
use crate::error::StoreError;
use crate::files;
use crate::recover::Inventory;
use crate::topic_log::{LogFamily, check_file, good_part};

impl Work<'_> {
    pub(super) fn topics(&mut self) -> Result<(), StoreError> {
        // Renaming a file changes which one is the last, so check all of them again.
        while self.mend_topics()? {}
        Ok(())
    }

    /// Returns whether it changed something.
    fn mend_topics(&mut self) -> Result<bool, StoreError> {
        let starts = Inventory::take(self.disk)?.topics;
        let last = starts.len().saturating_sub(1);
        for (index, start) in starts.iter().enumerate().rev() {
            let damage =
                match check_file(self.disk, LogFamily::Topics, *start, starts.get(index + 1).copied()) {
                    Ok(_) => continue,
                    Err(StoreError::Damaged(damage)) => damage,
                    Err(other) => return Err(other),
                };
            if index < last {
                self.report(format!("{damage}. Messages of durable topics up to there are lost"));
                for start in &starts[..=index] {
                    self.set_topics_aside(*start)?;
                }
            } else if let Some((segment, end)) = good_part(self.disk, LogFamily::Topics, *start)? {
                self.keep_range(&segment, end, segment.file_end()?)?;
                segment.cut_and_rewrite(end, end)?;
                self.report(format!("{damage}. It was cut there: what topics changed later is lost"));
            } else {
                self.report(format!(
                    "{damage}. Topics are as they were in the file before it; if there is none, they begin empty"
                ));
                self.set_topics_aside(*start)?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn set_topics_aside(&mut self, start: u64) -> Result<(), StoreError> {
        let name = files::topics(start);
        let aside = self.set_aside(&name)?;
        self.report(format!("{name} was renamed to {aside}"));
        Ok(())
    }
}
