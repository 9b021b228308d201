//! Requests of clients, and the replies.

use bytes::Bytes;

use super::notice::{self, Notice, SlotStyle};
use super::{MdpDialect, MdpError, service_name};

/// A request from a client: a job for a service, or a question to the broker (`mmi.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    pub path: ReturnPath,
    pub service: String,
    pub body: Vec<Bytes>,
}

/// The return path to a client: its dialect and the routing frames that it (or a proxy) put in front.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReturnPath {
    pub dialect: MdpDialect,
    pub route: Vec<Bytes>,
}

/// Whether a service name belongs to the broker itself.
pub fn is_mmi(service: &str) -> bool {
    service.starts_with("mmi.")
}

/// MDP/0.2 also numbers the client's commands.
const REQUEST: &[u8] = &[1];
const PARTIAL: &[u8] = &[2];
const FINAL: &[u8] = &[3];
/// Some of its implementations use one set of numbers, the worker's.
const RENUMBERED_REQUEST: &[u8] = &[2];
const RENUMBERED_PARTIAL: &[u8] = &[3];
const RENUMBERED_FINAL: &[u8] = &[4];

/// Reads what follows the header.
pub(super) fn parse(
    mut dialect: MdpDialect,
    route: Vec<Bytes>,
    mut frames: Vec<Bytes>,
) -> Result<ClientRequest, MdpError> {
    if dialect.has_parts() {
        match (frames.first().ok_or(MdpError::FrameCount)?.as_ref(), dialect) {
            (REQUEST, _) => {}
            (RENUMBERED_REQUEST, MdpDialect::V2Delimited) => dialect = MdpDialect::V2Renumbered,
            (PARTIAL | FINAL, _) => return Err(MdpError::NotForBroker),
            _ => return Err(MdpError::UnknownCommand),
        }
        frames.remove(0);
    }
    let service = service_name(frames.first().ok_or(MdpError::FrameCount)?)?;
    let body = frames.split_off(1);
    if body.is_empty() && !is_mmi(&service) {
        return Err(MdpError::FrameCount);
    }
    Ok(ClientRequest { path: ReturnPath { dialect, route }, service, body })
}

impl ReturnPath {
    /// The answer to a job. `_PL` clients expect an empty service slot.
    pub fn reply(&self, service: &str, body: &[Bytes]) -> Vec<Bytes> {
        match self.dialect {
            MdpDialect::V1 => self.frames(None, service.as_bytes(), body),
            MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered => {
                self.frames(self.last(), service.as_bytes(), body)
            }
            MdpDialect::Pl => self.frames(None, b"", body),
        }
    }

    /// A part of the reply. Only MDP/0.2 has partial replies.
    pub fn partial(&self, service: &str, body: &[Bytes]) -> Option<Vec<Bytes>> {
        self.part().map(|part| self.frames(Some(part), service.as_bytes(), body))
    }

    /// The broker's own reply to a `mmi.*` request, in every dialect with the requested name.
    pub fn mmi_reply(&self, service: &str, body: &[Bytes]) -> Vec<Bytes> {
        self.frames(self.last(), service.as_bytes(), body)
    }

    /// A notice about as many jobs as the slice holds. In MDP/0.2 it is a partial reply, the only message that a
    /// client must accept at any time.
    pub fn notice(&self, style: SlotStyle, notices: &[Notice]) -> Vec<Bytes> {
        let slot = notices.first().map_or(&b""[..], |first| style.slot(first.kind));
        self.frames(self.part(), slot, &[notice::encode(notices)])
    }

    /// The command before a part of a reply, if the dialect has one.
    fn part(&self) -> Option<&'static [u8]> {
        match self.dialect {
            MdpDialect::V1 | MdpDialect::Pl => None,
            MdpDialect::V2 | MdpDialect::V2Delimited => Some(PARTIAL),
            MdpDialect::V2Renumbered => Some(RENUMBERED_PARTIAL),
        }
    }

    /// The command before a reply or its last part, if the dialect has one.
    fn last(&self) -> Option<&'static [u8]> {
        match self.dialect {
            MdpDialect::V1 | MdpDialect::Pl => None,
            MdpDialect::V2 | MdpDialect::V2Delimited => Some(FINAL),
            MdpDialect::V2Renumbered => Some(RENUMBERED_FINAL),
        }
    }

    fn frames(&self, command: Option<&'static [u8]>, service: &[u8], body: &[Bytes]) -> Vec<Bytes> {
        let mut frames = Vec::with_capacity(self.route.len() + 4 + body.len());
        frames.extend_from_slice(&self.route);
        if self.dialect.is_delimited() {
            frames.push(Bytes::new());
        }
        frames.push(Bytes::from_static(self.dialect.client_header()));
        frames.extend(command.map(Bytes::from_static));
        if self.dialect.names_service() {
            frames.push(Bytes::copy_from_slice(service));
        }
        frames.extend_from_slice(body);
        frames
    }
}
