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
    /// An integer.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Bytes),
    /// Null in place of a string.
    Null,
    /// Null in place of an array. RESP2 distinguishes the two.
    NullArray,
    /// An array.
    Array(Vec<Reply>),
    /// An array of very many bulk strings, encoded in parts.
    Written {
        /// The number of elements.
        count: usize,
        /// The encoded elements.
        parts: Vec<Bytes>,
    },
    /// A map; RESP2 gets an array of keys and values.
    Map(Vec<(Reply, Reply)>),
    /// A set; RESP2 gets an array.
    Set(Vec<Reply>),
    /// A push message.
    Push(Vec<Reply>),
    /// A boolean; RESP2 gets 1 or 0.
    Boolean(bool),
    /// A number with a fraction; RESP2 gets a string.
    Double(f64),
    /// An integer of any size, as digits.
    BigNumber(String),
    /// Text for people, with a three-letter format.
    Verbatim {
        /// The format, such as `txt`.
        format: [u8; 3],
        /// The text.
        text: Bytes,
    },
    /// An error that may contain line ends.
    BulkError(Bytes),
}

impl Reply {
    /// The usual answer to a command without a value.
    pub const OK: Self = Self::Simple(Cow::Borrowed("OK"));

    /// A short status.
    pub fn simple(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Simple(text.into())
    }

    /// The text begins with its code, `ERR …` or another word in capitals.
    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// A string of any bytes.
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

    /// An array of these elements.
    pub fn array(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Array(items.into_iter().collect())
    }

    /// About how many bytes of memory the reply holds.
    pub fn bytes(&self) -> usize {
        let beside = match self {
            Self::Bulk(bytes) | Self::Verbatim { text: bytes, .. } | Self::BulkError(bytes) => bytes.len(),
            Self::Error(text) | Self::BigNumber(text) => text.len(),
            Self::Written { parts, .. } => parts.iter().map(Bytes::len).sum(),
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items.iter().map(Self::bytes).sum(),
            Self::Map(pairs) => pairs.iter().map(|(key, value)| key.bytes() + value.bytes()).sum(),
            Self::Simple(_)
            | Self::Integer(_)
            | Self::Null
            | Self::NullArray
            | Self::Boolean(_)
            | Self::Double(_) => 0,
        };
        size_of::<Self>() + beside
    }

    /// Whether it is an error.
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
