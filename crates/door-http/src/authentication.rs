//! Authentication: which key, namespace and identity a request has.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tenure_hub::words::{Name, Refusal};
use tenure_hub::{ClockReading, HubHandle, Needs, Principal, Session, TopicAct};

use crate::codec::QueryString;
use crate::dashboard;
use crate::problem::ProblemDetails;
use crate::server::{HttpConnection, HttpDoor};
use crate::translate;

const NAMESPACE: &str = "tenure-namespace";
const IDENTITY: &str = "tenure-identity";
/// How long a namespace or identity may be.
const NAME_BYTES_MAX: usize = 255;

/// An authenticated peer.
#[derive(Clone, Debug)]
pub(crate) struct HttpPeer {
    pub(crate) hub: HubHandle,
    pub(crate) principal: Principal,
    pub(crate) namespace: Name,
    /// The name under which its submissions can be watched.
    pub(crate) identity: Name,
    /// The door refuses requests that change something.
    pub(crate) is_read_only: bool,
}

impl HttpPeer {
    /// Checks the key of a request, or the cookie of a browser that has logged in.
    pub(crate) fn enter(
        http: &HttpDoor,
        connection: &HttpConnection,
        headers: &HeaderMap,
        query: &QueryString,
    ) -> Result<HttpPeer, ProblemDetails> {
        let door = &http.door;
        let key = bearer(headers)?;
        // Browsers cannot add header fields to every request, so the query string may name the namespace as well.
        let asked = name(headers, NAMESPACE)?.or(query.namespace()?);
        if key.is_none()
            && let Some(grant) =
                http.logins.find(ClockReading::now(), headers, |grant| door.hub.is_current(grant))
        {
            connection.login.admit();
            let principal =
                Principal { grant, door: door.name, address: connection.address, is_broker: false };
            return HttpPeer::of(http, principal, headers, asked.map(Name::from));
        }
        let login = door.authenticator.login(ClockReading::now(), connection.address, key.map(str::as_bytes));
        let principal = login.map_err(ProblemDetails::not_admitted)?;
        connection.login.admit();
        HttpPeer::of(http, principal, headers, asked.map(Name::from))
    }

    /// The peer of a principal that is let in, in the namespace that the request names.
    fn of(
        http: &HttpDoor,
        principal: Principal,
        headers: &HeaderMap,
        asked: Option<Name>,
    ) -> Result<HttpPeer, ProblemDetails> {
        let door = &http.door;
        let asked = asked.or_else(|| dashboard::chosen_namespace(headers, &principal.grant));
        let namespace = principal.grant.namespace_for(asked).map_err(|no| {
            if let Some(audit) = door.hub.audit() {
                audit.refused(&principal, None, "connect", &no);
            }
            translate::problem(&no)
        })?;
        // Most requests stand alone, so an identity invented for each would be useless.
        let identity = name(headers, IDENTITY)?.map_or_else(|| principal.grant.name.clone(), Name::from);
        let is_read_only = http.settings.read_only;
        Ok(HttpPeer { hub: door.hub.clone(), principal, namespace, identity, is_read_only })
    }

    /// Opens a session with the hub.
    pub(crate) fn open(&self) -> Result<Session, ProblemDetails> {
        self.hub
            .open(self.principal.clone(), self.namespace.clone(), self.identity.clone())
            .map_err(|no| translate::problem(&no))
    }

    /// Whether a session of the other serves this one as well.
    pub(crate) fn is_same(&self, other: &HttpPeer) -> bool {
        self.principal.grant == other.principal.grant
            && self.principal.is_broker == other.principal.is_broker
            && self.namespace == other.namespace
            && self.identity == other.identity
    }

    /// The same peer for a question about the broker as a whole, whose namespace does not matter.
    pub(crate) fn about_broker(&self) -> HttpPeer {
        let mut peer = self.clone();
        peer.principal.is_broker = true;
        peer
    }

    /// Whether it may do this with topics, which the hub does not check.
    pub(crate) fn may(&self, act: TopicAct) -> Result<(), ProblemDetails> {
        self.check(act.as_str(), act.needs())?;
        let placed = self.hub.check_placement(self.principal.door, &self.namespace);
        placed.map_err(|no| translate::problem(&no))
    }

    pub(crate) fn check(&self, act: &'static str, needs: Needs) -> Result<(), ProblemDetails> {
        self.principal.grant.rights.check(needs).map_err(|no| {
            if let Some(audit) = self.hub.audit() {
                audit.refused(&self.principal, Some(&self.namespace), act, &no);
            }
            translate::problem(&no)
        })
    }
}

/// The key, if there is one. The scheme before it is case-insensitive.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ProblemDetails> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let not_a_key = || ProblemDetails::unauthenticated("this is not how a key is sent");
    match value.to_str().map_err(|_| not_a_key())?.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(key.trim())),
        _ => Err(not_a_key()),
    }
}

/// A name in a header field: visible ASCII, not empty.
fn name<'a>(headers: &'a HeaderMap, field: &'static str) -> Result<Option<&'a str>, ProblemDetails> {
    let Some(value) = headers.get(field) else { return Ok(None) };
    let why = match value.to_str() {
        Err(_) => "contains characters other than visible ASCII",
        Ok("") => "is empty",
        Ok(long) if long.len() > NAME_BYTES_MAX => "is longer than 255 bytes",
        Ok(text) => return Ok(Some(text)),
    };
    Err(translate::problem(&Refusal::BadName { what: field, why }))
}
