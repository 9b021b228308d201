//! Commands on stored keys: keys that are not views of the broker's tasks, workers and plans.
//!
//! Where Redis has one command for both, its entry in the table decides by the first key. One file per type of value.

pub(super) mod hashes;
pub(crate) mod keys;
pub(super) mod lists;
pub(super) mod scripts;
pub(super) mod sets;
pub(super) mod sorted;
pub(super) mod streams;
pub(super) mod strings;

use bytes::Bytes;
use tenure_hub::KeyspaceAct;
use tenure_hub::keyspace::{Blocking, Command as KeyCommand, KeyAct, KeyScan};

use super::arguments::Arguments;
use super::error::{CommandError, quoted};
use super::lists::Wait;
use super::{Command, ViewCommand};
use crate::key::RespKey;

/// How many keys, fields, elements or members one command may name.
const ITEMS_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyspaceCommand {
    Run(Box<KeyCommand>),
    /// Waits for an element.
    Wait {
        command: Blocking,
        wait: Wait,
    },
    /// KEYS and SCAN over stored keys, and then over the views.
    List {
        listing: KeyListing,
        then: Option<ViewCommand>,
    },
    Watch(Vec<Bytes>),
    Unwatch,
    /// SCRIPT LOAD of a script that is known.
    Known {
        sha1: String,
    },
    /// SCRIPT EXISTS.
    AreKnown(Vec<bool>),
    /// An unknown script, or anything else that needs an interpreter.
    Refused,
}

/// Which stored keys are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyListing {
    Keys(Bytes),
    Scan(KeyScan),
}

impl KeyspaceCommand {
    pub(crate) fn act(&self) -> KeyspaceAct {
        match self {
            Self::Run(command) => match command.act() {
                KeyAct::Read => KeyspaceAct::Read,
                KeyAct::Write => KeyspaceAct::Write,
            },
            Self::Wait { command: Blocking::Pop { .. } | Blocking::Move { .. }, .. } => KeyspaceAct::Write,
            Self::Wait { command: Blocking::ReadStreams { .. }, .. }
            | Self::List { .. }
            | Self::Watch(_)
            | Self::Unwatch
            | Self::Known { .. }
            | Self::AreKnown(_)
            | Self::Refused => KeyspaceAct::Read,
        }
    }

    /// The same within a transaction, where commands do not block.
    pub(crate) fn without_waiting(self) -> Self {
        match self {
            Self::Wait { command, .. } => Self::Run(Box::new(KeyCommand::Blocking(command))),
            other => other,
        }
    }
}

/// Whether a key is stored: neither a view nor a queue under its other name.
pub(super) fn is_stored(key: &[u8]) -> bool {
    RespKey::parse(key) == RespKey::Unknown && !key.starts_with(b"raw:")
}

/// Whether the next argument is a key that is stored.
pub(super) fn next_is_stored(arguments: &Arguments<'_>) -> bool {
    arguments.peek().is_some_and(is_stored)
}

fn run(command: KeyCommand) -> Command {
    Command::Keyspace(KeyspaceCommand::Run(Box::new(command)))
}

/// A stored key. Commands on values do not change views.
fn key(arguments: &mut Arguments<'_>) -> Result<Bytes, CommandError> {
    let written = arguments.required()?;
    match is_stored(written) {
        true => Ok(Bytes::copy_from_slice(written)),
        false => Err(CommandError::IsView(quoted(written))),
    }
}

/// A key that can be deleted or given a time to live: a stored one, or the metadata of a view.
fn deletable_key(arguments: &mut Arguments<'_>) -> Result<Bytes, CommandError> {
    let metadata = arguments.peek().and_then(|written| RespKey::parse(written).metadata());
    match metadata {
        Some(name) => arguments.required().map(|_| name),
        None => key(arguments),
    }
}

/// Copies the bytes: a stored value must not keep the read buffer alive.
fn value(arguments: &mut Arguments<'_>) -> Result<Bytes, CommandError> {
    Ok(Bytes::copy_from_slice(arguments.required()?))
}

/// All that follows, at least one.
fn values(arguments: &mut Arguments<'_>) -> Result<Vec<Bytes>, CommandError> {
    all(arguments, value)
}

fn keys(arguments: &mut Arguments<'_>) -> Result<Vec<Bytes>, CommandError> {
    all(arguments, key)
}

fn pairs(arguments: &mut Arguments<'_>) -> Result<Vec<(Bytes, Bytes)>, CommandError> {
    if arguments.left() % 2 == 1 {
        return Err(CommandError::WrongNumberOfArguments(arguments.name()));
    }
    all(arguments, |arguments| Ok((value(arguments)?, value(arguments)?)))
}

fn all<T>(
    arguments: &mut Arguments<'_>,
    mut one: impl FnMut(&mut Arguments<'_>) -> Result<T, CommandError>,
) -> Result<Vec<T>, CommandError> {
    if arguments.left() == 0 {
        return Err(CommandError::WrongNumberOfArguments(arguments.name()));
    }
    if arguments.left() > ITEMS_MAX {
        return Err(CommandError::TooMany { what: "arguments", max: ITEMS_MAX });
    }
    let mut found = Vec::with_capacity(arguments.left());
    while arguments.left() > 0 {
        found.push(one(arguments)?);
    }
    Ok(found)
}

/// Keys behind their number.
fn counted_keys(arguments: &mut Arguments<'_>) -> Result<Vec<Bytes>, CommandError> {
    let count = arguments.size()?;
    if count > arguments.left() {
        return Err(CommandError::Syntax);
    }
    (0..count).map(|_| key(arguments)).collect()
}

fn float(arguments: &mut Arguments<'_>) -> Result<f64, CommandError> {
    let number = super::arguments::parse_text::<f64>(arguments.required()?);
    number.filter(|number| number.is_finite()).ok_or(CommandError::NotAFloat)
}
