//! Reconciliation with an outside store of tasks.

use crate::Name;
use crate::id::TaskId;
use crate::refusal::Refusal;
use crate::schema::{message, row, words};
use crate::task::{NewTask, Terms};
use crate::time::Timestamp;
use crate::words::StateName;

words! {
    /// The state of a task in the other store.
    pub enum DeclaredState {
        /// It should be here, and run.
        Exists = "exists",
        Ended = "ended",
        /// The other store does not know it.
        Unknown = "unknown",
    }
}

words! {
    /// How a task differs between the two.
    pub enum Difference {
        Same = "same",
        /// It exists there, but not here.
        Missing = "missing",
        /// It has ended here, but not there.
        EndedHere = "ended-here",
        /// It has ended there, but not here.
        EndedThere = "ended-there",
        /// It has not ended here, and is not known there.
        UnknownThere = "unknown-there",
    }
}

message! {
    /// One page of what should exist.
    #[derive(Default)]
    pub struct Reconcile {
        /// The tasks in question are those whose names begin with this.
        prefix: Box<str>,
        /// Submit what is missing and cancel what should not be.
        apply: bool,
        /// `now` of the first answer. Younger tasks are not cancelled.
        as_of: Option<Timestamp>,
        /// The terms of the tasks to submit.
        terms: Vec<Terms>,
        declared: Vec<Declared>,
        /// List a page of the names here that have not ended.
        list: bool,
        /// `next` of the previous page.
        cursor: Option<Box<str>>,
    }
}

row! {
    /// One task, as the other store knows it.
    pub struct Declared {
        name: Name,
        there: DeclaredState = DeclaredState::Exists,
        /// How to submit it, if it is missing here. Its name is that of the entry.
        task: Option<NewTask>,
    }
}

message! {
    /// The answer to one page.
    pub struct Reconciled {
        /// The broker's clock.
        now: Timestamp,
        /// One for each declared task, in order.
        tasks: Vec<ReconciledTask>,
        names: Vec<Name>,
        next: Option<Box<str>>,
    }
}

row! {
    /// The result of reconciliation for one task.
    pub struct ReconciledTask {
        name: Name,
        difference: Difference,
        /// The difference is corrected.
        applied: bool,
        task: Option<TaskId>,
        state: Option<StateName>,
        /// Why it could not be corrected.
        refusal: Option<Refusal>,
    }
}
