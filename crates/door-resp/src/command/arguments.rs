//! A cursor over a command's arguments.

use std::time::Duration;

use bytes::Bytes;

use super::error::{CommandError, quoted};
use crate::codec::RawCommand;
use crate::key::{RespKey, RespQueueKey};

/// Longer timeouts are practically unlimited.
const TIMEOUT_SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;
/// Longest id of a job, plan, action or worker as an argument.
const ID_BYTES_MAX: usize = 256;
/// Longest name of a queue.
const QUEUE_NAME_BYTES_MAX: usize = 256;

pub(super) struct Arguments<'a> {
    request: &'a RawCommand<'a>,
    name: &'static str,
    at: usize,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(request: &'a RawCommand<'a>, name: &'static str) -> Self {
        Self { request, name, at: 1 }
    }

    /// The command's name in lower case, as error messages write it.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn left(&self) -> usize {
        self.request.argument_count() + 1 - self.at
    }

    pub(super) fn optional(&mut self) -> Option<&'a [u8]> {
        let argument = self.peek();
        self.at += usize::from(argument.is_some());
        argument
    }

    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        (self.left() > 0).then(|| self.request.argument(self.at))
    }

    /// Whether the predicate holds for all remaining arguments.
    pub(super) fn all(&self, is_so: impl Fn(&[u8]) -> bool) -> bool {
        (self.at..=self.request.argument_count()).all(|at| is_so(self.request.argument(at)))
    }

    pub(super) fn required(&mut self) -> Result<&'a [u8], CommandError> {
        self.optional().ok_or(CommandError::WrongNumberOfArguments(self.name))
    }

    /// The argument's bytes without copying.
    pub(super) fn bytes(&mut self) -> Result<Bytes, CommandError> {
        self.required()?;
        Ok(self.request.share(self.at - 1))
    }

    /// Takes the next argument if it is this word, in any case.
    pub(super) fn keyword(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()));
        self.at += usize::from(found);
        found
    }

    /// The argument after this word, at any position.
    pub(super) fn after_keyword(&self, word: &str) -> Option<&'a [u8]> {
        let last = self.request.argument_count();
        let at =
            (self.at..last).find(|at| self.request.argument(*at).eq_ignore_ascii_case(word.as_bytes()))?;
        Some(self.request.argument(at + 1))
    }

    pub(super) fn end(&self) -> Result<(), CommandError> {
        if self.left() == 0 { Ok(()) } else { Err(CommandError::Syntax) }
    }

    pub(super) fn text(&mut self) -> Result<String, CommandError> {
        Ok(String::from_utf8_lossy(self.required()?).into_owned())
    }

    pub(super) fn integer(&mut self) -> Result<i64, CommandError> {
        parse_text(self.required()?).ok_or(CommandError::NotAnInteger)
    }

    /// A count that may be zero.
    pub(super) fn size(&mut self) -> Result<usize, CommandError> {
        let value = self.integer()?;
        usize::try_from(value).map_err(|_| CommandError::NotPositive)
    }

    /// Seconds, possibly with a fraction. Zero means no limit and becomes `None`.
    pub(super) fn timeout_seconds(&mut self) -> Result<Option<Duration>, CommandError> {
        let seconds: f64 = parse_text(self.required()?).ok_or(CommandError::TimeoutNotAFloat)?;
        if !seconds.is_finite() || seconds > TIMEOUT_SECONDS_MAX {
            return Err(CommandError::TimeoutNotAFloat);
        }
        if seconds < 0.0 {
            return Err(CommandError::TimeoutNegative);
        }
        // Redis rounds up to the millisecond; a shorter timeout must not become zero, which means no limit.
        Ok((seconds > 0.0).then(|| Duration::from_secs_f64(seconds).max(Duration::from_millis(1))))
    }

    /// Whole milliseconds. Zero means no limit and becomes `None`.
    pub(super) fn timeout_millis(&mut self) -> Result<Option<Duration>, CommandError> {
        let millis: i64 = parse_text(self.required()?).ok_or(CommandError::TimeoutNotAnInteger)?;
        match u64::try_from(millis) {
            Err(_) => Err(CommandError::TimeoutNegative),
            Ok(0) => Ok(None),
            Ok(millis) => Ok(Some(Duration::from_millis(millis))),
        }
    }

    pub(super) fn key(&mut self) -> Result<RespKey, CommandError> {
        Ok(RespKey::parse(self.required()?))
    }

    /// A key that must name a queue. A view of another kind has the wrong type.
    pub(super) fn queue_key(&mut self) -> Result<RespQueueKey, CommandError> {
        let argument = self.required()?;
        match RespKey::parse(argument) {
            RespKey::Queue(queue) => checked(queue),
            RespKey::Unknown => Err(CommandError::NotAQueue(quoted(argument))),
            _ => Err(CommandError::WrongType),
        }
    }

    /// A queue that is popped as the bytes that were pushed: `raw:<queue>`.
    pub(super) fn raw_queue_key(&mut self) -> Result<RespQueueKey, CommandError> {
        let argument = self.required()?;
        match std::str::from_utf8(argument).ok().and_then(|text| text.strip_prefix("raw:")) {
            Some(name) if !name.is_empty() => checked(RespQueueKey::parse(name)),
            _ => Err(CommandError::NotAQueue(quoted(argument))),
        }
    }

    /// A queue by its bare name or by its key.
    pub(super) fn queue_name(&mut self) -> Result<RespQueueKey, CommandError> {
        let argument = self.required()?;
        match RespKey::parse(argument) {
            RespKey::Queue(queue) => checked(queue),
            _ => match std::str::from_utf8(argument) {
                Ok(name) if !name.is_empty() => checked(RespQueueKey::parse(name)),
                _ => Err(CommandError::NotAQueue(quoted(argument))),
            },
        }
    }

    /// The id of something that may or may not exist; only the form is checked.
    pub(super) fn id(&mut self, what: &'static str) -> Result<String, CommandError> {
        let invalid = |why| Err(CommandError::InvalidId { what, why });
        let Ok(id) = std::str::from_utf8(self.required()?) else { return invalid("not UTF-8") };
        if id.is_empty() {
            return invalid("empty");
        }
        if id.len() > ID_BYTES_MAX {
            return invalid("longer than 256 bytes");
        }
        if id.chars().any(char::is_control) {
            return invalid("holds control characters");
        }
        Ok(id.to_owned())
    }

    pub(super) fn unknown_subcommand(&self, subcommand: &[u8]) -> CommandError {
        CommandError::UnknownSubcommand { command: self.name, subcommand: quoted(subcommand) }
    }
}

fn checked(queue: RespQueueKey) -> Result<RespQueueKey, CommandError> {
    let invalid = |why| Err(CommandError::InvalidId { what: "queue name", why });
    match &queue {
        RespQueueKey::Named(name) if name.len() > QUEUE_NAME_BYTES_MAX => invalid("longer than 256 bytes"),
        RespQueueKey::Named(name) if name.chars().any(char::is_control) => {
            invalid("holds control characters")
        }
        _ => Ok(queue),
    }
}

pub(super) fn parse_text<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
