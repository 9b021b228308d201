//! The maintenance thread: file work that must not block the hub. It writes snapshots, copies events, deletes
//! and reuses segments, and reads the bytes that cleaning moves. It runs on its own thread; the simulator
//! calls it in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use bytes::Bytes;
use tenure_engine::{Blob, TaskId, Timestamp, Which};

use crate::block::SnapshotBlock;
use crate::cleaning;
use crate::error::{IoContext, StoreError};
use crate::events::{EventFile, copy_events};
use crate::files::{self, Named};
use crate::header::HEADER_BYTES;
use crate::replicated::Uploads;
use crate::segment::{self, Segment, SegmentRest};
use crate::shared::{Shared, SnapshotFile, Spare};
use crate::snapshot::{NeededSegment, SnapshotWriter};

/// Jobs from the hub's side. A snapshot is begin, blocks, finish, in this order; the others come at any time.
#[derive(Debug)]
pub(crate) enum MaintenanceJob {
    BeginSnapshot {
        start: u64,
        first_event: u64,
    },
    Block(SnapshotBlock),
    FinishSnapshot(SnapshotFinish),
    PrepareSpare,
    /// The disk needs the space of spare segments.
    DropSpares,
    /// List the blobs in a segment with their tasks, from a position on.
    ListBlobs {
        segment: u64,
        from: u64,
    },
    FetchBlobs(Vec<Candidate>),
}

#[derive(Debug)]
pub(crate) struct SnapshotFinish {
    /// The journal is synced up to here.
    pub(crate) end: u64,
    /// Segments without a live blob when the snapshot began.
    pub(crate) condemned: Vec<u64>,
    pub(crate) now: Timestamp,
}

#[derive(Debug)]
pub(crate) enum JobDone {
    Snapshot { file: SnapshotFile, deleted: Vec<u64> },
    SnapshotFailed(StoreError),
    Spare(Result<(), StoreError>),
    Listed(Result<Listed, StoreError>),
    Fetched(Result<Vec<(Candidate, Bytes)>, StoreError>),
}

/// Bytes that belonged to a task when their frame was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) task: TaskId,
    pub(crate) which: Which,
    pub(crate) blob: Blob,
}

#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) candidates: Vec<Candidate>,
    /// Where to continue, or `None` at the end of the segment.
    pub(crate) next: Option<u64>,
}

/// Does what [`Maintenance`] decides: it writes, syncs, reads and deletes files beside the hub.
#[derive(Debug)]
pub struct MaintenanceThread {
    shared: Arc<Shared>,
    jobs: Receiver<MaintenanceJob>,
    done: Sender<JobDone>,
    /// The bytes of blocks that wait to be written.
    queued: Arc<AtomicUsize>,
    snapshot: Option<Result<SnapshotWriter, StoreError>>,
    /// Segments that a backup keeps from being deleted.
    deferred: Vec<u64>,
    /// The leader of a group stores the files in the replicated journal as well.
    uploads: Option<Uploads>,
}

impl MaintenanceThread {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: Receiver<MaintenanceJob>,
        done: Sender<JobDone>,
        queued: Arc<AtomicUsize>,
        uploads: Option<Uploads>,
    ) -> MaintenanceThread {
        MaintenanceThread { shared, jobs, done, queued, snapshot: None, deferred: Vec::new(), uploads }
    }

    /// Runs until the hub's side is dropped.
    pub fn run(mut self) {
        while let Ok(job) = self.jobs.recv() {
            self.work(job);
        }
    }

    /// Does one pending job, if there is one.
    pub fn turn(&mut self) -> bool {
        match self.jobs.try_recv() {
            Ok(job) => {
                self.work(job);
                true
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => false,
        }
    }

    fn work(&mut self, job: MaintenanceJob) {
        let done = match job {
            MaintenanceJob::BeginSnapshot { start, first_event } => {
                self.snapshot = Some(SnapshotWriter::create(&*self.shared.disk, start, first_event));
                return;
            }
            MaintenanceJob::Block(block) => {
                self.queued.fetch_sub(block.page.len(), Ordering::AcqRel);
                if let Some(Ok(writer)) = &mut self.snapshot
                    && let Err(error) = writer.add(&block)
                {
                    self.snapshot = Some(Err(error));
                    // The journal needs the space, and this snapshot would wait for the journal.
                    self.remove_unfinished();
                }
                return;
            }
            MaintenanceJob::FinishSnapshot(finish) => match self.finish(finish) {
                Ok(done) => done,
                Err(error) => {
                    self.remove_unfinished();
                    JobDone::SnapshotFailed(error)
                }
            },
            MaintenanceJob::DropSpares => {
                while let Some(spare) = self.shared.take_spare() {
                    let _ = self.shared.disk.remove(&spare.name);
                }
                return;
            }
            MaintenanceJob::PrepareSpare => JobDone::Spare(self.prepare_spare()),
            MaintenanceJob::ListBlobs { segment, from } => {
                JobDone::Listed(cleaning::list(&self.shared, segment, from))
            }
            MaintenanceJob::FetchBlobs(candidates) => {
                JobDone::Fetched(cleaning::fetch(&self.shared, candidates))
            }
        };
        // A hub that has ended does not need the result.
        let _ = self.done.send(done);
    }

    /// First the events are copied, then the snapshot becomes the current one, then obsolete files are
    /// deleted. A crash between any two of these steps leaves only superfluous files.
    fn finish(&mut self, finish: SnapshotFinish) -> Result<JobDone, StoreError> {
        let writer = self.snapshot.take().expect("a snapshot was begun")?;
        let disk = Arc::clone(&self.shared.disk);
        let (start, first_event) = (writer.start(), writer.first_event());
        self.copy_events(start, first_event, finish.now)?;
        self.deferred.extend(finish.condemned);
        self.deferred.sort_unstable();
        self.deferred.dedup();
        let needed = self.needed_segments(start)?;
        let file = writer.finish(&*disk, finish.end, finish.now, Some(needed))?;
        self.upload(file.start)?;
        let pinned = {
            let mut files = self.shared.files.write().expect("no holder of the lock panics");
            files.snapshot = Some(file);
            files.pins > 0
        };
        let mut deleted = Vec::new();
        if !pinned {
            self.remove_old_snapshots(file.start)?;
            for segment in std::mem::take(&mut self.deferred) {
                if self.give_up(segment)? {
                    deleted.push(segment);
                } else {
                    self.deferred.push(segment);
                }
            }
            self.trim_events(finish.now)?;
            disk.sync_dir().syncing("the directory")?;
            self.drop_uploaded();
        }
        Ok(JobDone::Snapshot { file, deleted })
    }

    /// Stores the new snapshot and the event files in the replicated journal. Until that is done, nothing that
    /// they replace is deleted anywhere.
    fn upload(&mut self, snapshot: u64) -> Result<(), StoreError> {
        let Some(uploads) = &mut self.uploads else { return Ok(()) };
        let (names, segments) = {
            let files = self.shared.files.read().expect("no holder of the lock panics");
            let names: Vec<String> = files
                .events
                .iter()
                .map(|file| file.name.clone())
                .chain([files::snapshot(snapshot)])
                .collect();
            let kept = files.segments.keys().copied().filter(|start| !self.deferred.contains(start));
            (names, kept.collect())
        };
        if uploads.drops_early() {
            uploads.drop_obsolete(&names, &segments)?;
        }
        uploads.put_files(&*self.shared.disk, &names)
    }

    /// Removes from the replicated journal what is deleted here. If that fails, the next snapshot does it.
    fn drop_uploaded(&mut self) {
        let Some(uploads) = &mut self.uploads else { return };
        let (names, segments) = {
            let files = self.shared.files.read().expect("no holder of the lock panics");
            let snapshot = files.snapshot.map(|file| files::snapshot(file.start));
            let names: Vec<String> =
                files.events.iter().map(|file| file.name.clone()).chain(snapshot).collect();
            (names, files.segments.keys().copied().collect())
        };
        let _ = uploads.drop_obsolete(&names, &segments);
    }

    /// The segments from before `start` that the snapshot needs: all but those that may be deleted after it.
    /// A start checks that they exist; otherwise a missing one would go unnoticed until a body is read.
    fn needed_segments(&self, start: u64) -> Result<Vec<NeededSegment>, StoreError> {
        let files = self.shared.files.read().expect("no holder of the lock panics");
        let before = files.segments.range(..start).filter(|(segment, _)| !self.deferred.contains(segment));
        before
            .map(|(_, segment)| {
                let end = segment.file_end()?.min(start);
                Ok(NeededSegment { start: segment.start, bytes: end.saturating_sub(segment.start) })
            })
            .collect()
    }

    /// Deletes unfinished files, because a full disk needs their space. Only the maintenance thread has such
    /// files.
    fn remove_unfinished(&self) {
        for name in self.shared.disk.list().unwrap_or_default() {
            if files::named(&name) == Named::Unfinished {
                let _ = self.shared.disk.remove(&name);
            }
        }
    }

    /// Usually there is one; a backup may have kept more.
    fn remove_old_snapshots(&self, newest: u64) -> Result<(), StoreError> {
        for name in self.shared.disk.list().doing("listing", "the directory")? {
            if let Named::Snapshot(start) = files::named(&name)
                && start != newest
            {
                self.shared.disk.remove(&name).doing("removing", &name)?;
            }
        }
        Ok(())
    }

    fn copy_events(&self, upto: u64, upto_event: u64, now: Timestamp) -> Result<(), StoreError> {
        let (last, from, begin, segments) = {
            let files = self.shared.files.read().expect("no holder of the lock panics");
            let in_journal = files.snapshot.map_or(1, |snapshot| snapshot.first_event);
            let begin = files.snapshot.map_or(0, |snapshot| snapshot.start);
            let last = files.events.last().cloned();
            let from = last.as_ref().map_or(in_journal, |last| last.end.max(in_journal));
            let first = files.segments.range(..=begin).next_back().map_or(begin, |(start, _)| *start);
            let segments: Vec<Arc<Segment>> =
                files.segments.range(first..upto).map(|(_, segment)| segment.clone()).collect();
            (last, from, begin, segments)
        };
        if from >= upto_event {
            return Ok(());
        }
        let copied = copy_events(
            &*self.shared.disk,
            self.shared.settings.events_kept,
            // New events do not join a file that is only kept because it is the newest.
            last.as_ref().filter(|last| !self.is_too_old(last, now)),
            &segments,
            begin,
            from,
            upto,
        )?;
        let mut files = self.shared.files.write().expect("no holder of the lock panics");
        for file in copied {
            files.events.retain(|known| known.first != file.first);
            files.events.push(Arc::new(file));
        }
        Ok(())
    }

    /// Deletes event files beyond the limits of count and age, oldest first. The newest one stays, however old it
    /// is: a broker that was idle for long still shows what happened last.
    fn trim_events(&self, now: Timestamp) -> Result<(), StoreError> {
        let settings = &self.shared.settings;
        let next = self.shared.progress.next_event();
        let mut dropped = Vec::new();
        {
            let mut files = self.shared.files.write().expect("no holder of the lock panics");
            while let [oldest, _, ..] = &files.events[..] {
                let too_many = next.saturating_sub(oldest.end) >= settings.events_kept;
                if !too_many && !self.is_too_old(oldest, now) {
                    break;
                }
                dropped.push(files.events.remove(0));
            }
        }
        for file in dropped {
            self.shared.disk.remove(&file.name).doing("removing", &file.name)?;
        }
        Ok(())
    }

    fn is_too_old(&self, file: &EventFile, now: Timestamp) -> bool {
        now.since(file.last_time) > self.shared.settings.events_kept_for
    }

    /// Deletes a segment, or keeps its file as a spare: overwriting existing blocks is cheaper to sync than
    /// allocating new ones. Returns `false` if a backup has begun meanwhile, because the backup may include
    /// this file.
    fn give_up(&self, start: u64) -> Result<bool, StoreError> {
        let removed = {
            let mut files = self.shared.files.write().expect("no holder of the lock panics");
            if files.pins > 0 {
                return Ok(false);
            }
            files.segments.remove(&start)
        };
        let Some(old) = removed else { return Ok(true) };
        let full_size = old.file.len().doing("measuring", &old.name)? >= self.shared.settings.segment_bytes;
        if !full_size || self.shared.spare_count() >= self.shared.spares_wanted() {
            self.shared.disk.remove(&old.name).doing("removing", &old.name)?;
            return Ok(true);
        }
        // Rename first: under its old name the file must not have a salt that its frames do not match.
        let name = self.shared.next_spare_name();
        self.shared.disk.rename(&old.name, &name).doing("renaming", &old.name)?;
        self.shared.disk.sync_dir().syncing("the directory")?;
        let salt = self.shared.new_salt(old.salt);
        segment::write_header(&*old.file, salt, SegmentRest::Used).doing("writing", &name)?;
        old.file.sync().syncing(&name)?;
        self.shared.add_spare(Spare { name, salt, rest: SegmentRest::Used, file: old.file.clone() });
        Ok(true)
    }

    /// Creates a segment ahead of its use, filled with zeros, so that appends to it change no metadata.
    fn prepare_spare(&self) -> Result<(), StoreError> {
        let spare = self.shared.create_spare()?;
        let filled = HEADER_BYTES as u64 + self.shared.settings.longer_by();
        if let Err(error) =
            segment::fill(&*spare.file, &spare.name, filled..self.shared.settings.segment_bytes)
        {
            let _ = self.shared.disk.remove(&spare.name);
            return Err(error);
        }
        self.shared.add_spare(spare);
        Ok(())
    }
}
