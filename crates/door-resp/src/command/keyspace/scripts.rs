//! Scripts. The few that libraries use for locks and the like are known by their SHA-1; there is no interpreter.

use sha1::{Digest as _, Sha1};
use tenure_hub::keyspace::{Command as KeyCommand, Script, ScriptCall};

use super::super::{Arguments, Command, CommandError};
use super::{KeyspaceCommand, counted_keys, run, value};

type Parsed = Result<Command, CommandError>;

const REFUSED: Command = Command::Keyspace(KeyspaceCommand::Refused);

pub(in super::super) fn eval(arguments: &mut Arguments<'_>) -> Parsed {
    let sha1 = sha1_of(arguments.required()?);
    call(arguments, Script::find(sha1.as_bytes()))
}

pub(in super::super) fn evalsha(arguments: &mut Arguments<'_>) -> Parsed {
    let script = Script::find(arguments.required()?);
    call(arguments, script)
}

pub(in super::super) fn script(arguments: &mut Arguments<'_>) -> Parsed {
    if arguments.keyword("LOAD") {
        let sha1 = sha1_of(arguments.required()?);
        arguments.end()?;
        return Ok(match Script::find(sha1.as_bytes()) {
            Some(_) => Command::Keyspace(KeyspaceCommand::Known { sha1 }),
            None => REFUSED,
        });
    }
    if arguments.keyword("EXISTS") {
        let known = super::all(arguments, |arguments| Ok(Script::find(arguments.required()?).is_some()))?;
        return Ok(Command::Keyspace(KeyspaceCommand::AreKnown(known)));
    }
    Ok(REFUSED)
}

/// FUNCTION, FCALL and their kin.
pub(in super::super) fn refused(_: &mut Arguments<'_>) -> Parsed {
    Ok(REFUSED)
}

fn call(arguments: &mut Arguments<'_>, script: Option<Script>) -> Parsed {
    let Some(script) = script else { return Ok(REFUSED) };
    let keys = counted_keys(arguments)?;
    let mut values = Vec::with_capacity(arguments.left());
    while arguments.left() > 0 {
        values.push(value(arguments)?);
    }
    Ok(run(KeyCommand::Script(ScriptCall { script, keys, arguments: values })))
}

fn sha1_of(text: &[u8]) -> String {
    Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
