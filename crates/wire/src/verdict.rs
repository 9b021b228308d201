//! A list of outcomes, in order: done, or a refusal. Only a refusal is a map in such a list.

use bytes::BytesMut;
use serde::{Serialize, Serializer};

use crate::error::Problem;
use crate::field::Field;
use crate::reader::Reader;
use crate::refusal::Refusal;

/// The outcome of one entry of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<T>(pub Result<T, Refusal>);

impl<T: Field> Field for Verdict<T> {
    fn absent() -> Option<Verdict<T>> {
        None
    }

    fn is_absent(&self) -> bool {
        false
    }

    #[inline]
    fn pack(&self, out: &mut BytesMut) {
        match &self.0 {
            Ok(done) => done.pack(out),
            Err(refusal) => refusal.pack(out),
        }
    }

    #[inline]
    fn unpack(from: &mut Reader<'_>) -> Result<Verdict<T>, Problem> {
        match from.peek()? {
            0x80..=0x8f | 0xde | 0xdf => Refusal::unpack(from).map(|refusal| Verdict(Err(refusal))),
            _ => T::unpack(from).map(|done| Verdict(Ok(done))),
        }
    }
}

impl<T: Serialize> Serialize for Verdict<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Ok(done) => done.serialize(serializer),
            Err(refusal) => refusal.serialize(serializer),
        }
    }
}
