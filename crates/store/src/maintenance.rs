//! Maintenance: keeps restarts short and the disk small. The hub runs it in small slices between its turns;
//! the maintenance thread does the file work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use tenure_engine::{Engine, Slot, Timestamp};

use crate::batches::Batches;
use crate::block::SnapshotBlock;
use crate::cleaning::Cleaning;
use crate::error::StoreError;
use crate::maintenance_thread::{JobDone, MaintenanceJob, SnapshotFinish};
use crate::segment_usage::LiveBytes;
use crate::shared::{Shared, SnapshotFile};
use crate::snapshot::{settings_block, task_block};

/// Decides what maintenance is due, in slices between the hub's turns.
#[derive(Debug)]
pub struct Maintenance {
    shared: Arc<Shared>,
    jobs: Sender<MaintenanceJob>,
    done: Receiver<JobDone>,
    queued: Arc<AtomicUsize>,
    last: Option<SnapshotFile>,
    snapshot: Snapshot,
    cleaning: Cleaning,
    spare: SpareWork,
    /// The segments are checked again after this many turns, or when the journal reaches `look_at`.
    look_in: u32,
    look_at: u64,
    /// After a failure, no snapshot is tried before the journal reaches this position or the time is
    /// `not_before_time`.
    not_before: u64,
    not_before_time: Timestamp,
    /// The event that a snapshot does not fit has been emitted.
    told_no_room: bool,
    /// The disk is low on space: whatever can be freed is freed at once.
    short: bool,
    /// The same, but only once.
    reclaiming: bool,
    asked: bool,
    /// Begin nothing new except the requested snapshot.
    closing: bool,
    /// Segments that cannot be cleaned because they are damaged.
    uncleanable: Vec<u64>,
    events: Vec<MaintenanceEvent>,
}

/// How soon to call the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// There is more to do at once.
    Again,
    /// The maintenance thread or the writer is busy: call again in a few milliseconds.
    Soon,
    /// Nothing to do until the journal has grown.
    Idle,
}

/// The results of maintenance, for the log.
#[derive(Debug)]
pub enum MaintenanceEvent {
    /// A snapshot is complete.
    Snapshot {
        /// Where the journal after the snapshot begins.
        start: u64,
        /// The size of the snapshot.
        bytes: u64,
        /// How many segments were deleted because of it.
        segments_deleted: usize,
    },
    /// The live bytes of a segment have been moved.
    Cleaned {
        /// Where the segment begins in the journal.
        segment: u64,
        /// How many blobs were moved.
        blobs: u64,
        /// How many bytes were moved.
        bytes: u64,
    },
    /// The disk has no room for a snapshot, and only a snapshot frees room. Emitted once until a snapshot
    /// fits.
    NoRoomForSnapshot {
        /// The size of the last snapshot.
        bytes: u64,
    },
    /// Maintenance tries again later. Nothing is lost, but the disk usage may grow.
    Failed {
        /// The operation that failed.
        doing: &'static str,
        /// Why it failed.
        error: StoreError,
    },
}

/// The progress of the snapshot.
#[derive(Debug)]
enum Snapshot {
    None,
    Walking {
        next: Option<Slot>,
        condemned: Vec<u64>,
    },
    /// The walk is complete. Some of what it saw may still be in the open batch, which begins at `open`.
    Seen {
        open: u64,
        condemned: Vec<u64>,
    },
    /// The journal must be synced up to `end` before the snapshot may refer to it.
    Settling {
        end: u64,
        condemned: Vec<u64>,
    },
    Writing,
}

#[derive(Debug, PartialEq, Eq)]
enum SpareWork {
    Idle,
    Asked,
    Failed,
}

/// No more blocks are built while this many bytes wait to be written.
const QUEUED_BYTES_MAX: usize = 8 << 20;
/// The segments are checked once in this many turns, and this often per `snapshot_bytes` of journal.
const LOOK_EVERY: u32 = 256;
const LOOKS_PER_SNAPSHOT: u64 = 32;
/// A failed snapshot is tried again after this time, however little is written.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(30);
/// A shorter journal is not worth a snapshot at shutdown: recovery reads it quickly.
const SHUTDOWN_JOURNAL_BYTES: u64 = 1 << 20;

impl Maintenance {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: Sender<MaintenanceJob>,
        done: Receiver<JobDone>,
        queued: Arc<AtomicUsize>,
        last: Option<SnapshotFile>,
    ) -> Maintenance {
        Maintenance {
            shared,
            jobs,
            done,
            queued,
            last,
            snapshot: Snapshot::None,
            cleaning: Cleaning::default(),
            spare: SpareWork::Idle,
            look_in: 0,
            look_at: 0,
            not_before: 0,
            not_before_time: Timestamp::ZERO,
            told_no_room: false,
            short: false,
            reclaiming: false,
            asked: false,
            closing: false,
            uncleanable: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Does a small amount of work. May add to the open batch.
    pub fn turn(&mut self, engine: &mut Engine, batches: &mut Batches, now: Timestamp) -> Pace {
        loop {
            match self.done.try_recv() {
                Ok(done) => self.finish_job(done, engine, batches, now),
                Err(TryRecvError::Empty) => break,
                // Without a maintenance thread there is nothing to wait for. Recovery needs only the journal.
                Err(TryRecvError::Disconnected) => return Pace::Idle,
            }
        }
        self.look_in = self.look_in.saturating_sub(1);
        let in_need = self.asked || self.short || self.reclaiming;
        if self.look_in == 0 || in_need || batches.position() >= self.look_at {
            self.start_due_work(batches, now);
        }
        self.go_on_with_snapshot(engine, batches, now);
        // A full batch means that the disk is behind; cleaning must not accumulate data in memory.
        if !batches.is_full() {
            self.cleaning.step(engine, batches, &self.jobs, self.shared.settings.clean_slice_bytes);
        }
        if let Some(cleaned) = self.cleaning.take_event() {
            self.events.push(cleaned);
            self.look_in = 1;
        }
        self.prepare_spare(batches);
        match &self.snapshot {
            Snapshot::Walking { .. } if self.queued.load(Ordering::Acquire) < QUEUED_BYTES_MAX => Pace::Again,
            _ if (self.cleaning.has_more() && !batches.is_full()) || self.look_in <= 1 => Pace::Again,
            Snapshot::None if self.cleaning.is_idle() && self.spare != SpareWork::Asked => Pace::Idle,
            _ => Pace::Soon,
        }
    }

    /// Sets whether the disk is low on space. If it is, spare segments are deleted, and snapshots are taken
    /// as soon as they would free a segment.
    pub fn set_short(&mut self, short: bool) {
        self.short = short;
        self.shared.set_short(short);
        if short && self.shared.spare_count() > 0 {
            self.send(MaintenanceJob::DropSpares);
        }
    }

    /// In the coming turns, frees what is no longer needed, however little it is.
    pub fn reclaim(&mut self) {
        self.reclaiming = true;
    }

    /// Takes a snapshot in the coming turns, even if none is due.
    pub fn ask_for_snapshot(&mut self) {
        self.asked = true;
    }

    /// Prepares a shutdown: takes a snapshot in the coming turns if the journal is long enough to make it
    /// worthwhile, and begins nothing else. The store is at rest when a turn returns [`Pace::Idle`].
    pub fn shut_down(&mut self, batches: &Batches) {
        let since = batches.position() - self.last.map_or(0, |last| last.start);
        self.asked |= since > SHUTDOWN_JOURNAL_BYTES;
        self.closing = true;
        self.cleaning.give_up();
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<MaintenanceEvent> {
        std::mem::take(&mut self.events)
    }

    fn finish_job(&mut self, done: JobDone, engine: &mut Engine, batches: &mut Batches, now: Timestamp) {
        match done {
            JobDone::Snapshot { file, deleted } => {
                for segment in &deleted {
                    batches.segment_usage.forget_segment(*segment);
                }
                let (start, bytes, segments_deleted) = (file.start, file.bytes, deleted.len());
                self.events.push(MaintenanceEvent::Snapshot { start, bytes, segments_deleted });
                self.last = Some(file);
                self.snapshot = Snapshot::None;
                self.told_no_room = false;
                self.look_in = 1;
            }
            JobDone::SnapshotFailed(error) => {
                if !error.is_full() {
                    self.events.push(MaintenanceEvent::Failed { doing: "taking a snapshot", error });
                } else if !std::mem::replace(&mut self.told_no_room, true) {
                    let bytes = self.last.map_or(0, |last| last.bytes);
                    self.events.push(MaintenanceEvent::NoRoomForSnapshot { bytes });
                }
                self.snapshot = Snapshot::None;
                self.not_before = batches.position() + self.shared.settings.snapshot_bytes / 4;
                self.not_before_time = now + SNAPSHOT_RETRY;
            }
            JobDone::Spare(Ok(())) => self.spare = SpareWork::Idle,
            JobDone::Spare(Err(error)) => {
                self.events.push(MaintenanceEvent::Failed { doing: "preparing a segment", error });
                self.spare = SpareWork::Failed;
            }
            JobDone::Listed(Ok(listed)) => self.cleaning.listed(listed, engine),
            JobDone::Fetched(Ok(fetched)) => self.cleaning.fetched(fetched),
            JobDone::Listed(Err(error)) | JobDone::Fetched(Err(error)) => {
                self.events.push(MaintenanceEvent::Failed { doing: "cleaning a segment", error });
                self.uncleanable.extend(self.cleaning.give_up());
            }
        }
    }

    /// Decides whether to begin something.
    fn start_due_work(&mut self, batches: &mut Batches, now: Timestamp) {
        self.look_in = LOOK_EVERY;
        self.look_at = batches.position() + self.shared.settings.snapshot_bytes / LOOKS_PER_SNAPSHOT;
        if !matches!(self.snapshot, Snapshot::None) {
            return;
        }
        let (start, size) = self.last.map_or((0, 0), |last| (last.start, last.bytes));
        let threshold = self.shared.settings.snapshot_bytes.max(size);
        let since = batches.position() - start;
        let empty: u64 = batches
            .segment_usage
            .before(start)
            .filter(|live| live.live_blobs == 0)
            .map(|live| live.bytes())
            .sum();
        let is_reclaiming = std::mem::take(&mut self.reclaiming) || self.short;
        let frees = is_reclaiming && self.can_free(batches);
        let may_try = batches.position() >= self.not_before || now >= self.not_before_time;
        let due = !self.closing && may_try && (since >= threshold || empty >= threshold || frees);
        if due || self.asked {
            self.asked = false;
            self.begin_snapshot(batches);
        } else if self.cleaning.is_idle() && !self.closing {
            let below = self.shared.settings.clean_below_percent;
            let dirtiest = batches
                .segment_usage
                .before(start)
                .filter(|live| live.live_blobs > 0 && live.live_percent() < below)
                .filter(|live| !self.uncleanable.contains(&live.start))
                .min_by_key(LiveBytes::live_percent);
            if let Some(live) = dirtiest.filter(|live| self.has_room_to_clean(live, size)) {
                self.cleaning.begin(live.start, &self.jobs);
            }
        }
    }

    /// Whether a snapshot would let a segment be deleted. A backup in progress keeps all of them.
    fn can_free(&self, batches: &Batches) -> bool {
        let pinned = self.shared.files.read().expect("no holder of the lock panics").pins > 0;
        !pinned && batches.segment_usage.before(batches.position()).any(|live| live.live_blobs == 0)
    }

    /// Moved bytes exist twice until the next snapshot, which needs room as well.
    fn has_room_to_clean(&self, live: &LiveBytes, snapshot_bytes: u64) -> bool {
        let needed = 2 * live.live_bytes + snapshot_bytes;
        !self.short || self.shared.disk.free_bytes().is_ok_and(|free| free > needed)
    }

    /// A segment without a live blob now will have none when this snapshot is done, and the snapshot will not
    /// refer to the tasks that once had blobs there. Only then may the segment be deleted.
    fn begin_snapshot(&mut self, batches: &Batches) {
        let (start, first_event) = (batches.position(), batches.first_event());
        let condemned = batches
            .segment_usage
            .before(start)
            .filter(|live| live.live_blobs == 0)
            .map(|live| live.start)
            .collect();
        self.send(MaintenanceJob::BeginSnapshot { start, first_event });
        self.snapshot = Snapshot::Walking { next: None, condemned };
    }

    fn go_on_with_snapshot(&mut self, engine: &Engine, batches: &Batches, now: Timestamp) {
        match std::mem::replace(&mut self.snapshot, Snapshot::None) {
            Snapshot::Walking { next, condemned } => {
                if self.queued.load(Ordering::Acquire) >= QUEUED_BYTES_MAX {
                    self.snapshot = Snapshot::Walking { next, condemned };
                    return;
                }
                let (block, next) = task_block(engine, next, self.shared.settings.snapshot_slice);
                self.send_block(block);
                self.snapshot = match next {
                    Some(_) => Snapshot::Walking { next, condemned },
                    None => {
                        self.send_block(settings_block(engine, now));
                        Snapshot::Seen { open: batches.position(), condemned }
                    }
                };
            }
            Snapshot::Seen { open, condemned } => {
                let sealed = batches.is_empty() || batches.position() > open;
                self.snapshot = if sealed {
                    let end = batches.position();
                    self.shared.progress.request_sync(end);
                    Snapshot::Settling { end, condemned }
                } else {
                    Snapshot::Seen { open, condemned }
                };
            }
            Snapshot::Settling { end, condemned } => {
                self.snapshot = if self.shared.progress.synced() >= end {
                    self.send(MaintenanceJob::FinishSnapshot(SnapshotFinish { end, condemned, now }));
                    Snapshot::Writing
                } else {
                    Snapshot::Settling { end, condemned }
                };
            }
            other @ (Snapshot::None | Snapshot::Writing) => self.snapshot = other,
        }
    }

    /// Prepares the next segment when the current one is half full, or at once if the current one was not
    /// prepared. A broker with little load never pays for it.
    fn prepare_spare(&mut self, batches: &Batches) {
        let settings = &self.shared.settings;
        let half_full = batches.segment_used() >= settings.segment_bytes / 2;
        let wanted = !self.closing && !self.short && (half_full || batches.wants_preparation());
        match self.spare {
            SpareWork::Idle if wanted && settings.spare_segments > 0 && self.shared.spare_count() == 0 => {
                self.spare = SpareWork::Asked;
                self.send(MaintenanceJob::PrepareSpare);
            }
            // After a full disk, try again with the next segment.
            SpareWork::Failed if !wanted => self.spare = SpareWork::Idle,
            SpareWork::Idle | SpareWork::Asked | SpareWork::Failed => {}
        }
    }

    fn send_block(&self, block: Option<SnapshotBlock>) {
        if let Some(block) = block {
            self.queued.fetch_add(block.page.len(), Ordering::AcqRel);
            self.send(MaintenanceJob::Block(block));
        }
    }

    fn send(&self, job: MaintenanceJob) {
        // If the maintenance thread has ended, the next turn notices.
        let _ = self.jobs.send(job);
    }
}
