//! `tenure topics`: lists topics and subscriptions.

use clap::Args;
use serde_json::json;
use tenure_client::{Client, SubscriptionInfo, TopicInfo};

use crate::exit::{OK, Outcome};
use crate::output::paint::Color;
use crate::output::table::{Cell, Column, Table};
use crate::output::times::relative;
use crate::output::{Screen, json};

/// Show topics and subscriptions
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure topics
  tenure topics 'sensor.>'
  tenure topics --subscriptions   who is subscribed, what waits
  tenure topics --end archive       ends a subscription")]
pub(crate) struct Topics {
    /// Only topics that match this name or pattern
    #[arg(value_name = "PATTERN", conflicts_with_all = ["subscriptions", "end"])]
    pattern: Option<String>,
    /// Show subscriptions instead
    #[arg(short, long)]
    subscriptions: bool,
    /// End the subscription of this id
    #[arg(long, value_name = "ID", conflicts_with = "subscriptions")]
    end: Option<String>,
}

impl Topics {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        if let Some(id) = &self.end {
            client.unsubscribe(id.as_str()).await?;
            screen.next(|| format!("subscription {id} has ended"), || json!({ "id": id, "ended": true }))?;
        } else if self.subscriptions {
            let all = client.subscriptions().await?;
            screen
                .list(|| subscriptions(&all, screen.now), || all.iter().map(json::subscription).collect())?;
        } else {
            let all = client.topics(self.pattern.as_deref()).await?;
            screen.list(|| topics(&all), || all.iter().map(json::topic).collect())?;
        }
        Ok(OK)
    }
}

fn topics(all: &[TopicInfo]) -> Table {
    let columns = [
        Column::Flexible("TOPIC"),
        Column::Number("LATEST"),
        Column::Number("KEPT"),
        Column::Number("FROM"),
        Column::Number("SUBSCRIBERS"),
        Column::Fixed("RETAINED"),
    ];
    let mut table = Table::new(columns, "no topics: publish something with `tenure pub`");
    for topic in all {
        table.row([
            topic.topic.to_string().into(),
            topic.sequence.to_string().into(),
            topic.kept.to_string().into(),
            topic.oldest_kept.map_or_else(String::new, |oldest| oldest.to_string()).into(),
            topic.subscribers.to_string().into(),
            Cell::new(if topic.retained { "yes" } else { "" }, Color::Green),
        ]);
    }
    table
}

fn subscriptions(all: &[SubscriptionInfo], now: u64) -> Table {
    let columns = [
        Column::Flexible("SUBSCRIPTION"),
        Column::Flexible("CLIENT"),
        Column::Flexible("TOPICS"),
        Column::Flexible("GROUP"),
        Column::Number("WAIT"),
        Column::Spare("MOST"),
        Column::Spare("DELIVERED"),
        Column::Number("DROPPED"),
        Column::Spare("EXPIRED"),
        Column::Spare("POLICY"),
        Column::Flexible("NOTE"),
    ];
    let mut table = Table::new(columns, "no subscriptions: begin one with `tenure sub`");
    for one in all {
        let dropped = one.dropped_oldest + one.dropped_newest + one.dropped_disconnect;
        let note = one
            .paused_until
            .map_or_else(String::new, |until| format!("not connected, ends {}", relative(until.0, now)));
        table.row([
            one.id.to_string().into(),
            one.client.to_string().into(),
            one.topics.join(",").into(),
            one.group.as_deref().unwrap_or_default().into(),
            one.depth.to_string().into(),
            one.high_watermark.to_string().into(),
            one.delivered.to_string().into(),
            Cell::new(if dropped == 0 { String::new() } else { dropped.to_string() }, Color::Red),
            Cell::new(
                if one.dropped_ttl == 0 { String::new() } else { one.dropped_ttl.to_string() },
                Color::Dim,
            ),
            one.policy.as_str().into(),
            Cell::new(note, Color::Yellow),
        ]);
    }
    table
}
