//! A backup of a group: from the database by way of a local copy, so that no broker has to do anything for it.

use std::sync::Arc;

use super::local::LocalJournal;
use super::replica::Replica;
use super::{Place, Stream};
use crate::backup::{Manifest, Source, refuse_occupied, write_manifest};
use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::files::{self, Named};

impl Replica {
    /// Writes a backup into an empty directory. It holds everything that was acknowledged before this call. After an
    /// error that passes, or if a file was replaced meanwhile, the caller tries again.
    ///
    /// It consumes the replica, because this copy may hold what a standby must not have yet.
    pub fn back_up(mut self, target: &dyn Disk) -> Result<Manifest, (Box<Replica>, StoreError)> {
        match self.copy_all() {
            Ok(()) => {}
            Err(error) => return Err((Box::new(self), error)),
        }
        self.write_backup(target).map_err(|error| (Box::new(self), error))
    }

    fn write_backup(&self, target: &dyn Disk) -> Result<Manifest, StoreError> {
        refuse_occupied(target, "the directory for the backup")?;
        let end = |stream: Stream| self.local[stream].as_ref().map_or(Place::default(), LocalJournal::end);
        let mut manifest = Manifest { position: end(Stream::Tasks).position, files: Vec::new() };
        for stream in Stream::ALL {
            for segment in self.local[stream].iter().flat_map(LocalJournal::segments) {
                let bytes = segment.offset(segment.file_end()?.min(end(stream).position));
                let source = Source { name: segment.name.clone(), file: Arc::clone(&segment.file), bytes };
                manifest.files.push(source.copy(target, &source.name)?);
            }
        }
        for name in self.disk.list().doing("listing", "the copy")? {
            if matches!(files::named(&name), Named::Snapshot(_) | Named::Events(_) | Named::Hook) {
                let file = self.disk.open(&name).doing("opening", &name)?;
                let bytes = file.len().doing("measuring", &name)?;
                let source = Source { name, file, bytes };
                manifest.files.push(source.copy(target, &source.name)?);
            }
        }
        write_manifest(target, &manifest)?;
        Ok(manifest)
    }
}
