//! The handshake: a peer introduces itself, and sends a key if the broker requires one.

use std::collections::HashMap;

use tenure_door_kit::LoginError;
use tenure_hub::ClockReading;
use tenure_hub::words::{Name, check_name};

use super::super::codec::{XMessage, XMessageIntroduction, encode};
use super::super::translate;
use super::{PeerRole, Session, reject_peer};
use crate::session::{ConnectionAccess, Turn};

/// The reply to a peer without a required key.
const NEEDS_KEY: &str = "not-allowed: this broker requires a key: answer with \
    {\"HandShakeWith\": {\"role\": \"worker\" or \"actioner\", \"key\": \"…\"}}, or use a door without keys";

impl Session {
    /// Admits an untrusted peer, or refuses it.
    pub(super) fn introduce(
        &mut self,
        now: ClockReading,
        introduction: &XMessageIntroduction,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        let role = introduction.role.as_str();
        if !matches!(role, "worker" | "actioner") {
            return reject_peer("send HandShake with worker or actioner", turn);
        }
        let key = introduction.key.as_ref().map(|key| key.0.as_bytes());
        let principal = match access.login(now, key) {
            Ok(principal) => principal,
            Err(LoginError::NoKey) => return reject_peer(NEEDS_KEY, turn),
            Err(LoginError::WrongKey { wait, .. }) => {
                turn.hold = Some(wait);
                return reject_peer("not-allowed: invalid key", turn);
            }
        };
        let identity: Name = match &introduction.name {
            Some(name) => name.as_str().into(),
            None => match &principal.grant.worker {
                Some(worker) if role == "worker" => worker.clone(),
                Some(_) | None => format!("{role}-{}", translate::fresh_task()).into(),
            },
        };
        let is_its_own = match role {
            "worker" => access.may_work_as(&principal.grant, &identity),
            _ => Ok(()),
        };
        if let Err(no) = &is_its_own {
            access.note_refusal(&principal, "connect", no);
        }
        let opened = is_its_own
            .and_then(|()| Ok(check_name("peer", &identity)?))
            .and_then(|()| principal.grant.namespace_for(None))
            .and_then(|namespace| access.open(principal, namespace, identity.clone()));
        if let Err(no) = opened {
            return reject_peer(&translate::refusal(&no), turn);
        }
        encode(&mut turn.out, &XMessage::HandShake("Go".into()));
        if role == "actioner" {
            self.role = PeerRole::Actioner;
            return;
        }
        let spec = translate::worker_spec(identity, introduction, &self.settings.xmessage);
        self.role = PeerRole::Worker {
            spec: Box::new(spec),
            held: HashMap::default(),
            next_beat: now.steady + translate::BEAT,
            is_joining: false,
        };
        self.join(turn);
    }
}
