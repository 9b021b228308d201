//! Reconciling: compares a page of declared tasks with the engine's, and corrects the difference with plain submissions and
//! cancellations.

use tenure_engine::command::{Cursor, ListQuery};
use tenure_engine::{
    Answer, ArrayInfo, Command, Name, Peer, Query, Refusal, Reply, StateName, TaskId, Timestamp,
};

use super::Core;
use crate::reconcile::{
    DECLARED_MAX, Declared, DeclaredState, Difference, NameCursor, NameListing, Reconciled, ReconciledTask,
    Reconciliation,
};
use crate::refusal::HubRefusal;
use crate::request::{Response, Submission};

impl Core {
    pub(super) fn reconcile(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        page: Reconciliation,
    ) -> Result<Response, HubRefusal> {
        check(&page)?;
        if page.apply {
            self.accepts_tasks()?;
        }
        let Reconciliation { prefix, apply, as_of, declared, list } = page;
        let mut tasks = Vec::with_capacity(declared.len());
        for one in declared {
            let mut answer = self.compare(peer, &one, as_of);
            if apply {
                self.apply_difference(now, peer, &prefix, one, &mut answer);
            }
            tasks.push(answer);
        }
        let (names, next) = match list {
            None => (Vec::new(), None),
            Some(listing) => self.list_names(peer, &prefix, as_of, &listing)?,
        };
        Ok(Response::Reconciled(Box::new(Reconciled { now, tasks, names, next })))
    }

    fn compare(&self, peer: &Peer, declared: &Declared, as_of: Option<Timestamp>) -> ReconciledTask {
        let found = self.find_declared(peer, &declared.name);
        let is_young = |at: Timestamp| as_of.is_some_and(|as_of| at >= as_of);
        let difference = match (declared.there, found) {
            (DeclaredState::Exists, None) => Difference::Missing,
            (DeclaredState::Exists, Some((_, state, _))) if state.has_ended() => Difference::EndedHere,
            (DeclaredState::Ended, Some((_, state, _))) if !state.has_ended() => Difference::EndedThere,
            (DeclaredState::Unknown, Some((_, state, at))) if !state.has_ended() && !is_young(at) => {
                Difference::UnknownThere
            }
            _ => Difference::Same,
        };
        ReconciledTask {
            name: declared.name.clone(),
            difference,
            applied: false,
            task: found.map(|(task, _, _)| task),
            state: found.map(|(_, state, _)| state),
            refusal: None,
        }
    }

    /// The task or array of this name. They share the names of a namespace.
    fn find_declared(&self, peer: &Peer, name: &Name) -> Option<(TaskId, StateName, Timestamp)> {
        if let Ok(Answer::Task(task)) = self.engine.ask(peer, &Query::Find { name: name.clone() }) {
            return Some((task.id, task.state.name(), task.submitted_at));
        }
        match self.engine.ask(peer, &Query::FindArray { name: name.clone() }) {
            Ok(Answer::Array(array)) => Some((array.id, array.state, array.submitted_at)),
            _ => None,
        }
    }

    fn apply_difference(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        prefix: &str,
        declared: Declared,
        answer: &mut ReconciledTask,
    ) {
        let applied = match (answer.difference, declared.submission, answer.task) {
            (Difference::Missing, Some(mut submission), _) => {
                submission.task.reconciled_prefix = prefix_bytes(prefix);
                self.submit_missing(now, peer, submission)
            }
            (difference, _, Some(task)) if let Some(reason) = difference.reason() => {
                let cancel = Command::Cancel { task, reason: Some(reason.into()) };
                self.command(now, peer, cancel).map(|_| task)
            }
            _ => return,
        };
        match applied {
            Ok(task) => {
                answer.applied = true;
                answer.task = Some(task);
                answer.state = self.find_declared(peer, &answer.name).map(|(_, state, _)| state);
            }
            Err(refusal) => answer.refusal = Some(refusal),
        }
    }

    fn submit_missing(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        submission: Submission,
    ) -> Result<TaskId, HubRefusal> {
        match self.submit(now, peer, vec![submission])? {
            Response::Command(Reply::Submitted(mut each)) if each.len() == 1 => {
                Ok(each.remove(0).map(|accepted| accepted.task)?)
            }
            _ => unreachable!("a submission is answered for each task"),
        }
    }

    /// A page of the names here that begin so and have not ended. It may be short while there is a next one.
    fn list_names(
        &self,
        peer: &Peer,
        prefix: &str,
        as_of: Option<Timestamp>,
        listing: &NameListing,
    ) -> Result<(Vec<Name>, Option<NameCursor>), Refusal> {
        let (mut names, mut arrays_from) = (Vec::new(), None);
        if let Some(NameCursor::Arrays(cursor)) = listing.cursor {
            arrays_from = cursor;
        } else {
            let next;
            (names, next) = self.list_task_names(peer, prefix, as_of, listing.cursor)?;
            if next.is_some() {
                return Ok((names, next.map(NameCursor::Tasks)));
            }
        }
        let room = DECLARED_MAX - names.len();
        if room == 0 {
            return Ok((names, Some(NameCursor::Arrays(arrays_from))));
        }
        match self.engine.ask(peer, &Query::Arrays { cursor: arrays_from, limit: room })? {
            Answer::Arrays { arrays, next } => {
                let is_meant = |array: &ArrayInfo| {
                    !array.state.has_ended() && as_of.is_none_or(|as_of| array.submitted_at < as_of)
                };
                let of_arrays = arrays.into_iter().filter(is_meant).filter_map(|array| array.name);
                names.extend(of_arrays.filter(|name| name.starts_with(prefix)));
                Ok((names, next.map(|next| NameCursor::Arrays(Some(next)))))
            }
            _ => unreachable!("the arrays are answered with arrays"),
        }
    }

    fn list_task_names(
        &self,
        peer: &Peer,
        prefix: &str,
        as_of: Option<Timestamp>,
        from: Option<NameCursor>,
    ) -> Result<(Vec<Name>, Option<Cursor>), Refusal> {
        let cursor = from.and_then(|from| match from {
            NameCursor::Tasks(cursor) => Some(cursor),
            NameCursor::Arrays(_) => None,
        });
        let query = ListQuery {
            states: StateName::ALL.into_iter().filter(|state| !state.has_ended()).collect(),
            search: (!prefix.is_empty()).then(|| prefix.into()),
            submitted_before: as_of,
            without_elements: true,
            cursor,
            limit: DECLARED_MAX,
            ..ListQuery::default()
        };
        match self.engine.ask(peer, &Query::List(Box::new(query)))? {
            Answer::Tasks { tasks, next } => {
                let names = tasks.into_iter().filter_map(|task| task.name);
                Ok((names.filter(|name| name.starts_with(prefix)).collect(), next))
            }
            _ => unreachable!("a list is answered with tasks"),
        }
    }
}

/// The mark of a task that a reconciliation submits. The name begins with the prefix, so the prefix is not too long,
/// or the engine refuses the name.
fn prefix_bytes(prefix: &str) -> Option<u8> {
    u8::try_from(prefix.len()).ok()
}

fn check(page: &Reconciliation) -> Result<(), Refusal> {
    if page.declared.len() > DECLARED_MAX {
        return Err(Refusal::TooMany { what: "tasks in a page of a reconciliation", limit: DECLARED_MAX });
    }
    for declared in &page.declared {
        if !declared.name.starts_with(&*page.prefix) {
            return Err(Refusal::BadValue { what: "name", why: "does not begin with the prefix" });
        }
        let Some(submission) = &declared.submission else { continue };
        if submission.task.name.as_ref() != Some(&declared.name) {
            return Err(Refusal::BadValue { what: "task", why: "has another name than its entry" });
        }
    }
    Ok(())
}
