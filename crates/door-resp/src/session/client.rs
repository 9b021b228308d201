//! What a client library reports about itself.

use std::net::IpAddr;

#[derive(Debug)]
pub(super) struct ClientInfo {
    /// The number of the connection.
    pub(super) id: u64,
    pub(super) address: IpAddr,
    pub(super) name: Option<String>,
    /// The name and the version of the library.
    pub(super) library: [Option<String>; 2],
    /// It has sent a Redis library's greeting, so it expects Redis replies.
    pub(super) is_library: bool,
}

impl ClientInfo {
    pub(super) fn new(id: u64, address: IpAddr) -> Self {
        Self { id, address, name: None, library: [None, None], is_library: false }
    }
}
