//! `tenure sub`: prints messages of topics as they arrive.

use clap::Args;
use serde_json::json;
use tenure_client::{
    Client, GapReason, Message, MessageKind, Policy, Received, Recovery, Subscribe, Subscriber, TopicGap,
};

use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::{Color, escape_line};
use crate::output::times::clock;
use crate::output::{Screen, json, remark};
use crate::units::counted;

/// Subscribe to topics
#[derive(Args, Debug)]
#[command(after_help = "\
A pattern is a name, or a name with wildcards: * for one level, > at the end for all the rest.

Every message has a number in its topic. The command prints missed messages as a gap, with their numbers. With --id,
the broker keeps the subscription when this program ends. Start it again with the same id to get the missed messages
first, as far as the broker keeps them.

Examples:
  tenure sub 'sensor.*.temp'
  tenure sub '>' -o jsonl               everything, for programs
  tenure sub news --replay              what is kept first, then live
  tenure sub news --from 4711           from this number on
  tenure sub 'state.>' --retained       the last known values first
  tenure sub work.orders --group shop   share the messages of the group
  tenure sub audit.log --id archive     resumes where it stopped
  tenure sub 'task.>' 'worker.>'        what happens in the broker")]
pub(crate) struct Sub {
    /// Topic, or pattern: * for one level, > at the end for all the rest
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Start with this sequence number, as far as it is kept
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["replay", "group"])]
    from: Option<u64>,
    /// Start with all kept messages
    #[arg(long, conflicts_with = "group")]
    replay: bool,
    /// Start with the retained values
    #[arg(long)]
    retained: bool,
    /// Share the messages with the other members of this group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Subscription id, to resume it later
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Maximum number of queued messages [default: the broker's setting]
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    queue: u32,
    /// What to do when the queue is full: drop-oldest, drop-newest or block [default: the broker's setting]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    policy: Option<Policy>,
    /// Print only the payloads, one per line
    #[arg(long)]
    raw: bool,
    /// Stop after this many messages
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
}

impl Sub {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let mut subscriber = client.subscribe(self.subscription()).await?;
        if screen.is_table() && !self.raw {
            match subscriber.missed() {
                Some(0) | None => {}
                Some(missed) if self.id.is_some() => {
                    remark(format!("{} since the last time", counted(missed, "message", "messages")));
                }
                Some(_) => {}
            }
        }
        let told = tokio::select! {
            told = self.follow(&mut subscriber, screen) => told,
            () = asked_to_stop() => Ok(OK),
        };
        if self.id.is_none() {
            // No process resumes this subscription. If it is already gone, all the better.
            let _ = client.unsubscribe(subscriber.id().clone()).await;
        } else {
            // Messages that arrived and were not printed come again next time. If the broker is gone, it knows the
            // rest itself.
            let _ = subscriber.leave().await;
        }
        told
    }

    fn subscription(&self) -> Subscribe {
        let mut subscribe = Subscribe::to(self.patterns.iter().map(String::as_str));
        subscribe = subscribe.recovery(Recovery::Replay);
        if let Some(id) = &self.id {
            subscribe = subscribe.id(id.as_str());
        }
        if let Some(group) = &self.group {
            subscribe = subscribe.group(group.as_str());
        }
        if self.retained {
            subscribe = subscribe.retained();
        }
        if let Some(from) = self.from.or(self.replay.then_some(1)) {
            subscribe = subscribe.from(from);
        }
        if let Some(policy) = &self.policy {
            subscribe = subscribe.queue(self.queue, policy.clone());
        } else if self.queue > 0 {
            subscribe = subscribe.queue(self.queue, Policy::DropOldest);
        }
        subscribe
    }

    async fn follow(&self, subscriber: &mut Subscriber, screen: &Screen) -> Outcome {
        let mut seen = 0;
        while self.count.is_none_or(|count| seen < count) {
            let Some(received) = subscriber.next().await else { break };
            match received? {
                Received::Message { kind, message } => {
                    seen += 1;
                    if self.raw {
                        screen.bytes(&message.payload)?;
                        continue;
                    }
                    let text = || message_line(&kind, &message, screen);
                    screen.next(text, || json::message(&kind, &message))?;
                }
                Received::Gap(gap) => {
                    report_beside(screen, gap_sentence(&gap), || gap_json(&gap))?;
                }
                Received::Warning(warning) => {
                    let text = format!(
                        "this reader is too slow ({}): {} dropped, {} expired",
                        warning.reason,
                        counted(warning.dropped, "message", "messages"),
                        warning.expired
                    );
                    report_beside(screen, text, || {
                        json!({ "warning": { "reason": warning.reason.as_str(), "dropped": warning.dropped,
                            "expired": warning.expired, "depth": warning.depth, "limit": warning.limit } })
                    })?;
                }
                Received::Back { missed, restarted } => {
                    let missing = missed.map_or_else(
                        || "an unknown number of messages".to_owned(),
                        |count| counted(count, "message", "messages"),
                    );
                    let what = if restarted { "the broker restarted" } else { "connected again" };
                    let text = format!("{what}; {missing} published meanwhile");
                    report_beside(
                        screen,
                        text,
                        || json!({ "back": { "missed": missed, "restarted": restarted } }),
                    )?;
                }
                Received::ReplayComplete(complete) => {
                    if !screen.is_table() {
                        screen.next(String::new, || {
                            json!({ "replay_complete": { "topic": &*complete.topic,
                                "replayed": complete.replayed, "latest": complete.latest } })
                        })?;
                    }
                }
                Received::Ended(why) => {
                    return Err(Failure::new(
                        crate::exit::REFUSED,
                        format!("the subscription has ended: {why}"),
                    ));
                }
            }
        }
        Ok(OK)
    }
}

fn message_line(kind: &MessageKind, message: &Message, screen: &Screen) -> String {
    let payload = String::from_utf8_lossy(&message.payload).into_owned();
    let kind = if *kind == MessageKind::Live { String::new() } else { format!(" ({kind})") };
    let number = format!("{}{kind}", message.sequence);
    format!(
        "{}  {}  {}  {}",
        screen.paint.apply(Color::Dim, clock(message.published_at.0)),
        screen.paint.apply(Color::Cyan, escape_line(&message.topic)),
        screen.paint.apply(Color::Dim, number),
        escape_line(payload.trim_end_matches('\n'))
    )
}

fn gap_sentence(gap: &TopicGap) -> String {
    let (topic, first, last) = (escape_line(&gap.topic), gap.first_missed, gap.last_missed);
    match gap.reason {
        Some(GapReason::Crashed) => format!(
            "{topic}: the broker restarted after a crash; messages from {first} on are gone, and the next number is {}",
            last + 1
        ),
        Some(GapReason::Restarted) => {
            format!("{topic}: the broker restarted; messages {first} to {last} are gone")
        }
        _ => format!("{topic}: messages {first} to {last} are lost"),
    }
}

fn gap_json(gap: &TopicGap) -> serde_json::Value {
    json!({
        "gap": { "topic": &*gap.topic, "first_missed": gap.first_missed, "last_missed": gap.last_missed,
            "oldest_kept": gap.oldest_kept, "reason": gap.reason.as_ref().map(GapReason::as_str) },
    })
}

/// The user presses Ctrl-C, or the process gets a termination signal.
async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut end) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = end.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// For people on stderr, for programs in its place among the messages.
fn report_beside(
    screen: &Screen,
    text: String,
    value: impl FnOnce() -> serde_json::Value,
) -> std::io::Result<()> {
    if screen.is_table() {
        remark(text);
        return Ok(());
    }
    screen.next(String::new, value)
}

fn policy(text: &str) -> Result<Policy, String> {
    match Policy::from(text) {
        Policy::Other(_) => Err("write drop-oldest, drop-newest or block".to_owned()),
        known => Ok(known),
    }
}
