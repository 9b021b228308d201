//! The `[[webhooks]]` and `[[on_event]]` of the file. Secrets are never printed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_client::EventKind;
use tenure_hub::words::{DEFAULT_NAMESPACE, Name, check_name};
use tenure_outbound::hooks::{CommandSettings, HookSecret, HookSettings, HookTarget, WebhookSettings};
use tenure_outbound::{HttpTarget, TrustedRoots};
use toml::{Table, Value};
use zeroize::{Zeroize as _, Zeroizing};

use super::nearest;
use super::problem::Problem;
use crate::units::parse_duration;

/// How many hooks one broker has at most: each follows all events.
const HOOKS_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;
const CONCURRENCY_MAX: i64 = 64;
const ATTEMPTS_MAX: i64 = 1_000;
/// The shortest secret that is not refused.
const SECRET_BYTES_MIN: usize = 16;
const SECRET_FILE_BYTES_MAX: u64 = 4 << 10;
const COMMON_FIELDS: [&str; 9] = [
    "name",
    "events",
    "queues",
    "namespace",
    "timeout",
    "attempts",
    "backoff_first",
    "backoff_max",
    "concurrency",
];
const WEBHOOK_FIELDS: [&str; 4] = ["url", "secret", "secret_file", "ca_file"];
const COMMAND_FIELDS: [&str; 1] = ["command"];

/// Takes both tables out of the file and reads them.
pub(crate) fn take(file: &mut Table, from: &str, problems: &mut Vec<Problem>) -> Vec<HookSettings> {
    let mut hooks: Vec<HookSettings> = Vec::new();
    for (table, read) in
        [("webhooks", webhook as fn(&mut Table) -> Result<HookSettings, String>), ("on_event", command)]
    {
        let entries = match file.remove(table) {
            None => continue,
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                let why = format!("{table}: write each hook as a table of its own, under [[{table}]]");
                problems.push(Problem::new(from, why));
                continue;
            }
        };
        for (index, mut entry) in entries.into_iter().enumerate() {
            let hook = entry.as_table_mut().ok_or_else(|| "is not a table".to_owned()).and_then(read);
            let wrong = match hook {
                Err(why) => why,
                Ok(hook) if hooks.iter().any(|other| other.name == hook.name) => {
                    format!("another hook is named {}: give each its own name", hook.name)
                }
                Ok(_) if hooks.len() == HOOKS_MAX => format!("too many hooks: at most {HOOKS_MAX}"),
                Ok(hook) => {
                    hooks.push(hook);
                    continue;
                }
            };
            problems.push(Problem::new(from, format!("{table}, entry {}: {wrong}", index + 1)));
        }
    }
    hooks
}

/// A hook as it may be shown, without secrets.
pub(crate) fn describe(hook: &HookSettings) -> String {
    let about = hook.about();
    let list = |names: &[Name], all: &str| {
        if names.is_empty() { all.to_owned() } else { names.join(", ") }
    };
    format!(
        "{} ({}) to {} in namespace {}: {} of {}",
        about.name,
        about.kind.as_str(),
        about.target,
        about.namespace,
        list(&about.events, "all events"),
        list(&about.queues, "all queues")
    )
}

fn webhook(table: &mut Table) -> Result<HookSettings, String> {
    check_fields(table, &WEBHOOK_FIELDS)?;
    let secret = secret(table)?;
    let url =
        text(table, "url")?.ok_or("`url` is missing: write http://HOST:PORT/PATH or https://HOST/PATH")?;
    let target = HttpTarget::parse(&url).map_err(|fault| format!("`url` {fault}"))?;
    let authority = text(table, "ca_file")?.map(PathBuf::from);
    let roots = match (&authority, target.is_tls()) {
        (Some(_), false) => return Err("`ca_file` is for https: `url` begins with http".to_owned()),
        (None, false) => None,
        (Some(file), true) => Some(TrustedRoots::of_file(file)),
        (None, true) => Some(TrustedRoots::of_system()),
    };
    let roots = roots.transpose().map_err(|fault| fault.to_string())?;
    common(table, HookTarget::Webhook(WebhookSettings { target, secret, roots }), 12)
}

fn command(table: &mut Table) -> Result<HookSettings, String> {
    check_fields(table, &COMMAND_FIELDS)?;
    let wrong = || "`command` must be a list of texts: the program and its arguments".to_owned();
    let words = table.get("command").and_then(Value::as_array).ok_or_else(wrong)?;
    let command: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    let command =
        command.filter(|words| words.first().is_some_and(|word| !word.is_empty())).ok_or_else(wrong)?;
    common(table, HookTarget::Command(CommandSettings { command }), 3)
}

fn common(table: &Table, target: HookTarget, attempts: i64) -> Result<HookSettings, String> {
    let name = text(table, "name")?.ok_or("`name` is missing: it stands for the hook in lists and logs")?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        return Err(format!(
            "`name` must be of lower-case letters, digits, - and _, at most {NAME_BYTES_MAX}: `{name}` is not"
        ));
    }
    let namespace = text(table, "namespace")?.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    check_name("namespace", &namespace).map_err(|no| no.to_string())?;
    let events = names(table, "events")?;
    let kinds = || EventKind::KNOWN.iter().map(EventKind::as_str);
    if let Some(unknown) = events.iter().find(|event| !kinds().any(|kind| kind == &***event)) {
        return Err(nearest::unknown("kind of event", unknown, kinds()));
    }
    let backoff_first = duration(table, "backoff_first", Duration::from_secs(1))?;
    let backoff_max = duration(table, "backoff_max", Duration::from_secs(300))?;
    if backoff_max < backoff_first {
        return Err("`backoff_max` must not be shorter than `backoff_first`".to_owned());
    }
    Ok(HookSettings {
        name: name.into(),
        namespace: namespace.into(),
        events,
        queues: names(table, "queues")?,
        timeout: duration(table, "timeout", Duration::from_secs(10))?,
        attempts: u32::try_from(count(table, "attempts", attempts, ATTEMPTS_MAX)?).unwrap_or(1),
        backoff_first,
        backoff_max,
        concurrency: usize::try_from(count(table, "concurrency", 4, CONCURRENCY_MAX)?).unwrap_or(1),
        target,
    })
}

fn check_fields(table: &Table, own: &[&'static str]) -> Result<(), String> {
    let known = || COMMON_FIELDS.iter().chain(own).copied();
    match table.keys().find(|field| !known().any(|known| known == field.as_str())) {
        Some(field) => Err(nearest::unknown("field", field, known())),
        None => Ok(()),
    }
}

/// The secret, from the table or from its file. No copy of it stays in the table.
fn secret(table: &mut Table) -> Result<Option<HookSecret>, String> {
    let given = match table.get_mut("secret") {
        None => None,
        Some(Value::String(text)) => {
            let secret = Zeroizing::new(text.clone());
            text.zeroize();
            Some(secret)
        }
        Some(_) => return Err("`secret` must be a text".to_owned()),
    };
    let from_file = text(table, "secret_file")?.map(|path| read_secret(Path::new(&path))).transpose()?;
    let secret = match (given, from_file) {
        (Some(_), Some(_)) => return Err("`secret` and `secret_file` exclude each other".to_owned()),
        (given, from_file) => given.or(from_file),
    };
    if secret.as_ref().is_some_and(|secret| secret.len() < SECRET_BYTES_MIN) {
        return Err(format!(
            "the secret is too short: at least {SECRET_BYTES_MIN} bytes; make one with `openssl rand -hex 32`"
        ));
    }
    Ok(secret.map(HookSecret::new))
}

fn read_secret(path: &Path) -> Result<Zeroizing<String>, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("`secret_file`: {} cannot be read: {why}", path.display());
    let bytes = std::fs::metadata(path).map_err(|error| cannot(&error))?.len();
    if bytes > SECRET_FILE_BYTES_MAX {
        return Err(cannot(&"it is too long for a secret"));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|error| cannot(&error))?);
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn text(table: &Table, field: &str) -> Result<Option<String>, String> {
    match table.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{field}` must be a text that is not empty")),
    }
}

fn names(table: &Table, field: &str) -> Result<Vec<Name>, String> {
    let wrong = || format!("`{field}` must be a list of names");
    match table.get(field) {
        None => Ok(Vec::new()),
        Some(Value::Array(words)) => words
            .iter()
            .map(|word| word.as_str().filter(|word| !word.is_empty()).map(Name::from).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn duration(table: &Table, field: &str, default: Duration) -> Result<Duration, String> {
    let Some(text) = text(table, field)? else { return Ok(default) };
    match parse_duration(&text) {
        Ok(Duration::ZERO) => Err(format!("`{field}` must be longer than 0")),
        Ok(span) => Ok(span),
        Err(why) => Err(format!("`{field}`: {why}")),
    }
}

fn count(table: &Table, field: &str, default: i64, max: i64) -> Result<i64, String> {
    match table.get(field) {
        None => Ok(default),
        Some(Value::Integer(count)) if (1..=max).contains(count) => Ok(*count),
        Some(_) => Err(format!("`{field}` must be a number from 1 to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<HookSettings>, Vec<String>) {
        let mut problems = Vec::new();
        let mut table: Table = text.parse().expect("TOML");
        let hooks = take(&mut table, "tenure.toml", &mut problems);
        (hooks, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn hooks_are_read_and_described_without_their_secrets() {
        let (hooks, problems) = read(
            "[[webhooks]]\nname = \"ops\"\nurl = \"http://127.0.0.1:9/in?token=t0ken\"\nevents = [\"failed\", \"crashed\"]\n\
             queues = [\"gpu\"]\nsecret = \"0123456789abcdef-s3cret\"\nattempts = 5\ntimeout = \"3s\"\n\
             [[on_event]]\nname = \"desktop\"\ncommand = [\"notify-send\", \"tenure\"]\nconcurrency = 1\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((hooks[0].attempts, hooks[0].timeout.as_secs(), hooks[1].attempts), (5, 3, 3));
        assert_eq!(
            hooks.iter().map(describe).collect::<Vec<_>>(),
            [
                "ops (webhook) to http://127.0.0.1:9/in in namespace default: failed, crashed of gpu",
                "desktop (command) to notify-send in namespace default: all events of all queues",
            ]
        );
        let debug = format!("{hooks:?}");
        assert!(!debug.contains("s3cret") && !debug.contains("t0ken"), "{debug}");
    }

    #[test]
    fn every_mistake_is_named() {
        let url = "name = \"a\"\nurl = \"http://127.0.0.1:9/\"\n";
        for (entry, hint) in [
            ("[[webhooks]]\nurl = \"http://h/\"", "`name` is missing"),
            ("[[webhooks]]\nname = \"A b\"\nurl = \"http://h/\"", "lower-case letters"),
            ("[[webhooks]]\nname = \"a\"", "`url` is missing"),
            ("[[webhooks]]\nname = \"a\"\nurl = \"example.org\"", "`url` is not an address"),
            ("[[webhooks]]\nname = \"a\"\nurl = \"http://u:p@h/\"", "contains a user"),
            (&format!("[[webhooks]]\n{url}evnets = []"), "did you mean `events`"),
            (&format!("[[webhooks]]\n{url}events = [\"crash\"]"), "did you mean `crashed`"),
            (&format!("[[webhooks]]\n{url}secret = \"short\""), "too short"),
            (&format!("[[webhooks]]\n{url}secret_file = \"/nonexistent\""), "/nonexistent cannot be read"),
            (&format!("[[webhooks]]\n{url}ca_file = \"x\""), "is for https"),
            (
                "[[webhooks]]\nname = \"a\"\nurl = \"https://h/\"\nca_file = \"/dev/null\"",
                "no PEM certificate",
            ),
            (&format!("[[webhooks]]\n{url}attempts = 0"), "from 1 to 1000"),
            (&format!("[[webhooks]]\n{url}timeout = \"0s\""), "longer than 0"),
            (&format!("[[webhooks]]\n{url}backoff_first = \"1h\""), "must not be shorter"),
            (&format!("[[webhooks]]\n{url}command = [\"x\"]"), "`command` is not a known field"),
            ("[[on_event]]\nname = \"a\"\ncommand = \"x\"", "a list of texts"),
            ("[[on_event]]\nname = \"a\"\ncommand = []", "a list of texts"),
            ("[webhooks]\nname = \"a\"", "under [[webhooks]]"),
        ] {
            let (_, problems) = read(&format!("{entry}\n"));
            assert!(problems.len() == 1 && problems[0].contains(hint), "{entry}: {problems:?}");
        }
        let both = format!("[[webhooks]]\n{url}[[on_event]]\nname = \"a\"\ncommand = [\"x\"]\n");
        assert!(read(&both).1[0].contains("another hook is named a"));
    }
}
