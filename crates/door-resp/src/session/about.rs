//! Queries about the broker and its commands.

use tenure_hub::Response;
use tenure_hub::words::Timestamp;

use crate::codec::{Reply, Version};
use crate::command::{CommandQuery, Entry, TABLE};
use crate::flow::FlowOutcome;
use crate::translate::refusal;

/// The Redis version that this door reports to clients.
const REDIS_VERSION: &str = "7.2.0";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn hello(version: Version, id: u64) -> Reply {
    let pair = |key, value| (Reply::word(key), value);
    Reply::Map(vec![
        pair("server", Reply::word("tenure")),
        pair("version", Reply::word(VERSION)),
        pair("proto", Reply::Integer(version.number())),
        pair("id", Reply::Integer(i64::try_from(id).unwrap_or(i64::MAX))),
        pair("mode", Reply::word("standalone")),
        pair("role", Reply::word("master")),
        pair("modules", Reply::Array(Vec::new())),
    ])
}

/// A client that asks whether it may write here learns that it may.
pub(super) fn role() -> Reply {
    Reply::array([Reply::word("master"), Reply::Integer(0), Reply::Array(Vec::new())])
}

pub(crate) fn info(sections: &[String], now: Timestamp, outcome: FlowOutcome) -> Reply {
    let stats = match outcome {
        Ok(Response::Stats(stats)) => stats,
        Ok(_) => return Reply::error("ERR unexpected answer"),
        Err(reason) => return refusal(&reason),
    };
    let uptime = now.millis().saturating_sub(stats.started_at_millis) / 1000;
    let all = [
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("tenure_version", VERSION.to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("uptime_in_seconds", uptime.to_string()),
            ],
        ),
        ("Clients", vec![("connected_clients", stats.sessions.to_string())]),
        (
            "Persistence",
            vec![
                ("loading", "0".to_owned()),
                ("sync", stats.sync.to_owned()),
                ("journal_bytes", stats.journal_bytes.to_string()),
                ("disk_free_bytes", stats.disk_free_bytes.map_or_else(String::new, |free| free.to_string())),
                ("disk_full", u8::from(stats.disk_full).to_string()),
            ],
        ),
        (
            "Stats",
            vec![
                ("total_commands_processed", stats.requests_total.to_string()),
                ("jobs_submitted", stats.submitted_total.to_string()),
                ("jobs_started", stats.started_total.to_string()),
                ("jobs_completed", stats.completed_total.to_string()),
                ("jobs_failed", stats.failed_total.to_string()),
                ("jobs_cancelled", stats.cancelled_total.to_string()),
                ("jobs", stats.tasks.to_string()),
                ("last_event", stats.last_event.to_string()),
            ],
        ),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Keyspace", Vec::new()),
    ];
    let everything = sections.is_empty()
        || sections.iter().any(|name| ["all", "default", "everything"].contains(&&**name));
    let mut text = String::new();
    for (section, lines) in all {
        if everything || sections.iter().any(|name| name.eq_ignore_ascii_case(section)) {
            text.push_str(&format!("# {section}\r\n"));
            for (name, value) in lines {
                text.push_str(&format!("{name}:{value}\r\n"));
            }
            text.push_str("\r\n");
        }
    }
    Reply::Verbatim { format: *b"txt", text: text.into() }
}

pub(super) fn commands(query: &CommandQuery) -> Reply {
    match query {
        CommandQuery::All => Reply::array(TABLE.iter().map(described)),
        CommandQuery::Count => Reply::count(TABLE.len()),
        CommandQuery::List => Reply::array(TABLE.iter().map(|entry| Reply::word(entry.name))),
        CommandQuery::Info(names) => Reply::array(
            names.iter().map(|name| Entry::find(name.as_bytes()).map_or(Reply::NullArray, described)),
        ),
        CommandQuery::Docs(names) => {
            let wanted = |entry: &&Entry| names.is_empty() || names.iter().any(|name| name == entry.name);
            let docs = TABLE.iter().filter(wanted).map(|entry| {
                let summary = vec![
                    (Reply::word("summary"), Reply::word(entry.summary)),
                    (Reply::word("since"), Reply::word("0.1.0")),
                    (Reply::word("group"), Reply::word("generic")),
                ];
                (Reply::word(entry.name), Reply::Map(summary))
            });
            Reply::Map(docs.collect())
        }
    }
}

/// Newer clients expect all ten parts; the last four (categories, tips, key specifications, subcommands) are empty
/// here.
fn described(entry: &Entry) -> Reply {
    let (first, last, step) = entry.keys;
    let nothing = || Reply::Array(Vec::new());
    Reply::array([
        Reply::word(entry.name),
        Reply::Integer(i64::from(entry.arity)),
        Reply::Set(entry.flags.iter().map(|flag| Reply::simple(*flag)).collect()),
        Reply::Integer(i64::from(first)),
        Reply::Integer(i64::from(last)),
        Reply::Integer(i64::from(step)),
        Reply::Set(Vec::new()),
        nothing(),
        nothing(),
        nothing(),
    ])
}
