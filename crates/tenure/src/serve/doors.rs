//! The doors: one entry each, with its address and how it is opened.

use std::fs::{DirBuilder, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::pin::Pin;

#[cfg(feature = "grpc")]
use tenure_door_grpc as grpc;
#[cfg(feature = "http")]
use tenure_door_http as http;
use tenure_door_kit::{
    ByteBudget, Connections, Descriptors, DoorListener, DoorSettings, Tls, TlsFault, duplicate_tcp,
    raise_descriptor_limit,
};
use tenure_door_msgpack as msgpack;
#[cfg(feature = "resp")]
use tenure_door_resp as resp;
#[cfg(feature = "zmq")]
use tenure_door_zmq as zmq;
use tenure_hub::{HubHandle, ListenError, listen};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use crate::config::{Config, TlsFiles};
use crate::exit::Failure;

type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A door whose address is open, and that does not answer yet.
pub(crate) struct Door {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    pub(crate) about: &'static str,
    /// Whether other machines can reach it and it does not use TLS.
    crosses_in_clear: bool,
    serve: Box<dyn FnOnce(HubHandle) -> Serving + Send>,
}

impl Door {
    /// Answers from now on, until the hub stops.
    pub(crate) fn serve(self, hub: HubHandle) -> JoinHandle<()> {
        let Door { name, serve, .. } = self;
        tokio::spawn(async move {
            if let Err(error) = serve(hub).await {
                tracing::error!(door = name, %error, "the door has closed; restart the broker to open it again");
            }
        })
    }
}

/// Listening sockets that outlive the doors on them: in a group, doors begin and end with each leadership.
#[derive(Debug, Default)]
pub(crate) struct BoundDoors {
    listeners: Vec<BoundDoor>,
}

#[derive(Debug)]
pub(crate) struct BoundDoor {
    pub(crate) name: &'static str,
    /// The name under which a group advertises it.
    pub(crate) advertised: &'static str,
    pub(crate) listener: DoorListener,
}

impl BoundDoors {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BoundDoor> {
        self.listeners.iter()
    }

    fn get(&self, advertised: &str) -> Option<&DoorListener> {
        self.listeners.iter().find(|door| door.advertised == advertised).map(|door| &door.listener)
    }
}

/// Opens every door that is not off, with settings that all doors share, on sockets that stay open as long as they are
/// bound. Those that are not open yet are opened. Peers that come at once wait until the hub runs.
pub(crate) async fn open_with(
    config: &Config,
    has_keys: bool,
    plain: DoorSettings,
    bound: Option<&mut BoundDoors>,
) -> Result<Vec<Door>, Failure> {
    let tls = tls(config)?;
    let with_tls = DoorSettings { tls: tls[0].clone(), ..plain.clone() };
    let mut opening = Opening { has_keys, doors: Vec::new(), bound };
    if let Some(address) = &config.doors.native {
        let settings = msgpack::Settings { door: with_tls.clone(), ..msgpack::Settings::default() };
        let serve = |listener, hub| msgpack::serve(listener, hub, settings);
        let about = "MessagePack: this program's verbs and the SDKs";
        opening.tcp("native", address, about, &with_tls, serve).await?;
    }
    if let Some(path) = &config.doors.native_unix {
        let settings = msgpack::Settings { door: plain.clone(), ..msgpack::Settings::default() };
        opening.unix("native_unix", path, "the same on a Unix socket", settings)?;
    }
    if let Some(address) = &config.doors.xmessage {
        let xmessage = config.xmessage.clone();
        let settings = msgpack::Settings { door: plain.clone(), xmessage, ..msgpack::Settings::default() };
        let serve = |listener, hub| msgpack::xmessage::serve(listener, hub, settings);
        opening.tcp("xmessage", address, "the older message dialect", &plain, serve).await?;
    }
    #[cfg(feature = "resp")]
    if let Some(address) = &config.doors.resp {
        let door = config.resp.door.with_shared(&with_tls);
        let settings = resp::Settings { door, ..config.resp.clone() };
        let serve = |listener, hub| resp::serve(listener, hub, settings);
        opening.tcp("resp", address, "RESP: redis-cli and Redis libraries", &with_tls, serve).await?;
    }
    #[cfg(feature = "zmq")]
    if let Some(address) = &config.doors.mdp {
        let mut settings = config.majordomo.clone();
        settings.transport.door = settings.transport.door.with_shared(&plain);
        let serve = |listener, hub| zmq::serve(listener, hub, settings);
        opening.tcp("mdp", address, "ZeroMQ Majordomo", &plain, serve).await?;
    }
    #[cfg(feature = "zmq")]
    if let Some(addresses) = &config.doors.pingpong {
        let mut settings = config.ping_pong.clone();
        settings.transport.door = settings.transport.door.with_shared(&plain);
        let serve = |clients, workers, hub| zmq::serve_ping_pong(clients, workers, hub, settings);
        opening.two_tcp("pingpong", addresses, "ZeroMQ READY/PING/PONG: clients, workers", serve).await?;
    }
    #[cfg(feature = "grpc")]
    if let Some(address) = &config.doors.grpc {
        let door = DoorSettings { tls: tls[1].clone(), ..plain };
        let settings = grpc::Settings { door: door.clone(), ..grpc::Settings::default() };
        let serve = |listener, hub| grpc::serve(listener, hub, settings);
        opening.tcp("grpc", address, "gRPC: tasks, workers, pub/sub", &door, serve).await?;
    }
    #[cfg(feature = "http")]
    if let Some(address) = &config.doors.http {
        let settings = http::Settings { door: with_tls.clone(), ..config.http.clone() };
        let serve = |listener, hub| http::serve(listener, hub, settings);
        opening.tcp("http", address, "HTTP: dashboard, JSON API, metrics", &with_tls, serve).await?;
    }
    if opening.doors.is_empty() {
        return Err(Failure::usage(
            "all doors are off: turn on at least one, such as --native 127.0.0.1:7171",
        ));
    }
    warn_of_clear_text(&opening.doors);
    Ok(opening.doors)
}

/// The certificates of the TLS doors: of the native and RESP doors, and of the gRPC door, which may have its own.
pub(crate) fn tls(config: &Config) -> Result<[Option<Tls>; 2], Failure> {
    let shared = config.tls.as_ref().map(read_tls).transpose()?;
    let of_grpc = config.grpc_tls.as_ref().map(read_tls).transpose()?;
    Ok([shared.clone(), of_grpc.or(shared)])
}

/// Reads the files and sees whether they can be used: else the door would be closed behind an address that looks open.
fn read_tls(files: &TlsFiles) -> Result<Tls, Failure> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Failure::system(format!("TLS: cannot read {}: {error}", path.display())))
    };
    let authority = files.client_authority.as_deref().map(read).transpose()?;
    let (certificate, key) = (read(&files.certificate)?, Zeroizing::new(read(&files.key)?));
    Tls::new(&certificate, &key, authority.as_deref()).map_err(|fault| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        Failure::system(match fault {
            TlsFault::Certificate => format!("TLS: {certificate} {fault}: see tls_cert"),
            TlsFault::Key => format!("TLS: {key} {fault}: see tls_key"),
            TlsFault::ClientAuthority(_) => {
                let authority = files.client_authority.as_deref().unwrap_or(Path::new("")).display();
                format!("TLS: {authority} {fault}: see tls_client_ca")
            }
            TlsFault::Pair(why) => {
                format!("TLS: the certificate {certificate} cannot be used with the key {key}: {why}")
            }
        })
    })
}

/// The parts that all doors share: the descriptors and the memory of their connections.
pub(crate) fn shared_settings(config: &Config) -> DoorSettings {
    let Descriptors { limit, connections_max } = raise_descriptor_limit();
    tracing::info!(descriptors = limit, connections_max, "connections are limited by file descriptors");
    DoorSettings {
        connections_per_address_max: config.connections_per_address_max,
        connections: Connections::new(connections_max),
        budget: ByteBudget::new(config.buffer_bytes_max),
        ..DoorSettings::default()
    }
}

/// Says what crosses the network in clear: keys, bodies and results of doors without TLS that other machines can reach.
fn warn_of_clear_text(doors: &[Door]) {
    for door in doors.iter().filter(|door| door.crosses_in_clear) {
        tracing::warn!(
            door = door.name,
            address = door.address,
            "this door has no TLS: keys, bodies and results cross the network in clear text; set tls_cert and tls_key, \
             or put the door behind an encrypted tunnel"
        );
    }
}

/// Takes away what doors leave behind in the file system.
pub(crate) fn leave(config: &Config) {
    if let Some(path) = &config.doors.native_unix {
        let _ = std::fs::remove_file(path);
    }
}

struct Opening<'a> {
    has_keys: bool,
    doors: Vec<Door>,
    bound: Option<&'a mut BoundDoors>,
}

impl Opening<'_> {
    /// A listener on the socket that is open already, or on a new one.
    async fn listener(
        &mut self,
        name: &'static str,
        advertised: &'static str,
        address: &str,
    ) -> Result<TcpListener, Failure> {
        if let Some(DoorListener::Tcp(listener)) = self.bound.as_ref().and_then(|bound| bound.get(advertised))
        {
            return Ok(duplicate_tcp(listener)?);
        }
        let listener = listen(name, address, self.has_keys).await.map_err(|error| explain(&error))?;
        if let Some(bound) = &mut self.bound {
            let duplicate = DoorListener::Tcp(duplicate_tcp(&listener)?);
            bound.listeners.push(BoundDoor { name, advertised, listener: duplicate });
        }
        Ok(listener)
    }

    async fn tcp<F>(
        &mut self,
        name: &'static str,
        address: &str,
        about: &'static str,
        settings: &DoorSettings,
        serve: impl FnOnce(TcpListener, HubHandle) -> F + Send + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = self.listener(name, name, address).await?;
        let address = listener.local_addr()?;
        let crosses_in_clear = !address.ip().is_loopback() && !settings.speaks_tls();
        let serve = Box::new(move |hub| Box::pin(serve(listener, hub)) as Serving);
        self.doors.push(Door { name, address: address.to_string(), about, crosses_in_clear, serve });
        Ok(())
    }

    #[cfg(feature = "zmq")]
    async fn two_tcp<F>(
        &mut self,
        name: &'static str,
        (first, second): &(String, String),
        about: &'static str,
        serve: impl FnOnce(TcpListener, TcpListener, HubHandle) -> F + Send + 'static,
    ) -> Result<(), Failure>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let first = self.listener(name, name, first).await?;
        let second = self.listener(name, "pingpong_workers", second).await?;
        let addresses = [first.local_addr()?, second.local_addr()?];
        let crosses_in_clear = addresses.iter().any(|address| !address.ip().is_loopback());
        let address = addresses.map(|address| address.to_string()).join(",");
        let serve = Box::new(move |hub| Box::pin(serve(first, second, hub)) as Serving);
        self.doors.push(Door { name, address, about, crosses_in_clear, serve });
        Ok(())
    }

    fn unix(
        &mut self,
        name: &'static str,
        path: &Path,
        about: &'static str,
        settings: msgpack::Settings,
    ) -> Result<(), Failure> {
        let shown = path.display().to_string();
        if let Some(bound @ DoorListener::Unix(_)) = self.bound.as_ref().and_then(|bound| bound.get(name))
            && let DoorListener::Unix(listener) = bound.duplicate()?
        {
            self.add_unix(name, &shown, about, listener, settings);
            return Ok(());
        }
        // A socket file outlives its broker. The data directory is locked by now, but the path may be another's.
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(Failure::system(format!(
                "{name}: {shown} is in use: choose another path with --native-unix"
            )));
        }
        let is_socket = std::fs::symlink_metadata(path)
            .is_ok_and(|metadata| std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()));
        if is_socket {
            std::fs::remove_file(path)?;
        }
        let listener = bind_private(path)
            .map_err(|error| Failure::system(format!("{name}: cannot listen on {shown}: {error}")))?;
        if let Some(bound) = &mut self.bound {
            let kept = DoorListener::Unix(listener);
            let DoorListener::Unix(listener) = kept.duplicate()? else { unreachable!("of the same kind") };
            bound.listeners.push(BoundDoor { name, advertised: name, listener: kept });
            self.add_unix(name, &shown, about, listener, settings);
            return Ok(());
        }
        self.add_unix(name, &shown, about, listener, settings);
        Ok(())
    }

    fn add_unix(
        &mut self,
        name: &'static str,
        shown: &str,
        about: &'static str,
        listener: UnixListener,
        settings: msgpack::Settings,
    ) {
        let serve = |hub| Box::pin(msgpack::serve_unix(listener, hub, settings)) as Serving;
        let address = format!("unix:{shown}");
        self.doors.push(Door { name, address, about, crosses_in_clear: false, serve: Box::new(serve) });
    }
}

/// The socket is for the broker's user and group: without keys, every process that can connect may do everything.
const SOCKET_MODE: u32 = 0o660;
/// The longest path of a socket's address.
const SOCKET_PATH_MAX: usize = 107;

/// Binds a socket that no other user can connect to, not even between its creation and the change of its permissions:
/// it is created in a private directory and then moved.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let within = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let making = within.join(format!(".tenure-socket-{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&making)?;
    let made = making.join("s");
    if made.as_os_str().len() > SOCKET_PATH_MAX {
        let _ = std::fs::remove_dir(&making);
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
        return Ok(listener);
    }
    let bound = UnixListener::bind(&made).and_then(|listener| {
        std::fs::set_permissions(&made, Permissions::from_mode(SOCKET_MODE))?;
        std::fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = std::fs::remove_file(&made);
    let _ = std::fs::remove_dir(&making);
    bound
}

fn explain(error: &ListenError) -> Failure {
    match error {
        ListenError::BadAddress { .. } | ListenError::NeedsKeys { .. } => Failure::usage(error.to_string()),
        ListenError::Taken { .. } => Failure::system(error.to_string()),
        ListenError::Io { source, .. } => Failure::system(format!("{error}: {source}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_the_user_and_the_group_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broker.sock");
        let _listener = bind_private(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_named() {
        let files = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../door-grpc/tests/tls"));
        let [certificate, key, other] =
            ["certificate.pem", "key.pem", "other_key.pem"].map(|name| files.join(name));
        let files = |certificate: &Path, key: &Path| TlsFiles {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            client_authority: None,
        };
        assert!(read_tls(&files(&certificate, &key)).is_ok());
        let fault =
            |certificate, key| read_tls(&files(certificate, key)).expect_err("it is refused").to_string();
        let said = fault(&certificate, &other);
        assert!(said.contains("certificate.pem") && said.contains("other_key.pem"), "{said}");
        let said = fault(&key, &certificate);
        assert!(said.contains("/key.pem contains no PEM certificate"), "{said}");
    }
}
