//! Limits the memory that one connection can make the broker hold: incomplete messages, and replies that the peer does
//! not read. A connection that needs more waits, and delays only itself.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Extensions;

/// How many calls of one connection are read at the same time. The others wait for their turn.
pub(crate) const READ_AT_ONCE_MAX: usize = 4;
/// How many bytes of bodies and results may be unsent on one connection.
pub(crate) const UNREAD_BYTES_MAX: u32 = 64 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Where the connection comes from.
    pub(crate) address: Option<IpAddr>,
    turns: Arc<Semaphore>,
    unread: Arc<Semaphore>,
}

/// Held while the message of a call arrives.
#[derive(Clone, Debug)]
pub(crate) struct FlowTurn(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

/// Held while an answer is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Room(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

impl Flow {
    pub(crate) fn new(address: Option<IpAddr>) -> Flow {
        Flow {
            address,
            turns: Arc::new(Semaphore::new(READ_AT_ONCE_MAX)),
            unread: Arc::new(Semaphore::new(UNREAD_BYTES_MAX as usize)),
        }
    }

    /// The flow of the connection through which a call came.
    pub(crate) fn of(call: &Extensions) -> Option<Flow> {
        call.get::<Flow>().cloned()
    }

    pub(crate) async fn turn(&self) -> FlowTurn {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        FlowTurn(Arc::new(turn.expect("it is never closed")))
    }

    /// Room for a reply of this many bytes, if it is available at once.
    pub(crate) fn room_now(&self, bytes: u32) -> Option<Room> {
        let room = Arc::clone(&self.unread).try_acquire_many_owned(bytes.min(UNREAD_BYTES_MAX));
        room.ok().map(|room| Room(Arc::new(room)))
    }

    /// Waits for room. A reply that is larger than all the room goes alone.
    pub(crate) async fn room(&self, bytes: u32) -> Room {
        let room = Arc::clone(&self.unread).acquire_many_owned(bytes.min(UNREAD_BYTES_MAX)).await;
        Room(Arc::new(room.expect("it is never closed")))
    }
}
