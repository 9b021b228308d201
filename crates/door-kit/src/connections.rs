//! Counts connections, of the whole broker and of each address, and enforces the limits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts the open connections, in all and per address.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_door: HashMap<&'static str, usize>,
    by_address: HashMap<(&'static str, IpAddr), usize>,
}

impl Counts {
    fn leave_address(&mut self, door: &'static str, address: Option<IpAddr>) {
        if let Some(address) = address
            && let Some(of_address) = self.by_address.get_mut(&(door, address))
        {
            *of_address -= 1;
            if *of_address == 0 {
                self.by_address.remove(&(door, address));
            }
        }
    }
}

impl Connections {
    /// `max` is for all doors together.
    pub fn new(max: usize) -> Arc<Connections> {
        Arc::new(Connections { max, counts: Mutex::default() })
    }

    /// Maximum number of open connections.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Reserves a slot for one more connection of a door, if there is one. A Unix socket has no address.
    pub fn take_place(
        self: &Arc<Self>,
        door: &'static str,
        address: Option<IpAddr>,
        door_max: usize,
        address_max: usize,
    ) -> Option<ConnectionSlot> {
        let mut counts = self.lock();
        let of_door = counts.by_door.get(door).copied().unwrap_or(0);
        let of_address =
            address.map_or(0, |address| counts.by_address.get(&(door, address)).copied().unwrap_or(0));
        if counts.all >= self.max || of_door >= door_max || of_address >= address_max {
            return None;
        }
        counts.all += 1;
        counts.by_door.insert(door, of_door + 1);
        if let Some(address) = address {
            counts.by_address.insert((door, address), of_address + 1);
        }
        Some(ConnectionSlot { connections: Arc::clone(self), door, address })
    }

    fn leave(&self, door: &'static str, address: Option<IpAddr>) {
        let mut counts = self.lock();
        counts.all -= 1;
        if let Some(of_door) = counts.by_door.get_mut(door) {
            *of_door -= 1;
        }
        counts.leave_address(door, address);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // No statement leaves the counts inconsistent, so a poisoned lock is safe to use.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Counts the connection for another address, if that address has room. The place itself is kept.
    #[must_use]
    pub(crate) fn move_to(mut self, address: Option<IpAddr>, address_max: usize) -> Option<ConnectionSlot> {
        let mut counts = self.connections.lock();
        if let Some(address) = address {
            let of_address = counts.by_address.entry((self.door, address)).or_default();
            if *of_address >= address_max {
                return None;
            }
            *of_address += 1;
        }
        counts.leave_address(self.door, self.address);
        drop(counts);
        self.address = address;
        Some(self)
    }
}

/// One connection's slot. Dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    door: &'static str,
    address: Option<IpAddr>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.leave(self.door, self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_all_by_door_and_by_address() {
        let connections = Connections::new(4);
        let [here, there] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|bytes| Some(IpAddr::from(bytes)));
        let take = |door, address| connections.take_place(door, address, 3, 2);
        let first = take("native", here).expect("there is room");
        let _second = take("native", here).expect("there is room");
        assert!(take("native", here).is_none(), "two of one address");
        let _third = take("native", there).expect("another address");
        assert!(take("native", None).is_none(), "three of one door");
        let _fourth = take("resp", here).expect("another door");
        assert!(take("resp", here).is_none(), "four in all");
        drop(first);
        assert!(take("native", here).is_some(), "one has left");
    }

    #[test]
    fn a_place_moves_to_the_address_that_it_belongs_to() {
        let connections = Connections::new(2);
        let [here, there] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|bytes| Some(IpAddr::from(bytes)));
        let first = connections.take_place("native", None, 2, 1).expect("there is room");
        let first = first.move_to(here, 1).expect("the first of its address");
        let second = connections.take_place("native", None, 2, 1).expect("there is room");
        assert!(second.move_to(here, 1).is_none(), "its address is full, and the place is free again");
        let second = connections.take_place("native", None, 2, 1).expect("there is room");
        let second = second.move_to(there, 1).expect("another address");
        assert!(connections.take_place("native", None, 2, 1).is_none(), "two in all");
        drop((first, second));
        assert!(connections.lock().by_address.is_empty());
    }
}
