//! `tenure limits`: sets how many tasks of one tag workers may hold at once, and how often one is assigned.

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{Client, LimitInfo};

use crate::exit::{OK, Outcome};
use crate::output::paint::Color;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Screen, json};
use crate::units::counted;
use crate::verbs::rate::GivenRate;

/// List and set limits and rates of tags
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure limits
  tenure limits set matlab-licence 4      at most 4 tasks with this tag at once
  tenure limits unset matlab-licence
  tenure limits rate api 10/m --burst 5   10 in a minute, at most 5 at once
  tenure limits rate api --none")]
pub(crate) struct Limits {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show all limits
    List,
    /// Limit how many tasks with a tag run at once
    Set {
        /// Name of the tag
        tag: String,
        /// How many tasks with the tag all workers together may hold
        limit: u32,
    },
    /// Remove the limit of a tag
    Unset {
        /// Name of the tag
        tag: String,
    },
    /// Limit how often a task with a tag is assigned
    Rate {
        /// Name of the tag
        tag: String,
        #[command(flatten)]
        rate: GivenRate,
    },
}

impl Limits {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let limits = client.limits().await?;
                screen.list(|| table(&limits), || limits.iter().map(json::limit).collect())?;
            }
            Some(Act::Set { tag, limit }) => {
                client.set_limit(tag.as_str(), Some(*limit)).await?;
                screen.one(
                    || format!("limit of tag {tag} is {}", counted((*limit).into(), "task", "tasks")),
                    || json!({ "tag": tag, "limit": limit }),
                )?;
            }
            Some(Act::Rate { tag, rate: given }) => {
                let rate = given.rate();
                client.set_tag_rate(tag.as_str(), rate).await?;
                screen.one(
                    || given.sentence(&format!("tag {tag}")),
                    || json!({ "tag": tag, "rate": rate.as_ref().map(json::rate) }),
                )?;
            }
            Some(Act::Unset { tag }) => {
                client.set_limit(tag.as_str(), None).await?;
                screen
                    .one(|| format!("limit of tag {tag} removed"), || json!({ "tag": tag, "limit": null }))?;
            }
        }
        Ok(OK)
    }
}

fn table(limits: &[LimitInfo]) -> Table {
    let columns =
        [Column::Flexible("TAG"), Column::Number("LIMIT"), Column::Number("IN USE"), Column::Fixed("RATE")];
    let mut table = Table::new(columns, "no limits");
    for limit in limits {
        let is_full = limit.limit.is_some_and(|most| limit.in_use >= most);
        table.row([
            limit.tag.to_string().into(),
            limit.limit.map(|limit| limit.to_string()).unwrap_or_default().into(),
            Cell::new(limit.in_use.to_string(), if is_full { Color::Yellow } else { Color::Plain }),
            limit.rate.map(|rate| rate.to_string()).unwrap_or_default().into(),
        ]);
    }
    table
}
