//! The body of a shell task, which `tenure work` runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::exit::Failure;
use crate::key;
use crate::units::parse_duration;

/// The value of `--cwd` for an empty directory of the task's own.
const PRIVATE: &str = "private";
/// Variables that describe the submitter's shell, not the work.
const OF_THE_SHELL: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];
/// Variables that the worker sets itself.
const OF_TENURE: &str = "TENURE_";

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Command")]
pub(crate) struct Shell {
    /// Set a variable of the command (NAME=VALUE) or forward one of yours (NAME); repeat for several
    #[arg(short, long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Forward all your variables; never the broker's key
    #[arg(long)]
    env_all: bool,
    /// Run in this directory, or in an empty one: `private` [default: this directory, if the worker has it]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Write all of stdout to a file at the worker, too; knows %{id} %{name} %{attempt} %{index}
    #[arg(long, value_name = "FILE")]
    stdout: Option<String>,
    /// Write all of stderr to a file at the worker, too
    #[arg(long, value_name = "FILE")]
    stderr: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The environment of the submitter's process: an input, so that tests can choose it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubmitterEnvironment {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: BTreeMap<String, String>,
}

impl SubmitterEnvironment {
    pub(crate) fn of_this_process() -> SubmitterEnvironment {
        // A variable that is not text cannot be sent; a command rarely needs one.
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        SubmitterEnvironment { cwd: std::env::current_dir().ok(), env: env.collect() }
    }

    /// A path of the command line, as the worker can understand it.
    fn absolute(&self, path: &str) -> Result<String, String> {
        let here = || self.cwd.clone().ok_or("this directory is gone, so a relative path means nothing");
        let path = match PathBuf::from(path) {
            path if path.is_absolute() => path,
            path if path.as_os_str() == "." => here()?,
            path => here()?.join(path),
        };
        path.into_os_string().into_string().map_err(|_| "the path is not text".to_owned())
    }
}

/// The body, in the order in which people read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Form {
    command: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// The submitter's directory: used if it exists at the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    submitted_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_secs: Option<u64>,
}

impl Form {
    /// The same for one item: `{}` in the command stands for it.
    pub(crate) fn with_item(&self, item: &str) -> Form {
        let mut form = self.clone();
        for word in &mut form.command {
            if word.contains("{}") {
                *word = word.replace("{}", item);
            }
        }
        form.env.insert("TENURE_ITEM".to_owned(), item.to_owned());
        form
    }

    pub(crate) fn to_bytes(&self) -> Result<Bytes, Failure> {
        let body = serde_json::to_vec(self).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(body.into())
    }
}

impl Shell {
    /// Whether anything was said about a command.
    pub(crate) fn is_given(&self) -> bool {
        self.env_all
            || !self.env.is_empty()
            || [&self.cwd, &self.stdout, &self.stderr].into_iter().any(Option::is_some)
    }

    pub(crate) fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// The body of a shell task; `None` if no command was given.
    pub(crate) fn body(&self, around: &SubmitterEnvironment) -> Result<Option<Bytes>, Failure> {
        if self.command.is_empty() {
            return Ok(None);
        }
        self.form(around)?.to_bytes().map(Some)
    }

    /// The command of the command line, where it runs and what it finds.
    pub(crate) fn form(&self, around: &SubmitterEnvironment) -> Result<Form, Failure> {
        let mut form = Form {
            command: self.command.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            ..Form::default()
        };
        if self.env_all {
            let wanted = |name: &str| !name.starts_with(OF_TENURE) && !OF_THE_SHELL.contains(&name);
            form.env.extend(around.env.iter().filter(|(name, _)| wanted(name)).map(own));
        }
        for text in &self.env {
            let (name, value) =
                variable(text, around).map_err(|why| Failure::usage(format!("--env: {why}")))?;
            form.env.insert(name, value);
        }
        place(&mut form, self.cwd.as_deref(), around)
            .map_err(|why| Failure::usage(format!("--cwd: {why}")))?;
        Ok(form)
    }

    /// The shell task of a JSON object. What it does not say comes from the command line.
    pub(crate) fn form_of(
        &self,
        fields: &Map<String, Value>,
        around: &SubmitterEnvironment,
    ) -> Result<Form, String> {
        let mut form = self.form(around).map_err(|failure| failure.message)?;
        for (field, value) in fields {
            let wrong = |what: &str| format!("{field}: is not {what}");
            let text = || value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text"));
            match field.as_str() {
                "command" => {
                    form.command =
                        command(value).ok_or_else(|| wrong("a list of texts, or a line for sh"))?;
                }
                "env" => environment(value, around, &mut form).map_err(|why| format!("env: {why}"))?,
                "cwd" => place(&mut form, Some(&text()?), around).map_err(|why| format!("cwd: {why}"))?,
                "stdin" => form.stdin = Some(text()?),
                "stdout" => form.stdout = Some(text()?),
                "stderr" => form.stderr = Some(text()?),
                "timeout" => {
                    let span = parse_duration(&text()?).map_err(|why| format!("timeout: {why}"))?;
                    form.timeout_secs = Some(span.as_secs().max(1));
                }
                _ => {}
            }
        }
        Ok(form)
    }
}

fn own((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

/// `NAME=VALUE`, or `NAME` with the submitter's value.
fn variable(text: &str, around: &SubmitterEnvironment) -> Result<(String, String), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(format!("`{text}` has no name: write NAME=VALUE, or NAME to forward yours"));
    }
    if key::VARIABLES.contains(&name) {
        return Err(format!("{name} is the broker's key, and is not given to tasks"));
    }
    match value.or(around.env.get(name).map(String::as_str)) {
        Some(value) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("{name} is not set here, so it cannot be forwarded: write {name}=VALUE")),
    }
}

/// Where the command runs: a named directory, an empty one, or the submitter's own.
fn place(form: &mut Form, cwd: Option<&str>, around: &SubmitterEnvironment) -> Result<(), String> {
    (form.cwd, form.submitted_from) = match cwd {
        Some(PRIVATE) => (None, None),
        Some(path) => (Some(around.absolute(path)?), None),
        None => (None, around.absolute(".").ok()),
    };
    Ok(())
}

fn command(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(line) => Some(vec!["sh".to_owned(), "-c".to_owned(), line.clone()]),
        Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Variables as an object, or as a list in the form of the flag.
fn environment(value: &Value, around: &SubmitterEnvironment, form: &mut Form) -> Result<(), String> {
    const WRONG: &str = "is not an object of texts, such as {\"NAME\": \"VALUE\"}";
    match value {
        Value::Object(pairs) => {
            for (name, value) in pairs {
                let pair = format!("{name}={}", value.as_str().ok_or(WRONG)?);
                let (name, value) = variable(&pair, around)?;
                form.env.insert(name, value);
            }
        }
        Value::Array(texts) => {
            for text in texts {
                let (name, value) = variable(text.as_str().ok_or(WRONG)?, around)?;
                form.env.insert(name, value);
            }
        }
        _ => return Err(WRONG.to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> SubmitterEnvironment {
        let env = [("HOME", "/home/ada"), ("SHLVL", "2"), ("TENURE_KEY", "secret"), ("TENURE_BROKER", "x")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        SubmitterEnvironment { cwd: Some("/home/ada/runs".into()), env }
    }

    fn shell(command: &[&str], env: &[&str], cwd: Option<&str>) -> Shell {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Shell { command: texts(command), env: texts(env), cwd: cwd.map(str::to_owned), ..Shell::default() }
    }

    #[test]
    fn a_command_becomes_the_form_that_workers_run() {
        let body = shell(&["echo", "a b"], &["X=1=2"], Some("/tmp")).body(&around()).unwrap().unwrap();
        assert_eq!(&body[..], br#"{"command":["echo","a b"],"env":{"X":"1=2"},"cwd":"/tmp"}"#);
        let body = shell(&["true"], &[], Some("private")).body(&around()).unwrap().unwrap();
        assert_eq!(&body[..], br#"{"command":["true"]}"#);
        assert!(shell(&["true"], &["=1"], None).body(&around()).is_err());
        assert!(shell(&[], &[], None).body(&around()).unwrap().is_none());
    }

    #[test]
    fn a_command_runs_where_the_submitter_stands() {
        for (cwd, firm, soft) in [
            (None, None, Some("/home/ada/runs")),
            (Some("."), Some("/home/ada/runs"), None),
            (Some("a/b"), Some("/home/ada/runs/a/b"), None),
            (Some("/data"), Some("/data"), None),
            (Some("private"), None, None),
            (Some("./private"), Some("/home/ada/runs/./private"), None),
        ] {
            let form = shell(&["true"], &[], cwd).form(&around()).unwrap();
            assert_eq!((form.cwd.as_deref(), form.submitted_from.as_deref()), (firm, soft), "{cwd:?}");
        }
    }

    #[test]
    fn variables_are_set_or_forwarded_and_the_key_never() {
        let form = shell(&["true"], &["HOME", "A=1"], None).form(&around()).unwrap();
        assert_eq!((form.env["HOME"].as_str(), form.env["A"].as_str()), ("/home/ada", "1"));
        let all = Shell { env_all: true, ..shell(&["true"], &[], None) };
        assert_eq!(all.form(&around()).unwrap().env.into_keys().collect::<Vec<_>>(), ["HOME"]);
        for (env, why) in
            [("NO_SUCH", "is not set"), ("TENURE_KEY", "the broker's key"), ("TENURE_KEY=x", "key")]
        {
            let failure = shell(&["true"], &[env], None).form(&around()).unwrap_err();
            assert!(failure.message.contains(why), "{env}: {failure}");
        }
    }

    #[test]
    fn a_json_object_says_it_in_the_same_words() {
        let fields = serde_json::json!({
            "command": ["./sim", "7"], "env": {"A": "2"}, "cwd": ".", "stdout": "%{id}.out", "timeout": "2m",
        });
        let form = shell(&[], &["A=1", "B=1"], None).form_of(fields.as_object().unwrap(), &around()).unwrap();
        assert_eq!(form.command, ["./sim", "7"]);
        assert_eq!((form.env["A"].as_str(), form.env["B"].as_str()), ("2", "1"));
        assert_eq!(
            (form.cwd.as_deref(), form.stdout.as_deref()),
            (Some("/home/ada/runs"), Some("%{id}.out"))
        );
        assert_eq!(form.timeout_secs, Some(120));
        let line = serde_json::json!({ "command": "sort < a > b" });
        let form = Shell::default().form_of(line.as_object().unwrap(), &around()).unwrap();
        assert_eq!(form.command, ["sh", "-c", "sort < a > b"]);
        for (fields, word) in [
            (serde_json::json!({ "command": 7 }), "command"),
            (serde_json::json!({ "env": 7 }), "env"),
            (serde_json::json!({ "timeout": "soon" }), "timeout"),
        ] {
            let why = Shell::default().form_of(fields.as_object().unwrap(), &around()).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
