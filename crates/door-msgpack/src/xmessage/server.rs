//! The dialect's socket. It is served like the native protocol, with another session.

use std::io;

use tenure_door_kit::DoorListener;
use tenure_hub::HubHandle;
use tokio::net::TcpListener;

use super::session::Session;
use crate::server::serve_with;
use crate::settings::Settings;

/// The default port of this dialect.
pub const DEFAULT_PORT: u16 = 5677;

/// Serves until the hub stops, then waits for the connections to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    serve_with("xmessage", DoorListener::Tcp(listener), hub, settings, Session::new).await
}
