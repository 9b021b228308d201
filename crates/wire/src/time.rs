//! Points in time on the wire. Spans are plain milliseconds in fields whose names end in `_ms`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use serde::Serialize;

use crate::error::Problem;
use crate::field::Field;
use crate::pack;
use crate::reader::Reader;

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// A time before 1970 counts as 1970.
    pub fn from_system_time(time: SystemTime) -> Timestamp {
        Timestamp(millis(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// A span in milliseconds. One that is too long becomes the maximum.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Field for Timestamp {
    fn absent() -> Option<Timestamp> {
        Some(Timestamp(0))
    }

    fn is_absent(&self) -> bool {
        self.0 == 0
    }

    fn pack(&self, out: &mut BytesMut) {
        pack::unsigned(out, self.0);
    }

    #[inline]
    fn unpack(from: &mut Reader<'_>) -> Result<Timestamp, Problem> {
        from.unsigned().map(Timestamp)
    }
}
