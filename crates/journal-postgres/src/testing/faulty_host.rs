//! A host of the URL on which no server of the group runs.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What such a host does with each connection.
#[derive(Clone, Copy, Debug)]
pub enum FaultyAnswer {
    /// It agrees to TLS and closes the connection, as a server does that is shut down in this moment.
    BrokenHandshake,
    /// It refuses the login with this SQLSTATE.
    Refusal(&'static str),
}

/// It listens on 127.0.0.1 as long as it lives.
#[derive(Debug)]
pub struct FaultyHost {
    /// Its port.
    pub port: u16,
    is_over: Arc<AtomicBool>,
}

/// A client that sends nothing must not hold the host.
const READ_WITHIN: Duration = Duration::from_secs(10);

impl FaultyHost {
    /// Begins to listen.
    pub fn start(answer: FaultyAnswer) -> FaultyHost {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let is_over = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&is_over);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.load(Ordering::Acquire) {
                    return;
                }
                // The client may be gone already.
                let _ = reply(stream, answer);
            }
        });
        FaultyHost { port, is_over }
    }
}

impl Drop for FaultyHost {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn reply(mut stream: TcpStream, answer: FaultyAnswer) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_WITHIN))?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4).min(1 << 16)];
    stream.read_exact(&mut message)?;
    match answer {
        FaultyAnswer::BrokenHandshake => stream.write_all(b"S"),
        FaultyAnswer::Refusal(code) => {
            let fields = format!("SFATAL\0C{code}\0Mnot this one\0\0");
            let length = (fields.len() + 4) as u32;
            stream.write_all(&[b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat())
        }
    }
}
