//! Optional fields behind the fixed ones: tag, length, bytes, in ascending order of the tags.
//!
//! A field that is absent costs nothing, and a new one needs no change to the others. A tag that this version
//! does not know is an error: to skip it would silently drop a promise to the task.

use super::put;
use super::take::{ByteCursor, Malformed};

pub(super) fn encode_field(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    put::measured(out, write);
}

/// Calls `field` with each tag and its bytes until the input ends. `field` must take all of them.
pub(super) fn take_fields<'a>(
    take: &mut ByteCursor<'a>,
    mut field: impl FnMut(u8, &mut ByteCursor<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut last = 0;
    while !take.is_empty() {
        let tag = take.byte()?;
        if tag <= last {
            return Err(Malformed("optional fields are out of order"));
        }
        last = tag;
        let mut bytes = ByteCursor::new(take.measured()?);
        field(tag, &mut bytes)?;
        if !bytes.is_empty() {
            return Err(Malformed("an optional field is longer than it should be"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8]) -> Result<Vec<(u8, u64)>, Malformed> {
        let mut found = Vec::new();
        take_fields(&mut ByteCursor::new(bytes), |tag, take| {
            found.push((tag, take.varint()?));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn fields_come_back_with_their_tags() {
        let mut out = Vec::new();
        encode_field(&mut out, 2, |out| put::varint(out, 300));
        encode_field(&mut out, 7, |out| put::varint(out, 1));
        assert_eq!(numbers(&out), Ok(vec![(2, 300), (7, 1)]));
        assert_eq!(numbers(&[]), Ok(vec![]));
    }

    #[test]
    fn repeated_unordered_long_and_torn_fields_are_malformed() {
        for bytes in [&[2, 1, 5, 2, 1, 5][..], &[7, 1, 5, 2, 1, 5], &[2, 2, 5, 5], &[2, 3, 5], &[2]] {
            assert!(numbers(bytes).is_err(), "{bytes:?}");
        }
    }
}
