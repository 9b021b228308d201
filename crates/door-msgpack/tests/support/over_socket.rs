//! A real hub behind a real socket, with its disk in memory. Peers are plain blocking sockets.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::{Hub, HubHandle, Keys};
use tenure_wire::value::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::{Heard, Stage, WaitFor};

/// How long a peer waits for something to arrive. Only what does not come takes so long.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long it waits for more, once something has arrived.
const GATHERING: Duration = Duration::from_millis(10);

/// How long something that is not answered takes at most to be heard.
const SETTLING: Duration = Duration::from_millis(100);

pub(crate) struct SocketStage {
    pub(crate) address: SocketAddr,
    pub(crate) hub: HubHandle,
    runtime: Option<Runtime>,
    peers: BTreeMap<String, Peer>,
}

struct Peer {
    stream: TcpStream,
    arrived: BytesMut,
    closed: bool,
}

impl SocketStage {
    /// `serve` starts the door on the listener.
    pub(crate) fn new<F: Future<Output = std::io::Result<()>> + Send + 'static>(
        serve: impl FnOnce(TcpListener, HubHandle) -> F,
    ) -> SocketStage {
        SocketStage::on(Arc::new(MemoryDisk::new()), serve)
    }

    /// The same on a disk that may have been used before.
    pub(crate) fn on<F: Future<Output = std::io::Result<()>> + Send + 'static>(
        disk: Arc<MemoryDisk>,
        serve: impl FnOnce(TcpListener, HubHandle) -> F,
    ) -> SocketStage {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (hub, address) = runtime.block_on(async {
            let hub =
                Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let handle = hub.handle().clone();
            tokio::spawn(serve(listener, handle.clone()));
            tokio::spawn(hub.ended());
            (handle, address)
        });
        SocketStage { address, hub, runtime: Some(runtime), peers: BTreeMap::new() }
    }

    /// The broker dies in the middle of whatever it does.
    pub(crate) fn kill(mut self) {
        self.peers.clear();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_millis(500));
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn peer(&mut self, name: &str) -> &mut Peer {
        if !self.peers.contains_key(name) {
            let peer = Peer { stream: self.connect(), arrived: BytesMut::new(), closed: false };
            self.peers.insert(name.to_owned(), peer);
        }
        self.peers.get_mut(name).unwrap()
    }
}

impl Drop for SocketStage {
    fn drop(&mut self) {
        self.peers.clear();
        self.hub.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
    }
}

impl Stage for SocketStage {
    fn say(&mut self, name: &str, bytes: &[u8]) {
        // The broker may have closed the connection already; what it said before that is still to be heard.
        let _ = self.peer(name).stream.write_all(bytes);
    }

    fn settle(&mut self) {
        std::thread::sleep(SETTLING);
    }

    fn close(&mut self, name: &str) {
        self.peer(name).stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    fn hear(&mut self, name: &str, wait_for: WaitFor) -> Heard {
        let peer = self.peer(name);
        let mut frames = Vec::new();
        let mut wait_for = if wait_for == WaitFor::Long { TIMEOUT } else { GATHERING };
        while !peer.closed {
            peer.stream.set_read_timeout(Some(wait_for)).unwrap();
            let mut chunk = [0; 64 << 10];
            match peer.stream.read(&mut chunk) {
                Ok(0) => peer.closed = true,
                Ok(count) => peer.arrived.extend_from_slice(&chunk[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(_) => peer.closed = true,
            }
            let complete = tenure_wire::split_frames(&mut peer.arrived, usize::MAX).unwrap();
            frames.extend(complete.map(|frame| Value::read(&frame).unwrap()));
            if !frames.is_empty() {
                wait_for = GATHERING;
            }
        }
        Heard { frames, closed: peer.closed }
    }
}
