//! Reconciliation with an outside store of tasks.

use std::collections::HashSet;

use tenure_wire::reconcile::{
    Declared as DeclaredRow, DeclaredState, Difference, Reconcile, Reconciled, ReconciledTask,
};
use tenure_wire::{Name, Reply, Request, Timestamp};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::submission::Submission;

/// Tasks in one page, and how much of their bodies.
const PAGE: usize = 1_000;
const PAGE_BYTES: usize = 1 << 20;

/// A task as the other store knows it.
#[derive(Clone, Debug)]
pub struct Declared {
    name: Name,
    there: DeclaredState,
    submission: Option<Submission>,
}

impl Declared {
    /// The task should exist. If it is missing, it can only be reported.
    pub fn exists(name: impl Into<Name>) -> Declared {
        Declared { name: name.into(), there: DeclaredState::Exists, submission: None }
    }

    /// The task has ended in the other store.
    pub fn ended(name: impl Into<Name>) -> Declared {
        Declared { there: DeclaredState::Ended, ..Declared::exists(name) }
    }

    /// Says how to submit the task if it is missing. The submission gets the name of the entry.
    #[must_use]
    pub fn submission(mut self, submission: Submission) -> Declared {
        self.submission = Some(submission.name(Name::clone(&self.name)));
        self
    }
}

/// A reconciliation under way. Each page is complete in itself: after a crash of either side, begin again.
#[derive(Debug)]
pub struct Reconciler {
    client: Client,
    prefix: Box<str>,
    apply: bool,
    as_of: Timestamp,
    known: HashSet<Name>,
    page: Vec<Declared>,
    page_bytes: usize,
    found: Vec<ReconciledTask>,
}

impl Client {
    /// Begins to compare the tasks whose names begin with `prefix` with those of another store. Read that store after
    /// this call: tasks that are submitted later are left alone. With `apply`, the broker submits what is missing and
    /// cancels what the other store does not know or has ended; otherwise it only says so.
    pub async fn reconcile(&self, prefix: impl Into<Box<str>>, apply: bool) -> Result<Reconciler, Error> {
        let prefix = prefix.into();
        let first = self.reconcile_page(Reconcile { prefix: prefix.clone(), ..Reconcile::default() }).await?;
        Ok(Reconciler {
            client: self.clone(),
            prefix,
            apply,
            as_of: first.now,
            known: HashSet::new(),
            page: Vec::new(),
            page_bytes: 0,
            found: Vec::new(),
        })
    }

    /// Sends one page. Every page may be sent again: submissions have names, and a cancelled task stays cancelled.
    async fn reconcile_page(&self, page: Reconcile) -> Result<Reconciled, Error> {
        match self.query("reconcile", Request::Reconcile(Box::new(page))).await? {
            Reply::Reconciled(reconciled) => Ok(*reconciled),
            other => Err(unexpected("reconcile", &other)),
        }
    }
}

impl Reconciler {
    /// Declares one task of the other store.
    pub async fn declare(&mut self, declared: Declared) -> Result<(), Error> {
        let bytes = declared.submission.as_ref().map_or(0, Submission::bytes);
        if self.page.len() == PAGE || (!self.page.is_empty() && self.page_bytes + bytes > PAGE_BYTES) {
            self.send().await?;
        }
        self.page_bytes += bytes;
        self.known.insert(declared.name.clone());
        self.page.push(declared);
        Ok(())
    }

    /// Sends the rest, then looks for tasks that the other store does not know. Returns all differences; those that
    /// were mended have `applied`.
    pub async fn finish(mut self) -> Result<Vec<ReconciledTask>, Error> {
        self.send().await?;
        let mut cursor = None;
        loop {
            let page = Reconcile { list: true, cursor, ..self.blank() };
            let answer = self.client.reconcile_page(page).await?;
            for name in answer.names {
                if !self.known.contains(&name) {
                    self.declare(Declared { there: DeclaredState::Unknown, ..Declared::exists(name) })
                        .await?;
                }
            }
            cursor = answer.next;
            if cursor.is_none() {
                break;
            }
        }
        self.send().await?;
        Ok(self.found)
    }

    async fn send(&mut self) -> Result<(), Error> {
        if self.page.is_empty() {
            return Ok(());
        }
        let mut page = self.blank();
        for Declared { name, there, submission } in std::mem::take(&mut self.page) {
            let task = submission.map(|Submission { terms, mut task }| {
                if page.terms.last() != Some(&terms) {
                    page.terms.push(terms);
                }
                task.terms = (page.terms.len() - 1) as u32;
                task
            });
            page.declared.push(DeclaredRow { name, there, task });
        }
        self.page_bytes = 0;
        let answer = self.client.reconcile_page(page).await?;
        self.found.extend(answer.tasks.into_iter().filter(|task| task.difference != Difference::Same));
        Ok(())
    }

    fn blank(&self) -> Reconcile {
        Reconcile {
            prefix: self.prefix.clone(),
            apply: self.apply,
            as_of: Some(self.as_of),
            ..Reconcile::default()
        }
    }
}
