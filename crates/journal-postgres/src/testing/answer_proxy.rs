//! A proxy in front of a server that can lose its answers: what a client has sent is done, and the client never learns
//! it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// It listens on 127.0.0.1 as long as it lives.
#[derive(Debug)]
pub struct AnswerProxy {
    /// Its port.
    pub port: u16,
    state: Arc<ProxyState>,
}

#[derive(Debug)]
struct ProxyState {
    server_port: u16,
    is_over: AtomicBool,
    loses_answers: AtomicBool,
    lost_bytes: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl AnswerProxy {
    /// Begins to listen for a server on this port.
    pub fn start(server_port: u16) -> AnswerProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(ProxyState {
            server_port,
            is_over: AtomicBool::new(false),
            loses_answers: AtomicBool::new(false),
            lost_bytes: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let of_thread = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_thread.is_over.load(Ordering::Acquire) {
                    return;
                }
                // The server may be away: the client sees its connection close.
                let _ = of_thread.join(client);
            }
        });
        AnswerProxy { port, state }
    }

    /// From now on, answers of the server vanish, until [`AnswerProxy::cut`].
    pub fn lose_answers(&self) {
        self.state.loses_answers.store(true, Ordering::Release);
    }

    /// How many bytes of answers have vanished so far.
    pub fn lost_bytes(&self) -> u64 {
        self.state.lost_bytes.load(Ordering::Acquire)
    }

    /// Closes all connections. New ones get their answers.
    pub fn cut(&self) {
        let mut open = self.state.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.state.loses_answers.store(false, Ordering::Release);
    }
}

impl Drop for AnswerProxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        self.cut();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl ProxyState {
    fn join(self: &Arc<ProxyState>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", self.server_port))?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.extend([client.try_clone()?, server.try_clone()?]);
        }
        let (from_client, to_client) = (client.try_clone()?, client);
        let (to_server, from_server) = (server.try_clone()?, server);
        std::thread::spawn(move || pass(from_client, to_server, |_| true));
        let state = Arc::clone(self);
        std::thread::spawn(move || {
            pass(from_server, to_client, |bytes| {
                let is_lost = state.loses_answers.load(Ordering::Acquire);
                if is_lost {
                    state.lost_bytes.fetch_add(bytes as u64, Ordering::AcqRel);
                }
                !is_lost
            });
        });
        Ok(())
    }
}

/// Passes bytes on until one side closes.
fn pass(mut from: TcpStream, mut to: TcpStream, may_pass: impl Fn(usize) -> bool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        if count == 0 || (may_pass(count) && to.write_all(&bytes[..count]).is_err()) {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
