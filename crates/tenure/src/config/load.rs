//! Determines each setting's value and its source: flags before environment before file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tenure_outbound::SpanExportSettings;
use tenure_outbound::hooks::HookSettings;
use toml::{Table, Value};

use super::absent;
use super::access::Access;
use super::flags::Flags;
use super::nearest;
use super::problem::Problem;
use super::settings::{Kind, SETTINGS, Setting, find};
use super::value::check;

/// The largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The file that is read from the data directory if no other is named.
const FILE_NAME: &str = "tenure.toml";
/// Variables that belong to the verbs, and those that a shell task finds: it may start a broker of its own.
const OTHER_VARIABLES: [&str; 16] = [
    "TENURE_HOOK",
    "TENURE_CONFIG",
    "TENURE_BROKER",
    "TENURE_KEY",
    "TENURE_KEY_FILE",
    "TENURE_NAMESPACE",
    "TENURE_ATTEMPT",
    "TENURE_QUEUE",
    "TENURE_PRIORITY",
    "TENURE_AFTER",
    "TENURE_PARENT",
    "TENURE_SUBMITTER",
    "TENURE_WORKER",
    "TENURE_WORKER_RUN",
    "TENURE_CRASHES",
    "TENURE_FAILURES",
];

/// Every setting's text and origin.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    values: BTreeMap<&'static str, (String, Origin)>,
    pub(crate) access: Access,
    pub(crate) hooks: Vec<HookSettings>,
    pub(crate) otlp: Option<SpanExportSettings>,
    pub(crate) file: Option<PathBuf>,
    /// Things that are probably not meant, but may be.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(file) => write!(f, "{}", file.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

impl Loaded {
    pub(crate) fn text(&self, key: &str) -> &str {
        &self.values[key].0
    }

    /// The same without secrets.
    pub(crate) fn value_text(&self, key: &str) -> String {
        match super::value::journal(self.text(key)) {
            Ok(Some(address)) => address.to_string(),
            _ => self.text(key).to_owned(),
        }
    }

    pub(crate) fn origin(&self, key: &str) -> &Origin {
        &self.values[key].1
    }
}

/// Reads the environment of this process.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Loads and checks everything. Reports all problems at once.
pub(crate) fn load(
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<OsString>,
    variables: &[String],
) -> Result<Loaded, Vec<Problem>> {
    let mut problems = Vec::new();
    let outside = outside(flags, variable, &mut problems);
    let named = flags.config.clone().or_else(|| variable("TENURE_CONFIG").map(PathBuf::from));
    let data_dir =
        outside.get("data_dir").map_or(find("data_dir").expect("in the table").default, |(text, _)| text);
    let is_named = named.is_some();
    let file = match named {
        Some(file) => Some(file),
        None => Some(Path::new(data_dir).join(FILE_NAME)).filter(|file| file.is_file()),
    };
    let mut values = defaults();
    let mut access = Access::default();
    let mut hooks = Vec::new();
    let mut otlp = None;
    if let Some(path) = &file {
        match read(path) {
            Ok(mut table) => {
                access = Access::take(&mut table, &path.display().to_string(), &mut problems);
                hooks = super::hooks::take(&mut table, &path.display().to_string(), &mut problems);
                otlp = super::otlp::take(&mut table, &path.display().to_string(), &mut problems);
                take_settings(table, path, !is_named, &mut values, &mut problems);
            }
            Err(problem) => problems.push(problem),
        }
    }
    values.extend(outside);
    for setting in SETTINGS {
        let (text, origin) = &values[setting.key];
        if let Err(why) = check(setting.kind, text) {
            problems.push(Problem::new(origin.to_string(), format!("{}: {why}", setting.key)));
        } else if let Some(why) = absent::complaint(setting, text, origin) {
            problems.push(Problem::new(origin.to_string(), why));
        }
    }
    let (text, origin) = &values["data_dir"];
    if text.trim().is_empty() {
        problems.push(Problem::new(origin.to_string(), "data_dir: is empty: name a directory".to_owned()));
    }
    problems.extend(half_tls(&values));
    problems.extend(visible_password(&values));
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut warnings = unknown_variables(variables);
    let has_secret = hooks.iter().any(HookSettings::has_secret);
    warnings
        .extend(file.as_deref().filter(|_| access.count() > 0 || has_secret).and_then(readable_by_others));
    Ok(Loaded { values, access, hooks, otlp, file, warnings })
}

/// A certificate without its key, or the other way round, would leave the door without TLS.
fn half_tls(values: &BTreeMap<&'static str, (String, Origin)>) -> Option<Problem> {
    let missing = |this: &str, other: &str| {
        let ((text, origin), (other_text, _)) = (&values[this], &values[other]);
        let is_half = !text.is_empty() && other_text.is_empty();
        is_half.then(|| Problem::new(origin.to_string(), format!("{this} also needs {other}")))
    };
    missing("tls_cert", "tls_key")
        .or_else(|| missing("tls_key", "tls_cert"))
        .or_else(|| missing("tls_client_ca", "tls_cert"))
        .or_else(|| missing("grpc_tls_cert", "grpc_tls_key"))
        .or_else(|| missing("grpc_tls_key", "grpc_tls_cert"))
}

/// Every user of the machine can read the command line of a process.
fn visible_password(values: &BTreeMap<&'static str, (String, Origin)>) -> Option<Problem> {
    let (text, origin) = &values["journal"];
    let address = super::value::journal(text).ok()??;
    (matches!(origin, Origin::Flag(_)) && address.has_password()).then(|| {
        Problem::new(
            origin.to_string(),
            "journal: every user of this machine can read a password on the command line: use \
             --journal-password-file, PGPASSFILE, or `journal` in the file",
        )
    })
}

/// Keys in a file that every user of the machine can read are not secret.
fn readable_by_others(file: &Path) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        format!("{0} holds keys or secrets and other users may read it: chmod 600 {0}", file.display())
    })
}

fn defaults() -> BTreeMap<&'static str, (String, Origin)> {
    SETTINGS
        .iter()
        .map(|setting| (setting.key, (absent::default_text(setting).to_owned(), Origin::Default)))
        .collect()
}

/// The settings in flags and environment.
fn outside(
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<OsString>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<&'static str, (String, Origin)> {
    let mut said = BTreeMap::new();
    for setting in SETTINGS {
        let mut name = setting.variable();
        if variable(&name).is_none()
            && let Some(former) = setting.former_variable()
        {
            name = former;
        }
        if let Some(text) = flags.given.get(setting.key) {
            said.insert(setting.key, (text.clone(), Origin::Flag(setting.flag())));
        } else if let Some(text) = variable(&name) {
            match text.into_string() {
                Ok(text) => drop(said.insert(setting.key, (text, Origin::Variable(name)))),
                Err(_) => problems.push(Problem::new(name, "is not readable text")),
            }
        }
    }
    said
}

fn read(path: &Path) -> Result<Table, Problem> {
    let from = path.display().to_string();
    let cannot = |error: std::io::Error| Problem::new(&from, format!("cannot be read: {error}"));
    if std::fs::metadata(path).map_err(cannot)?.len() > FILE_BYTES_MAX {
        return Err(Problem::new(&from, "is too long for a configuration file"));
    }
    // It may hold keys.
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(cannot)?);
    text.parse().map_err(|error: toml::de::Error| {
        // The message alone: the library's full text quotes the line, and the line may hold a key.
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        Problem::new(format!("{from}:{line}"), format!("is not TOML: {}", error.message()))
    })
}

fn take_settings(
    table: Table,
    path: &Path,
    found_in_data_dir: bool,
    values: &mut BTreeMap<&'static str, (String, Origin)>,
    problems: &mut Vec<Problem>,
) {
    let from = path.display().to_string();
    for (key, value) in table {
        let Some(setting) = find(&key) else {
            let known = SETTINGS
                .iter()
                .map(|setting| setting.key)
                .chain(["keys", "workers", "webhooks", "on_event", "otlp"]);
            problems.push(Problem::new(&from, nearest::unknown("key", &key, known)));
            continue;
        };
        if setting.key == "data_dir" && found_in_data_dir {
            let why = "data_dir cannot be set in the file that is read from it: use --data-dir, or name the file with --config";
            problems.push(Problem::new(&from, why));
            continue;
        }
        match text_of(setting, &value) {
            Ok(text) => drop(values.insert(setting.key, (text, Origin::File(path.to_owned())))),
            Err(why) => problems.push(Problem::new(&from, format!("{key}: {why}"))),
        }
    }
}

/// Texts and whole numbers are both fine: `ended_kept = 1000` needs no quotes.
fn text_of(setting: &Setting, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(true) if setting.kind == Kind::Switch => Ok("on".to_owned()),
        Value::Boolean(false) if setting.kind == Kind::Switch || setting.default == "off" => {
            Ok("off".to_owned())
        }
        other => Err(format!("is of the wrong kind ({}): write it in quotes", other.type_str())),
    }
}

/// Unknown variables with our prefix. They may belong to another program (a cluster names its services through the
/// environment), so they cause a warning and not an error.
fn unknown_variables(variables: &[String]) -> Vec<String> {
    let known: Vec<String> =
        SETTINGS.iter().map(Setting::variable).chain(OTHER_VARIABLES.map(str::to_owned)).collect();
    let strange = variables.iter().filter(|name| {
        name.starts_with("TENURE_")
            && !known.contains(name)
            && !name.starts_with("TENURE_TASK_")
            && !name.starts_with("TENURE_EVENT_")
            && !name.starts_with("TENURE_THIRD_PARTY_")
    });
    let is_former =
        |name: &String| SETTINGS.iter().any(|setting| setting.former_variable().as_ref() == Some(name));
    strange
        .filter(|name| !is_former(name))
        .map(|name| nearest::unknown("variable", name, known.iter().map(String::as_str)) + " (ignored)")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_still_known_under_its_former_name() {
        let (_dir, path) = file("checkpoint_size = \"1MB\"");
        let loaded = load(&flags(&[], Some(&path)), &|_| None, &[]).unwrap();
        assert_eq!(loaded.text("snapshot_size"), "1MB");

        let old = |name: &str| (name == "TENURE_CHECKPOINT_SIZE").then(|| OsString::from("2MB"));
        let names = ["TENURE_CHECKPOINT_SIZE".to_owned()];
        let loaded = load(&flags(&[], Some(&path)), &old, &names).unwrap();
        assert_eq!(loaded.text("snapshot_size"), "2MB");
        assert_eq!(loaded.warnings, Vec::<String>::new());

        let command = <Flags as clap::Args>::augment_args(clap::Command::new("tenure"));
        let matches = command.get_matches_from(["tenure", "--checkpoint-size", "3MB"]);
        let given = <Flags as clap::FromArgMatches>::from_arg_matches(&matches).unwrap().given;
        assert_eq!(given.get("snapshot_size").map(String::as_str), Some("3MB"));
    }

    fn flags(given: &[(&'static str, &str)], config: Option<&Path>) -> Flags {
        Flags {
            config: config.map(Path::to_owned),
            given: given.iter().map(|(key, text)| (*key, (*text).to_owned())).collect(),
        }
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.toml");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn problems(text: &str) -> Vec<String> {
        let (_dir, path) = file(text);
        let problems = load(&flags(&[], Some(&path)), &|_| None, &[]).unwrap_err();
        let prefix = path.display().to_string();
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "FILE")).collect()
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let (_dir, path) = file("ended_kept = 1\nevents_kept = 2\naccept_timeout = \"3s\"\n");
        let variable = |name: &str| match name {
            "TENURE_ENDED_KEPT" => Some("10".into()),
            "TENURE_EVENTS_KEPT" => Some("20".into()),
            _ => None,
        };
        let loaded = load(&flags(&[("ended_kept", "100")], Some(&path)), &variable, &[]).unwrap();
        assert_eq!(loaded.text("ended_kept"), "100");
        assert_eq!(loaded.origin("ended_kept").to_string(), "--ended-kept");
        assert_eq!(loaded.text("events_kept"), "20");
        assert_eq!(loaded.origin("events_kept").to_string(), "TENURE_EVENTS_KEPT");
        assert_eq!(loaded.text("accept_timeout"), "3s");
        assert_eq!(*loaded.origin("accept_timeout"), Origin::File(path));
        assert_eq!(*loaded.origin("sync"), Origin::Default);
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest_known_one() {
        assert_eq!(problems("snyc = \"os\"\n"), ["FILE: `snyc` is not a known key: did you mean `sync`?"]);
        assert_eq!(
            problems("[[key]]\nname = \"x\"\n"),
            ["FILE: `key` is not a known key: did you mean `keys`?"]
        );
    }

    #[test]
    fn all_that_is_wrong_is_reported_at_once() {
        let found = problems("sync = \"never\"\nended_kept = 0\nresp = 6380\nlog = true\n");
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn broken_toml_is_reported_by_its_line_without_quoting_it() {
        let found = problems("sync = \"os\"\nkey = \"s3cret\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("FILE:2: is not TOML"), "{found:?}");
        assert!(!found[0].contains("s3cret"), "{found:?}");
    }

    /// The stored files, and every beginning of each, are configurations or are refused.
    #[test]
    fn no_file_makes_the_loader_panic() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/config");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tenure.toml");
        for entry in std::fs::read_dir(corpus).unwrap() {
            let whole = std::fs::read(entry.unwrap().path()).unwrap();
            for end in (0..=whole.len()).rev().step_by(7) {
                std::fs::write(&path, &whole[..end]).unwrap();
                let loaded = load(&flags(&[], Some(&path)), &|_| None, &[]);
                if let Ok(loaded) = loaded {
                    drop(crate::config::Config::build(&loaded, 0));
                }
            }
        }
    }

    #[test]
    fn a_data_directory_has_a_name() {
        let problems = load(&flags(&[("data_dir", "")], None), &|_| None, &[]).expect_err("it has none");
        assert!(
            problems.iter().any(|problem| problem.to_string().contains("data_dir: is empty")),
            "{problems:?}"
        );
    }

    #[test]
    fn the_file_in_the_data_directory_is_found_but_cannot_move_it() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("tenure.toml"), "sync = \"os\"\n").unwrap();
        let loaded = load(&flags(&[("data_dir", data_dir)], None), &|_| None, &[]).unwrap();
        assert_eq!(loaded.text("sync"), "os");
        std::fs::write(dir.path().join("tenure.toml"), "data_dir = \"elsewhere\"\n").unwrap();
        assert!(load(&flags(&[("data_dir", data_dir)], None), &|_| None, &[]).is_err());
    }

    #[test]
    fn keys_that_others_may_read_cause_a_warning() {
        let (_dir, path) = file("[[keys]]\nname = \"a\"\nkey = \"00112233445566778899aabbccddeeff\"\n");
        let warnings = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            load(&flags(&[], Some(&path)), &|_| None, &[]).unwrap().warnings
        };
        assert_eq!(warnings(0o600), Vec::<String>::new());
        assert!(warnings(0o640)[0].contains("chmod 600"));
    }

    #[test]
    fn a_variable_that_means_nothing_is_reported() {
        let variables = ["TENURE_SNYC", "TENURE_BROKER", "TENURE_TASK_ID", "PATH"].map(str::to_owned);
        let loaded = load(&flags(&[], None), &|_| None, &variables).unwrap();
        assert_eq!(
            loaded.warnings,
            ["`TENURE_SNYC` is not a known variable: did you mean `TENURE_SYNC`? (ignored)"]
        );
    }
}
