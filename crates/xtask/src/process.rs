//! Runs child processes, and reports their commands and failures.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that started us, so that a chosen toolchain stays chosen.
pub(crate) fn cargo(root: &Path) -> Command {
    program(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), root)
}

pub(crate) fn program(name: impl AsRef<OsStr>, root: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root);
    command
}

/// Says what is run, runs it with our own standard streams, and takes any exit but zero as a failure.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let line = line_of(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs a child that only answers a question. `None`: it is not installed, or it said no.
pub(crate) fn ask(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The search path with the programs of an environment of Python first.
pub(crate) fn path_with(python: &Path) -> Result<OsString> {
    let programs = python.parent().context("python lies in no folder")?.to_owned();
    let known = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([programs].into_iter().chain(env::split_paths(&known)))?)
}

pub(crate) fn announce(command: &Command) {
    println!("$ {}", line_of(command));
}

/// The command as a user would type it; good enough to read, and to paste if no argument contains a space.
pub(crate) fn line_of(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut line = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// The same with the variables that were set for it in front, as a shell takes them.
pub(crate) fn line_with_variables(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line.push_str(&format!("{}={} ", name.to_string_lossy(), value.to_string_lossy()));
        }
    }
    line + &line_of(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_fails_is_named_with_its_arguments() {
        let error = run(&mut program("false", Path::new("."))).unwrap_err();
        assert!(error.to_string().starts_with("`false` ended with"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_installed_answers_nothing() {
        assert_eq!(ask(&mut program("tenure-no-such-program", Path::new("."))), None);
    }

    #[test]
    fn a_line_shows_the_program_without_its_folder() {
        let mut command = program("/usr/bin/env", Path::new("."));
        assert_eq!(line_of(command.args(["-i", "true"])), "env -i true");
    }

    #[test]
    fn a_line_can_show_the_variables_a_child_is_given() {
        let mut command = program("true", Path::new("."));
        assert_eq!(line_with_variables(command.env("B", "2").env("A", "1")), "A=1 B=2 true");
    }
}
