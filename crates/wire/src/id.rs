//! A task's identity as the wire carries it.

use std::fmt;
use std::str::FromStr;

use bytes::BytesMut;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::error::{Problem, What};
use crate::field::Field;
use crate::pack;
use crate::reader::Reader;

/// A UUID: sixteen bytes on the wire, hyphenated text for people. A client may choose its own.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub [u8; 16]);

impl TaskId {
    /// A fresh id that sorts by the time it was made.
    pub fn new() -> TaskId {
        TaskId(Uuid::now_v7().into_bytes())
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
        let id = Uuid::try_parse(text).map_err(|_| What::NotAnId)?;
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
        std::str::from_utf8(bytes).map_err(|_| What::NotAnId)?.parse()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

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
            assert_eq!(problem.what(), &What::NotAnId, "{bad:x?}");
        }
    }
}
