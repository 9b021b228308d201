//! Access control: the `[[keys]]` and `[workers]` of the file. A key is hashed as soon as it is read, and its text is
//! wiped; nothing here can be printed.

use std::collections::BTreeSet;
use std::fmt;

use tenure_hub::words::Name;
use tenure_hub::{Grant, Keys, Right, Rights};
use toml::{Table, Value};
use zeroize::{Zeroize as _, Zeroizing};

use super::problem::Problem;
use crate::units::counted;

/// The shortest key that is not refused: 128 bits.
const KEY_DIGITS_MIN: usize = 32;
/// How many keys one broker knows at most.
const KEYS_MAX: usize = 10_000;
/// How many keys may have one name, so that a new one can be handed out before the old one goes.
const KEYS_PER_NAME_MAX: usize = 2;
const KEY_FIELDS: [&str; 7] = ["name", "key", "namespace", "worker", "may", "namespaces_max", "queues_max"];
const WORKER_FIELDS: [&str; 2] = ["key", "namespace"];

type Secret = Zeroizing<String>;

/// The part of the file about access.
#[derive(Clone, Default)]
pub(crate) struct Access {
    keys: Keys,
    /// The grants of the entries under `[[keys]]`, in their order.
    grants: Vec<Grant>,
    /// Worker ids with keys of their own: a peer that shows one is that worker and no other.
    workers: BTreeSet<String>,
    count: usize,
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
            Some(Value::Array(mut entries)) => {
                for (index, entry) in entries.iter_mut().enumerate() {
                    if let Err(why) = read_entry(entry).and_then(|(secret, grant)| access.add(&secret, grant))
                    {
                        problems.push(Problem::new(from, format!("keys, entry {}: {why}", index + 1)));
                    }
                }
            }
            Some(_) => problems
                .push(Problem::new(from, "keys: write each key as a table of its own, under [[keys]]")),
        }
        match file.remove("workers") {
            None => {}
            Some(Value::Table(workers)) => {
                for (worker, mut value) in workers {
                    if let Err(why) = access.add_worker(&worker, &mut value) {
                        problems.push(Problem::new(from, format!("workers, {worker}: {why}")));
                    }
                }
            }
            Some(_) => problems
                .push(Problem::new(from, "workers: write a table of worker ids and keys, under [workers]")),
        }
        access
    }

    pub(crate) fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// The names of keys that others do not have, or for which they grant something else.
    pub(crate) fn names_not_in(&self, others: &Access) -> Vec<Name> {
        self.keys.names_not_in(&others.keys)
    }

    /// The ids of workers that have keys of their own.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(String::as_str)
    }

    /// The parts that may be shown: names and their rights, never the keys.
    pub(crate) fn describe(&self) -> Vec<String> {
        let of = |grant: &Grant| {
            let Grant { name, key: _, namespace, worker, rights, namespaces_max, queues_max } = grant;
            let rights: Vec<&str> = rights.iter().map(Right::as_str).collect();
            let rights = if rights.is_empty() { "nothing".to_owned() } else { rights.join(", ") };
            let mut text = format!("{name} may {rights}");
            if let Some(namespace) = namespace {
                text += &format!(", in namespace {namespace}");
            }
            if let Some(worker) = worker {
                text += &format!(", as worker {worker}");
            }
            if let Some(limit) = namespaces_max {
                text += &format!(", in at most {}", counted(*limit as u64, "namespace", "namespaces"));
            }
            if let Some(limit) = queues_max {
                text += &format!(", with at most {}", counted(*limit as u64, "queue", "queues"));
            }
            text
        };
        self.grants.iter().map(of).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A second key of one name replaces the first one step by step, so it has to grant the same.
    fn add(&mut self, secret: &str, grant: Grant) -> Result<(), String> {
        let name = &grant.name;
        let of_name: Vec<&Grant> = self.grants.iter().filter(|other| other.name == *name).collect();
        if of_name.iter().any(|other| **other != grant) {
            return Err(format!(
                "another key is named {name} and grants something else: two keys of one name must be alike"
            ));
        }
        if of_name.len() >= KEYS_PER_NAME_MAX {
            return Err(format!("{KEYS_PER_NAME_MAX} keys are named {name} already"));
        }
        self.add_key(secret, &grant)?;
        self.grants.push(grant);
        Ok(())
    }

    fn add_worker(&mut self, worker: &str, value: &mut Value) -> Result<(), String> {
        let (secrets, namespace) = match value {
            Value::Table(table) => {
                for field in table.keys() {
                    if !WORKER_FIELDS.contains(&field.as_str()) {
                        return Err(super::nearest::unknown("field", field, WORKER_FIELDS));
                    }
                }
                let namespace = match table.get("namespace") {
                    None => None,
                    Some(Value::String(text)) if !text.is_empty() => Some(Name::from(text.as_str())),
                    Some(_) => return Err("`namespace` must be a text that is not empty".to_owned()),
                };
                (read_secrets(table.get_mut("key").ok_or("`key` is missing")?)?, namespace)
            }
            keys => (read_secrets(keys)?, None),
        };
        let name: Name = worker.into();
        let rights = Rights::of(&[Right::Work]);
        let grant =
            Grant { name: name.clone(), worker: Some(name), namespace, rights, ..Grant::everything() };
        for secret in &secrets {
            self.add_key(secret, &grant)?;
        }
        self.workers.insert(worker.to_owned());
        Ok(())
    }

    fn add_key(&mut self, secret: &str, grant: &Grant) -> Result<(), String> {
        check_key(secret)?;
        if self.keys.find(secret.as_bytes()).is_some() {
            return Err(format!("{} has the same key as another", grant.name));
        }
        self.keys.add(secret.as_bytes(), grant.clone());
        self.count += 1;
        Ok(())
    }
}

/// Says how many there are and nothing else.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({} keys, {} workers)", self.grants.len(), self.workers.len())
    }
}

fn read_entry(entry: &mut Value) -> Result<(Secret, Grant), String> {
    let table = entry.as_table_mut().ok_or("is not a table")?;
    for field in table.keys() {
        if !KEY_FIELDS.contains(&field.as_str()) {
            return Err(super::nearest::unknown("field", field, KEY_FIELDS));
        }
    }
    let secret = table.get_mut("key").map(read_secret).transpose()?;
    let text = |field: &str| match table.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{field}` must be a text that is not empty")),
    };
    let name = text("name")?.ok_or("`name` is missing: it stands for the key in logs")?;
    let secret = secret.ok_or("`key` is missing: make one with `openssl rand -hex 32`")?;
    let namespace: Option<Name> = text("namespace")?.map(Into::into);
    let namespaces_max = read_limit(table, "namespaces_max")?;
    if namespaces_max.is_some() && namespace.is_some() {
        return Err("`namespaces_max` is for keys without a namespace: this one has `namespace`".to_owned());
    }
    let grant = Grant {
        name: name.into(),
        namespaces_max,
        queues_max: read_limit(table, "queues_max")?,
        rights: read_rights(table.get("may"), namespace.is_some())?,
        namespace,
        worker: text("worker")?.map(Into::into),
        ..Grant::default()
    };
    Ok((secret, grant))
}

fn read_limit(table: &Table, field: &str) -> Result<Option<usize>, String> {
    match table.get(field) {
        None => Ok(None),
        Some(Value::Integer(limit)) if *limit > 0 => Ok(usize::try_from(*limit).ok()),
        Some(_) => Err(format!("`{field}` must be a number greater than 0")),
    }
}

/// The one or two keys of a worker.
fn read_secrets(value: &mut Value) -> Result<Vec<Secret>, String> {
    match value {
        Value::Array(keys) if keys.is_empty() || keys.len() > KEYS_PER_NAME_MAX => {
            Err(format!("a worker has one key, or {KEYS_PER_NAME_MAX} while one replaces the other"))
        }
        Value::Array(keys) => keys.iter_mut().map(read_secret).collect(),
        one => Ok(vec![read_secret(one)?]),
    }
}

/// Takes the text of a key out of the table, so that no copy of it stays there.
fn read_secret(value: &mut Value) -> Result<Secret, String> {
    match value {
        Value::String(text) => {
            let secret = Zeroizing::new(text.clone());
            text.zeroize();
            Ok(secret)
        }
        _ => Err("`key` must be a text that is not empty".to_owned()),
    }
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

/// Checks that a key is hexadecimal and long enough. Errors do not contain the digits.
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
                "name = \"a\"\nkey = \"00112233445566778899aabbccddeeff\"\nnamespcae = \"x\"",
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
    fn two_keys_of_one_name_may_be_alike_and_a_third_or_another_is_refused() {
        let entry = |key: &str, more: &str| format!("[[keys]]\nname = \"a\"\nkey = \"{key}\"\n{more}\n");
        let (access, problems) = read(&(entry(KEY, "") + &entry(OTHER, "")));
        assert_eq!(problems, Vec::<String>::new());
        let [old, new] = [KEY, OTHER].map(|key| access.keys().admit(Some(key.as_bytes())).unwrap());
        assert_eq!((&old.name, old.rights), (&new.name, new.rights));
        assert_ne!(old.key, new.key);
        for (second, third, hint) in [
            (entry(OTHER, "namespace = \"lab\""), String::new(), "entry 2: another key is named a"),
            (entry(OTHER, ""), entry(&format!("{KEY}00"), ""), "entry 3: 2 keys are named a already"),
            (entry(KEY, ""), String::new(), "entry 2: a has the same key as another"),
        ] {
            let (_, problems) = read(&(entry(KEY, "") + &second + &third));
            assert!(problems.len() == 1 && problems[0].contains(hint), "{problems:?}");
        }
    }

    #[test]
    fn a_worker_may_have_two_keys_and_a_namespace() {
        let text = format!("[workers]\nw1 = {{ key = [\"{KEY}\", \"{OTHER}\"], namespace = \"lab\" }}\n");
        let (access, problems) = read(&text);
        assert_eq!(problems, Vec::<String>::new());
        for key in [KEY, OTHER] {
            let grant = access.keys().admit(Some(key.as_bytes())).unwrap();
            assert_eq!((grant.worker.as_deref(), grant.namespace.as_deref()), (Some("w1"), Some("lab")));
        }
        for (wrong, hint) in [
            (format!("[\"{KEY}\", \"{OTHER}\", \"{KEY}00\"]"), "one key, or 2"),
            ("[]".to_owned(), "one key, or 2"),
            (format!("{{ key = \"{KEY}\", spacename = \"lab\" }}"), "did you mean `namespace`"),
            ("{ namespace = \"lab\" }".to_owned(), "`key` is missing"),
        ] {
            let (_, problems) = read(&format!("[workers]\nw1 = {wrong}\n"));
            assert!(problems.len() == 1 && problems[0].contains(hint), "{problems:?}");
            assert!(!problems[0].contains("2233"), "{problems:?}");
        }
    }

    #[test]
    fn a_key_may_have_limits_of_its_own() {
        let entry = |more: &str| format!("[[keys]]\nname = \"a\"\nkey = \"{KEY}\"\n{more}\n");
        let (access, problems) = read(&entry("namespaces_max = 3\nqueues_max = 7"));
        assert_eq!(problems, Vec::<String>::new());
        let grant = access.keys().admit(Some(KEY.as_bytes())).unwrap();
        assert_eq!((grant.namespaces_max, grant.queues_max), (Some(3), Some(7)));
        assert!(access.describe()[0].ends_with(", in at most 3 namespaces, with at most 7 queues"));
        for (wrong, hint) in [
            ("queues_max = 0", "`queues_max` must be a number greater than 0"),
            ("namespaces_max = \"3\"", "`namespaces_max` must be a number greater than 0"),
            ("namespaces_max = 3\nnamespace = \"lab\"", "for keys without a namespace"),
            ("queue_max = 3", "did you mean `queues_max`"),
        ] {
            let (_, problems) = read(&entry(wrong));
            assert!(problems.len() == 1 && problems[0].contains(hint), "{problems:?}");
        }
    }

    #[test]
    fn no_text_of_a_key_stays_in_the_table_that_was_read() {
        let mut table: Table = format!("[[keys]]\nname = \"a\"\nkey = \"{KEY}\"\n").parse().unwrap();
        let Some(Value::Array(entries)) = table.get_mut("keys") else { panic!("no keys") };
        let (secret, _) = read_entry(&mut entries[0]).unwrap();
        assert_eq!(*secret, KEY);
        assert!(!format!("{entries:?}").contains(KEY));
    }
}
