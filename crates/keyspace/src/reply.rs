//! The reply of a command, before a door encodes it.

use bytes::Bytes;

use crate::refusal::KeyspaceRefusal;

/// What a pair of two byte strings takes beside their bytes.
const PAIR_BYTES: usize = 2 * size_of::<Bytes>();

/// The answer to a command, in the types of RESP.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A short status.
    Simple(&'static str),
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// A floating-point number.
    Double(f64),
    /// Null in place of a string.
    Null,
    /// Null in place of an array.
    NullArray,
    /// A list of answers.
    Array(Vec<Reply>),
    /// Fields and values.
    Map(Vec<(Bytes, Bytes)>),
    /// A set of bytes, in no order.
    Set(Vec<Bytes>),
    /// Members with their scores.
    Scored(Vec<(Bytes, f64)>),
    /// One element per stream that has entries, with these entries.
    Streams(Vec<(Bytes, Vec<Reply>)>),
    /// The command is refused.
    Refused(KeyspaceRefusal),
}

impl Reply {
    /// About how many bytes of memory the reply holds. Bytes that it shares with the key space count as its own.
    pub fn bytes(&self) -> usize {
        let beside = match self {
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Array(items) => items.iter().map(Reply::bytes).sum(),
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| PAIR_BYTES + key.len() + value.len()).sum(),
            Reply::Set(members) => members.iter().map(|member| PAIR_BYTES + member.len()).sum(),
            Reply::Scored(members) => members.iter().map(|(member, _)| PAIR_BYTES + member.len()).sum(),
            Reply::Streams(streams) => streams
                .iter()
                .map(|(key, entries)| {
                    PAIR_BYTES + key.len() + entries.iter().map(Reply::bytes).sum::<usize>()
                })
                .sum(),
            Reply::Ok
            | Reply::Simple(_)
            | Reply::Integer(_)
            | Reply::Double(_)
            | Reply::Null
            | Reply::NullArray
            | Reply::Refused(_) => 0,
        };
        size_of::<Reply>() + beside
    }

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
