//! Calls and broadcasts in the core: messages between peers go through the outbox, in order.

use bytes::Bytes;
use tenure_engine::{Name, Peer, Refusal, SessionId};

use super::Core;
use crate::outbox::OutboxItem;
use crate::refusal::HubRefusal;
use crate::request::{Broadcast, CallAnswer, Delivery, Response};

impl Core {
    pub(super) fn call(
        &mut self,
        peer: &Peer,
        token: u64,
        address: Name,
        body: Bytes,
    ) -> Result<(), HubRefusal> {
        self.stats.calls_total += 1;
        let (call, receiver) = self.calls.open(peer.session, token, &peer.namespace, &address)?;
        let delivery = Delivery::Call { call, from: peer.identity.clone(), address, body };
        self.outbox.push(OutboxItem::Other { session: receiver, delivery });
        Ok(())
    }

    pub(super) fn answer_call(
        &mut self,
        receiver: SessionId,
        call: u64,
        answer: CallAnswer,
    ) -> Result<Response, HubRefusal> {
        let Some(pending) = self.calls.waiting(receiver, call) else {
            return Err(
                Refusal::BadValue { what: "call", why: "is over, or was not made to this session" }.into()
            );
        };
        if answer != CallAnswer::Pending {
            self.calls.close(call);
        }
        let delivery = Delivery::CallAnswered { token: pending.token, answer };
        self.outbox.push(OutboxItem::Other { session: pending.caller, delivery });
        Ok(Response::Done)
    }

    pub(super) fn call_given_up(&mut self, call: u64, receiver: SessionId) {
        self.outbox.push(OutboxItem::Other { session: receiver, delivery: Delivery::CallGivenUp { call } });
    }

    pub(super) fn broadcast(&mut self, peer: &Peer, broadcast: &Broadcast) -> Response {
        self.stats.broadcasts_total += 1;
        let broadcast_receivers = self.calls.broadcast_receivers(&peer.namespace);
        for session in &broadcast_receivers {
            let delivery = Delivery::Broadcast(broadcast.clone());
            self.outbox.push(OutboxItem::Other { session: *session, delivery });
        }
        Response::Heard(broadcast_receivers.len())
    }
}
