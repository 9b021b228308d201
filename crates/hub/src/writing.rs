//! Writing: the way of a sealed batch to the disk.
//!
//! Under load, a thread of its own appends and syncs whatever has been sealed meanwhile: that is the group commit. When
//! a small batch is alone, nobody would share its sync, and waking that thread and being woken by it would cost as much
//! as a quick disk does: such a batch is written where it was decided.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tenure_store::{Frame, StoreError, Sync, WriteError, Writer};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;

use crate::runtime::{start_thread, wall_clock};

/// How many sealed batches may be on their way to the disk.
const UNDER_WAY_MAX: usize = 4;
/// A batch of more bytes is worth a thread.
const HERE_BYTES_MAX: u64 = 8 << 10;
/// On a disk that takes longer, deciding goes on while the thread waits.
const HERE_LATENCY_MAX: Duration = Duration::from_millis(1);
/// How long the thread waits before it tries a full disk again.
const FULL_PAUSE: Duration = Duration::from_millis(200);
const FOR_EVER: Duration = Duration::from_secs(3600);

/// How writing went.
#[derive(Debug)]
pub(crate) enum Written {
    Synced {
        position: u64,
        frames: usize,
        bytes: u64,
        took: Duration,
    },
    /// No room: it is tried again.
    Full,
    Failed(StoreError),
}

pub(crate) struct Writing {
    writer: Arc<Mutex<Writer>>,
    frames: Sender<Frame>,
    reports: mpsc::UnboundedReceiver<Written>,
    under_way: usize,
    /// How long a sync takes of late.
    latency: Duration,
    /// Whether a batch may be written where it was decided. Not on a runtime of one thread, where nobody would do the
    /// other work meanwhile; and not if syncs are left to the clock, which the thread looks at.
    may_wait: bool,
}

impl Writing {
    /// Starts the thread.
    pub(crate) fn start(writer: Writer, sync: Sync) -> Writing {
        let writer = Arc::new(Mutex::new(writer));
        let (frames, sealed) = channel();
        let (report, reports) = mpsc::unbounded_channel();
        let shared = Arc::clone(&writer);
        start_thread("tenure-writer", move || {
            let mut batch: Vec<Frame> = Vec::new();
            let mut idle = FOR_EVER;
            loop {
                match sealed.recv_timeout(idle) {
                    Ok(frame) => batch.push(frame),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                batch.extend(sealed.try_iter());
                let mut writer = shared.lock().expect("no holder of the lock panics");
                match append_all(&mut writer, &mut batch, &report) {
                    Ok(next) => idle = next.unwrap_or(FOR_EVER),
                    Err(error) => {
                        let _ = report.send(Written::Failed(error));
                        return;
                    }
                }
            }
        });
        let may_wait =
            sync == Sync::Always && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        Writing { writer, frames, reports, under_way: 0, latency: Duration::ZERO, may_wait }
    }

    /// Whether a batch that is not full yet had better wait for more: something is being synced anyway.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.under_way >= UNDER_WAY_MAX
    }

    /// Whether a batch of so many bytes may be written right here, if nothing else is to be done.
    pub(crate) fn is_quick(&self, frame: &Frame) -> bool {
        self.may_wait
            && self.under_way == 0
            && frame.end() - frame.position() <= HERE_BYTES_MAX
            && self.latency <= HERE_LATENCY_MAX
    }

    /// Hands a batch to the thread.
    pub(crate) fn send(&mut self, frame: Frame) {
        self.under_way += 1;
        // The thread ends only after a failure, and that failure is on its way here.
        let _ = self.frames.send(frame);
    }

    /// Writes a batch on this thread.
    pub(crate) fn write_here(&mut self, frame: Frame) -> Written {
        self.under_way += 1;
        let mut batch = vec![frame];
        let written = tokio::task::block_in_place(|| {
            let mut writer = self.writer.lock().expect("no holder of the lock panics");
            append(&mut writer, &mut batch)
        });
        match written {
            Ok(written) => self.note(written),
            Err(WriteError::Full { .. }) => {
                // The thread has the patience to try again.
                batch.into_iter().for_each(|frame| drop(self.frames.send(frame)));
                Written::Full
            }
            Err(WriteError::Fatal(error)) => Written::Failed(error),
        }
    }

    /// The next report of the thread.
    pub(crate) async fn report(&mut self) -> Option<Written> {
        let written = self.reports.recv().await?;
        Some(self.note(written))
    }

    pub(crate) fn try_report(&mut self) -> Option<Written> {
        let written = self.reports.try_recv().ok()?;
        Some(self.note(written))
    }

    fn note(&mut self, written: Written) -> Written {
        if let Written::Synced { frames, took, .. } = &written {
            self.under_way -= frames;
            self.latency = (self.latency * 7 + *took) / 8;
        }
        written
    }
}

/// Appends what there is, however long the disk is full; then looks whether the clock asks for a sync.
fn append_all(
    writer: &mut Writer,
    batch: &mut Vec<Frame>,
    report: &mpsc::UnboundedSender<Written>,
) -> Result<Option<Duration>, StoreError> {
    while !batch.is_empty() {
        match append(writer, batch) {
            Ok(written) => drop(report.send(written)),
            // Nothing is lost: the frames are still here, and nobody has been told of them.
            Err(WriteError::Full { .. }) => {
                let _ = report.send(Written::Full);
                thread::sleep(FULL_PAUSE);
            }
            Err(WriteError::Fatal(error)) => return Err(error),
        }
    }
    writer.tick(wall_clock())
}

fn append(writer: &mut Writer, batch: &mut Vec<Frame>) -> Result<Written, WriteError> {
    let frames = batch.len();
    let bytes = batch.iter().map(|frame| frame.end() - frame.position()).sum();
    let begun = Instant::now();
    let position = writer.append(batch, wall_clock())?;
    Ok(Written::Synced { position, frames, bytes, took: begun.elapsed() })
}
