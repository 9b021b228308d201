//! The sockets: each connection runs the kit's loop around a session of its dialect.

mod standby;

use std::io;
use std::sync::Arc;

use tenure_door_kit::{Connection, Door, DoorListener, DoorStream, Protocol};
use tenure_hub::{Counters, HubHandle};
use tokio::net::TcpListener;

use crate::session::Session;
use crate::settings::Settings;

pub use standby::NativeStandby;

/// Serves the native protocol over TCP until the hub stops, then waits for the connections to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    serve_with("native", DoorListener::Tcp(listener), hub, settings, Session::new).await
}

/// The same on a Unix socket.
#[cfg(unix)]
pub async fn serve_unix(
    listener: tokio::net::UnixListener,
    hub: HubHandle,
    settings: Settings,
) -> io::Result<()> {
    serve_with("native_unix", DoorListener::Unix(listener), hub, settings, Session::new).await
}

/// Serves any dialect.
pub(crate) async fn serve_with<P: Protocol + Send + 'static>(
    name: &'static str,
    listener: DoorListener,
    hub: HubHandle,
    settings: Settings,
    begin: fn(Arc<Settings>) -> P,
) -> io::Result<()> {
    let counters = Arc::new(Counters::new(name));
    hub.show(Arc::clone(&counters)).await;
    let door = Door::new(name, hub, settings.door.clone(), counters);
    let door = Arc::new(Door { speaks_first: P::SPEAKS_FIRST, ..door });
    let (settings, shared) = (Arc::new(settings), Arc::clone(&door));
    let serve = move |stream: DoorStream, address, login_by| {
        let (settings, door) = (Arc::clone(&settings), Arc::clone(&shared));
        async move {
            let connection = Connection::new(begin(settings), door, address);
            let connection = connection.with_ends(stream.ends()).with_login_by(login_by);
            let (read, write) = stream.into_split();
            if let Err(error) = connection.run(read, write).await {
                tracing::debug!(door = name, %error, "a connection broke");
            }
        }
    };
    door.accept(listener, serve).await;
    Ok(())
}
