//! One line of the log: a JSON object with its fields in a fixed order. Fields that do not apply are omitted.

use std::fmt::Write as _;
use std::net::IpAddr;

use tenure_engine::{Name, Refusal, TaskId, Timestamp, is_invisible};

use crate::keys::KeyId;
use crate::principal::Principal;
use crate::refusal::HubRefusal;

/// How many task ids or names one line lists.
pub(super) const TASKS_LISTED_MAX: usize = 64;
const NAMES_LISTED_MAX: usize = 64;
/// How much of a text one line repeats.
const TEXT_BYTES_MAX: usize = 512;

#[derive(Debug)]
pub(crate) struct AuditLine {
    pub(super) at: Timestamp,
    /// `None` for the broker itself.
    pub(super) who: Option<Who>,
    pub(super) act: &'static str,
    pub(super) outcome: AuditOutcome,
    pub(crate) fields: Vec<(&'static str, AuditField)>,
}

/// The peer that acted, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) door: &'static str,
    pub(crate) address: Option<IpAddr>,
    /// The name of the key, never the key itself.
    pub(crate) key: Option<Name>,
    pub(crate) namespace: Option<Name>,
    pub(crate) identity: Option<Name>,
    /// The worker that the session registered.
    pub(crate) worker: Option<Name>,
}

impl Who {
    pub(crate) fn of(principal: &Principal) -> Who {
        let key = (principal.grant.key != KeyId::default()).then(|| principal.grant.name.clone());
        Who { door: principal.door, address: principal.address, key, ..Who::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditOutcome {
    Done,
    Refused {
        code: &'static str,
        why: String,
    },
    /// Some of many succeeded; holds the first refusal.
    Partly {
        refused: usize,
        code: &'static str,
    },
}

impl AuditOutcome {
    pub(crate) fn of(no: &HubRefusal) -> AuditOutcome {
        AuditOutcome::Refused { code: no.code(), why: no.to_string() }
    }

    /// The outcome of many, each with its refusal if it has one.
    pub(super) fn of_many<'a>(each: impl ExactSizeIterator<Item = Option<&'a Refusal>>) -> AuditOutcome {
        let all = each.len();
        let mut refusals = each.flatten();
        let Some(first) = refusals.next() else { return AuditOutcome::Done };
        let refused = 1 + refusals.count();
        if refused == all {
            AuditOutcome::of(&first.clone().into())
        } else {
            AuditOutcome::Partly { refused, code: first.code() }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditField {
    Null,
    Number(i64),
    Text(Name),
    Task(TaskId),
    Tasks(Vec<TaskId>),
    Names(Vec<Name>),
}

impl AuditField {
    pub(super) fn count(count: usize) -> AuditField {
        AuditField::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(super) fn names(mut names: Vec<Name>) -> AuditField {
        names.truncate(NAMES_LISTED_MAX);
        AuditField::Names(names)
    }
}

impl AuditLine {
    pub(crate) fn new(
        at: Timestamp,
        who: Option<Who>,
        act: &'static str,
        outcome: AuditOutcome,
    ) -> AuditLine {
        AuditLine { at, who, act, outcome, fields: Vec::new() }
    }

    /// The identity of a refusal of a peer that was not admitted. Such a peer can repeat it without limit, so
    /// equal ones are merged.
    pub(super) fn unauthenticated_peer(&self) -> Option<(&'static str, Option<IpAddr>, &'static str)> {
        match (&self.who, &self.outcome) {
            (
                Some(Who { door, address, key: None, identity: None, .. }),
                AuditOutcome::Refused { code, .. },
            ) => Some((door, *address, code)),
            _ => None,
        }
    }

    /// Appends the line with its newline.
    pub(super) fn write(&self, out: &mut String) {
        let mut object = Object::begin(out);
        object.text("at", &self.at.rfc3339());
        object.text("act", self.act);
        match &self.outcome {
            AuditOutcome::Done => object.text("outcome", "done"),
            AuditOutcome::Refused { code, why } => {
                object.text("outcome", "refused");
                object.text("code", code);
                object.text("why", why);
            }
            AuditOutcome::Partly { refused, code } => {
                object.text("outcome", "partly");
                object.text("code", code);
                object.field("refused", &AuditField::count(*refused));
            }
        }
        match &self.who {
            None => object.text("door", "broker"),
            Some(Who { door, address, key, namespace, identity, worker }) => {
                object.text("door", door);
                object
                    .text("from", &address.map_or_else(|| "local".to_owned(), |address| address.to_string()));
                let names =
                    [("key", key), ("namespace", namespace), ("identity", identity), ("worker", worker)];
                for (name, value) in names {
                    if let Some(value) = value {
                        object.text(name, value);
                    }
                }
            }
        }
        for (name, field) in &self.fields {
            object.field(name, field);
        }
        object.end();
    }
}

struct Object<'a> {
    out: &'a mut String,
}

impl Object<'_> {
    fn begin(out: &mut String) -> Object<'_> {
        out.push('{');
        Object { out }
    }

    fn name(&mut self, name: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        push_text(self.out, name);
        self.out.push(':');
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        push_text(self.out, text);
    }

    fn field(&mut self, name: &str, field: &AuditField) {
        self.name(name);
        match field {
            AuditField::Null => self.out.push_str("null"),
            AuditField::Number(number) => drop(write!(self.out, "{number}")),
            AuditField::Text(text) => push_text(self.out, text),
            AuditField::Task(task) => push_text(self.out, &task.to_string()),
            AuditField::Tasks(tasks) => self.list(tasks.iter().map(ToString::to_string)),
            AuditField::Names(names) => self.list(names.iter().map(ToString::to_string)),
        }
    }

    fn list(&mut self, texts: impl Iterator<Item = String>) {
        self.out.push('[');
        for (index, text) in texts.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            push_text(self.out, &text);
        }
        self.out.push(']');
    }

    fn end(self) {
        self.out.push_str("}\n");
    }
}

/// Text as JSON. Peers choose names, and people read the log in a terminal, so characters that could change
/// how a line is displayed are escaped.
fn push_text(out: &mut String, text: &str) {
    out.push('"');
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    for c in text[..end].chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() || is_invisible(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &AuditLine) -> String {
        let mut out = String::new();
        line.write(&mut out);
        out
    }

    #[test]
    fn a_line_is_a_json_object_with_its_fields_in_order() {
        let who = Who {
            door: "native",
            address: Some([127, 0, 0, 1].into()),
            key: Some("lab".into()),
            namespace: Some("physics".into()),
            identity: Some("anna".into()),
            worker: None,
        };
        let mut line =
            AuditLine::new(Timestamp(1_769_860_800_007), Some(who), "set-limit", AuditOutcome::Done);
        line.fields = vec![("tag", AuditField::Text("gpu".into())), ("limit", AuditField::Null)];
        assert_eq!(
            written(&line),
            "{\"at\":\"2026-01-31T12:00:00.007Z\",\"act\":\"set-limit\",\"outcome\":\"done\",\"door\":\"native\",\
             \"from\":\"127.0.0.1\",\"key\":\"lab\",\"namespace\":\"physics\",\"identity\":\"anna\",\"tag\":\"gpu\",\
             \"limit\":null}\n"
        );
    }

    #[test]
    fn what_a_peer_writes_breaks_no_line_and_hides_nothing() {
        let hostile = "a\"b\\c\nd\u{202e}e\u{e0001}f";
        let who = Who { door: "resp", identity: Some(hostile.into()), ..Who::default() };
        let line = written(&AuditLine::new(Timestamp(1), Some(who), "cancel", AuditOutcome::Done));
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(!line.trim_end().chars().any(|c| c.is_control() || is_invisible(c)), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(read["identity"], hostile);
        assert_eq!(read["from"], "local");
    }

    #[test]
    fn long_texts_and_lists_are_cut() {
        let who = Who { door: "resp", identity: Some("ä".repeat(100_000).into()), ..Who::default() };
        let mut line = AuditLine::new(Timestamp(1), Some(who), "submit", AuditOutcome::Done);
        line.fields = vec![("tags", AuditField::names(vec!["t".into(); 1_000]))];
        assert!(written(&line).len() < 2 * TEXT_BYTES_MAX);
    }

    #[test]
    fn many_outcomes_become_one_line() {
        let no = Refusal::NotAWorker;
        let of = |each: &[Option<&Refusal>]| AuditOutcome::of_many(each.iter().copied());
        assert_eq!(of(&[None, None]), AuditOutcome::Done);
        assert_eq!(
            of(&[Some(&no), None, Some(&no)]),
            AuditOutcome::Partly { refused: 2, code: "not-a-worker" }
        );
        assert_eq!(of(&[Some(&no)]), AuditOutcome::of(&no.clone().into()));
    }
}
