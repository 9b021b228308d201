//! Ports for servers that a test starts, stops and starts again.

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// A port for a server that a test starts, stops and starts again. It is below the ports that the system gives to
/// connections, and no other test takes it: the first port of each block stays bound as long as this process lives.
pub fn free_port() -> u16 {
    static BLOCK: Mutex<Option<PortBlock>> = Mutex::new(None);
    let mut block = BLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(port) = block.as_mut().and_then(PortBlock::next) {
            return port;
        }
        *block = Some(PortBlock::take());
    }
}

const PORTS: std::ops::Range<u16> = 12_000..32_000;
const BLOCK_PORTS: u16 = 20;

#[derive(Debug)]
struct PortBlock {
    ports: std::ops::Range<u16>,
}

impl PortBlock {
    /// A block that no other process has, beginning somewhere that depends on the process.
    fn take() -> PortBlock {
        let blocks = (PORTS.end - PORTS.start) / BLOCK_PORTS;
        let first = (std::process::id() % u32::from(blocks)) as u16;
        for number in 0..blocks {
            let start = PORTS.start + (first + number) % blocks * BLOCK_PORTS;
            if let Ok(held) = TcpListener::bind(("127.0.0.1", start)) {
                std::mem::forget(held);
                return PortBlock { ports: start + 1..start + BLOCK_PORTS };
            }
        }
        panic!("no block of ports is free in {PORTS:?}");
    }

    fn next(&mut self) -> Option<u16> {
        self.ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
    }
}
