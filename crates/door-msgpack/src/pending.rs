//! Requests in flight, by token. A token combines a slot and a generation, so that a late reply finds nothing instead
//! of a different request.

/// Sent with a request to the hub and returned with its reply.
pub(crate) type Token = u64;

#[derive(Debug)]
pub(crate) struct Pendings<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    round: u32,
    pending: Option<T>,
}

impl<T> Default for Pendings<T> {
    fn default() -> Pendings<T> {
        Pendings { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pendings<T> {
    pub(crate) fn put(&mut self, pending: T) -> Token {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.pending = Some(pending);
            return token(index, slot.round);
        }
        self.slots.push(Slot { round: 0, pending: Some(pending) });
        token((self.slots.len() - 1) as u32, 0)
    }

    pub(crate) fn get(&self, token: Token) -> Option<&T> {
        let (index, round) = parts(token);
        self.slots.get(index as usize).filter(|slot| slot.round == round)?.pending.as_ref()
    }

    pub(crate) fn take(&mut self, token: Token) -> Option<T> {
        let (index, round) = parts(token);
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.round == round)?;
        let pending = slot.pending.take()?;
        slot.round = slot.round.wrapping_add(1);
        self.free.push(index);
        Some(pending)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn token(index: u32, round: u32) -> Token {
    u64::from(round) << 32 | u64::from(index)
}

fn parts(token: Token) -> (u32, u32) {
    (token as u32, (token >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_finds_nothing_even_if_its_slot_is_used_again() {
        let mut pendings = Pendings::default();
        let first = pendings.put("first");
        assert_eq!(pendings.take(first), Some("first"));
        let second = pendings.put("second");
        assert_eq!(second as u32, first as u32, "the slot is used again");
        assert_eq!(pendings.take(first), None);
        assert_eq!(pendings.get(second), Some(&"second"));
        assert_eq!(pendings.len(), 1);
    }
}
