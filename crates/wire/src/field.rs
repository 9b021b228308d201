//! How a field is encoded: its default when absent, how it is written and how it is read.
//!
//! A value that equals its default is not written. So new fields with default values cost nothing, and an old peer
//! that does not know a field behaves as if it were absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::error::{Problem, ValueFault};
use crate::pack;
use crate::reader::Reader;

/// A type that can be a field of a message.
pub trait Field: Sized {
    /// The default of an absent field; `None` if the field is required.
    fn absent() -> Option<Self>;

    /// Whether the value equals its default, so that it is not written.
    fn is_absent(&self) -> bool;

    /// Writes the value as MessagePack.
    fn pack(&self, out: &mut BytesMut);

    /// Reads the value from MessagePack.
    fn unpack(from: &mut Reader<'_>) -> Result<Self, Problem>;
}

macro_rules! unsigned_fields {
    ($($number:ty),*) => { $(
        impl Field for $number {
            fn absent() -> Option<$number> {
                Some(0)
            }

            #[inline]
            fn is_absent(&self) -> bool {
                *self == 0
            }

            #[inline]
            fn pack(&self, out: &mut BytesMut) {
                pack::unsigned(out, u64::from(*self));
            }

            #[inline]
            fn unpack(from: &mut Reader<'_>) -> Result<$number, Problem> {
                <$number>::try_from(from.unsigned()?).map_err(|_| ValueFault::OutOfRange.into())
            }
        }
    )* };
}

unsigned_fields!(u8, u16, u32, u64);

impl Field for i32 {
    fn absent() -> Option<i32> {
        Some(0)
    }

    fn is_absent(&self) -> bool {
        *self == 0
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::signed(out, i64::from(*self));
    }

    fn unpack(from: &mut Reader<'_>) -> Result<i32, Problem> {
        i32::try_from(from.signed()?).map_err(|_| ValueFault::OutOfRange.into())
    }
}

impl Field for f32 {
    fn absent() -> Option<f32> {
        Some(0.0)
    }

    fn is_absent(&self) -> bool {
        *self == 0.0
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::float32(out, *self);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<f32, Problem> {
        from.float().map(|number| number as f32)
    }
}

impl Field for f64 {
    fn absent() -> Option<f64> {
        Some(0.0)
    }

    fn is_absent(&self) -> bool {
        *self == 0.0
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::float64(out, *self);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<f64, Problem> {
        from.float()
    }
}

impl Field for bool {
    fn absent() -> Option<bool> {
        Some(false)
    }

    fn is_absent(&self) -> bool {
        !self
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::boolean(out, *self);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<bool, Problem> {
        from.boolean()
    }
}

/// A name is required; an optional one is an `Option`.
impl Field for Arc<str> {
    fn absent() -> Option<Arc<str>> {
        None
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::text(out, self);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Arc<str>, Problem> {
        from.text().map(Arc::from)
    }
}

/// Text for people. Absent means empty.
impl Field for Box<str> {
    fn absent() -> Option<Box<str>> {
        Some(Box::default())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::text(out, self);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Box<str>, Problem> {
        from.text().map(Box::from)
    }
}

/// Bodies and results. Absent means empty.
impl Field for Bytes {
    fn absent() -> Option<Bytes> {
        Some(Bytes::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    #[inline]
    fn pack(&self, out: &mut BytesMut) {
        pack::bytes(out, self);
    }

    #[inline]
    fn unpack(from: &mut Reader<'_>) -> Result<Bytes, Problem> {
        from.bytes()
    }
}

impl<T: Field> Field for Option<T> {
    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    #[inline]
    fn pack(&self, out: &mut BytesMut) {
        match self {
            Some(value) => value.pack(out),
            None => pack::nil(out),
        }
    }

    #[inline]
    fn unpack(from: &mut Reader<'_>) -> Result<Option<T>, Problem> {
        if from.take_nil() {
            return Ok(None);
        }
        T::unpack(from).map(Some)
    }
}

impl<T: Field> Field for Vec<T> {
    fn absent() -> Option<Vec<T>> {
        Some(Vec::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::array(out, self.len());
        for entry in self {
            entry.pack(out);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Vec<T>, Problem> {
        let length = from.array()?;
        let mut entries = Vec::with_capacity(length);
        for index in 0..length {
            entries.push(T::unpack(from).map_err(|problem| problem.in_entry(index))?);
        }
        Ok(entries)
    }
}

/// Figures whose names the protocol does not define.
impl Field for BTreeMap<Box<str>, Box<str>> {
    fn absent() -> Option<Self> {
        Some(BTreeMap::new())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::map(out, self.len());
        for (key, value) in self {
            pack::text(out, key);
            pack::text(out, value);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Self, Problem> {
        let mut entries = BTreeMap::new();
        for _ in 0..from.map()? {
            let key = from.text()?;
            let value = from.text().map_err(|problem| problem.in_field(key))?;
            entries.insert(key.into(), value.into());
        }
        Ok(entries)
    }
}

impl<T: Field> Field for Box<T> {
    fn absent() -> Option<Box<T>> {
        T::absent().map(Box::new)
    }

    fn is_absent(&self) -> bool {
        T::is_absent(self)
    }

    fn pack(&self, out: &mut BytesMut) {
        T::pack(self, out);
    }

    fn unpack(from: &mut Reader<'_>) -> Result<Box<T>, Problem> {
        T::unpack(from).map(Box::new)
    }
}
