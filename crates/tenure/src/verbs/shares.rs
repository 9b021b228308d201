//! `tenure shares`: lists share keys and sets their weights.

use clap::{Args, Subcommand};
use serde_json::json;
use tenure_client::{Client, ShareInfo};

use crate::exit::{OK, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{Screen, json};

/// List share keys and set their weights
#[derive(Args, Debug)]
#[command(after_help = "\
In a queue, the tasks of different share keys take turns (tenure submit --share KEY).

Examples:
  tenure shares
  tenure shares set alice 3   three turns for each turn of a key with weight 1
  tenure shares unset alice")]
pub(crate) struct Shares {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show all share keys that have tasks or a weight
    List,
    /// Set the weight of a share key
    Set {
        /// The share key, as `tenure submit --share` names it
        #[arg(value_name = "KEY")]
        share: String,
        /// Weight from 1 to 1000: a key of weight 3 gets three turns where one of weight 1 gets one
        weight: u32,
    },
    /// Give a share key the default weight, 1
    Unset {
        /// The share key, as `tenure submit --share` names it
        #[arg(value_name = "KEY")]
        share: String,
    },
}

impl Shares {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        match &self.act {
            None | Some(Act::List) => {
                let shares = client.shares().await?;
                screen.list(|| table(&shares), || shares.iter().map(json::share).collect())?;
            }
            Some(Act::Set { share, weight }) => {
                client.set_share(share.as_str(), Some(*weight)).await?;
                screen.one(
                    || format!("share {share} has weight {weight}"),
                    || json!({ "share": share, "weight": weight }),
                )?;
            }
            Some(Act::Unset { share }) => {
                client.set_share(share.as_str(), None).await?;
                screen.one(
                    || format!("share {share} has the default weight"),
                    || json!({ "share": share, "weight": null }),
                )?;
            }
        }
        Ok(OK)
    }
}

fn table(shares: &[ShareInfo]) -> Table {
    let columns = [Column::Flexible("SHARE"), Column::Number("WEIGHT"), Column::Number("READY")];
    let mut table = Table::new(columns, "no share keys");
    for share in shares {
        table.row([
            share.share.to_string().into(),
            share.weight.to_string().into(),
            share.ready.to_string().into(),
        ]);
    }
    table
}
