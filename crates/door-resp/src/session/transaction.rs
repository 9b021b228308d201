//! MULTI and EXEC. Commands in between are queued; EXEC runs them as if they came in one write, and the replies form
//! one array.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::SessionOutput;
use crate::codec::{Reply, Version, encode};
use crate::command::{
    ClaimCommand, Command, ConnectionCommand, EventsCommand, KeyspaceCommand, LogsRead, RespListCommand,
    Wait, WorkerCommand,
};

/// Maximum number of queued commands.
const COMMANDS_MAX: usize = 10_000;
const BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct MultiTransaction {
    open: Option<QueuedCommand>,
    /// EXEC has come: these must run.
    due: VecDeque<Result<Command, Reply>>,
    /// Items that the array of replies still lacks, and the pushes that must not come between them. A reply that is
    /// written in parts counts as well.
    owed: usize,
    held_pushes: BytesMut,
}

#[derive(Debug, Default)]
struct QueuedCommand {
    commands: Vec<Command>,
    bytes: usize,
    /// One was refused, so none will run.
    broken: bool,
}

impl MultiTransaction {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether some of it is still to be run.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The next command, or the reply of one that has run.
    pub(super) fn next(&mut self) -> Option<Result<Command, Reply>> {
        self.due.pop_front()
    }

    /// The array of answers begins.
    pub(super) fn begin_array(&mut self, items: usize, version: Version, out: &mut SessionOutput) {
        encode(&Reply::Written { count: items, parts: Vec::new() }, version, &mut out.bytes);
        self.owed = items;
    }

    /// A reply is written in parts, and no push may come between them.
    pub(super) fn begin_long_reply(&mut self) {
        self.owed = self.owed.max(1);
    }

    /// A reply is written, possibly an item of the array.
    pub(super) fn has_answered(&mut self, out: &mut SessionOutput) {
        self.owed = self.owed.saturating_sub(1);
        if self.owed == 0 && !self.held_pushes.is_empty() {
            out.bytes.unsplit(std::mem::take(&mut self.held_pushes));
        }
    }

    /// Sends a push, as soon as no array is incomplete.
    pub(super) fn push(&mut self, held_pushes: &Reply, version: Version, out: &mut SessionOutput) {
        let bytes = if self.owed > 0 { &mut self.held_pushes } else { &mut out.bytes };
        encode(held_pushes, version, bytes);
    }

    pub(super) fn multi(&mut self) -> Reply {
        if self.open.is_some() {
            return Reply::error("ERR MULTI is open already: send EXEC or DISCARD first");
        }
        self.open = Some(QueuedCommand::default());
        Reply::OK
    }

    pub(super) fn discard(&mut self) -> Reply {
        match self.open.take() {
            Some(_) => Reply::OK,
            None => Reply::error("ERR DISCARD without MULTI"),
        }
    }

    /// The queued commands, at EXEC.
    pub(super) fn take(&mut self) -> Result<Vec<Command>, Reply> {
        let queued = self.open.take().ok_or_else(|| Reply::error("ERR EXEC without MULTI"))?;
        if queued.broken {
            return Err(Reply::error("EXECABORT Nothing was run: a command after MULTI was refused"));
        }
        Ok(queued.commands)
    }

    /// From now on these are due.
    pub(super) fn run(&mut self, due: VecDeque<Result<Command, Reply>>) {
        self.due = due;
    }

    /// Handles a command. Between MULTI and EXEC it is queued, and the reply says so.
    pub(super) fn take_command(
        &mut self,
        understood: Result<Command, Reply>,
        bytes: usize,
    ) -> Result<Command, Reply> {
        let Some(open) = &mut self.open else { return understood };
        let is_too_much = open.commands.len() >= COMMANDS_MAX || open.bytes + bytes > BYTES_MAX;
        let refusal = match understood {
            Ok(command) if steers(&command) => return Ok(command),
            Err(reply) => reply,
            Ok(command) if !may_be_queued(&command) => {
                Reply::error("ERR this command is not allowed between MULTI and EXEC")
            }
            Ok(_) if is_too_much => Reply::error(format!(
                "ERR too much between MULTI and EXEC, at most {COMMANDS_MAX} commands and {BYTES_MAX} bytes: use smaller groups"
            )),
            Ok(command) => {
                open.commands.push(without_waiting(command));
                open.bytes += bytes;
                return Err(Reply::simple("QUEUED"));
            }
        };
        // The queued commands are no longer needed.
        *open = QueuedCommand { broken: true, ..QueuedCommand::default() };
        Err(refusal)
    }
}

fn steers(command: &Command) -> bool {
    matches!(
        command,
        Command::Connection(
            ConnectionCommand::Multi
                | ConnectionCommand::Exec
                | ConnectionCommand::Discard
                | ConnectionCommand::Reset
                | ConnectionCommand::Quit
        )
    )
}

/// Excludes commands that change identity or protocol, have more than one reply, or wait for another peer.
fn may_be_queued(command: &Command) -> bool {
    !matches!(
        command,
        Command::Connection(ConnectionCommand::Hello(_) | ConnectionCommand::Auth(_))
            | Command::Worker(WorkerCommand::Verify { .. })
            | Command::Keyspace(KeyspaceCommand::Watch(_))
            | Command::Events(
                EventsCommand::Subscribe(_)
                    | EventsCommand::Unsubscribe(_)
                    | EventsCommand::SubscribePattern(_)
                    | EventsCommand::UnsubscribePattern(_)
            )
    )
}

/// Within a transaction no command blocks, as in Redis.
fn without_waiting(command: Command) -> Command {
    match command {
        Command::List(RespListCommand::Claim(claim)) => {
            Command::List(RespListCommand::Claim(ClaimCommand { wait: Wait::NotAtAll, ..claim }))
        }
        Command::Events(EventsCommand::Read(mut read)) => {
            read.block = None;
            Command::Events(EventsCommand::Read(read))
        }
        Command::Events(EventsCommand::Logs(mut logs)) => {
            if let LogsRead::From { block, .. } = &mut logs.read {
                *block = None;
            }
            Command::Events(EventsCommand::Logs(logs))
        }
        Command::Keyspace(command) => Command::Keyspace(command.without_waiting()),
        other => other,
    }
}
