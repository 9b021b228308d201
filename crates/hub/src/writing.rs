//! Writing: the way of a sealed batch to the disk. A thread of its own appends and syncs whatever has been sealed
//! meanwhile: that is the group commit.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tenure_store::{Frame, StoreError, WriteError, Writer};
use tokio::sync::mpsc;

use crate::runtime::{start_thread, wall_clock};

/// How many sealed batches may be on their way to the disk.
const UNDER_WAY_MAX: usize = 4;
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
    frames: Sender<Frame>,
    reports: mpsc::UnboundedReceiver<Written>,
    under_way: usize,
}

impl Writing {
    /// Starts the thread.
    pub(crate) fn start(mut writer: Writer) -> Writing {
        let (frames, sealed) = channel();
        let (report, reports) = mpsc::unbounded_channel();
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
                match append(&mut writer, &mut batch, &report) {
                    Ok(next) => idle = next.unwrap_or(FOR_EVER),
                    Err(error) => {
                        let _ = report.send(Written::Failed(error));
                        return;
                    }
                }
            }
        });
        Writing { frames, reports, under_way: 0 }
    }

    /// Whether something is being synced, so that a batch may as well grow until it is full.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.under_way >= UNDER_WAY_MAX
    }

    /// Hands a batch to the thread.
    pub(crate) fn send(&mut self, frame: Frame) {
        self.under_way += 1;
        // The thread ends only after a failure, and that failure is on its way here.
        let _ = self.frames.send(frame);
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
        if let Written::Synced { frames, .. } = &written {
            self.under_way -= frames;
        }
        written
    }
}

/// Appends what there is, however long the disk is full; then looks whether the clock asks for a sync.
fn append(
    writer: &mut Writer,
    batch: &mut Vec<Frame>,
    report: &mpsc::UnboundedSender<Written>,
) -> Result<Option<Duration>, StoreError> {
    while !batch.is_empty() {
        let frames = batch.len();
        let bytes = batch.iter().map(|frame| frame.end() - frame.position()).sum();
        let begun = Instant::now();
        match writer.append(batch, wall_clock()) {
            Ok(position) => {
                let _ = report.send(Written::Synced { position, frames, bytes, took: begun.elapsed() });
            }
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
