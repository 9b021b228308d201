//! The descriptors of all open connections of this process, so that a forked child can close its copies: otherwise the broker
//! would not notice the end of the parent. Without locks, because a child may be forked at any moment.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Connections beyond this number stay open in a child.
const LISTED_MAX: usize = 1_024;
const FREE: RawFd = -1;

static OPEN: [AtomicI32; LISTED_MAX] = [const { AtomicI32::new(FREE) }; LISTED_MAX];

/// Keeps a descriptor on the list. Drop it before the descriptor is closed.
#[derive(Debug)]
pub(crate) struct ListedSocket(Option<usize>);

impl ListedSocket {
    pub(crate) fn new(socket: &impl AsFd) -> ListedSocket {
        let fd = socket.as_fd().as_raw_fd();
        let free =
            |slot: &AtomicI32| slot.compare_exchange(FREE, fd, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        ListedSocket(OPEN.iter().position(free))
    }
}

impl Drop for ListedSocket {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            OPEN[slot].store(FREE, Ordering::SeqCst);
        }
    }
}

/// Returns the descriptors of all connections of this process and empties the list. A forked child calls this and closes
/// them; it must never use or drop a client or worker of its parent.
pub fn take_inherited_sockets() -> Vec<RawFd> {
    OPEN.iter().map(|slot| slot.swap(FREE, Ordering::SeqCst)).filter(|fd| *fd != FREE).collect()
}
