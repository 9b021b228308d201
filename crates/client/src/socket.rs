//! A byte stream to a broker, over TCP or a Unix socket, as the few steps that a connection needs.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
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

    /// Reads what is there. A read that does not fill its room shows that no more is there, so the next one waits
    /// without asking the system again.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        // The future holds nothing but these two, so a new one for each poll is as good as an old one.
        match self {
            Socket::Tcp(stream) => pin!(stream.read_buf(into)).poll(context),
            Socket::Unix(stream) => pin!(stream.read_buf(into)).poll(context),
        }
    }

    /// Writes what the socket takes.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }
}
