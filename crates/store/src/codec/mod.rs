//! The encoding of records: pure functions, no files. Everything in a frame of the journal, a block of a
//! snapshot or a block of events goes through here.
//!
//! All three are *pages*: a dictionary (terms and names, each once) followed by entries that refer to it.
//! Numbers are varints; times and positions are written relative to the page's base, so a submitted task
//! costs about 35 bytes besides its body.

mod array;
mod dictionary;
mod event;
mod fields;
mod page;
mod put;
mod record;
#[cfg(test)]
pub(crate) mod samples;
mod schedule;
mod settings;
mod take;
mod task;
mod terms;
#[cfg(test)]
mod tests;
mod why;

pub(crate) use dictionary::Dictionary;
pub(crate) use event::event;
pub(crate) use page::{Names, RecordPage};
pub(crate) use record::{ChangeView, encode_record, next_record};
pub(crate) use settings::{Setting, encode_setting, setting};
pub(crate) use take::{ByteCursor, Malformed};
pub(crate) use task::{TaskRecord, encode_whole_task, whole_task};
pub(crate) use terms::decode_terms;

pub(crate) use put::varint as put_varint;

use tenure_engine::Timestamp;

/// The base that the numbers of a page are relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) time: Timestamp,
    /// An event number.
    pub(crate) event: u64,
    /// A position in the journal.
    pub(crate) place: u64,
}
