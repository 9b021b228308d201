//! `tenure reconcile`: compares the tasks here with those of another store, and corrects the difference.

use std::io::BufRead as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};
use tenure_client::{Client, Declared, Difference, ReconciledTask};

use super::submit::lines::{self, Defaults};
use super::submit::options::Options;
use super::submit::references::References;
use super::submit::shell::{Shell, SubmitterEnvironment};
use crate::exit::{FOUND_TROUBLE, Failure, OK, Outcome};
use crate::output::paint::{Color, escape_line};
use crate::output::table::{Cell, Column, Table};
use crate::output::{Screen, remark};
use crate::units::counted;

/// Compare tasks with those of another store, and submit or cancel the difference
#[derive(Args, Debug)]
#[command(after_help = "\
Each line of the file is a task that should exist: {\"name\": \"job/7\"}, with \"ended\": true if it has ended
there, and with \"command\" or \"body\" and options as keys, which say how to submit it if it is missing.
Tasks here whose names begin with the prefix and that are on no line are unknown there. An array counts as one task.

Without --apply nothing changes. With it, missing tasks are submitted, and those that are unknown or have
ended there are cancelled. It is safe to run again, also after it was interrupted.

Examples:
  tenure reconcile --prefix job/ --jsonl jobs.jsonl
  export-jobs | tenure reconcile --prefix job/ --jsonl - --apply")]
pub(crate) struct Reconcile {
    /// Compare only tasks whose names begin with this
    #[arg(long, value_name = "PREFIX")]
    prefix: String,
    /// Read the tasks of the other store: one JSON object per line; - reads stdin
    #[arg(long, value_name = "FILE")]
    jsonl: PathBuf,
    /// Submit and cancel the difference
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    options: Options,
}

impl Reconcile {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        // Before the file is read, so that what is submitted meanwhile is left alone.
        let mut reconciler = client.reconcile(self.prefix.as_str(), self.apply).await?;
        let shell = Shell::default();
        let defaults = Defaults {
            options: &self.options.unnamed().resolved(client).await?,
            shell: &shell,
            around: SubmitterEnvironment::of_this_process(),
        };
        let mut references = References::new(client);
        let mut declared = Vec::new();
        for (index, line) in lines::open(&self.jsonl)?.split(b'\n').enumerate() {
            let wrong =
                |why: String| Failure::input(format!("{}:{}: {why}", self.jsonl.display(), index + 1));
            let line = line.map_err(|error| wrong(error.to_string()))?;
            if !line.trim_ascii().is_empty() {
                let one = self.declared(&line, &defaults, &mut references, screen.now).await;
                declared.push(one.map_err(wrong)?);
            }
        }
        for one in declared {
            reconciler.declare(one).await?;
        }
        let found = reconciler.finish().await?;
        screen.list(|| table(&found), || found.iter().map(value).collect())?;
        if screen.is_table() {
            remark(self.sentence(&found));
        }
        let is_mended = |task: &ReconciledTask| task.applied || task.difference == Difference::EndedHere;
        Ok(if !self.apply || found.iter().all(is_mended) { OK } else { FOUND_TROUBLE })
    }

    async fn declared(
        &self,
        line: &[u8],
        defaults: &Defaults<'_>,
        references: &mut References<'_>,
        now: u64,
    ) -> Result<Declared, String> {
        let value: Value = serde_json::from_slice(line).map_err(|error| format!("is not JSON: {error}"))?;
        let Value::Object(mut fields) = value else { return Err("is not a JSON object".to_owned()) };
        let name = match fields.get("name") {
            Some(Value::String(name)) => name.clone(),
            Some(_) => return Err("name: is not a text".to_owned()),
            None => return Err("name: is missing".to_owned()),
        };
        if !name.starts_with(&self.prefix) {
            return Err(format!("name: {} does not begin with the prefix", escape_line(&name)));
        }
        let ended = match fields.remove("ended") {
            None => false,
            Some(Value::Bool(ended)) => ended,
            Some(_) => return Err("ended: is neither true nor false".to_owned()),
        };
        if ended {
            return Ok(Declared::ended(name));
        }
        if !submission_fields(&fields) {
            return Ok(Declared::exists(name));
        }
        let mut fields = lines::renamed(fields);
        references.in_fields(&mut fields).await.map_err(|failure| failure.message)?;
        Ok(Declared::exists(name).submission(lines::task(&fields, defaults, now)?))
    }

    fn sentence(&self, found: &[ReconciledTask]) -> String {
        let differences = counted(found.len() as u64, "difference", "differences");
        let applied = found.iter().filter(|task| task.applied).count();
        match (found.len(), self.apply) {
            (0, _) => "no difference".to_owned(),
            (_, true) => format!("{differences}, {applied} corrected"),
            (_, false) => format!("{differences}; nothing was changed: add --apply to correct them"),
        }
    }
}

/// Whether a line says how to submit its task.
fn submission_fields(fields: &Map<String, Value>) -> bool {
    fields.keys().any(|field| field != "name")
}

fn value(task: &ReconciledTask) -> Value {
    json!({
        "name": &*task.name,
        "difference": task.difference.as_str(),
        "applied": task.applied,
        "task": task.task.map(|task| task.to_string()),
        "state": task.state.as_ref().map(tenure_client::StateName::as_str),
        "refused": task.refusal.as_ref().map(|refusal| json!({
            "code": refusal.code.as_str(), "message": refusal.message,
        })),
    })
}

fn table(found: &[ReconciledTask]) -> Table {
    let columns = [
        Column::Flexible("NAME"),
        Column::Fixed("DIFFERENCE"),
        Column::Fixed("STATE"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no difference");
    for task in found {
        let note = match (&task.refusal, task.applied) {
            (Some(refusal), _) => Cell::new(refusal.to_string(), Color::Red),
            (None, true) => Cell::new("corrected".to_owned(), Color::Green),
            (None, false) => Cell::from(""),
        };
        table.row([
            task.name.to_string().into(),
            task.difference.as_str().to_owned().into(),
            task.state.as_ref().map(|state| state.as_str().to_owned()).unwrap_or_default().into(),
            note,
        ]);
    }
    table
}
