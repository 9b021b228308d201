//! What a standby answers itself, such as how it is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::stream::DoorStream;

/// How many of the first bytes are looked at.
const FIRST_BYTES: usize = 64;
/// How long the first bytes may take to be complete, and how often they are looked at meanwhile.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// Answers some connections of a standby in place of the leader.
pub trait StandbyDoor: fmt::Debug + Send + Sync {
    /// Whether it answers a connection that begins with these bytes. `None` if more of them are needed.
    fn answers(&self, first: &[u8]) -> Option<bool>;

    /// Answers the connection. Nothing has been read from it.
    fn answer(&self, stream: DoorStream) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Looks at the first bytes without reading them. A connection that says nothing useful in time goes to the leader.
pub(super) async fn asks_for(door: &dyn StandbyDoor, stream: &DoorStream) -> bool {
    let DoorStream::Tcp(stream) = stream else { return false };
    let mut first = [0; FIRST_BYTES];
    let mut deadline = None;
    loop {
        let Ok(count @ 1..) = stream.peek(&mut first).await else { return false };
        if let Some(answers) = door.answers(&first[..count]) {
            return answers;
        }
        if Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + FIRST_WITHIN) {
            return false;
        }
        sleep(LOOK).await;
    }
}
