//! Maintenance: what keeps restarts short and the disk small, done by the hub between its turns in small slices. The
//! file work goes to the maintenance thread.

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
    /// The segments are looked at again after so many turns, or when the journal has come this far.
    look_in: u32,
    look_at: u64,
    /// After a failure, no snapshot is tried before the journal has come this far, or this moment.
    not_before: u64,
    not_before_time: Timestamp,
    /// It was said that a snapshot does not fit.
    told_no_room: bool,
    /// The disk is short of room: whatever can be freed is freed at once.
    short: bool,
    /// The same, once.
    reclaiming: bool,
    asked: bool,
    /// Nothing new is begun but the snapshot that was asked for.
    closing: bool,
    /// Segments that cannot be cleaned because they are damaged.
    uncleanable: Vec<u64>,
    events: Vec<MaintenanceEvent>,
}

/// How soon the next turn is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// There is more to do at once.
    Again,
    /// The maintenance thread or the writer is busy with something: look again in a few milliseconds.
    Soon,
    /// There is nothing to do before the journal has grown.
    Idle,
}

/// What maintenance has done, for the log.
#[derive(Debug)]
pub enum MaintenanceEvent {
    Snapshot {
        start: u64,
        bytes: u64,
        segments_deleted: usize,
    },
    /// A segment's live bytes have moved on.
    Cleaned {
        segment: u64,
        blobs: u64,
        bytes: u64,
    },
    /// The disk has no room for a snapshot, and only a snapshot frees room. Said once, until one fits.
    NoRoomForSnapshot {
        /// How large the last one was.
        bytes: u64,
    },
    /// It will be tried again later; nothing is lost, but the disk may grow.
    Failed {
        doing: &'static str,
        error: StoreError,
    },
}

/// How far the snapshot is.
#[derive(Debug)]
enum Snapshot {
    None,
    Walking {
        next: Option<Slot>,
        condemned: Vec<u64>,
    },
    /// Everything is seen. What was seen may be in the open batch, which begins at `open`.
    Seen {
        open: u64,
        condemned: Vec<u64>,
    },
    /// The journal must be synced up to `end` before the snapshot may speak of it.
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

/// No more blocks are made while so much waits to be written.
const QUEUED_BYTES_MAX: usize = 8 << 20;
/// The segments are looked at once in so many turns, or so often while a snapshot's worth of journal is written.
const LOOK_EVERY: u32 = 256;
const LOOKS_PER_SNAPSHOT: u64 = 32;
/// A snapshot that failed is tried again after this time, however little is written.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(30);
/// A shorter journal is not worth a snapshot at shutdown: it is read in a moment.
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

    /// Does a little. May add to the open batch.
    pub fn turn(&mut self, engine: &mut Engine, batches: &mut Batches, now: Timestamp) -> Pace {
        loop {
            match self.done.try_recv() {
                Ok(done) => self.hear(done, engine, batches, now),
                Err(TryRecvError::Empty) => break,
                // Without a maintenance thread there is nothing to wait for. The journal alone is enough to come back
                // from.
                Err(TryRecvError::Disconnected) => return Pace::Idle,
            }
        }
        self.look_in = self.look_in.saturating_sub(1);
        let in_need = self.asked || self.short || self.reclaiming;
        if self.look_in == 0 || in_need || batches.position() >= self.look_at {
            self.look(batches, now);
        }
        self.go_on_with_snapshot(engine, batches, now);
        // What cannot be written must not gather in memory.
        if !batches.is_full() {
            self.cleaning.go_on(engine, batches, &self.jobs, self.shared.settings.clean_slice_bytes);
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

    /// Says whether the disk is short of room. If it is, spare segments go, and snapshots are taken as soon as they
    /// free a segment.
    pub fn set_short(&mut self, short: bool) {
        self.short = short;
        self.shared.set_short(short);
        if short && self.shared.spare_count() > 0 {
            self.send(MaintenanceJob::DropSpares);
        }
    }

    /// Frees in the coming turns what is not needed any more, without waiting until it is much.
    pub fn reclaim(&mut self) {
        self.reclaiming = true;
    }

    /// Takes a snapshot in the coming turns, whether it is due or not.
    pub fn ask_for_snapshot(&mut self) {
        self.asked = true;
    }

    /// Before a shutdown: takes a snapshot in the coming turns if the journal is long enough to make it worth while,
    /// and begins nothing else. The store is at rest when a turn is [`Pace::Idle`].
    pub fn shut_down(&mut self, batches: &Batches) {
        let since = batches.position() - self.last.map_or(0, |last| last.start);
        self.asked |= since > SHUTDOWN_JOURNAL_BYTES;
        self.closing = true;
        self.cleaning.give_up();
    }

    /// What has happened since the last call.
    pub fn events(&mut self) -> Vec<MaintenanceEvent> {
        std::mem::take(&mut self.events)
    }

    fn hear(&mut self, done: JobDone, engine: &mut Engine, batches: &mut Batches, now: Timestamp) {
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

    /// Decides whether there is something to begin.
    fn look(&mut self, batches: &mut Batches, now: Timestamp) {
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

    /// Whether a snapshot would let a segment go. A backup that is under way keeps all of them.
    fn can_free(&self, batches: &Batches) -> bool {
        let pinned = self.shared.files.read().expect("no holder of the lock panics").pins > 0;
        !pinned && batches.segment_usage.before(batches.position()).any(|live| live.live_blobs == 0)
    }

    /// What is moved is there twice until the next snapshot, which needs room as well.
    fn has_room_to_clean(&self, live: &LiveBytes, snapshot_bytes: u64) -> bool {
        let needed = 2 * live.live_bytes + snapshot_bytes;
        !self.short || self.shared.disk.free_bytes().is_ok_and(|free| free > needed)
    }

    /// A segment that has no live blob now will have none when this snapshot is done, and the snapshot will not speak
    /// of the tasks that once had some there: only then may it go.
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
                    self.shared.progress.want_certain(end);
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

    /// The next segment is made ready while the present one is half full, or at once if the present one was not. A
    /// broker with little to do never pays for it.
    fn prepare_spare(&mut self, batches: &Batches) {
        let settings = &self.shared.settings;
        let half_full = batches.segment_used() >= settings.segment_bytes / 2;
        let wanted = !self.closing && !self.short && (half_full || batches.wants_preparation());
        match self.spare {
            SpareWork::Idle if wanted && settings.spare_segments > 0 && self.shared.spare_count() == 0 => {
                self.spare = SpareWork::Asked;
                self.send(MaintenanceJob::PrepareSpare);
            }
            // A disk that had no room gets another chance with the next segment.
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
        // If the maintenance thread is gone, the next turn notices.
        let _ = self.jobs.send(job);
    }
}
