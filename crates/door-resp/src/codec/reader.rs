//! Reads replies as a client does. Used by tests, transcripts and the benchmark.

use bytes::Bytes;

use super::error::ProtocolError;
use super::limits::RespLimits;
use super::reply::Reply;

/// Maximum nesting of a reply. The broker's replies stay far below.
pub(crate) const REPLY_DEPTH_MAX: usize = 16;

/// Reads one whole reply from the front of `bytes` and returns it with its length, or `None` yet. Each call starts
/// over.
pub fn read_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
    let mut reader = JobReader { bytes, at: 0 };
    match reader.value(REPLY_DEPTH_MAX) {
        Ok(reply) => Ok(Some((reply, reader.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Wrong(error)) => Err(error),
    }
}

struct JobReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

enum Stop {
    Incomplete,
    Wrong(ProtocolError),
}

impl From<ProtocolError> for Stop {
    fn from(error: ProtocolError) -> Self {
        Self::Wrong(error)
    }
}

impl<'a> JobReader<'a> {
    fn value(&mut self, depth: usize) -> Result<Reply, Stop> {
        let line = self.line()?;
        let (&kind, rest) = line.split_first().ok_or(ProtocolError::Malformed)?;
        let text = std::str::from_utf8(rest).map_err(|_| ProtocolError::Malformed)?;
        Ok(match kind {
            b'+' => Reply::simple(text.to_owned()),
            b'-' => Reply::error(text),
            b':' => Reply::Integer(number(text)?),
            b',' => Reply::Double(text.parse().map_err(|_| ProtocolError::Malformed)?),
            b'(' => Reply::BigNumber(text.to_owned()),
            b'_' => Reply::Null,
            b'#' => Reply::Boolean(text == "t"),
            b'$' if text == "-1" => Reply::Null,
            b'*' if text == "-1" => Reply::NullArray,
            b'$' => Reply::Bulk(self.bulk(text)?),
            b'!' => Reply::BulkError(self.bulk(text)?),
            b'=' => verbatim(&self.bulk(text)?)?,
            b'*' => Reply::Array(self.values(text, 1, depth)?),
            b'~' => Reply::Set(self.values(text, 1, depth)?),
            b'>' => Reply::Push(self.values(text, 1, depth)?),
            b'%' => Reply::Map(pairs(self.values(text, 2, depth)?)),
            other => return Err(ProtocolError::UnknownType(other).into()),
        })
    }

    fn values(&mut self, count: &str, each: usize, depth: usize) -> Result<Vec<Reply>, Stop> {
        let depth = depth.checked_sub(1).ok_or(ProtocolError::TooDeep)?;
        let count = length(count)?.checked_mul(each).ok_or(ProtocolError::ArrayLength)?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(depth)?);
        }
        Ok(values)
    }

    fn bulk(&mut self, count: &str) -> Result<Bytes, Stop> {
        let length = length(count)?;
        let body = self.bytes.get(self.at..self.at + length + 2).ok_or(Stop::Incomplete)?;
        let body = body.strip_suffix(b"\r\n").ok_or(ProtocolError::ExpectedLineEnd)?;
        self.at += length + 2;
        Ok(Bytes::copy_from_slice(body))
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or(Stop::Incomplete)?;
        self.at += end + 2;
        Ok(&rest[..end])
    }
}

fn number(text: &str) -> Result<i64, ProtocolError> {
    text.parse().map_err(|_| ProtocolError::Malformed)
}

fn length(text: &str) -> Result<usize, ProtocolError> {
    let length: usize = text.parse().map_err(|_| ProtocolError::BulkLength)?;
    if length > RespLimits::MESSAGE_BYTES_MAX {
        return Err(ProtocolError::MessageTooLong { max: RespLimits::MESSAGE_BYTES_MAX });
    }
    Ok(length)
}

fn verbatim(body: &Bytes) -> Result<Reply, ProtocolError> {
    match **body {
        [a, b, c, b':', ..] => Ok(Reply::Verbatim { format: [a, b, c], text: body.slice(4..) }),
        _ => Err(ProtocolError::Malformed),
    }
}

fn pairs(values: Vec<Reply>) -> Vec<(Reply, Reply)> {
    let mut pairs = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_with_its_length() {
        let (reply, length) = read_reply(b"*2\r\n$2\r\nhi\r\n:3\r\n+rest").unwrap().unwrap();
        assert_eq!(reply, Reply::Array(vec![Reply::word("hi"), Reply::Integer(3)]));
        assert_eq!(length, 16);
    }

    #[test]
    fn half_a_reply_is_none_yet() {
        let whole = b"%1\r\n+a\r\n=6\r\ntxt:hi\r\n";
        for length in 0..whole.len() {
            assert!(read_reply(&whole[..length]).unwrap().is_none());
        }
        assert!(read_reply(whole).unwrap().is_some());
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        assert_eq!(read_reply(&b"*1\r\n".repeat(100_000)).unwrap_err(), ProtocolError::TooDeep);
    }
}
