//! Copies bytes between a client and the leader, both ways, without looking at them.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::header::SIGNATURE;
use crate::stream::{DoorStream, read_secret_into};

/// How many bytes wait in each direction. While they wait, nothing more is read: the sender waits as well. Both
/// directions together stay within what every connection may hold ([`crate::FREE_BYTES`]).
const COPY_BYTES_MAX: usize = 32 << 10;

/// Copies until both sides have ended, or one of them fails. A side that does not read for `read_within` fails.
pub(super) async fn relay(client: DoorStream, leader: TcpStream, read_within: Duration) -> io::Result<()> {
    let (client_read, client_write) = client.into_split();
    let (leader_read, leader_write) = leader.into_split();
    let up = async {
        let mut begin = BytesMut::new();
        let client_read = refuse_forwarded(client_read, &mut begin).await?;
        copy(client_read, leader_write, begin, read_within).await
    };
    let down = copy(leader_read, client_write, BytesMut::new(), read_within);
    tokio::try_join!(up, down).map(drop)
}

/// A connection that a member has forwarded already goes nowhere else: two standbys that take each other for the leader
/// would pass it around without end.
async fn refuse_forwarded<R: AsyncRead + Unpin>(mut client: R, begin: &mut BytesMut) -> io::Result<R> {
    while begin.len() < SIGNATURE.len() && SIGNATURE.starts_with(begin) {
        if read_secret_into(&mut client, begin, COPY_BYTES_MAX).await? == 0 {
            return Ok(client);
        }
    }
    if begin.starts_with(&SIGNATURE) {
        return Err(io::Error::other("the connection was forwarded once already"));
    }
    Ok(client)
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut bytes: BytesMut,
    read_within: Duration,
) -> io::Result<()> {
    loop {
        if !bytes.is_empty() {
            let written = timeout(read_within, to.write_all_buf(&mut bytes)).await;
            written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        }
        // A connection that waits holds no buffer.
        bytes = BytesMut::new();
        // The bytes may be a key.
        if read_secret_into(&mut from, &mut bytes, COPY_BYTES_MAX).await? == 0 {
            return to.shutdown().await;
        }
    }
}
