//! Reconciliation: a client whose own store says which tasks should exist declares them page by page, and the broker
//! says, or corrects, where the two differ. A page is complete in itself and may be sent again.

use tenure_engine::command::{ArrayCursor, Cursor};
use tenure_engine::{Name, Refusal, StateName, TaskId, Timestamp};

use crate::refusal::HubRefusal;
use crate::request::Submission;

/// How many tasks one page may declare, and how many names one page lists.
pub const DECLARED_MAX: usize = 1_000;

/// One page.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default)]
pub struct Reconciliation {
    /// The tasks in question are those whose names begin with this.
    pub prefix: Box<str>,
    /// Submit what is missing and cancel what should not be; otherwise only say it.
    pub apply: bool,
    /// When the client began to read its store. Younger tasks here are not cancelled: the declaration cannot know them.
    pub as_of: Option<Timestamp>,
    pub declared: Vec<Declared>,
    /// List a page of the names here that have not ended, so that the client can find those it does not know.
    pub list: Option<NameListing>,
}

/// A page of names.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default)]
pub struct NameListing {
    pub cursor: Option<NameCursor>,
}

/// Where the list of names continues: those of tasks come first, then those of arrays. Opaque to callers: it only prints
/// and parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCursor {
    /// Among the tasks.
    Tasks(Cursor),
    /// Among the arrays; `None` before the first.
    Arrays(Option<ArrayCursor>),
}

/// How a cursor among the arrays begins.
const ARRAYS: &str = "arrays";

impl std::fmt::Display for NameCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NameCursor::Tasks(cursor) => cursor.fmt(f),
            NameCursor::Arrays(None) => f.write_str(ARRAYS),
            NameCursor::Arrays(Some(cursor)) => write!(f, "{ARRAYS}:{cursor}"),
        }
    }
}

impl std::str::FromStr for NameCursor {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<NameCursor, Refusal> {
        match text.split_once(':') {
            _ if text == ARRAYS => Ok(NameCursor::Arrays(None)),
            Some((ARRAYS, cursor)) => Ok(NameCursor::Arrays(Some(cursor.parse()?))),
            _ => Ok(NameCursor::Tasks(text.parse()?)),
        }
    }
}

/// One task or array, as the other store knows it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: Name,
    pub there: DeclaredState,
    /// How to submit it, if it is missing here.
    pub submission: Option<Submission>,
}

/// The state of a task in the other store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeclaredState {
    /// It should be here, and run.
    #[default]
    Exists,
    /// It has ended there.
    Ended,
    /// The other store does not know it.
    Unknown,
}

impl DeclaredState {
    /// All of them.
    pub const ALL: [DeclaredState; 3] = [DeclaredState::Exists, DeclaredState::Ended, DeclaredState::Unknown];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            DeclaredState::Exists => "exists",
            DeclaredState::Ended => "ended",
            DeclaredState::Unknown => "unknown",
        }
    }

    /// The value with this word.
    pub fn parse(text: &str) -> Option<DeclaredState> {
        DeclaredState::ALL.into_iter().find(|there| there.as_str() == text)
    }
}

/// How a task differs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Both stores agree.
    Same,
    /// It exists there, but not here.
    Missing,
    /// It has ended here, but not there.
    EndedHere,
    /// It has ended there, but not here.
    EndedThere,
    /// It has not ended here, and is not known there.
    UnknownThere,
}

impl Difference {
    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Difference::Same => "same",
            Difference::Missing => "missing",
            Difference::EndedHere => "ended-here",
            Difference::EndedThere => "ended-there",
            Difference::UnknownThere => "unknown-there",
        }
    }

    /// The reason of a cancellation that corrects it.
    pub(crate) fn reason(self) -> Option<&'static str> {
        match self {
            Difference::EndedThere => Some("reconciliation: it has ended in the other store"),
            Difference::UnknownThere => Some("reconciliation: the other store does not know it"),
            Difference::Same | Difference::Missing | Difference::EndedHere => None,
        }
    }
}

/// One task of the answer, in the order of the page.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug)]
pub struct ReconciledTask {
    pub name: Name,
    pub difference: Difference,
    /// The difference is corrected: the task was submitted, or its cancellation requested.
    pub applied: bool,
    pub task: Option<TaskId>,
    pub state: Option<StateName>,
    /// Why it could not be corrected.
    pub refusal: Option<HubRefusal>,
}

/// The answer to a page.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug)]
pub struct Reconciled {
    /// The broker's clock: `as_of` for all pages, if this was the first.
    pub now: Timestamp,
    pub tasks: Vec<ReconciledTask>,
    pub names: Vec<Name>,
    /// Where the list of names continues.
    pub next: Option<NameCursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_printed() {
        let array = "arrays:7:0190b5a2-77f0-7cc3-98b4-dc0c0c07398f";
        for text in ["any:1:-2:3", "arrays", array] {
            let cursor: NameCursor = text.parse().expect("a cursor");
            assert_eq!(cursor.to_string(), text);
        }
        for text in ["", "arrays:", "arrays:any:1:2:3", "array", "any"] {
            assert!(text.parse::<NameCursor>().is_err(), "{text}");
        }
    }
}
