//! Writing: the path of a sealed batch to the disk. A writer thread appends and syncs all batches sealed
//! meanwhile: that is the group commit. For a single client, the hub may write a batch itself.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure_store::{AppendError, JournalFrame, StoreError, Writer};
use tokio::sync::mpsc;

use crate::clock::monotonic_clock;
use crate::thread::start_thread;

/// How many sealed batches, and how many bytes of them, may be on their way to the disk.
const FRAMES_MAX: usize = 32;
const BYTES_MAX: u64 = 4 << 20;
/// How long the thread waits before it retries a full disk.
const FULL_PAUSE: Duration = Duration::from_millis(200);
/// How long it waits before it asks a replicated journal again that did not answer.
const AWAY_PAUSE: Duration = Duration::from_millis(20);
/// The most that the hub writes itself, and how fast the disk must be for it.
const AT_ONCE_BYTES_MAX: u64 = 64 << 10;
const AT_ONCE_TOOK_MAX: Duration = Duration::from_millis(1);
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The result of writing.
#[derive(Debug)]
pub(crate) enum Written {
    Synced {
        position: u64,
        frames: usize,
        bytes: u64,
        took: Duration,
    },
    /// The disk is full: the write is retried.
    Full,
    /// The replicated journal does not answer: the write is retried.
    Away {
        why: String,
    },
    /// It answers again, and nothing waited to be written.
    Back,
    /// The replicated journal had lost these acknowledged bytes, and got them back.
    Refilled {
        bytes: u64,
    },
    /// Another broker leads: nothing more can be written.
    Deposed {
        holder: String,
        epoch: u64,
    },
    Failed(StoreError),
}

pub(crate) struct Writing {
    /// The writer thread locks it while batches are pending.
    writer: Arc<Mutex<Writer>>,
    frames: Sender<JournalFrame>,
    reports: mpsc::UnboundedReceiver<Written>,
    /// Batches that the thread has and that are not synced yet.
    frames_under_way: usize,
    bytes_under_way: u64,
    last_took: Option<Duration>,
    /// Since when the thread has had batches and has reported none of them as written.
    busy_since: Option<Instant>,
    syncs_always: bool,
}

impl Writing {
    /// Starts the thread.
    pub(crate) fn start(writer: Writer) -> Writing {
        let syncs_always = writer.syncs_always();
        // A lease is renewed from the start.
        let first_pause = if writer.lease().is_some() { Duration::ZERO } else { FOR_EVER };
        let writer = Arc::new(Mutex::new(writer));
        let of_thread = Arc::clone(&writer);
        let (frames, sealed) = channel();
        let (report, reports) = mpsc::unbounded_channel();
        start_thread("tenure-writer", move || {
            let mut batch: Vec<JournalFrame> = Vec::new();
            let mut idle = first_pause;
            let mut is_away = false;
            loop {
                match sealed.recv_timeout(idle) {
                    Ok(frame) => batch.push(frame),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                batch.extend(sealed.try_iter());
                let appended = {
                    let mut writer = lock(&of_thread);
                    let refilled_before = writer.refilled_bytes();
                    let appended = append(&mut writer, &mut batch, &report, &mut is_away);
                    let bytes = writer.refilled_bytes() - refilled_before;
                    if bytes > 0 {
                        let _ = report.send(Written::Refilled { bytes });
                    }
                    appended
                };
                match appended {
                    Ok(next) => idle = next.unwrap_or(FOR_EVER),
                    Err(last) => {
                        let _ = report.send(last);
                        return;
                    }
                }
            }
        });
        Writing {
            writer,
            frames,
            reports,
            frames_under_way: 0,
            bytes_under_way: 0,
            last_took: None,
            busy_since: None,
            syncs_always,
        }
    }

    /// Whether anything is on its way to the disk.
    pub(crate) fn is_busy(&self) -> bool {
        self.frames_under_way > 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.frames_under_way >= FRAMES_MAX || self.bytes_under_way >= BYTES_MAX
    }

    /// How long the oldest batch has waited for the disk or the replicated journal.
    pub(crate) fn waits_for(&self) -> Option<Duration> {
        self.busy_since.map(|since| since.elapsed())
    }

    /// Hands a batch to the thread.
    pub(crate) fn send(&mut self, frame: JournalFrame) {
        self.busy_since.get_or_insert_with(Instant::now);
        self.frames_under_way += 1;
        self.bytes_under_way += bytes_of(&frame);
        // The thread ends only after a failure, and its report is on its way.
        let _ = self.frames.send(frame);
    }

    /// Writes and syncs a batch before it returns, if that is fast. Otherwise the thread gets it, and this
    /// returns `None`.
    pub(crate) fn write_at_once(&mut self, frame: JournalFrame) -> Option<Written> {
        let bytes = bytes_of(&frame);
        let is_quick = self.last_took.is_some_and(|took| took < AT_ONCE_TOOK_MAX);
        if self.is_busy() || !self.syncs_always || !is_quick || bytes > AT_ONCE_BYTES_MAX {
            self.send(frame);
            return None;
        }
        let begun = Instant::now();
        let mut batch = vec![frame];
        let appended = lock(&self.writer).append(&mut batch, monotonic_clock());
        match appended {
            Ok(position) => {
                let took = begun.elapsed();
                self.last_took = Some(took);
                Some(Written::Synced { position, frames: 1, bytes, took })
            }
            // The thread keeps trying.
            Err(AppendError::Full { .. } | AppendError::Away { .. }) => {
                batch.into_iter().for_each(|frame| self.send(frame));
                None
            }
            Err(AppendError::Deposed { holder, epoch }) => Some(Written::Deposed { holder, epoch }),
            Err(AppendError::Fatal(error)) => Some(Written::Failed(error)),
        }
    }

    /// The next report of the thread. If the thread has ended without a last one, it has panicked.
    pub(crate) async fn report(&mut self) -> Written {
        match self.reports.recv().await {
            Some(written) => self.note(written),
            None => Written::Failed(StoreError::Failed),
        }
    }

    pub(crate) fn try_report(&mut self) -> Option<Written> {
        let written = self.reports.try_recv().ok()?;
        Some(self.note(written))
    }

    /// Closes the writer cleanly, when nothing is pending.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        lock(&self.writer).close(monotonic_clock())
    }

    fn note(&mut self, written: Written) -> Written {
        if let Written::Synced { frames, bytes, took, .. } = &written {
            self.frames_under_way -= frames;
            self.bytes_under_way -= bytes;
            self.last_took = Some(*took);
            self.busy_since = self.is_busy().then(Instant::now);
        }
        written
    }
}

/// Appends all frames, however long the disk is full or the replicated journal away, as long as the hub listens; then
/// syncs if the interval has passed. An error is the last report.
fn append(
    writer: &mut Writer,
    batch: &mut Vec<JournalFrame>,
    report: &mpsc::UnboundedSender<Written>,
    is_away: &mut bool,
) -> Result<Option<Duration>, Written> {
    while !batch.is_empty() {
        let frames = batch.len();
        let bytes = batch.iter().map(bytes_of).sum();
        let begun = Instant::now();
        let appended = writer.append(batch, monotonic_clock());
        match appended {
            Ok(position) => {
                let _ = report.send(Written::Synced { position, frames, bytes, took: begun.elapsed() });
            }
            // Nothing is lost: the frames are still here and not acknowledged.
            Err(AppendError::Full { .. }) => {
                report.send(Written::Full).map_err(|unheard| unheard.0)?;
                thread::sleep(FULL_PAUSE);
            }
            Err(AppendError::Away { why }) => {
                *is_away = true;
                report.send(Written::Away { why }).map_err(|unheard| unheard.0)?;
                thread::sleep(AWAY_PAUSE);
            }
            Err(AppendError::Deposed { holder, epoch }) => return Err(Written::Deposed { holder, epoch }),
            Err(AppendError::Fatal(error)) => return Err(Written::Failed(error)),
        }
    }
    match writer.tick(monotonic_clock()) {
        Ok(next) => {
            if std::mem::take(is_away) {
                let _ = report.send(Written::Back);
            }
            Ok(next)
        }
        Err(AppendError::Full { .. }) => Ok(Some(AWAY_PAUSE)),
        Err(AppendError::Away { why }) => {
            *is_away = true;
            let _ = report.send(Written::Away { why });
            Ok(Some(AWAY_PAUSE))
        }
        Err(AppendError::Deposed { holder, epoch }) => Err(Written::Deposed { holder, epoch }),
        Err(AppendError::Fatal(error)) => Err(Written::Failed(error)),
    }
}

fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes_of(frame: &JournalFrame) -> u64 {
    frame.end() - frame.position()
}
