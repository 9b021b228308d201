//! Cleaning: copies the live bytes of a mostly dead segment to the end of the journal, so that the segment
//! can be deleted. That keeps the disk usage at about twice the live bytes.
//!
//! The maintenance thread scans the segment's records to find the tasks whose bytes it holds. The hub's side
//! asks the engine which of those are still live, the maintenance thread reads them, and the hub's side
//! writes them into the open batch together with the task's state, which holds the new position.

use std::sync::mpsc::Sender;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tenure_engine::{Blob, Engine, TaskId, TermsKey, Timestamp, Which};

use crate::batches::Batches;
use crate::codec::{
    Base, ByteCursor, ChangeView, Malformed, Names, RecordPage, Setting, TaskRecord, next_record,
};
use crate::error::{Damage, IoContext, StoreError};
use crate::frame::{BLOB_CRC_BYTES, FrameHeader, checked_blob};
use crate::maintenance::MaintenanceEvent;
use crate::maintenance_thread::{Candidate, Listed, MaintenanceJob};
use crate::scan::{Found, Scan};
use crate::segment::Segment;
use crate::shared::Shared;

/// How much of a segment one scan covers.
const WALK_BYTES: u64 = 4 << 20;

/// Lists the blobs in a segment with their tasks. Each blob appears once, however many records refer to it.
pub(crate) fn list(shared: &Shared, start: u64, from: u64) -> Result<Listed, StoreError> {
    let Some(segment) = shared.segment_of(start).filter(|segment| segment.start == start) else {
        return Ok(Listed { candidates: Vec::new(), next: None });
    };
    let end = shared.end_of_segment(start).min(segment.file_end()?);
    let mut scan = Scan::new(&segment, from, end)?;
    let mut names = Names::default();
    let mut found = HashMap::<u64, Candidate, FixedState>::default();
    let next = loop {
        let position = scan.position();
        let damage = |why: &str| Damage::new(&segment.name, segment.offset(position), why);
        match scan.next()? {
            Found::Frame(header, payload) => {
                named_in(&header, payload, &mut names, &mut |task, which, blob| {
                    if (start..end).contains(&blob.at()) && !blob.is_empty() {
                        found.insert(blob.at(), Candidate { task, which, blob });
                    }
                })
                .map_err(|why| damage(&why.to_string()))?;
            }
            Found::End => break None,
            Found::Bad(why) => return Err(damage(why).into()),
        }
        if scan.position() - from >= WALK_BYTES {
            break Some(scan.position());
        }
    };
    let mut candidates: Vec<Candidate> = found.into_values().collect();
    candidates.sort_unstable_by_key(|candidate| candidate.blob.at());
    Ok(Listed { candidates, next })
}

/// Reads blobs that are still live.
pub(crate) fn fetch(
    shared: &Shared,
    candidates: Vec<Candidate>,
) -> Result<Vec<(Candidate, Bytes)>, StoreError> {
    let mut fetched = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let blob = candidate.blob;
        let Some(segment) = shared.segment_of(blob.at()) else { continue };
        fetched.push((candidate, read_blob(&segment, candidate)?));
    }
    Ok(fetched)
}

fn read_blob(segment: &Segment, candidate: Candidate) -> Result<Bytes, StoreError> {
    let blob = candidate.blob;
    let mut bytes = vec![0; blob.bytes() as usize + BLOB_CRC_BYTES];
    let offset = segment.offset(blob.at());
    let count = segment.file.read_at(&mut bytes, offset).doing("reading", &segment.name)?;
    let whole = if count == bytes.len() { checked_blob(blob, bytes.into()) } else { None };
    whole.ok_or_else(|| {
        let why = format!("the checksum of the body or result of task {} is wrong", candidate.task);
        Damage::new(&segment.name, offset, why).into()
    })
}

/// Visits every blob that a state in a frame refers to, with the task or array that it belongs to.
fn named_in(
    header: &FrameHeader,
    payload: &[u8],
    names: &mut Names,
    see: &mut dyn FnMut(TaskId, Which, Blob),
) -> Result<(), Malformed> {
    if header.page_bytes == 0 {
        return Ok(());
    }
    let mut take = ByteCursor::new(&payload[header.blob_bytes as usize..]);
    let time = Timestamp(take.varint()?);
    let base = Base { time, event: header.first_event, place: header.position };
    let page = RecordPage::open(base, &mut take, names)?;
    // The terms are not used here, so any keys will do.
    let keys: Vec<TermsKey> = (0..page.terms.len() as u32).map(TermsKey::from_index).collect();
    while !take.is_empty() {
        match next_record(&mut take)?.change(&page, &keys)? {
            ChangeView::Task(TaskRecord { task, .. }) => {
                for which in Which::ALL {
                    see(task.id, which, which.of(&task));
                }
            }
            ChangeView::Setting(Setting::Array(array)) => see(array.id, Which::Body, array.body),
            ChangeView::Setting(_) | ChangeView::Nothing => {}
        }
    }
    Ok(())
}

/// The hub's side of cleaning, one segment at a time.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    state: State,
    blobs: u64,
    bytes: u64,
    events: Option<MaintenanceEvent>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Listing {
        segment: u64,
    },
    /// The blobs that are still live, newest last, and where the scan continues.
    Fetching {
        segment: u64,
        left: Vec<Candidate>,
        next: Option<u64>,
        asked: bool,
    },
    Moving {
        segment: u64,
        left: Vec<Candidate>,
        next: Option<u64>,
        fetched: Vec<(Candidate, Bytes)>,
    },
}

impl Cleaning {
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether the next turn has work that does not depend on the maintenance thread.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self.state, State::Moving { .. } | State::Fetching { asked: false, .. })
    }

    /// The event for a finished segment.
    pub(crate) fn take_event(&mut self) -> Option<MaintenanceEvent> {
        self.events.take()
    }

    pub(crate) fn begin(&mut self, segment: u64, jobs: &Sender<MaintenanceJob>) {
        (self.blobs, self.bytes) = (0, 0);
        self.ask_for_list(segment, segment, jobs);
    }

    /// Stops cleaning. Returns the segment it was working on.
    pub(crate) fn give_up(&mut self) -> Option<u64> {
        match std::mem::take(&mut self.state) {
            State::Idle => None,
            State::Listing { segment } | State::Fetching { segment, .. } | State::Moving { segment, .. } => {
                Some(segment)
            }
        }
    }

    pub(crate) fn listed(&mut self, listed: Listed, engine: &Engine) {
        if let State::Listing { segment } = self.state {
            let mut left = listed.candidates;
            left.retain(|candidate| engine.holds(&candidate.task, candidate.which, candidate.blob));
            left.reverse();
            self.state = State::Fetching { segment, left, next: listed.next, asked: false };
        }
    }

    pub(crate) fn fetched(&mut self, fetched: Vec<(Candidate, Bytes)>) {
        if let State::Fetching { segment, left, next, .. } = std::mem::take(&mut self.state) {
            self.state = State::Moving { segment, left, next, fetched };
        }
    }

    /// Takes the next small step.
    pub(crate) fn step(
        &mut self,
        engine: &mut Engine,
        batches: &mut Batches,
        jobs: &Sender<MaintenanceJob>,
        slice_bytes: usize,
    ) {
        match std::mem::take(&mut self.state) {
            State::Fetching { segment, left, next, asked: false } if left.is_empty() => match next {
                Some(from) => self.ask_for_list(segment, from, jobs),
                None => {
                    self.events =
                        Some(MaintenanceEvent::Cleaned { segment, blobs: self.blobs, bytes: self.bytes });
                }
            },
            State::Fetching { segment, mut left, next, asked: false } => {
                let mut slice = Vec::new();
                let mut bytes = 0;
                while bytes < slice_bytes
                    && let Some(candidate) = left.pop()
                {
                    bytes += candidate.blob.bytes() as usize;
                    slice.push(candidate);
                }
                let _ = jobs.send(MaintenanceJob::FetchBlobs(slice));
                self.state = State::Fetching { segment, left, next, asked: true };
            }
            State::Moving { segment, left, next, fetched } => {
                for (candidate, bytes) in fetched {
                    self.relocate(candidate, &bytes, engine, batches);
                }
                self.state = State::Fetching { segment, left, next, asked: false };
            }
            other => self.state = other,
        }
    }

    /// The bytes and the state with their new position go into the same batch: after a crash both exist or
    /// neither does, and until then the old position stays valid.
    fn relocate(&mut self, candidate: Candidate, bytes: &[u8], engine: &mut Engine, batches: &mut Batches) {
        let mark = batches.mark();
        let to = batches.blob(bytes);
        match engine.relocate(&candidate.task, candidate.which, candidate.blob, to) {
            Some(change) => {
                batches.restate(change);
                batches.dead(candidate.blob);
                self.blobs += 1;
                self.bytes += bytes.len() as u64;
            }
            // The task ended or was dropped while its bytes were being read.
            None => batches.rollback(mark),
        }
    }

    fn ask_for_list(&mut self, segment: u64, from: u64, jobs: &Sender<MaintenanceJob>) {
        let _ = jobs.send(MaintenanceJob::ListBlobs { segment, from });
        self.state = State::Listing { segment };
    }
}
