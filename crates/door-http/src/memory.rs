//! The memory of responses. A response is charged before its bytes are read, to the budget that all connections share
//! and to its connection, until the last byte is sent. A client that reads nothing holds no more than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tenure_door_kit::{ByteBudget, Charge};

use crate::problem::ProblemDetails;
use crate::reply::no_memory;

/// How many bytes of responses one connection may hold. A longer response is sent if it is the only one.
const CONNECTION_BYTES_MAX: usize = 64 << 20;

/// The responses of one connection.
#[derive(Clone, Debug)]
pub(crate) struct ResponseMemory {
    budget: Arc<ByteBudget>,
    of_connection: Arc<AtomicUsize>,
}

impl ResponseMemory {
    pub(crate) fn new(budget: &Arc<ByteBudget>) -> ResponseMemory {
        ResponseMemory { budget: Arc::clone(budget), of_connection: Arc::default() }
    }

    /// Room for this many bytes, or the refusal of the request.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reserved, ProblemDetails> {
        let mut reserved = Reserved {
            charge: self.budget.charge(),
            of_connection: Arc::clone(&self.of_connection),
            held: 0,
        };
        reserved.set(bytes)?;
        Ok(reserved)
    }
}

/// Room for the bytes of one response.
#[derive(Debug)]
pub(crate) struct Reserved {
    charge: Charge,
    of_connection: Arc<AtomicUsize>,
    held: usize,
}

impl Reserved {
    /// Changes how many bytes there is room for.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), ProblemDetails> {
        let own = self.held;
        let change = |all: usize| {
            let others = all - own;
            (others == 0 || others + bytes <= CONNECTION_BYTES_MAX).then_some(others + bytes)
        };
        if self.of_connection.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_err() {
            return Err(no_memory());
        }
        self.held = bytes;
        self.charge.set(bytes).map_err(|_| no_memory())
    }

    /// The bytes for which the room is. The server takes them part by part, so the bytes themselves hold the charge.
    pub(crate) fn hold(self, bytes: Bytes) -> ChargedBytes {
        let is_short = bytes.len() < SHORT_BYTES;
        ChargedBytes(if is_short { bytes } else { Bytes::from_owner(Kept { bytes, _reserved: self }) })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.of_connection.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// A response as short as this is not worth its own allocation: the socket takes it, or the connection waits.
const SHORT_BYTES: usize = 4 << 10;

/// Bytes that are charged until they are dropped.
#[derive(Debug)]
pub(crate) struct ChargedBytes(Bytes);

impl ChargedBytes {
    pub(crate) fn into_bytes(self) -> Bytes {
        self.0
    }
}

struct Kept {
    bytes: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_connection_holds_a_few_responses_and_gets_their_room_back() {
        let memory = ResponseMemory::new(&ByteBudget::new(1 << 30));
        let first = memory.reserve(40 * MIB).expect("there is room");
        assert_eq!(memory.reserve(25 * MIB).map(drop).unwrap_err().code, "full");
        let second = memory.reserve(24 * MIB).expect("there is room").hold(Bytes::from(vec![0; 24 * MIB]));
        let bytes = second.into_bytes();
        drop(first);
        assert!(memory.reserve(41 * MIB).is_err(), "the bytes that are on their way still count");
        drop(bytes);
        let mut long = memory.reserve(100 * MIB).expect("a long response is sent alone");
        assert!(memory.reserve(1).is_err());
        long.set(MIB).expect("less is always possible");
        assert!(memory.reserve(63 * MIB).is_ok());
    }

    #[test]
    fn all_connections_share_one_budget() {
        let budget = ByteBudget::new(50 * MIB);
        let (one, other) = (ResponseMemory::new(&budget), ResponseMemory::new(&budget));
        let held = one.reserve(30 * MIB).expect("there is room");
        assert_eq!(other.reserve(30 * MIB).map(drop).unwrap_err().code, "full");
        drop(held);
        assert!(other.reserve(30 * MIB).is_ok());
        assert_eq!(budget.used(), 0, "a refused response leaves nothing behind");
    }
}
