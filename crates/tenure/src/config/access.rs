//! Who may come in: the `[[keys]]` and `[workers]` of the file. Nothing here can be printed.

use std::collections::BTreeMap;
use std::fmt;

use tenure_hub::words::Name;
use tenure_hub::{Grant, Keys, Right, Rights};
use toml::{Table, Value};

use super::problem::Problem;

/// The shortest key that is not refused: 128 bits.
const KEY_DIGITS_MIN: usize = 32;
/// How many keys one broker knows at most.
const KEYS_MAX: usize = 10_000;
const KEY_FIELDS: [&str; 5] = ["name", "key", "namespace", "worker", "may"];

/// What the file says about access.
#[derive(Clone, Default)]
pub(crate) struct Access {
    entries: Vec<Entry>,
    /// Worker ids and their keys: whoever shows one is that worker and no other.
    workers: BTreeMap<String, String>,
}

#[derive(Clone)]
struct Entry {
    secret: String,
    grant: Grant,
}

impl Access {
    /// Takes both tables out of the file and reads them.
    pub(crate) fn take(file: &mut Table, from: &str, problems: &mut Vec<Problem>) -> Access {
        let mut access = Access::default();
        match file.remove("keys") {
            None => {}
            Some(Value::Array(entries)) if entries.len() > KEYS_MAX => {
                problems.push(Problem::new(from, format!("too many keys: at most {KEYS_MAX}")));
            }
            Some(Value::Array(entries)) => {
                for (index, entry) in entries.iter().enumerate() {
                    match read_entry(entry) {
                        Ok(entry) => access.add(entry, index, from, problems),
                        Err(why) => {
                            problems.push(Problem::new(from, format!("keys, entry {}: {why}", index + 1)));
                        }
                    }
                }
            }
            Some(_) => problems
                .push(Problem::new(from, "keys: write each key as a table of its own, under [[keys]]")),
        }
        match file.remove("workers") {
            None => {}
            Some(Value::Table(workers)) => {
                for (worker, key) in workers {
                    let key = key.as_str().unwrap_or_default();
                    match check_key(key) {
                        Ok(()) => drop(access.workers.insert(worker, key.to_owned())),
                        Err(why) => problems.push(Problem::new(from, format!("workers, {worker}: {why}"))),
                    }
                }
            }
            Some(_) => problems
                .push(Problem::new(from, "workers: write a table of worker ids and keys, under [workers]")),
        }
        access
    }

    pub(crate) fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        for entry in &self.entries {
            keys.add(entry.secret.as_bytes(), entry.grant.clone());
        }
        for (worker, secret) in &self.workers {
            let worker: Name = worker.as_str().into();
            let rights = Rights::of(&[Right::Work]);
            let grant = Grant { name: worker.clone(), worker: Some(worker), rights, ..Grant::everything() };
            keys.add(secret.as_bytes(), grant);
        }
        keys
    }

    /// The ids of workers that have keys of their own.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &str> {
        self.workers.keys().map(String::as_str)
    }

    /// What may be shown: names and what they may do, never the keys.
    pub(crate) fn describe(&self) -> Vec<String> {
        let of = |entry: &Entry| {
            let Grant { name, key: _, namespace, worker, rights } = &entry.grant;
            let rights: Vec<&str> = rights.iter().map(Right::as_str).collect();
            let rights = if rights.is_empty() { "nothing".to_owned() } else { rights.join(", ") };
            let mut text = format!("{name} may {rights}");
            if let Some(namespace) = namespace {
                text += &format!(", in namespace {namespace}");
            }
            if let Some(worker) = worker {
                text += &format!(", as worker {worker}");
            }
            text
        };
        self.entries.iter().map(of).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len() + self.workers.len()
    }

    fn add(&mut self, entry: Entry, index: usize, from: &str, problems: &mut Vec<Problem>) {
        let name = &entry.grant.name;
        if self.entries.iter().any(|other| other.grant.name == *name) {
            problems
                .push(Problem::new(from, format!("keys, entry {}: another key is named {name}", index + 1)));
        } else if self.entries.iter().any(|other| other.secret == entry.secret) {
            problems.push(Problem::new(
                from,
                format!("keys, entry {}: {name} has the same key as another", index + 1),
            ));
        } else {
            self.entries.push(entry);
        }
    }
}

/// Says how many there are and nothing else.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({} keys, {} workers)", self.entries.len(), self.workers.len())
    }
}

fn read_entry(entry: &Value) -> Result<Entry, String> {
    let table = entry.as_table().ok_or("is not a table")?;
    for field in table.keys() {
        if !KEY_FIELDS.contains(&field.as_str()) {
            return Err(super::nearest::unknown("field", field, KEY_FIELDS));
        }
    }
    let text = |field: &str| match table.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{field}` must be a text that is not empty")),
    };
    let name = text("name")?.ok_or("`name` is missing: it stands for the key in logs")?;
    let secret = text("key")?.ok_or("`key` is missing: make one with `openssl rand -hex 32`")?;
    check_key(&secret)?;
    let namespace: Option<Name> = text("namespace")?.map(Into::into);
    let grant = Grant {
        name: name.into(),
        rights: read_rights(table.get("may"), namespace.is_some())?,
        namespace,
        worker: text("worker")?.map(Into::into),
        ..Grant::default()
    };
    Ok(Entry { secret, grant })
}

/// The rights that an entry lists; all that are possible if it lists none. A backup holds every namespace, so a key of one
/// namespace cannot make one.
fn read_rights(may: Option<&Value>, has_namespace: bool) -> Result<Rights, String> {
    let words = match may {
        None if has_namespace => return Ok(Rights::ALL.without(Right::Backup)),
        None => return Ok(Rights::ALL),
        Some(Value::Array(words)) => words,
        Some(_) => {
            let known = Right::ALL.map(Right::as_str).join(", ");
            return Err(format!("`may` must be a list of rights: {known}"));
        }
    };
    let mut rights = Rights::NONE;
    for word in words {
        let word = word.as_str().unwrap_or_default();
        let right = Right::find(word)
            .ok_or_else(|| super::nearest::unknown("right", word, Right::ALL.map(Right::as_str)))?;
        rights = rights.with(right);
    }
    if has_namespace && rights.contains(Right::Backup) {
        return Err("a key with a namespace cannot have the right `backup`: a backup holds every namespace"
            .to_owned());
    }
    Ok(rights)
}

/// Hexadecimal digits, and enough of them. What is wrong is told without the digits.
fn check_key(text: &str) -> Result<(), String> {
    if text.is_empty()
        || !text.len().is_multiple_of(2)
        || !text.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return Err("the key is not in hexadecimal digits: make one with `openssl rand -hex 32`".to_owned());
    }
    if text.len() < KEY_DIGITS_MIN {
        return Err(format!("the key is too short: {} digits, at least {KEY_DIGITS_MIN}", text.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeff";
    const OTHER: &str = "ffeeddccbbaa99887766554433221100";

    fn read(text: &str) -> (Access, Vec<String>) {
        let mut problems = Vec::new();
        let mut table: Table = text.parse().unwrap();
        let access = Access::take(&mut table, "tenure.toml", &mut problems);
        (access, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn keys_grant_what_they_say_and_are_never_shown() {
        let text = format!(
            "[[keys]]\nname = \"lab\"\nkey = \"{KEY}\"\nnamespace = \"physics\"\nmay = [\"submit\"]\n[workers]\nw1 = \"{OTHER}\"\n"
        );
        let (access, problems) = read(&text);
        assert_eq!(problems, Vec::<String>::new());
        let grant = access.keys().admit(Some(KEY.as_bytes())).unwrap();
        assert_eq!(grant.rights, Rights::of(&[Right::Submit]));
        assert_eq!(grant.namespace.as_deref(), Some("physics"));
        assert_eq!(access.describe(), ["lab may submit, in namespace physics"]);
        let worker = access.keys().admit(Some(OTHER.as_bytes())).unwrap();
        assert_eq!(worker.worker.as_deref(), Some("w1"));
        assert_eq!(worker.rights, Rights::of(&[Right::Work]));
        assert_eq!(access.count(), 2);
        assert!(!format!("{access:?}").contains(KEY));
    }

    #[test]
    fn a_wrong_key_entry_is_named_without_its_key() {
        for (entry, hint) in [
            ("name = \"a\"\nkey = \"zz112233445566778899aabbccddeeff\"", "hexadecimal"),
            ("name = \"a\"\nkey = \"0011\"", "too short"),
            ("name = \"a\"", "`key` is missing"),
            ("key = \"00112233445566778899aabbccddeeff\"", "`name` is missing"),
            (
                "name = \"a\"\nkey = \"00112233445566778899aabbccddeeff\"\nmay = [\"sumbit\"]",
                "did you mean `submit`",
            ),
            (
                "name = \"a\"\nkey = \"00112233445566778899aabbccddeeff\"\nspacename = \"x\"",
                "did you mean `namespace`",
            ),
        ] {
            let (_, problems) = read(&format!("[[keys]]\n{entry}\n"));
            assert_eq!(problems.len(), 1, "{entry}");
            assert!(problems[0].contains(hint), "{problems:?}");
            assert!(!problems[0].contains("2233"), "{problems:?}");
        }
    }

    #[test]
    fn two_keys_of_one_name_are_refused() {
        let text =
            format!("[[keys]]\nname = \"a\"\nkey = \"{KEY}\"\n[[keys]]\nname = \"a\"\nkey = \"{KEY}00\"\n");
        assert_eq!(read(&text).1, ["tenure.toml: keys, entry 2: another key is named a"]);
    }
}
