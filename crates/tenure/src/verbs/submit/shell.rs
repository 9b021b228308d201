//! The body of a shell task, which `tenure work` runs.

use std::collections::BTreeMap;

use bytes::Bytes;
use clap::Args;
use serde::Serialize;

use crate::exit::Failure;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Shell task")]
pub(crate) struct Shell {
    /// Environment variable for the command; repeat for several
    #[arg(short, long = "env", value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,
    /// Working directory, on the worker's machine
    #[arg(long, value_name = "DIR", requires = "command")]
    cwd: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Form<'a> {
    command: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
}

impl Shell {
    /// The body of a shell task; `None` if no command was given.
    pub(crate) fn body(&self) -> Result<Option<Bytes>, Failure> {
        if self.command.is_empty() {
            return Ok(None);
        }
        let mut env = BTreeMap::new();
        for pair in &self.env {
            let (name, value) = pair
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| Failure::usage(format!("--env: `{pair}` is not NAME=VALUE")))?;
            env.insert(name, value);
        }
        let form = Form { command: &self.command, env, cwd: self.cwd.as_deref() };
        let body = serde_json::to_vec(&form).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(Some(body.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &[&str], env: &[&str], cwd: Option<&str>) -> Shell {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Shell { command: texts(command), env: texts(env), cwd: cwd.map(str::to_owned) }
    }

    #[test]
    fn a_command_becomes_the_form_that_workers_run() {
        let body = shell(&["echo", "a b"], &["X=1=2"], Some("/tmp")).body().unwrap().unwrap();
        assert_eq!(&body[..], br#"{"command":["echo","a b"],"env":{"X":"1=2"},"cwd":"/tmp"}"#);
        let body = shell(&["true"], &[], None).body().unwrap().unwrap();
        assert_eq!(&body[..], br#"{"command":["true"]}"#);
        assert!(shell(&["true"], &["=1"], None).body().is_err());
        assert!(shell(&[], &[], None).body().unwrap().is_none());
    }
}
