//! A page of a reconciliation: its JSON, and what the hub makes of it.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_hub::words::{Name, Refusal};
use tenure_hub::{Declared, DeclaredState, NameListing, Reconciled, ReconciledTask, Reconciliation};

use super::refusal::problem;
use super::submission::{TaskInput, TimeInput};
use super::word::time;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReconcileInput {
    prefix: String,
    apply: bool,
    as_of: Option<TimeInput>,
    declared: Vec<DeclaredInput>,
    list: bool,
    cursor: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredInput {
    name: String,
    #[serde(default)]
    there: Option<String>,
    #[serde(default)]
    task: Option<TaskInput>,
}

impl ReconcileInput {
    pub(crate) fn page(self) -> Result<Reconciliation, Refusal> {
        let cursor = self.cursor.map(|cursor| cursor.parse()).transpose()?;
        Ok(Reconciliation {
            prefix: self.prefix.into(),
            apply: self.apply,
            as_of: self.as_of.map(|at| at.at("as_of")).transpose()?,
            declared: self.declared.into_iter().map(DeclaredInput::declared).collect::<Result<_, _>>()?,
            list: self.list.then_some(NameListing { cursor }),
        })
    }
}

impl DeclaredInput {
    fn declared(self) -> Result<Declared, Refusal> {
        let why = "is none of exists, ended and unknown";
        let there = self.there.as_deref().map_or(Some(DeclaredState::Exists), DeclaredState::parse);
        let there = there.ok_or(Refusal::BadValue { what: "there", why })?;
        let name: Name = self.name.into();
        let submission = self.task.map(|mut task| {
            task.name.get_or_insert_with(|| name.to_string());
            task.submission()
        });
        Ok(Declared { there, submission: submission.transpose()?, name })
    }
}

pub(crate) fn reconciled(answer: &Reconciled) -> Value {
    let task = |one: &ReconciledTask| {
        json!({
            "name": &*one.name,
            "difference": one.difference.as_str(),
            "applied": one.applied,
            "task": one.task.map(|task| task.to_string()),
            "state": one.state.map(tenure_hub::words::StateName::as_str),
            "problem": one.refusal.as_ref().map(|no| problem(no).json()),
        })
    };
    json!({
        "now": time(answer.now),
        "tasks": answer.tasks.iter().map(task).collect::<Vec<_>>(),
        "names": answer.names.iter().map(|name| &**name).collect::<Vec<_>>(),
        "next": answer.next.as_ref().map(ToString::to_string),
    })
}
