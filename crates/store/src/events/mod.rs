//! The history: events outlive the segments they were written in. When a snapshot lets segments go, their events are
//! copied into files of their own, which are kept by count and age.

mod copy;
mod decode;
mod file;

pub(crate) use copy::copy_events;
pub(crate) use decode::EventDecoder;
pub(crate) use file::EventFile;

use tenure_engine::Event;

/// What [`crate::Reader::events`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events {
    /// The events from the one asked for on, and the number to ask for next. None means: nothing new yet.
    Some { events: Vec<Event>, next: u64 },
    /// The one asked for is not kept any more; this is the oldest that is kept after it.
    Gap { oldest: u64 },
}
