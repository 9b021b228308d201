//! Job files: what is repeated at every submission, as a TOML file or as `#TENURE` lines in a script.
//!
//! A job file is read as flags that stand in front of those of the command line, so the command line has the last
//! word, and there is one list of words to know.

use std::path::Path;

use toml::{Table, Value};

use crate::config::nearest;
use crate::exit::Failure;

/// The prefix of a line of flags in a script.
const MARK: &str = "#TENURE";
/// Flags stand in the first lines of a script.
const LINES_READ_MAX: usize = 200;
const JOB_BYTES_MAX: u64 = 1 << 20;

/// The contents of a job file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) flags: Vec<String>,
    pub(crate) command: Vec<String>,
}

/// The job in a file, if `text` names a job file. `known` lists the words of the flags, and whether each takes a value.
pub(crate) fn read(text: &str, known: impl FnOnce() -> Vec<(String, bool)>) -> Result<Option<Job>, Failure> {
    let path = Path::new(text);
    let is_toml = path.extension().is_some_and(|extension| extension == "toml") && !text.contains('\n');
    let Ok(about) = std::fs::metadata(path) else {
        if is_toml {
            return Err(Failure::input(format!("{text} cannot be read: there is no such job file")));
        }
        return Ok(None);
    };
    if !about.is_file() || about.len() > JOB_BYTES_MAX {
        return Ok(None);
    }
    let Ok(content) = std::fs::read_to_string(path) else { return Ok(None) };
    let wrong = |why: String| Failure::input(format!("{text}: {why}"));
    if is_toml {
        return of_toml(&content, &known()).map(Some).map_err(wrong);
    }
    let Some(flags) = of_script(&content).map_err(wrong)? else { return Ok(None) };
    let path = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let path = path.into_os_string().into_string().map_err(|_| wrong("its path is not text".to_owned()))?;
    let command = if can_be_run(&content, &about) { vec![path] } else { vec!["sh".to_owned(), path] };
    Ok(Some(Job { flags, command }))
}

fn can_be_run(content: &str, about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    content.starts_with("#!") && about.permissions().mode() & 0o111 != 0
}

fn of_toml(content: &str, known: &[(String, bool)]) -> Result<Job, String> {
    let table: Table = content.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut job = Job::default();
    for (field, value) in table {
        if field == "command" {
            job.command = match value {
                Value::String(line) => vec!["sh".to_owned(), "-c".to_owned(), line],
                Value::Array(words) => {
                    words.iter().map(word).collect::<Option<_>>().ok_or("command: is not a list of texts")?
                }
                _ => return Err("command: is neither a list of texts nor a line for sh".to_owned()),
            };
            continue;
        }
        let flag = flag_of(&field, known)?;
        match value {
            Value::Boolean(true) if !flag.1 => job.flags.push(format!("--{}", flag.0)),
            Value::Boolean(false) if !flag.1 => {}
            Value::Array(values) => {
                for value in &values {
                    let value = word(value).ok_or_else(|| format!("{field}: must be a list of strings"))?;
                    job.flags.push(format!("--{}={value}", flag.0));
                }
            }
            Value::Table(pairs) if flag.0 == "env" => {
                for (name, value) in &pairs {
                    let value = word(value).ok_or_else(|| format!("env: {name} must be a string"))?;
                    job.flags.push(format!("--env={name}={value}"));
                }
            }
            value => {
                let value = word(&value).filter(|_| flag.1);
                let value = value.ok_or_else(|| format!("{field}: invalid value for --{}", flag.0))?;
                job.flags.push(format!("--{}={value}", flag.0));
            }
        }
    }
    if job.command.is_empty() {
        return Err(
            "has no command: write such as command = [\"./simulate\", \"--steps\", \"100\"]".to_owned()
        );
    }
    Ok(job)
}

/// The flag that a field means: with dashes or underscores, and in the plural where it is a list.
fn flag_of<'a>(field: &str, known: &'a [(String, bool)]) -> Result<&'a (String, bool), String> {
    let dashed = field.replace('_', "-");
    let singular = dashed.strip_suffix('s').unwrap_or(&dashed);
    let find = |word: &str| known.iter().find(|(flag, _)| flag == word);
    let names = || known.iter().map(|(flag, _)| flag.as_str()).chain(["command"]);
    find(&dashed).or_else(|| find(singular)).ok_or_else(|| nearest::unknown("field", field, names()))
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Datetime(time) => Some(time.to_string()),
        Value::Boolean(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// The flags in a script; `None` if it has no such line.
fn of_script(content: &str) -> Result<Option<Vec<String>>, String> {
    let mut flags = None;
    for (index, line) in content.lines().take(LINES_READ_MAX).enumerate() {
        if let Some(rest) = line.strip_prefix(MARK).filter(|rest| rest.starts_with([' ', '\t'])) {
            let words = split(rest).ok_or_else(|| format!("line {}: a quote is not closed", index + 1))?;
            if words.iter().any(|word| word == "--") {
                return Err(format!(
                    "line {}: a script is itself the command, so -- has no place",
                    index + 1
                ));
            }
            flags.get_or_insert_with(Vec::new).extend(words);
        }
    }
    Ok(flags)
}

/// Words as a shell splits them: blanks separate, quotes join, a backslash takes the next character as it is, and `#`
/// begins a comment.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().push(chars.next()?),
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_flags() -> Vec<(String, bool)> {
        [
            ("name", true),
            ("tag", true),
            ("env", true),
            ("hold", false),
            ("run-limit", true),
            ("retries", true),
        ]
        .map(|(flag, takes)| (flag.to_owned(), takes))
        .into()
    }

    #[test]
    fn a_toml_file_uses_the_words_of_the_flags() {
        let job = of_toml(
            "command = [\"./sim\", \"7\"]\nname = \"sim/7\"\ntags = [\"a\", \"b\"]\nhold = true\n\
             run_limit = \"2h\"\nretries = 3\n[env]\nA = \"1\"\n",
            &known_flags(),
        )
        .unwrap();
        assert_eq!(job.command, ["./sim", "7"]);
        for flag in
            ["--name=sim/7", "--tag=a", "--tag=b", "--hold", "--run-limit=2h", "--retries=3", "--env=A=1"]
        {
            assert!(job.flags.contains(&flag.to_owned()), "{flag}: {job:?}");
        }
    }

    #[test]
    fn a_wrong_field_is_named_with_a_hint() {
        for (content, word) in [
            ("command = [\"a\"]\nretrys = 3", "did you mean `retries`"),
            ("command = [\"a\"]\nhold = 3", "hold"),
            ("name = \"x\"", "has no command"),
            ("command = 3", "command"),
            ("command", "expected"),
        ] {
            let why = of_toml(content, &known_flags()).unwrap_err();
            assert!(why.contains(word), "{content}: {why}");
        }
    }

    #[test]
    fn a_script_carries_its_flags_in_comments() {
        let script =
            "#!/bin/sh\n#TENURE --name 'sim 7' --retries 3  # thrice\n#TENURE --tag a\\ b\n#TENURES no\necho";
        let flags = of_script(script).unwrap().unwrap();
        assert_eq!(flags, ["--name", "sim 7", "--retries", "3", "--tag", "a b"]);
        assert_eq!(of_script("echo hello\n"), Ok(None));
        assert!(of_script("#TENURE --name 'x").unwrap_err().contains("line 1"));
        assert!(of_script("#TENURE -- echo").is_err());
    }
}
