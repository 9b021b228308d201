//! Commands by type of value.

use crate::commands::Decided;
use crate::commands::hashes::HashCommand;
use crate::commands::keys::KeyCommand;
use crate::commands::lists::ListCommand;
use crate::commands::scripts::ScriptCall;
use crate::commands::sets::SetCommand;
use crate::commands::sorted::SortedCommand;
use crate::commands::streams::StreamCommand;
use crate::commands::strings::StringCommand;
use crate::effect::Effect;
use crate::keyspace::Keyspace;
use crate::time::Timestamp;
use crate::waiting::Blocking;

/// A command on stored keys, by the type of the value.
#[allow(missing_docs, reason = "the fields are the commands of one type of value")]
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Key(KeyCommand),
    String(StringCommand),
    List(ListCommand),
    Hash(HashCommand),
    /// A hash that expires after this many milliseconds if this command creates it. An existing one keeps its
    /// time to live.
    HashFor {
        command: HashCommand,
        millis: u64,
    },
    Set(SetCommand),
    Sorted(SortedCommand),
    Stream(StreamCommand),
    /// Takes an element as soon as there is one. [`Keyspace::run`] does not wait for it.
    Blocking(Blocking),
    Script(ScriptCall),
}

/// What a command does with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAct {
    /// The command reads.
    Read,
    /// The command may change a key.
    Write,
}

impl KeyAct {
    /// Each type of value lists the commands that read. Any other command counts as a write, which needs more
    /// rights.
    pub(crate) fn read_if(reads: bool) -> KeyAct {
        if reads { KeyAct::Read } else { KeyAct::Write }
    }
}

impl Command {
    /// Whether the command reads or writes.
    pub fn act(&self) -> KeyAct {
        match self {
            Command::Key(command) => command.act(),
            Command::String(command) => command.act(),
            Command::List(command) => command.act(),
            Command::Hash(command) | Command::HashFor { command, .. } => command.act(),
            Command::Set(command) => command.act(),
            Command::Sorted(command) => command.act(),
            Command::Stream(command) => command.act(),
            Command::Blocking(Blocking::ReadStreams { .. }) => KeyAct::Read,
            Command::Blocking(Blocking::Pop { .. } | Blocking::Move { .. }) | Command::Script(_) => {
                KeyAct::Write
            }
        }
    }

    /// The reply and the effects. A script consists of several commands and runs separately.
    pub(crate) fn decide(&self, space: &mut Keyspace, now: Timestamp) -> Decided {
        match self {
            Command::Key(command) => command.decide(space, now),
            Command::String(command) => command.decide(space, now),
            Command::List(command) => command.decide(space, now),
            Command::Hash(command) => command.decide(space, now),
            Command::HashFor { command, millis } => {
                let mut decision = command.decide(space, now)?;
                for effect in &mut decision.effects {
                    if let Effect::Put { expires, .. } = effect {
                        *expires = Timestamp(now.0.saturating_add(*millis));
                    }
                }
                Ok(decision)
            }
            Command::Set(command) => command.decide(space, now),
            Command::Sorted(command) => command.decide(space, now),
            Command::Stream(command) => command.decide(space, now),
            Command::Blocking(command) => command.decide(space, now),
            Command::Script(_) => unreachable!("a script is run, not decided"),
        }
    }
}
