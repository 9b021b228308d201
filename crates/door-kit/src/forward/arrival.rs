//! The accepting side: tells forwarded connections from direct ones.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::header::{ForwardError, ForwardHeader, SIGNATURE, START_BYTES, rest_bytes};
use super::secret::GroupSecret;

/// How long to wait for more when less than a signature has arrived.
const TORN_PAUSE: Duration = Duration::from_millis(5);

/// How a connection has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// From its peer itself. Nothing has been read.
    Direct,
    /// Through another member. Its header has been read, and nothing else.
    Forwarded(ForwardHeader),
}

/// Why a connection is closed before its protocol begins.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArrivalError {
    #[error(transparent)]
    Header(#[from] ForwardError),
    #[error("the forward header did not arrive: {0}")]
    Io(#[from] io::Error),
}

/// Looks at the first bytes. A peer that sends none within this time is a direct one: a member sends its header first of
/// all.
pub(crate) async fn arrive(
    stream: &mut TcpStream,
    secret: &GroupSecret,
    within: Duration,
) -> Result<Arrival, ArrivalError> {
    let deadline = Instant::now() + within;
    let mut seen = [0; SIGNATURE.len()];
    loop {
        let Ok(count) = timeout_at(deadline, stream.peek(&mut seen)).await else {
            return Ok(Arrival::Direct);
        };
        let count = count?;
        if count == 0 || seen[..count] != SIGNATURE[..count] {
            return Ok(Arrival::Direct);
        }
        if count == SIGNATURE.len() {
            break;
        }
        if Instant::now() + TORN_PAUSE > deadline {
            return Ok(Arrival::Direct);
        }
        sleep(TORN_PAUSE).await;
    }
    let header = timeout_at(deadline, read_header(stream, secret)).await;
    let header = header.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    header.map(Arrival::Forwarded)
}

async fn read_header(stream: &mut TcpStream, secret: &GroupSecret) -> Result<ForwardHeader, ArrivalError> {
    let mut start = [0; START_BYTES];
    stream.read_exact(&mut start).await?;
    let mut bytes = vec![0; START_BYTES + rest_bytes(&start)?];
    bytes[..START_BYTES].copy_from_slice(&start);
    stream.read_exact(&mut bytes[START_BYTES..]).await?;
    Ok(ForwardHeader::decode(&bytes, secret)?)
}
