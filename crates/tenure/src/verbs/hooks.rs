//! `tenure hooks`: shows the hooks of the broker, and sends what they could not deliver again.

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{Client, HookInfo, UndeliveredEvent};

use crate::exit::{OK, Outcome};
use crate::output::paint::Color;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Screen, json};
use crate::units::counted;

/// Show webhooks and command hooks, and send what they could not deliver again
#[derive(Args, Debug)]
#[command(after_help = "\
The configuration file defines hooks, under [[webhooks]] and [[on_event]].

Examples:
  tenure hooks                   the state of each hook
  tenure hooks undelivered ops   the events that the hook `ops` has given up
  tenure hooks redeliver ops     send all of them again
  tenure hooks redeliver ops --event 1234  send one of them again")]
pub(crate) struct Hooks {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show all hooks of the namespace
    List,
    /// Show the events that a hook has given up
    Undelivered {
        /// Name of the hook
        hook: String,
    },
    /// Send the events that a hook has given up again
    Redeliver {
        /// Name of the hook
        hook: String,
        /// Send only the event with this number
        #[arg(long, value_name = "NUMBER")]
        event: Option<u64>,
    },
}

impl Hooks {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let hooks = client.hooks().await?;
                screen.list(|| table(&hooks), || hooks.iter().map(json::hook).collect())?;
            }
            Some(Act::Undelivered { hook }) => {
                let events = client.undelivered(hook.as_str()).await?;
                screen.list(|| given_up(&events), || events.iter().map(json::undelivered).collect())?;
            }
            Some(Act::Redeliver { hook, event }) => {
                let count = client.redeliver(hook.as_str(), *event).await?;
                screen.one(
                    || format!("{hook} sends {} again", counted(count, "event", "events")),
                    || json!({ "hook": hook, "events": count }),
                )?;
            }
        }
        Ok(OK)
    }
}

fn table(hooks: &[HookInfo]) -> Table {
    let columns = [
        Column::Fixed("HOOK"),
        Column::Fixed("KIND"),
        Column::Flexible("TARGET"),
        Column::Flexible("EVENTS"),
        Column::Number("DELIVERED"),
        Column::Number("UNDELIVERED"),
        Column::Flexible("LAST ERROR"),
    ];
    let mut table = Table::new(columns, "no hooks");
    for hook in hooks {
        let events = if hook.events.is_empty() { "all".to_owned() } else { hook.events.join(" ") };
        let color = if hook.undelivered > 0 { Color::Red } else { Color::Plain };
        table.row([
            hook.hook.to_string().into(),
            hook.kind.as_str().into(),
            hook.target.to_string().into(),
            events.into(),
            hook.delivered.to_string().into(),
            Cell::new(hook.undelivered.to_string(), color),
            hook.last_error.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

fn given_up(events: &[UndeliveredEvent]) -> Table {
    let columns = [
        Column::Number("EVENT"),
        Column::Fixed("KIND"),
        Column::Number("ATTEMPTS"),
        Column::Flexible("ERROR"),
    ];
    let mut table = Table::new(columns, "nothing is undelivered");
    for event in events {
        table.row([
            event.seq.to_string().into(),
            event.kind.to_string().into(),
            event.attempts.to_string().into(),
            event.error.to_string().into(),
        ]);
    }
    table
}
