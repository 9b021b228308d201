//! What a standby answers itself, such as how it is.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::time::{Instant, sleep};

use zeroize::Zeroizing;

use crate::stream::DoorStream;

/// How long the first bytes may take to be complete, and how often they are looked at meanwhile.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Answers some connections of a standby in place of the leader.
pub trait StandbyDoor: fmt::Debug + Send + Sync {
    /// How many of the first bytes it looks at, at most.
    fn first_bytes_max(&self) -> usize;

    /// Whether it answers a connection that begins with these bytes. `None` if more of them are needed.
    fn answers(&self, first: &[u8]) -> Option<bool>;

    /// Answers the connection. Nothing has been read from it.
    fn answer(&self, stream: DoorStream) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Looks at the first bytes without reading them. A connection that says nothing useful in time goes to the leader.
pub(super) async fn asks_for(door: &dyn StandbyDoor, stream: &DoorStream) -> bool {
    // A key may be among them. A connection that says nothing yet holds no memory for them.
    let mut first = Zeroizing::new(Vec::new());
    let mut deadline = None;
    loop {
        let Ok(count @ 1..) = peek(stream, &mut first, door.first_bytes_max()).await else { return false };
        if let Some(answers) = door.answers(&first[..count]) {
            return answers;
        }
        if Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + FIRST_WITHIN) {
            return false;
        }
        sleep(LOOK).await;
    }
}

/// Waits until something has arrived, and copies it without taking it.
async fn peek(stream: &DoorStream, first: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    match stream {
        DoorStream::Tcp(stream) => {
            stream.readable().await?;
            first.resize(most, 0);
            stream.peek(first).await
        }
        #[cfg(unix)]
        DoorStream::Unix(stream) => loop {
            stream.readable().await?;
            first.resize(most, 0);
            let peeked = stream.try_io(Interest::READABLE, || {
                let (count, _) = rustix::net::recv(stream, &mut first[..], RecvFlags::PEEK)?;
                Ok(count)
            });
            match peeked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        },
        DoorStream::Tls(_) => Ok(0),
    }
}
