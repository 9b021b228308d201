//! Options that several commands share.

use super::arguments::Arguments;
use super::error::CommandError;

pub(crate) const PAGE_LIMIT_DEFAULT: usize = 100;
pub(crate) const PAGE_LIMIT_MAX: usize = 1000;

/// Which part of a long list is wanted. More than the limit is answered with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub offset: usize,
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { offset: 0, limit: PAGE_LIMIT_DEFAULT }
    }
}

impl Page {
    /// Takes `LIMIT n` or `OFFSET n` if it comes next.
    pub(super) fn take_option(&mut self, arguments: &mut Arguments<'_>) -> Result<bool, CommandError> {
        if arguments.keyword("LIMIT") {
            self.limit = limit(arguments)?;
        } else if arguments.keyword("OFFSET") {
            self.offset = arguments.size()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// What is left, as options or as a bare offset and limit.
    pub(super) fn rest(arguments: &mut Arguments<'_>) -> Result<Self, CommandError> {
        let mut page = Self::default();
        if arguments.peek().is_some_and(|argument| argument.first().is_some_and(u8::is_ascii_digit)) {
            page.offset = arguments.size()?;
            if arguments.left() > 0 {
                page.limit = limit(arguments)?;
            }
        }
        while page.take_option(arguments)? {}
        arguments.end()?;
        Ok(page)
    }
}

fn limit(arguments: &mut Arguments<'_>) -> Result<usize, CommandError> {
    match arguments.size()? {
        0 => Err(CommandError::NotPositive),
        limit => Ok(limit.min(PAGE_LIMIT_MAX)),
    }
}
