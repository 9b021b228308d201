//! A backup of a group: from the database by way of a local copy, so that no broker has to do anything for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::local::LocalJournal;
use super::replica::{Followed, Replica};
use super::{PerStream, Place, Stream};
use crate::backup::{Manifest, Source, refuse_occupied, write_manifest};
use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::files::{self, Named};
use crate::segment::Segment;

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
        for source in
            self.open_files(|named| matches!(named, Named::Snapshot(_) | Named::Events(_) | Named::Hook))?
        {
            manifest.files.push(source.copy(target, &source.name)?);
        }
        write_manifest(target, &manifest)?;
        Ok(manifest)
    }

    fn open_files(&self, is_wanted: impl Fn(&Named) -> bool) -> Result<Vec<Source>, StoreError> {
        let mut found = Vec::new();
        for name in self.disk.list().doing("listing", "the copy")? {
            if is_wanted(&files::named(&name)) {
                let file = self.disk.open(&name).doing("opening", &name)?;
                let bytes = file.len().doing("measuring", &name)?;
                found.push(Source { name, file, bytes });
            }
        }
        Ok(found)
    }

    /// Begins a backup of a standby, after a round that began when the backup was asked for. The files are open from now
    /// on, so later rounds may replace them.
    pub fn begin_backup(&self) -> Result<CopyBackup, StoreError> {
        let is_wanted = |named: &Named| {
            matches!(named, Named::Snapshot(_) | Named::Events(_) | Named::Hook | Named::TaskLog(_))
        };
        let mut begun = CopyBackup { files: self.open_files(is_wanted)?, ..CopyBackup::default() };
        self.add_segments(&mut begun);
        Ok(begun)
    }

    /// Continues a backup after a later round. It is complete, and the answer is `true`, when the copy has reached the end
    /// that the group had when that was read for the first time since the backup began: the open files may contain
    /// everything up to there, and what a standby has copied cannot vanish.
    pub fn continue_backup(&self, begun: &mut CopyBackup, followed: &Followed) -> Result<bool, StoreError> {
        self.add_segments(begun);
        let wanted = begun
            .wanted
            .get_or_insert_with(|| PerStream::new(|stream| followed.state.streams[stream].end.position));
        for stream in Stream::ALL {
            let end = self.local[stream].as_ref().map_or(0, |local| local.end().position);
            if end < wanted[stream] {
                return Ok(false);
            }
            begun.ends[stream] = end;
        }
        for stream in Stream::ALL {
            if begun.has_hole(stream)? {
                // The group has dropped what this copy had not read yet. The files of now begin later.
                *begun = self.begin_backup()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn add_segments(&self, begun: &mut CopyBackup) {
        for stream in Stream::ALL {
            for segment in self.local[stream].iter().flat_map(LocalJournal::segments) {
                begun.segments[stream].insert(segment.start, segment);
            }
        }
    }
}

/// A backup of a standby's copy. It reads open files, so the standby goes on meanwhile.
#[derive(Debug, Default)]
pub struct CopyBackup {
    files: Vec<Source>,
    segments: PerStream<BTreeMap<u64, Arc<Segment>>>,
    wanted: Option<PerStream<u64>>,
    ends: PerStream<u64>,
}

impl CopyBackup {
    /// Writes a complete backup into an empty directory. Stops and returns `None` once `is_stopped` is set. Set it before the
    /// member takes over, because a leader uses files of old segments again.
    pub fn write(&self, target: &dyn Disk, is_stopped: &AtomicBool) -> Result<Option<Manifest>, StoreError> {
        refuse_occupied(target, "the directory for the backup")?;
        let mut manifest = Manifest { position: self.ends.tasks, files: Vec::new() };
        let mut sources = Vec::new();
        for stream in Stream::ALL {
            sources.extend(self.sources_of(stream)?);
        }
        for source in sources.iter().chain(&self.files) {
            manifest.files.push(source.copy(target, &source.name)?);
            if is_stopped.load(Ordering::Acquire) {
                return Ok(None);
            }
        }
        write_manifest(target, &manifest)?;
        Ok(Some(manifest))
    }

    /// Each segment up to the next one, the last one up to the end of the copy.
    fn sources_of(&self, stream: Stream) -> Result<Vec<Source>, StoreError> {
        let segments: Vec<&Arc<Segment>> = self.segments[stream].values().collect();
        let mut sources = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map_or(self.ends[stream], |next| next.start);
            let bytes = segment.offset(segment.file_end()?.min(next));
            sources.push(Source { name: segment.name.clone(), file: Arc::clone(&segment.file), bytes });
        }
        Ok(sources)
    }

    fn has_hole(&self, stream: Stream) -> Result<bool, StoreError> {
        let segments: Vec<&Arc<Segment>> = self.segments[stream].values().collect();
        for pair in segments.windows(2) {
            if pair[0].file_end()? < pair[1].start {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
