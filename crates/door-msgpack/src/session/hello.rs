//! The handshake.

use std::sync::Arc;

use tenure_door_kit::LoginError;
use tenure_hub::limits::{BODY_BYTES_MAX, MANY_MAX, SESSION_REQUESTS_MAX};
use tenure_hub::words::{Refusal, check_name};
use tenure_hub::{ClockReading, Grant, HubRefusal, Needs, Right, Rights, fresh_id};
use tenure_wire::hello::{FEATURE_ACKNOWLEDGE, Hello, PeerLimits, Welcome, end_name};
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::words::Role;
use tenure_wire::{Code, Reply, VERSION};

use super::machine::machine;
use super::{ConnectionAccess, Known, Session, Turn, answer, encode_reply, refuse};
use crate::translate;

impl Session {
    /// Admits an untrusted peer, or refuses it and closes the connection.
    pub(super) fn hello(
        &mut self,
        now: ClockReading,
        number: u64,
        hello: Hello,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) {
        if hello.version < VERSION {
            encode_reply(&mut turn.out, number, &Reply::Refused(Box::new(bad_version())));
            turn.close = true;
            return;
        }
        if let Err(no) = self.introduce(now, number, hello, access, turn) {
            refuse(number, &no, turn);
            turn.close = true;
        }
    }

    fn introduce(
        &mut self,
        now: ClockReading,
        number: u64,
        hello: Hello,
        access: &mut dyn ConnectionAccess,
        turn: &mut Turn,
    ) -> Result<(), HubRefusal> {
        let key = hello.key.as_ref().map(|key| key.reveal().as_bytes());
        let principal = match access.login(now, key) {
            Ok(principal) => principal,
            Err(no) => {
                if let LoginError::WrongKey { wait, .. } = no {
                    turn.hold = Some(wait);
                }
                encode_reply(&mut turn.out, number, &Reply::Refused(Box::new(not_admitted(&no))));
                turn.close = true;
                return Ok(());
            }
        };
        let grant = Arc::clone(&principal.grant);
        let allowed = check_roles(&grant, &hello.roles).and_then(|()| grant.namespace_for(hello.namespace));
        let namespace = allowed.inspect_err(|no| {
            if matches!(no, HubRefusal::Engine(Refusal::NotAllowed { .. })) {
                access.note_refusal(&principal, "connect", no);
            }
        })?;
        let identity = hello.identity.unwrap_or_else(|| format!("peer-{}", fresh_id()).into());
        check_name("namespace", &namespace)?;
        check_name("identity", &identity)?;
        let session = access.open(principal, namespace.clone(), identity.clone())?;
        self.peer = Some(Box::new(Known {
            grant,
            identity: identity.clone(),
            works: false,
            namespace: namespace.clone(),
            all_topics: access.topics(),
            topics: None,
        }));
        let ends = access.ends();
        let welcome = Welcome {
            version: VERSION,
            identity,
            namespace,
            session: session.0,
            features: hello.features.into_iter().filter(|name| FEATURES.contains(&&**name)).collect(),
            limits: peer_limits(),
            now: translate::time(now.wall),
            software: Some(self.settings.software.clone()),
            leader: self.leader_address(),
            members: self.member_addresses(),
            group: self.group_name(),
            machine: machine(),
            local_address: ends.map(|ends| end_name(ends.local)),
            remote_address: ends.map(|ends| end_name(ends.remote)),
        };
        answer(number, &Reply::Welcome(Box::new(welcome)), turn);
        Ok(())
    }
}

/// The refusal of a peer that speaks only older versions.
pub(crate) fn bad_version() -> tenure_wire::Refusal {
    let message = "client and broker have no protocol version in common";
    tenure_wire::Refusal { versions: vec![VERSION], ..tenure_wire::Refusal::new(Code::BadVersion, message) }
}

/// The refusal of a peer without a valid key.
pub(crate) fn not_admitted(no: &LoginError) -> tenure_wire::Refusal {
    tenure_wire::Refusal {
        what: Some("come in".into()),
        ..tenure_wire::Refusal::new(Code::NotAllowed, no.to_string())
    }
}

/// The limits of this broker, for the welcome.
pub(crate) fn peer_limits() -> PeerLimits {
    PeerLimits {
        frame_bytes: FRAME_BYTES_MAX as u64,
        entries: MANY_MAX as u64,
        body_bytes: BODY_BYTES_MAX as u64,
        open_requests: SESSION_REQUESTS_MAX as u64,
    }
}

/// Optional parts of the protocol that this broker supports.
const FEATURES: [&str; 1] = [FEATURE_ACKNOWLEDGE];

fn check_roles(grant: &Grant, roles: &[Role]) -> Result<(), HubRefusal> {
    if roles.iter().any(|role| matches!(role, Role::Other(_))) {
        return Err(Refusal::BadValue { what: "role", why: "is neither `client` nor `worker`" }.into());
    }
    if roles.contains(&Role::Worker) {
        grant.rights.check(Needs::Right(Right::Work))?;
    }
    if roles.contains(&Role::Client) && grant.rights == Rights::of(&[Right::Work]) {
        return grant.rights.check(Needs::Right(Right::Submit));
    }
    Ok(())
}
