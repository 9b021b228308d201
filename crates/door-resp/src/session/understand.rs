//! Turns a raw command into a command, or into the error that answers it.

use super::{greeting, subscribing};
use crate::codec::{RawCommand, Reply};
use crate::command::{Command, CommandError, Entry};

/// The reply to a peer that has to authenticate first.
pub(super) const NO_AUTH: &str = "NOAUTH Authentication required";

/// `is_known`: the peer has authenticated, or need not. `only_listens`: it is a RESP2 subscriber, whose replies would
/// look like messages.
pub(super) fn understand(raw: &RawCommand<'_>, is_known: bool, only_listens: bool) -> Result<Command, Reply> {
    let entry = Entry::find(raw.name());
    if !is_known && !entry.as_ref().is_ok_and(|entry| entry.before_auth) {
        return Err(Reply::error(NO_AUTH));
    }
    let entry = entry.map_err(|error| error.reply())?;
    let command = entry.parse(raw).map_err(|error: CommandError| error.reply())?;
    if !is_known && !greeting::before_auth(&command) {
        return Err(Reply::error(NO_AUTH));
    }
    if only_listens && !subscribing::allowed(&command) {
        return Err(Reply::error(format!(
            "ERR Can't execute '{}': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            entry.name
        )));
    }
    Ok(command)
}
