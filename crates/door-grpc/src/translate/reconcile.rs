//! Converts pages of a reconciliation.

use tenure_hub::words::{Refusal, Timestamp};
use tenure_hub::{Declared, DeclaredState, NameListing, Reconciled, ReconciledTask, Reconciliation};

use super::ask::SubmitTemplate;
use super::refusal::refusal;
use super::word::{name, some_text};
use crate::proto::tenure::v1 as pb;

pub(crate) fn reconciliation(request: pb::ReconcileRequest) -> Result<Reconciliation, Refusal> {
    let templates: Vec<SubmitTemplate> = request.terms.into_iter().map(SubmitTemplate::new).collect();
    let cursor = some_text(request.cursor).map(|cursor| cursor.parse()).transpose()?;
    let declared = request.declared.into_iter().map(|one| declared(&templates, one));
    Ok(Reconciliation {
        prefix: request.prefix.into(),
        apply: request.apply,
        as_of: request.as_of.map(Timestamp),
        declared: declared.collect::<Result<_, _>>()?,
        list: request.list.then_some(NameListing { cursor }),
    })
}

fn declared(templates: &[SubmitTemplate], one: pb::DeclaredTask) -> Result<Declared, Refusal> {
    let why = "is none of exists, ended and unknown";
    let there =
        if one.there.is_empty() { Some(DeclaredState::Exists) } else { DeclaredState::parse(&one.there) };
    let there = there.ok_or(Refusal::BadValue { what: "there", why })?;
    let submission = one.task.map(|mut task| {
        if task.name.is_empty() {
            task.name.clone_from(&one.name);
        }
        SubmitTemplate::submission(templates, task)
    });
    Ok(Declared { there, submission: submission.transpose()?, name: name(one.name) })
}

pub(crate) fn reconciled(answer: &Reconciled) -> pb::ReconcileResponse {
    let task = |one: &ReconciledTask| pb::ReconciledTask {
        name: one.name.to_string(),
        difference: one.difference.as_str().to_owned(),
        applied: one.applied,
        task: one.task.map(|task| task.to_string()).unwrap_or_default(),
        state: one.state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
        refused: one.refusal.as_ref().map(refusal),
    };
    pb::ReconcileResponse {
        now: answer.now.0,
        tasks: answer.tasks.iter().map(task).collect(),
        names: answer.names.iter().map(ToString::to_string).collect(),
        next: answer.next.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}
