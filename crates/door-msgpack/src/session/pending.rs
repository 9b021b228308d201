//! Requests under way: what each answer belongs to. A slot and a round make a token, so that an answer that comes too
//! late finds nothing instead of somebody else's request.

use tenure_hub::words::{Name, Refusal, TaskId, Timestamp};

/// What goes to the hub and comes back.
pub(super) type Token = u64;

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) expect: Expect,
}

/// What is done with the answer.
#[derive(Debug)]
pub(super) enum Expect {
    /// It is passed on.
    Plain,
    /// Nobody is told.
    Nothing,
    /// One of several asks of one request. The last one answers, with the first refusal of them all, if there is any.
    Part,
    LastPart,
    /// Entries that the door refused itself, by their place in the request.
    Submitted {
        refused: Box<[(usize, Refusal)]>,
    },
    Body,
    Result,
    Watching {
        from: Option<u64>,
    },
    Pong {
        now: Timestamp,
    },
    Call {
        to: Name,
    },
    /// A look at a task that somebody waits for.
    Waited {
        task: TaskId,
    },
}

#[derive(Debug, Default)]
pub(super) struct Pendings {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    round: u32,
    pending: Option<Pending>,
}

impl Pendings {
    pub(super) fn put(&mut self, number: u64, expect: Expect) -> Token {
        let pending = Some(Pending { number, expect });
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.pending = pending;
            return token(index, slot.round);
        }
        self.slots.push(Slot { round: 0, pending });
        token((self.slots.len() - 1) as u32, 0)
    }

    pub(super) fn get(&self, token: Token) -> Option<&Pending> {
        let (index, round) = parts(token);
        self.slots.get(index as usize).filter(|slot| slot.round == round)?.pending.as_ref()
    }

    pub(super) fn expects(&self, token: Token) -> Option<&Expect> {
        self.get(token).map(|pending| &pending.expect)
    }

    pub(super) fn take(&mut self, token: Token) -> Option<Pending> {
        let (index, round) = parts(token);
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.round == round)?;
        let pending = slot.pending.take()?;
        slot.round = slot.round.wrapping_add(1);
        self.free.push(index);
        Some(pending)
    }

    pub(super) fn len(&self) -> usize {
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
        let first = pendings.put(1, Expect::Plain);
        assert_eq!(pendings.take(first).unwrap().number, 1);
        let second = pendings.put(2, Expect::Plain);
        assert_eq!(second as u32, first as u32, "the slot is used again");
        assert!(pendings.take(first).is_none());
        assert_eq!(pendings.get(second).unwrap().number, 2);
        assert_eq!(pendings.len(), 1);
    }
}
