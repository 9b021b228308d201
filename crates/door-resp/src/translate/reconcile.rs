//! Reconciliation with another store of tasks.

use serde_json::{Value, json};
use tenure_hub::words::{StateName, Timestamp};
use tenure_hub::{Declared, DeclaredState, NameListing, Reconciled, ReconciledTask, Reconciliation, Request};

use super::CallerInfo;
use super::last::LastReply;
use super::refusals::refusal_text;
use super::render::time;
use super::submit::template;
use crate::codec::Reply;
use crate::command::ReconcileCommand;
use crate::flow::FlowStep;
use crate::json::DeclaredDocument;

pub(super) fn start(command: ReconcileCommand, speaker: &CallerInfo) -> FlowStep {
    let ReconcileCommand { prefix, page } = command;
    let Ok(cursor) = page.cursor.as_deref().map(str::parse).transpose() else {
        return FlowStep::error("ERR Invalid reconciliation: cursor is not one that was returned");
    };
    let declared = page.declared.into_iter().map(|one| declared(one, speaker));
    let declared = match declared.collect::<Result<_, _>>() {
        Ok(declared) => declared,
        Err(reply) => return FlowStep::Reply(reply),
    };
    let page = Reconciliation {
        prefix: prefix.into(),
        apply: page.apply,
        as_of: page.as_of.map(Timestamp),
        declared,
        list: page.list.then_some(NameListing { cursor }),
    };
    FlowStep::Last(Request::Reconcile(Box::new(page)), LastReply::Reconciled)
}

fn declared(document: DeclaredDocument, speaker: &CallerInfo) -> Result<Declared, Reply> {
    let DeclaredDocument { name, there, job } = document;
    let wrong = || Reply::error("ERR Invalid reconciliation: there is none of exists, ended and unknown");
    let there =
        there.as_deref().map_or(Some(DeclaredState::Exists), DeclaredState::parse).ok_or_else(wrong)?;
    let submission = job.map(|mut job| {
        job.name.get_or_insert_with(|| name.clone());
        template(job, speaker)
    });
    Ok(Declared { there, submission: submission.transpose()?, name: name.into() })
}

pub(super) fn reconciled_json(answer: &Reconciled) -> Value {
    let task = |one: &ReconciledTask| {
        json!({
            "name": &*one.name,
            "difference": one.difference.as_str(),
            "applied": one.applied,
            "job": one.task.map(|task| task.to_string()),
            "state": one.state.map(StateName::as_str),
            "error": one.refusal.as_ref().map(refusal_text),
        })
    };
    json!({
        "now": time(answer.now),
        "tasks": answer.tasks.iter().map(task).collect::<Vec<_>>(),
        "names": answer.names.iter().map(|name| &**name).collect::<Vec<_>>(),
        "next": answer.next.as_ref().map(ToString::to_string),
    })
}
