//! Commands about the connection itself: identity, protocol version, and information.

use bytes::Bytes;

use super::Command;
use super::arguments::{Arguments, parse_text};
use super::error::CommandError;
use crate::codec::Version;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionCommand {
    Hello(Hello),
    Auth(Credentials),
    Client(ClientCommand),
    Select,
    /// Existing workers put their id into the message and use it as a heartbeat.
    Ping(Option<Bytes>),
    Echo(Bytes),
    Quit,
    Reset,
    Multi,
    Exec,
    Discard,
    /// The sections asked for, in lower case; none means all.
    Info(Vec<String>),
    Command(CommandQuery),
    Time,
    Role,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// None keeps the version.
    pub version: Option<Version>,
    pub auth: Option<Credentials>,
    pub name: Option<String>,
}

/// A key is never printed, not even by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub user: Option<String>,
    pub key: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientCommand {
    SetInfo {
        fact: LibraryFact,
        value: String,
    },
    SetName(String),
    GetName,
    Id,
    List,
    Info,
    /// Requests about a cache that the broker does not have. They succeed and change nothing.
    NoEvict,
    NoTouch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LibraryFact {
    Name,
    Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandQuery {
    All,
    Count,
    List,
    /// Names in lower case; none means all.
    Docs(Vec<String>),
    Info(Vec<String>),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("user", &self.user).field("key", &"…").finish()
    }
}

pub(super) fn hello(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let mut hello = Hello::default();
    if let Some(version) = arguments.optional() {
        hello.version = Some(match parse_text::<i64>(version) {
            Some(2) => Version::Resp2,
            Some(3) => Version::Resp3,
            Some(_) => return Err(CommandError::ProtocolVersion),
            None => return Err(CommandError::ProtocolVersionNotAnInteger),
        });
    }
    while arguments.left() > 0 {
        if arguments.keyword("AUTH") && arguments.left() >= 2 {
            let user = Some(arguments.text()?);
            hello.auth = Some(Credentials { user, key: key(arguments)? });
        } else if arguments.keyword("SETNAME") && arguments.left() >= 1 {
            hello.name = Some(client_name(arguments)?);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(Command::Connection(ConnectionCommand::Hello(hello)))
}

pub(super) fn auth(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let user = if arguments.left() == 2 { Some(arguments.text()?) } else { None };
    let key = key(arguments)?;
    arguments.end()?;
    Ok(Command::Connection(ConnectionCommand::Auth(Credentials { user, key })))
}

pub(super) fn client(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let subcommand = arguments.required()?;
    let command = match subcommand.to_ascii_uppercase().as_slice() {
        b"SETINFO" => {
            let fact = if arguments.keyword("LIB-NAME") {
                LibraryFact::Name
            } else if arguments.keyword("LIB-VER") {
                LibraryFact::Version
            } else {
                return Err(CommandError::Syntax);
            };
            ClientCommand::SetInfo { fact, value: client_name(arguments)? }
        }
        b"SETNAME" => ClientCommand::SetName(client_name(arguments)?),
        b"GETNAME" => ClientCommand::GetName,
        b"ID" => ClientCommand::Id,
        b"LIST" => {
            // `TYPE normal` and `ID 1 2` narrow a list that is short here.
            while arguments.optional().is_some() {}
            ClientCommand::List
        }
        b"INFO" => ClientCommand::Info,
        b"NO-EVICT" => switch(arguments, ClientCommand::NoEvict)?,
        b"NO-TOUCH" => switch(arguments, ClientCommand::NoTouch)?,
        _ => return Err(arguments.unknown_subcommand(subcommand)),
    };
    if arguments.left() > 0 {
        return Err(CommandError::WrongNumberOfArguments(arguments.name()));
    }
    Ok(Command::Connection(ConnectionCommand::Client(command)))
}

pub(super) fn select(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    match arguments.integer()? {
        0 => Ok(Command::Connection(ConnectionCommand::Select)),
        _ => Err(CommandError::Database),
    }
}

pub(super) fn ping(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let message = if arguments.left() > 0 { Some(arguments.bytes()?) } else { None };
    if arguments.left() > 0 {
        return Err(CommandError::WrongNumberOfArguments("ping"));
    }
    Ok(Command::Connection(ConnectionCommand::Ping(message)))
}

pub(super) fn echo(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Echo(arguments.bytes()?)))
}

pub(super) fn quit(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Quit))
}

pub(super) fn reset(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Reset))
}

pub(super) fn multi(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Multi))
}

pub(super) fn exec(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Exec))
}

pub(super) fn discard(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Discard))
}

pub(super) fn info(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Info(names(arguments))))
}

pub(super) fn command(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let query = match arguments.optional() {
        None => CommandQuery::All,
        Some(subcommand) => match subcommand.to_ascii_uppercase().as_slice() {
            b"COUNT" => CommandQuery::Count,
            b"LIST" => CommandQuery::List,
            b"DOCS" => CommandQuery::Docs(names(arguments)),
            b"INFO" => CommandQuery::Info(names(arguments)),
            _ => return Err(arguments.unknown_subcommand(subcommand)),
        },
    };
    arguments.end()?;
    Ok(Command::Connection(ConnectionCommand::Command(query)))
}

pub(super) fn time(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Time))
}

pub(super) fn role(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Connection(ConnectionCommand::Role))
}

fn key(arguments: &mut Arguments<'_>) -> Result<Bytes, CommandError> {
    let key = arguments.bytes()?;
    if key.is_empty() { Err(CommandError::EmptyKey) } else { Ok(key) }
}

fn switch(arguments: &mut Arguments<'_>, command: ClientCommand) -> Result<ClientCommand, CommandError> {
    if arguments.keyword("ON") || arguments.keyword("OFF") { Ok(command) } else { Err(CommandError::Syntax) }
}

/// Names appear in lists with one line per client, so they may not contain spaces or line ends.
fn client_name(arguments: &mut Arguments<'_>) -> Result<String, CommandError> {
    const CLIENT_NAME_BYTES_MAX: usize = 256;
    let invalid = |why| Err(CommandError::InvalidId { what: "client name", why });
    let name = arguments.required()?;
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return invalid("longer than 256 bytes");
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return invalid("cannot contain spaces, newlines or special characters");
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn names(arguments: &mut Arguments<'_>) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(name) = arguments.optional() {
        names.push(String::from_utf8_lossy(name).to_ascii_lowercase());
    }
    names
}
