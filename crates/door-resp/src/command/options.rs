//! Options that several commands share.

use super::arguments::{Arguments, parse_text};
use super::error::{CommandError, quoted};

pub(crate) const PAGE_LIMIT_DEFAULT: usize = 100;
pub(crate) const PAGE_LIMIT_MAX: usize = 1000;

/// Which part of a long list to return. A higher number than the limit counts as the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageOptions {
    pub offset: usize,
    pub limit: usize,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self { offset: 0, limit: PAGE_LIMIT_DEFAULT }
    }
}

impl PageOptions {
    /// Takes `LIMIT n` or `OFFSET n` if it comes next.
    pub(super) fn take_option(&mut self, arguments: &mut Arguments<'_>) -> Result<bool, CommandError> {
        if arguments.keyword("LIMIT") {
            self.limit = limit(arguments)?;
        } else if arguments.keyword("OFFSET") {
            self.offset = offset(arguments)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// What is left, as options or as a bare offset and limit.
    pub(super) fn rest(arguments: &mut Arguments<'_>) -> Result<Self, CommandError> {
        let mut page = Self::default();
        if arguments.peek().is_some_and(|word| !is_option(word)) {
            page.take_bare(arguments)?;
        }
        while page.take_option(arguments)? {}
        arguments.end()?;
        Ok(page)
    }

    /// Takes a bare offset, and a limit if one follows.
    pub(super) fn take_bare(&mut self, arguments: &mut Arguments<'_>) -> Result<(), CommandError> {
        self.offset = offset(arguments)?;
        if arguments.peek().is_some_and(|word| !is_option(word)) {
            self.limit = limit(arguments)?;
        }
        Ok(())
    }
}

/// Whether a word begins an option of a page.
pub(super) fn is_option(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"LIMIT") || word.eq_ignore_ascii_case(b"OFFSET")
}

pub(super) fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

fn offset(arguments: &mut Arguments<'_>) -> Result<usize, CommandError> {
    let word = arguments.required()?;
    parse_text(word).ok_or_else(|| CommandError::Offset(quoted(word)))
}

fn limit(arguments: &mut Arguments<'_>) -> Result<usize, CommandError> {
    let word = arguments.required()?;
    match parse_text::<u64>(word) {
        Some(0) => Err(CommandError::LimitZero),
        Some(limit) => Ok(usize::try_from(limit).unwrap_or(PAGE_LIMIT_MAX).min(PAGE_LIMIT_MAX)),
        // A number with too many digits is above the limit as well.
        None if is_number(word) => Ok(PAGE_LIMIT_MAX),
        None => Err(CommandError::Limit(quoted(word))),
    }
}
