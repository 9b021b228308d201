//! `tenure cluster namespaces`.

use serde_json::{Value, json};
use tenure_journal_postgres::{DEFAULT_ROW, PostgresJournal};

use crate::exit::{OK, Outcome};
use crate::output::Screen;
use crate::output::table::{Column, Table};
use crate::serve::cluster::start;

pub(super) fn show(journal: &PostgresJournal, screen: &Screen) -> Outcome {
    let placement = start::retry_as_tool(|| journal.placement())?;
    let groups = start::retry_as_tool(|| journal.groups())?;
    let text = || {
        let columns = [Column::Flexible("NAMESPACE"), Column::Fixed("GROUP"), Column::Fixed("STATE")];
        let mut table = Table::new(columns, "");
        let Some(placement) = &placement else {
            return match &groups[..] {
                [] | [_] => "no namespace is placed: the group serves all of them".to_owned(),
                _ => "no namespace is placed: each group serves all of them, for its own clients".to_owned(),
            };
        };
        for row in &placement.namespaces {
            let state = if row.is_moving { "moving" } else { "placed" };
            table.row([row.name.as_str().into(), row.group.as_str().into(), state.into()]);
        }
        table.row([DEFAULT_ROW.into(), placement.default_group.as_str().into(), "all others".into()]);
        table.render(screen.width, screen.paint)
    };
    let value = || {
        let placed = placement.iter().flat_map(|placement| &placement.namespaces);
        let rows: Vec<Value> = placed
            .map(|row| {
                let state = if row.is_moving { "moving" } else { "placed" };
                json!({ "namespace": row.name, "group": row.group, "state": state, "epoch": row.epoch })
            })
            .collect();
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let default = placement.as_ref().map(|placement| placement.default_group.as_str());
        json!({ "namespaces": rows, "default_group": default, "groups": names })
    };
    screen.one(text, value)?;
    Ok(OK)
}
