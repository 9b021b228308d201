//! Decoding of primitive values. The input is untrusted: every length is checked before it is used.

use std::time::Duration;

use tenure_engine::{Blob, TaskId, Timestamp};

use super::Base;

/// Bytes with a valid checksum that this version cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

#[derive(Clone, Debug)]
pub(crate) struct ByteCursor<'a> {
    rest: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> ByteCursor<'a> {
        ByteCursor { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that has not been taken.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number has more than 64 bits"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn distance(&mut self, base: u64) -> Result<u64, Malformed> {
        Ok(base.wrapping_add(self.signed()? as u64))
    }

    /// A count of items of at least one byte each, so a wrong count cannot ask for more memory than the input
    /// has bytes.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.varint()?;
        if count > self.rest.len() as u64 {
            return Err(Malformed("a count is larger than what is left"));
        }
        Ok(count as usize)
    }

    pub(crate) fn measured(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        self.bytes(length)
    }

    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.varint()?).map_err(|_| Malformed("a number is too large for its field"))
    }

    pub(crate) fn small_signed(&mut self) -> Result<i32, Malformed> {
        i32::try_from(self.signed()?).map_err(|_| Malformed("a number is too large for its field"))
    }

    pub(crate) fn id(&mut self) -> Result<TaskId, Malformed> {
        let bytes = self.bytes(16)?;
        Ok(TaskId(bytes.try_into().expect("sixteen bytes were taken")))
    }

    pub(crate) fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Malformed> {
        Ok(self.bytes(BYTES)?.try_into().expect("as many bytes were taken"))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        utf8(self.measured()?)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<Box<str>>, Malformed> {
        match self.varint()? {
            0 => Ok(None),
            more if more - 1 > self.rest.len() as u64 => Err(Malformed("it ends too early")),
            more => Ok(Some(utf8(self.bytes(more as usize - 1)?)?.into())),
        }
    }

    pub(crate) fn time(&mut self, base: &Base) -> Result<Timestamp, Malformed> {
        self.distance(base.time.0).map(Timestamp)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a boolean is neither 0 nor 1")),
        }
    }

    pub(crate) fn maybe_time(&mut self, base: &Base) -> Result<Option<Timestamp>, Malformed> {
        if self.flag()? { self.time(base).map(Some) } else { Ok(None) }
    }

    pub(crate) fn span(&mut self) -> Result<Duration, Malformed> {
        let seconds = self.varint()?;
        let nanos: u32 = self.small()?;
        if nanos >= 1_000_000_000 {
            return Err(Malformed("a duration has too many nanoseconds"));
        }
        Ok(Duration::new(seconds, nanos))
    }

    pub(crate) fn maybe_span(&mut self) -> Result<Option<Duration>, Malformed> {
        if self.flag()? { self.span().map(Some) } else { Ok(None) }
    }

    pub(crate) fn blob(&mut self, base: &Base) -> Result<Blob, Malformed> {
        match self.small::<u32>()? {
            0 => Ok(Blob::EMPTY),
            bytes => Ok(Blob::new(self.distance(base.place)?, bytes)),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::put;
    use super::*;

    proptest! {
        #[test]
        fn every_number_reads_back(value: u64, base: u64) {
            let mut out = Vec::new();
            put::varint(&mut out, value);
            put::distance(&mut out, base, value);
            let mut take = ByteCursor::new(&out);
            prop_assert_eq!(take.varint(), Ok(value));
            prop_assert_eq!(take.distance(base), Ok(value));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn a_measured_part_of_any_length_reads_back(length in 0_usize..40_000) {
            let mut out = vec![7];
            put::measured(&mut out, |out| out.resize(out.len() + length, 9));
            let mut take = ByteCursor::new(&out);
            prop_assert_eq!(take.byte(), Ok(7));
            prop_assert_eq!(take.measured().map(<[u8]>::len), Ok(length));
            prop_assert!(take.is_empty());
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        assert!(ByteCursor::new(&[0xff; 10]).varint().is_err());
        assert!(ByteCursor::new(&[0x80, 0x80]).varint().is_err());
    }
}
