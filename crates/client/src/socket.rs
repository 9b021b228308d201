//! A byte stream to a broker, over TCP or a Unix socket, as the few steps that a connection needs.

use std::io;

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) async fn connect(address: &Address) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(&**address).await?;
                // Frames are batched before they are written, so waiting for more would only delay them.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        }
    }

    /// Waits until the socket may be ready for one of these. Cancel-safe.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.ready(interest).await,
            Socket::Unix(stream) => stream.ready(interest).await,
        }
        .map(|_| ())
    }

    /// Reads what is there; nothing if it would have to wait.
    pub(crate) fn try_read(&self, into: &mut BytesMut) -> io::Result<Option<usize>> {
        let read = match self {
            Socket::Tcp(stream) => stream.try_read_buf(into),
            Socket::Unix(stream) => stream.try_read_buf(into),
        };
        unless_it_would_wait(read)
    }

    /// Writes what the socket takes; nothing if it would have to wait.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let written = match self {
            Socket::Tcp(stream) => stream.try_write(bytes),
            Socket::Unix(stream) => stream.try_write(bytes),
        };
        unless_it_would_wait(written)
    }
}

fn unless_it_would_wait(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
