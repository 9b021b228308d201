//! Keepalive of a connection that mostly listens: when nothing arrives, it pings the broker.

use std::time::Duration;

use tenure_wire::{FromBroker, Request};

use crate::connection::Connection;
use crate::error::Error;
use crate::liveness_timeouts::is_in_group;

/// How often an idle connection sends a ping; the second one is for a broker of a group.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_EVERY_IN_GROUP: Duration = Duration::from_secs(1);
/// The connection is closed after this many unanswered pings in a row.
const PINGS_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(crate) struct Keepalive {
    unanswered: u32,
}

impl Keepalive {
    /// One turn of the connection; sends a ping after some silence. Cancel-safe: nothing that has arrived is lost.
    pub(crate) async fn turn(
        &mut self,
        connection: &mut Connection,
        arrived: &mut Vec<FromBroker>,
    ) -> Result<(), Error> {
        let every = if is_in_group(connection.welcome()) { PING_EVERY_IN_GROUP } else { PING_EVERY };
        tokio::select! {
            turned = connection.turn(arrived) => {
                turned?;
                self.unanswered = 0;
            }
            () = tokio::time::sleep(every) => {
                self.unanswered += 1;
                if self.unanswered > PINGS_MAX {
                    return Err(Error::lost("the broker has stopped answering"));
                }
                connection.ask(&Request::Ping);
            }
        }
        Ok(())
    }
}
