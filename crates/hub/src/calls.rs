//! Calls and broadcasts between peers. They exist in memory only: a call has at most one receiver, fails at
//! once if there is none, and fails when its receiver's connection closes.

use std::collections::{BTreeMap, BTreeSet};

use tenure_engine::{Name, Refusal, SessionId};

use crate::refusal::HubRefusal;

/// How many calls one session may have in flight, and how many addresses it may listen at.
pub const CALLS_MAX: usize = 4_096;
/// The most addresses on which peers listen.
pub const ADDRESSES_MAX: usize = 65_536;

/// Address prefixes that a door uses among its own sessions, with the door's name. Peers of other doors can
/// neither listen nor call there, so that none of them receives or forges the door's messages.
const RESERVED: [(&str, &str); 1] = [("mdp.partial/", "mdp")];

/// Refuses an address that belongs to another door.
pub(crate) fn check_address(door: &str, address: &str) -> Result<(), HubRefusal> {
    let is_foreign = |(prefix, owner): &(&str, &str)| address.starts_with(prefix) && *owner != door;
    if RESERVED.iter().any(is_foreign) {
        return Err(Refusal::NotAllowed { what: "use an address that is reserved for a door" }.into());
    }
    Ok(())
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    listeners: BTreeMap<(Name, Name), SessionId>,
    pending: BTreeMap<u64, OpenCall>,
    hearing: BTreeMap<Name, BTreeSet<SessionId>>,
    /// For each session, its calls on both sides and its addresses, to find them when the session ends.
    of_session: BTreeMap<SessionId, OfSession>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub(crate) caller: SessionId,
    pub(crate) token: u64,
    pub(crate) receiver: SessionId,
}

/// The open calls of a closed session.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    /// Calls that it received: their callers wait for an answer that cannot come.
    pub(crate) received: Vec<OpenCall>,
    /// Calls that it made, by number: their receivers would answer a closed session.
    pub(crate) made: Vec<(u64, OpenCall)>,
}

#[derive(Debug, Default)]
struct OfSession {
    addresses: BTreeSet<(Name, Name)>,
    /// The calls it made, by the token of their request.
    made: BTreeMap<u64, u64>,
    received: BTreeSet<u64>,
    hears: Option<Name>,
}

impl Calls {
    pub(crate) fn listen(
        &mut self,
        session: SessionId,
        namespace: &Name,
        address: &Name,
    ) -> Result<(), HubRefusal> {
        let pair = (namespace.clone(), address.clone());
        match self.listeners.get(&pair) {
            Some(other) if *other != session => {
                return Err(Refusal::BadValue {
                    what: "address",
                    why: "has a listener already: at most one may listen",
                }
                .into());
            }
            _ => {}
        }
        let own = self.of_session.entry(session).or_default();
        if own.addresses.len() >= ADDRESSES_MAX {
            return Err(Refusal::TooMany { what: "addresses", limit: ADDRESSES_MAX }.into());
        }
        own.addresses.insert(pair.clone());
        self.listeners.insert(pair, session);
        Ok(())
    }

    pub(crate) fn unlisten(&mut self, session: SessionId, namespace: &Name, address: &Name) {
        let pair = (namespace.clone(), address.clone());
        if self.listeners.get(&pair) == Some(&session) {
            self.listeners.remove(&pair);
            if let Some(own) = self.of_session.get_mut(&session) {
                own.addresses.remove(&pair);
            }
        }
    }

    /// Opens a call. Returns its number and its receiver.
    pub(crate) fn open(
        &mut self,
        caller: SessionId,
        token: u64,
        namespace: &Name,
        address: &Name,
    ) -> Result<(u64, SessionId), HubRefusal> {
        let Some(receiver) = self.listeners.get(&(namespace.clone(), address.clone())).copied() else {
            return Err(HubRefusal::NoListener { address: address.clone() });
        };
        let made = &mut self.of_session.entry(caller).or_default().made;
        if made.len() >= CALLS_MAX {
            return Err(Refusal::TooMany { what: "calls under way", limit: CALLS_MAX }.into());
        }
        self.next += 1;
        made.insert(token, self.next);
        self.of_session.entry(receiver).or_default().received.insert(self.next);
        self.pending.insert(self.next, OpenCall { caller, token, receiver });
        Ok((self.next, receiver))
    }

    /// The open call, if this session received it and its caller still waits.
    pub(crate) fn waiting(&self, receiver: SessionId, call: u64) -> Option<OpenCall> {
        self.pending.get(&call).copied().filter(|pending| pending.receiver == receiver)
    }

    pub(crate) fn close(&mut self, call: u64) -> Option<OpenCall> {
        let pending = self.pending.remove(&call)?;
        if let Some(caller) = self.of_session.get_mut(&pending.caller) {
            caller.made.remove(&pending.token);
        }
        if let Some(receiver) = self.of_session.get_mut(&pending.receiver) {
            receiver.received.remove(&call);
        }
        Some(pending)
    }

    /// The caller stops waiting. Returns the call and its receiver if it is still in flight.
    pub(crate) fn give_up(&mut self, caller: SessionId, token: u64) -> Option<(u64, SessionId)> {
        let call = *self.of_session.get(&caller)?.made.get(&token)?;
        self.close(call).map(|pending| (call, pending.receiver))
    }

    pub(crate) fn set_broadcast_receiver(&mut self, session: SessionId, namespace: &Name, hear: bool) {
        let own = self.of_session.entry(session).or_default();
        if hear {
            own.hears = Some(namespace.clone());
            self.hearing.entry(namespace.clone()).or_default().insert(session);
        } else if let Some(namespace) = own.hears.take() {
            self.remove_broadcast_receiver(session, &namespace);
        }
    }

    pub(crate) fn broadcast_receivers(&self, namespace: &Name) -> Vec<SessionId> {
        self.hearing.get(namespace).map(|sessions| sessions.iter().copied().collect()).unwrap_or_default()
    }

    /// Removes a closed session and all its calls.
    pub(crate) fn forget(&mut self, session: SessionId) -> Forgotten {
        let Some(own) = self.of_session.remove(&session) else { return Forgotten::default() };
        for address in own.addresses {
            self.listeners.remove(&address);
        }
        if let Some(namespace) = own.hears {
            self.remove_broadcast_receiver(session, &namespace);
        }
        let mut close = |call: u64| self.close(call).map(|pending| (call, pending));
        Forgotten {
            received: own.received.into_iter().filter_map(&mut close).map(|(_, pending)| pending).collect(),
            made: own.made.into_values().filter_map(&mut close).collect(),
        }
    }

    fn remove_broadcast_receiver(&mut self, session: SessionId, namespace: &Name) {
        if let Some(sessions) = self.hearing.get_mut(namespace) {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.hearing.remove(namespace);
            }
        }
    }
}
