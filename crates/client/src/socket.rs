//! A byte stream to a broker, over TCP, TLS or a Unix socket, as the few steps that a connection needs.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tenure_wire::Name;
use tenure_wire::hello::{Welcome, end_name, machine_name};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::tls;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Tls(stream) => stream.get_ref().0.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Socket {
    pub(crate) async fn connect(address: &Address, wants_member: bool) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) => tcp(address).await.map(Socket::Tcp),
            Address::Tls(tls) => {
                let (connector, host) = tls::connector(tls, wants_member)?;
                let stream = connector.connect(host, tcp(&tls.address).await?).await?;
                Ok(Socket::Tls(Box::new(stream)))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        }
    }

    /// Whether the other end is the broker itself, on this machine. Something in between has two connections, and their
    /// ends differ.
    pub(crate) fn ends_at(&self, welcome: &Welcome) -> bool {
        if welcome.machine.is_none() || welcome.machine != machine() {
            return false;
        }
        let stream = match self {
            Socket::Tcp(stream) => stream,
            Socket::Tls(stream) => stream.get_ref().0,
            Socket::Unix(_) => return true,
        };
        let (Ok(here), Ok(there)) = (stream.local_addr(), stream.peer_addr()) else { return false };
        welcome.local_address == Some(end_name(there)) && welcome.remote_address == Some(end_name(here))
    }

    /// Reads what has arrived. A read that does not fill its buffer has emptied the socket, so the next one waits
    /// without another system call.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        // The future has no state of its own, so each poll can create a new one.
        match self {
            Socket::Tcp(stream) => pin!(stream.read_buf(into)).poll(context),
            Socket::Tls(stream) => {
                // Retries the bytes that the last write could not pass on.
                let _ = Pin::new(&mut **stream).poll_flush(context)?;
                pin!(stream.read_buf(into)).poll(context)
            }
            Socket::Unix(stream) => pin!(stream.read_buf(into)).poll(context),
        }
    }

    /// Writes as much as the socket accepts.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Tls(stream) => {
                let written = Pin::new(&mut **stream).poll_write(context, bytes);
                let _ = Pin::new(&mut **stream).poll_flush(context)?;
                written
            }
            Socket::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }
}

/// The name of this machine since its last boot, where the kernel tells it.
fn machine() -> Option<Name> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| machine_name(&id))
}

async fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // Frames are batched before they are written, so waiting for more would only delay them.
    stream.set_nodelay(true)?;
    Ok(stream)
}
