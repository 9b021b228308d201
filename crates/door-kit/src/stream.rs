//! The stream under a connection: TCP, TLS over TCP, or a Unix socket. Doors read and write without knowing which.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, tcp};
#[cfg(unix)]
use tokio::net::{UnixStream, unix};
use tokio_rustls::server::TlsStream;
use zeroize::{Zeroize as _, Zeroizing};

/// Maximum size of one read.
const SCRATCH_BYTES: usize = 32 << 10;

/// A stream to a peer.
#[derive(Debug)]
pub enum DoorStream {
    /// TCP without TLS.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Reads what has arrived, at most `most` bytes. The buffer stays empty while nothing arrives: a waiting connection
/// holds no memory for it.
pub async fn read_into(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    most: usize,
) -> io::Result<usize> {
    std::future::poll_fn(|context| {
        let mut scratch = [MaybeUninit::uninit(); SCRATCH_BYTES];
        let mut buffer = ReadBuf::uninit(&mut scratch[..most.min(SCRATCH_BYTES)]);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        input.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    })
    .await
}

/// The same for a peer that may send a key: leaves no copy of it on the stack.
pub async fn read_secret_into(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    most: usize,
) -> io::Result<usize> {
    std::future::poll_fn(|context| {
        let mut scratch = [0; SCRATCH_BYTES];
        let mut buffer = ReadBuf::new(&mut scratch[..most.min(SCRATCH_BYTES)]);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        input.extend_from_slice(buffer.filled());
        let count = buffer.filled().len();
        scratch[..count].zeroize();
        Poll::Ready(Ok(count))
    })
    .await
}

/// Overwrites what has been taken out of a receive buffer, which may be a key, and keeps the rest. `capacity` is what
/// the buffer had before anything was taken out. Returns false, and wipes nothing, if a part of it is still in use.
pub fn wipe_taken(input: &mut BytesMut, capacity: usize) -> bool {
    let rest = Zeroizing::new(input.to_vec());
    input.clear();
    let is_whole = input.try_reclaim(capacity);
    if is_whole {
        input.resize(capacity, 0);
        input.zeroize();
        input.clear();
    }
    input.extend_from_slice(&rest);
    is_whole
}

/// Writes what the stream accepts, or flushes what it has buffered. Returns how many bytes it accepted.
pub async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
    unflushed: &mut bool,
) -> io::Result<usize> {
    if out.is_empty() {
        stream.flush().await?;
        *unflushed = false;
        return Ok(0);
    }
    let count = stream.write_buf(out).await?;
    if count == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    *unflushed = !(out.is_empty() && is_flushed(stream)?);
    Ok(count)
}

/// Flushes the stream's own buffer as far as possible without waiting. TLS has one, TCP has none.
pub fn is_flushed(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(stream).poll_flush(&mut context) {
        Poll::Ready(flushed) => flushed.map(|()| true),
        Poll::Pending => Ok(false),
    }
}

/// The half of a stream that reads.
#[derive(Debug)]
pub enum DoorReader {
    /// TCP without TLS.
    Tcp(tcp::OwnedReadHalf),
    /// TLS over TCP.
    Tls(ReadHalf<Box<TlsStream<TcpStream>>>),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(unix::OwnedReadHalf),
}

/// The half of a stream that writes.
#[derive(Debug)]
pub enum DoorWriter {
    /// TCP without TLS.
    Tcp(tcp::OwnedWriteHalf),
    /// TLS over TCP.
    Tls(WriteHalf<Box<TlsStream<TcpStream>>>),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(unix::OwnedWriteHalf),
}

/// The two ends of a TCP connection, as the broker sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEnds {
    /// The broker's end.
    pub local: SocketAddr,
    /// The other end: the peer's, unless something lies between.
    pub remote: SocketAddr,
}

impl DoorStream {
    /// The ends of the TCP connection. A Unix socket has none.
    pub fn ends(&self) -> Option<StreamEnds> {
        let stream = match self {
            DoorStream::Tcp(stream) => stream,
            DoorStream::Tls(stream) => stream.get_ref().0,
            #[cfg(unix)]
            DoorStream::Unix(_) => return None,
        };
        Some(StreamEnds { local: stream.local_addr().ok()?, remote: stream.peer_addr().ok()? })
    }

    /// Splits the stream. The halves of a socket share no lock; those of TLS do, because both use its state.
    pub fn into_split(self) -> (DoorReader, DoorWriter) {
        match self {
            DoorStream::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (DoorReader::Tcp(read), DoorWriter::Tcp(write))
            }
            DoorStream::Tls(stream) => {
                let (read, write) = tokio::io::split(stream);
                (DoorReader::Tls(read), DoorWriter::Tls(write))
            }
            #[cfg(unix)]
            DoorStream::Unix(stream) => {
                let (read, write) = stream.into_split();
                (DoorReader::Unix(read), DoorWriter::Unix(write))
            }
        }
    }
}

impl AsyncRead for DoorReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorReader::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            DoorReader::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(unix)]
            DoorReader::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for DoorWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            DoorWriter::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            DoorWriter::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(unix)]
            DoorWriter::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorWriter::Tcp(stream) => Pin::new(stream).poll_flush(context),
            DoorWriter::Tls(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(unix)]
            DoorWriter::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorWriter::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            DoorWriter::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(unix)]
            DoorWriter::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

impl AsyncRead for DoorStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorStream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            DoorStream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(unix)]
            DoorStream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for DoorStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            DoorStream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            DoorStream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(unix)]
            DoorStream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorStream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            DoorStream::Tls(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(unix)]
            DoorStream::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DoorStream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            DoorStream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(unix)]
            DoorStream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_is_overwritten_and_the_rest_stays() {
        let mut input = BytesMut::from(&b"AUTH secret\r\nPING"[..]);
        let capacity = input.capacity();
        let taken = input.split_to(13).freeze();
        assert!(!wipe_taken(&mut input, capacity), "the command is still in use");
        assert_eq!(&input[..], b"PING");
        drop(taken);

        let mut input = BytesMut::from(&b"AUTH secret\r\nPING"[..]);
        let (capacity, begin) = (input.capacity(), input.as_ptr());
        drop(input.split_to(13));
        assert!(wipe_taken(&mut input, capacity));
        assert_eq!(&input[..], b"PING");
        assert_eq!(input.as_ptr(), begin, "the same memory, from its beginning");
    }
}
