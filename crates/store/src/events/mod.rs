//! The event history: events outlive the segments they were written in. Before a snapshot lets segments be
//! deleted, their events are copied into event files, which are kept by count and age.

mod copy;
mod decode;
mod file;

pub(crate) use copy::copy_events;
pub(crate) use decode::EventDecoder;
pub(crate) use file::EventFile;

use tenure_engine::Event;

/// The result of [`crate::Reader::events`].
#[allow(missing_docs, reason = "the text of each variant names its fields")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events {
    /// The events from the requested one on, and the number to ask for next. An empty list means that there
    /// is nothing new yet.
    Some { events: Vec<Event>, next: u64 },
    /// The requested event is no longer kept; `oldest` is the next one that is.
    Gap { oldest: u64 },
}
