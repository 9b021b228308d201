//! The address frame of a request to a worker.
//!
//! Majordomo puts the client's address there, and the worker returns it with its result. This door puts the task, its
//! attempt and the worker's name there instead. So every result identifies its attempt, whichever client asked and
//! whichever connection delivers it, and the door can detect the result of a stale attempt.

use bytes::Bytes;
use uuid::Uuid;

/// The task, the attempt, and the worker that got it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MdpAddress {
    pub task: Uuid,
    pub attempt: u32,
    pub worker: String,
}

/// The longest name of a worker in an address.
const WORKER_BYTES_MAX: usize = 255;

impl MdpAddress {
    /// Printable, since workers log it: the task's id, the attempt and the worker, with `#` between them.
    pub fn to_frame(&self) -> Bytes {
        format!("{}#{}#{}", self.task.hyphenated(), self.attempt, self.worker).into()
    }

    pub fn parse(frame: &[u8]) -> Option<MdpAddress> {
        let text = std::str::from_utf8(frame).ok()?;
        let (task, rest) = text.split_once('#')?;
        let (attempt, worker) = rest.split_once('#')?;
        if worker.is_empty() || worker.len() > WORKER_BYTES_MAX {
            return None;
        }
        let task = Uuid::try_parse(task).ok()?;
        let address = MdpAddress { task, attempt: attempt.parse().ok()?, worker: worker.to_owned() };
        // Accepts only the spelling that this door writes.
        (address.to_frame() == frame).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was_sent() {
        let address = MdpAddress { task: Uuid::from_u128(7), attempt: 3, worker: "node#1".into() };
        assert_eq!(address.to_frame(), "00000000-0000-0000-0000-000000000007#3#node#1");
        assert_eq!(MdpAddress::parse(&address.to_frame()), Some(address));
    }

    #[test]
    fn anything_else_is_no_address() {
        for frame in [
            &b""[..],
            b"client-1",
            b"00000000-0000-0000-0000-000000000007",
            b"00000000-0000-0000-0000-000000000007#",
            b"00000000-0000-0000-0000-000000000007#3",
            b"00000000-0000-0000-0000-000000000007#3#",
            b"00000000-0000-0000-0000-000000000007#-1#w",
            b"00000000-0000-0000-0000-000000000007#03#w",
            b"00000000-0000-0000-0000-000000000007#99999999999#w",
            b"{00000000-0000-0000-0000-000000000007}#3#w",
            b"\xff\xfe#1",
        ] {
            assert_eq!(MdpAddress::parse(frame), None);
        }
    }
}
