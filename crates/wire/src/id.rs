//! A task's id on the wire.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;
use std::time::SystemTime;

use bytes::BytesMut;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::error::{Problem, ValueFault};
use crate::field::Field;
use crate::pack;
use crate::reader::Reader;
use crate::time::Timestamp;

/// A UUID: sixteen bytes on the wire, hyphenated text for people. A client may choose its own.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub [u8; 16]);

impl TaskId {
    /// Creates an id, a UUID of version 7: it sorts by the millisecond of its creation.
    ///
    /// Each thread asks the operating system for randomness once, not for every id, because a client creates many.
    pub fn new() -> TaskId {
        thread_local! {
            static SOURCE: (RandomState, RandomState, Cell<u64>) = (RandomState::new(), RandomState::new(), Cell::new(0));
        }
        let random = SOURCE.with(|(first, second, counter)| {
            let count = counter.get();
            counter.set(count + 1);
            (u128::from(first.hash_one(count)) << 64 | u128::from(second.hash_one(count))).to_be_bytes()
        });
        let millis = Timestamp::from_system_time(SystemTime::now()).0;
        let mut id = random;
        id[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        id[6] = 0x70 | id[6] & 0x0f;
        id[8] = 0x80 | id[8] & 0x3f;
        TaskId(id)
    }

    /// The id this far behind, as for the elements of an array.
    #[must_use]
    pub fn plus(self, distance: u128) -> TaskId {
        TaskId(u128::from_be_bytes(self.0).wrapping_add(distance).to_be_bytes())
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).hyphenated().fmt(f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TaskId {
    type Err = Problem;

    fn from_str(text: &str) -> Result<TaskId, Problem> {
        let id = Uuid::try_parse(text).map_err(|_| ValueFault::NotAnId)?;
        Ok(TaskId(id.into_bytes()))
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Field for TaskId {
    fn absent() -> Option<TaskId> {
        None
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::bytes16(out, &self.0);
    }

    #[inline]
    fn unpack(from: &mut Reader<'_>) -> Result<TaskId, Problem> {
        let bytes = from.borrowed_bytes()?;
        if let Ok(id) = bytes.try_into() {
            return Ok(TaskId(id));
        }
        std::str::from_utf8(bytes).map_err(|_| ValueFault::NotAnId)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn fresh_ids_are_all_different_and_sort_by_time() {
        let many = || (0..10_000).map(|_| TaskId::new()).collect::<Vec<_>>();
        let other_thread = std::thread::spawn(many);
        let mut ids = many();
        ids.extend(other_thread.join().unwrap());
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 20_000);
        let uuid = Uuid::from_bytes(ids[0].0);
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, uuid::Variant::RFC4122));
        let now = Timestamp::from_system_time(SystemTime::now()).0;
        for id in [ids[0], ids[19_999]] {
            let [a, b, c, d, e, f, ..] = id.0;
            let made = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
            assert!(made.abs_diff(now) < 60_000, "the time comes first, and it is the time of now");
        }
    }

    #[test]
    fn an_id_is_sixteen_bytes_or_a_uuid_as_text() {
        let id = TaskId(*b"0123456789abcdef");
        let mut packed = BytesMut::new();
        id.pack(&mut packed);
        assert_eq!(packed.len(), 18);
        assert_eq!(TaskId::unpack(&mut Reader::new(&packed.freeze())), Ok(id));

        let mut text = BytesMut::new();
        pack::text(&mut text, &id.to_string());
        assert_eq!(TaskId::unpack(&mut Reader::new(&text.freeze())), Ok(id));

        for bad in [&b"\xc4\x02ab"[..], b"\xa0", b"\xa4task", b"\xc4\x04\xff\xff\xff\xff"] {
            let problem = TaskId::unpack(&mut Reader::new(&Bytes::from_static(bad))).unwrap_err();
            assert_eq!(problem.what(), &ValueFault::NotAnId, "{bad:x?}");
        }
    }
}
