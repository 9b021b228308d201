//! Majordomo: the frames of its three dialects as typed messages, and back.
//!
//! All dialects arrive on one ROUTER. An empty first frame and the header distinguish them, and the door answers
//! every peer in its own dialect. The words here are Majordomo's own (service, request, reply); `translate`
//! converts them into the broker's.

mod address;
mod cbor;
mod client;
mod dialect;
mod error;
mod mmi;
mod notice;
mod params;
mod registration;
mod stats;
mod timestamp;
mod worker;

use bytes::Bytes;
use tenure_hub::words::check_name;

pub use address::MdpAddress;
pub use client::{ClientRequest, ReturnPath, is_mmi};
pub use dialect::MdpDialect;
pub use error::MdpError;
pub use mmi::{Mmi, MmiWorkerHealth, Notify, PendingCall, RunningCall, WorkerThread};
pub(crate) use notice::encode as encode_notices;
pub use notice::{NOTICE_JOBS_MAX, Notice, NoticeJob, NoticeKind, SlotStyle};
pub use params::{KeyTable, MdpCall, PARAMS_BYTES_MAX, expand, for_worker, text_parameter};
pub use registration::{MdpRegistration, PLUGIN_BYTES_MAX, PLUGINS_MAX, Plugin, THREADS_MAX};
pub use stats::MdpStats;
pub use timestamp::iso8601;
pub use worker::{ToWorker, WorkerMessage};

/// Maximum number of routing frames before a client's empty frame: a REQ socket that correlates its replies adds one,
/// and so does every proxy on the way.
pub const ROUTE_FRAMES_MAX: usize = 4;

/// The longest service name.
pub const SERVICE_BYTES_MAX: usize = 255;

/// A message from a peer, by who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromPeer {
    Client(ClientRequest),
    Worker { dialect: MdpDialect, message: WorkerMessage },
}

/// Parses one message. An invalid one is refused by name; the caller drops and counts it.
pub fn parse(mut frames: Vec<Bytes>) -> Result<FromPeer, MdpError> {
    match frames.first().ok_or(MdpError::Empty)?.as_ref() {
        b"MDPC02" => client::parse(MdpDialect::V2, Vec::new(), frames.split_off(1)).map(FromPeer::Client),
        b"MDPW02" => worker_message(MdpDialect::V2, &frames[1..]),
        _ => parse_delimited(frames),
    }
}

/// Parses a message of a dialect with an empty frame before its header. Only clients may have frames before it.
fn parse_delimited(mut route: Vec<Bytes>) -> Result<FromPeer, MdpError> {
    let delimiter =
        route.iter().take(ROUTE_FRAMES_MAX + 1).position(Bytes::is_empty).ok_or(MdpError::UnknownHeader)?;
    let mut frames = route.split_off(delimiter + 1);
    route.truncate(delimiter);
    if frames.is_empty() {
        return Err(MdpError::UnknownHeader);
    }
    let header = frames.remove(0);
    let is_direct = route.is_empty();
    match header.as_ref() {
        b"MDPC01" => client::parse(MdpDialect::V1, route, frames).map(FromPeer::Client),
        b"MDPC02" => client::parse(MdpDialect::V2Delimited, route, frames).map(FromPeer::Client),
        b"MDPC01_PL" => client::parse(MdpDialect::Pl, route, frames).map(FromPeer::Client),
        b"MDPW01" if is_direct => worker_message(MdpDialect::V1, &frames),
        b"MDPW02" if is_direct => worker_message(MdpDialect::V2Delimited, &frames),
        b"MDPW01_PL" if is_direct => worker_message(MdpDialect::Pl, &frames),
        _ => Err(MdpError::UnknownHeader),
    }
}

fn worker_message(dialect: MdpDialect, frames: &[Bytes]) -> Result<FromPeer, MdpError> {
    worker::parse(dialect, frames).map(|message| FromPeer::Worker { dialect, message })
}

/// A service name: printable, not empty, not too long.
fn service_name(frame: &Bytes) -> Result<String, MdpError> {
    let text = std::str::from_utf8(frame).map_err(|_| MdpError::ServiceName)?;
    if text.len() > SERVICE_BYTES_MAX || check_name("service", text).is_err() {
        return Err(MdpError::ServiceName);
    }
    Ok(text.to_owned())
}

/// Whether the whole of a frame is a decimal number that fits.
fn decimal<N: std::str::FromStr>(frame: &Bytes) -> Option<N> {
    std::str::from_utf8(frame).ok()?.trim().parse().ok()
}

/// Parses a message as far as possible without a broker, for fuzzing.
pub(crate) fn probe(frames: Vec<Bytes>) {
    for frame in &frames {
        let _ = MdpAddress::parse(frame);
        let _ = for_worker(frame, &MdpCall { thread: 0, client: "c", job: "j", attempt: 1 });
    }
    if let Ok(FromPeer::Client(request)) = parse(frames) {
        if is_mmi(&request.service) {
            let _ = Mmi::parse(&request.service, &request.body);
        }
        if let [table, calls @ ..] = &request.body[..]
            && let Ok(table) = KeyTable::parse(table)
        {
            for call in calls {
                let _ = expand(call, &table);
            }
        }
    }
}
