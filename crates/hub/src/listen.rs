//! Listening sockets of the doors. Without keys, doors listen on loopback only.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::net::TcpListener;

/// Why a door cannot listen.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{door}: {address} is not an address: write HOST:PORT, a port of 0 for any, or off")]
    BadAddress { door: &'static str, address: String },
    #[error(
        "{door}: {address} can be reached from other machines, and no keys are set: add keys, or listen on 127.0.0.1"
    )]
    NeedsKeys { door: &'static str, address: SocketAddr },
    #[error(
        "{door}: {address} is taken by another program: stop it, or choose another address with --{door}"
    )]
    Taken { door: &'static str, address: SocketAddr },
    #[error("{door}: cannot listen on {address}")]
    Io { door: &'static str, address: SocketAddr, source: io::Error },
}

/// Opens a door's TCP address. `has_keys` says whether peers have to present a key.
pub async fn listen(door: &'static str, address: &str, has_keys: bool) -> Result<TcpListener, ListenError> {
    let bad = || ListenError::BadAddress { door, address: address.to_owned() };
    let address = address.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(bad)?;
    if !has_keys && !address.ip().is_loopback() {
        return Err(ListenError::NeedsKeys { door, address });
    }
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken { door, address },
        _ => ListenError::Io { door, address, source },
    })
}
