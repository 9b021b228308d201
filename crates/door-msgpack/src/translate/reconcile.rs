//! Converts pages of a reconciliation.

use tenure_hub::words::Refusal;
use tenure_hub::{
    Declared, DeclaredState, Difference, NameListing, Reconciled, ReconciledTask, Reconciliation,
};
use tenure_wire::reconcile;

use super::ask::Template;
use super::refusal::refusal;
use super::word::{from_time, name, task, time, unknown_word};

pub(crate) fn reconciliation(page: reconcile::Reconcile) -> Result<Reconciliation, Refusal> {
    let templates: Vec<Template> = page.terms.into_iter().map(Template::new).collect();
    let cursor = page.cursor.map(|cursor| cursor.parse()).transpose()?;
    let declared = page.declared.into_iter().map(|one| declared(&templates, one));
    Ok(Reconciliation {
        prefix: page.prefix,
        apply: page.apply,
        as_of: page.as_of.map(from_time),
        declared: declared.collect::<Result<_, _>>()?,
        list: page.list.then_some(NameListing { cursor }),
    })
}

fn declared(templates: &[Template], one: reconcile::Declared) -> Result<Declared, Refusal> {
    let there = DeclaredState::parse(one.there.as_str()).ok_or(unknown_word("there"))?;
    let submission = one.task.map(|mut task| {
        task.name.get_or_insert_with(|| one.name.clone());
        Template::submission(templates, task)
    });
    Ok(Declared { there, submission: submission.transpose()?, name: one.name })
}

pub(super) fn reconciled(answer: &Reconciled) -> reconcile::Reconciled {
    let row = |one: &ReconciledTask| reconcile::ReconciledTask {
        name: one.name.clone(),
        difference: match one.difference {
            Difference::Same => reconcile::Difference::Same,
            Difference::Missing => reconcile::Difference::Missing,
            Difference::EndedHere => reconcile::Difference::EndedHere,
            Difference::EndedThere => reconcile::Difference::EndedThere,
            Difference::UnknownThere => reconcile::Difference::UnknownThere,
        },
        applied: one.applied,
        task: one.task.map(task),
        state: one.state.map(name),
        refusal: one.refusal.as_ref().map(refusal),
    };
    reconcile::Reconciled {
        now: time(answer.now),
        tasks: answer.tasks.iter().map(row).collect(),
        names: answer.names.clone(),
        next: answer.next.as_ref().map(|cursor| cursor.to_string().into()),
    }
}
