//! The reply of a command, before a door encodes it.

use bytes::Bytes;

use crate::refusal::KeyspaceRefusal;

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Ok,
    /// A short status.
    Simple(&'static str),
    Integer(i64),
    Bulk(Bytes),
    Double(f64),
    /// Null in place of a string.
    Null,
    /// Null in place of an array.
    NullArray,
    Array(Vec<Reply>),
    /// Fields and values.
    Map(Vec<(Bytes, Bytes)>),
    Set(Vec<Bytes>),
    /// Members with their scores.
    Scored(Vec<(Bytes, f64)>),
    /// One element per stream that has entries, with these entries.
    Streams(Vec<(Bytes, Vec<Reply>)>),
    Refused(KeyspaceRefusal),
}

impl Reply {
    pub(crate) fn count(count: usize) -> Reply {
        Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(crate) fn bulks(items: impl IntoIterator<Item = Bytes>) -> Reply {
        Reply::Array(items.into_iter().map(Reply::Bulk).collect())
    }

    pub(crate) fn bulk_or_null(bytes: Option<Bytes>) -> Reply {
        bytes.map_or(Reply::Null, Reply::Bulk)
    }
}

impl From<bool> for Reply {
    fn from(yes: bool) -> Reply {
        Reply::Integer(i64::from(yes))
    }
}
