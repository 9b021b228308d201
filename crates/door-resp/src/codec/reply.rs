//! All kinds of replies.

use std::borrow::Cow;

use bytes::Bytes;

/// One reply or push. RESP3 kinds are converted to RESP2 when they are encoded for an old peer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A short status such as `OK`.
    Simple(Cow<'static, str>),
    /// A refusal; the first word is its code.
    Error(String),
    Integer(i64),
    Bulk(Bytes),
    /// Null in place of a string.
    Null,
    /// Null in place of an array. RESP2 distinguishes the two.
    NullArray,
    Array(Vec<Reply>),
    /// An array of very many bulk strings, encoded in parts.
    Written {
        count: usize,
        parts: Vec<Bytes>,
    },
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    /// A push message.
    Push(Vec<Reply>),
    Boolean(bool),
    Double(f64),
    /// An integer of any size, as digits.
    BigNumber(String),
    /// Text for people, with a three-letter format.
    Verbatim {
        format: [u8; 3],
        text: Bytes,
    },
    /// An error that may contain line ends.
    BulkError(Bytes),
}

impl Reply {
    pub const OK: Self = Self::Simple(Cow::Borrowed("OK"));

    pub fn simple(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Simple(text.into())
    }

    /// The text begins with its code, `ERR …` or another word in capitals.
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub fn bulk(bytes: impl Into<Bytes>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// A bulk string from text that lives as long as the program.
    pub fn word(text: &'static str) -> Self {
        Self::Bulk(Bytes::from_static(text.as_bytes()))
    }

    /// A count; more than an integer can hold is the largest integer.
    pub fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub fn array(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Array(items.into_iter().collect())
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_) | Self::BulkError(_))
    }
}

impl From<bool> for Reply {
    /// Redis answers yes and no as 1 and 0.
    fn from(yes: bool) -> Self {
        Self::Integer(i64::from(yes))
    }
}
