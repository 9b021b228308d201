//! Peers of a few lines each, one for every protocol, on plain sockets.

mod grpc;
mod http;
mod message_pack;
mod resp;
pub(crate) mod zmtp;

pub(crate) use grpc::{Grpc, HEADERS, call, calls};
pub(crate) use http::{HttpAnswer, http};
pub(crate) use message_pack::{MessagePack, frame};
pub(crate) use resp::Resp;

use crate::support::Broker;

/// Every door, on a free port each.
pub(crate) const ALL_DOORS: [&str; 12] = [
    "--xmessage",
    "127.0.0.1:0",
    "--resp",
    "127.0.0.1:0",
    "--mdp",
    "127.0.0.1:0",
    "--pingpong",
    "127.0.0.1:0,127.0.0.1:0",
    "--grpc",
    "127.0.0.1:0",
    "--http",
    "127.0.0.1:0",
];

/// Where a door listens.
pub(crate) fn address<'a>(broker: &'a Broker, door: &str) -> &'a str {
    broker.doors[door].as_str().unwrap_or_else(|| panic!("{door} is open"))
}
