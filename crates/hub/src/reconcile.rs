//! Reconciliation: a client whose own store says which tasks should exist declares them page by page, and the broker
//! says, or mends, where the two differ. A page is complete in itself and may be sent again.

use tenure_engine::command::Cursor;
use tenure_engine::{Name, StateName, TaskId, Timestamp};

use crate::refusal::HubRefusal;
use crate::request::Submission;

/// How many tasks one page may declare, and how many names one page lists.
pub const DECLARED_MAX: usize = 1_000;

/// One page.
#[derive(Clone, Debug, Default)]
pub struct Reconciliation {
    /// The tasks in question are those whose names begin so.
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
#[derive(Clone, Debug, Default)]
pub struct NameListing {
    pub cursor: Option<Cursor>,
}

/// One task, as the other store knows it.
#[derive(Clone, Debug)]
pub struct Declared {
    pub name: Name,
    pub there: There,
    /// How to submit it, if it is missing here.
    pub submission: Option<Submission>,
}

/// What the other store says about a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum There {
    /// It should be here, and run.
    #[default]
    Exists,
    Ended,
    /// The other store does not know it.
    Unknown,
}

impl There {
    pub const ALL: [There; 3] = [There::Exists, There::Ended, There::Unknown];

    pub fn as_str(self) -> &'static str {
        match self {
            There::Exists => "exists",
            There::Ended => "ended",
            There::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<There> {
        There::ALL.into_iter().find(|there| there.as_str() == text)
    }
}

/// How a task differs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
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
    pub fn as_str(self) -> &'static str {
        match self {
            Difference::Same => "same",
            Difference::Missing => "missing",
            Difference::EndedHere => "ended-here",
            Difference::EndedThere => "ended-there",
            Difference::UnknownThere => "unknown-there",
        }
    }

    /// The reason of a cancellation that mends it.
    pub(crate) fn reason(self) -> Option<&'static str> {
        match self {
            Difference::EndedThere => Some("reconciliation: it has ended in the other store"),
            Difference::UnknownThere => Some("reconciliation: the other store does not know it"),
            Difference::Same | Difference::Missing | Difference::EndedHere => None,
        }
    }
}

/// One task of the answer, in the order of the page.
#[derive(Clone, Debug)]
pub struct ReconciledTask {
    pub name: Name,
    pub difference: Difference,
    /// The difference is mended: the task was submitted, or its cancellation requested.
    pub applied: bool,
    pub task: Option<TaskId>,
    pub state: Option<StateName>,
    /// Why it could not be mended.
    pub refusal: Option<HubRefusal>,
}

/// The answer to a page.
#[derive(Clone, Debug)]
pub struct Reconciled {
    /// The broker's clock: `as_of` for all pages, if this was the first.
    pub now: Timestamp,
    pub tasks: Vec<ReconciledTask>,
    pub names: Vec<Name>,
    /// Where the list of names continues.
    pub next: Option<Cursor>,
}
