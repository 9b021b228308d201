//! The other versions of Python on this machine: the wheel serves all of them, so a smoke test runs with each.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::place::Workspace;
use crate::process::{ask, program, run};
use crate::steps::Steps;
use crate::third_party::environment_of;

/// The versions that the wheel supports, from 3.9 on, each with its step.
const VERSIONS: [(u32, &str); 6] = [
    (9, "python: smoke test with 3.9"),
    (10, "python: smoke test with 3.10"),
    (11, "python: smoke test with 3.11"),
    (12, "python: smoke test with 3.12"),
    (13, "python: smoke test with 3.13"),
    (14, "python: smoke test with 3.14"),
];
/// What the wheel depends on.
const REQUIREMENTS: &str = "msgpack\ntyping_extensions\n";
/// From the folder of the SDK.
const SMOKE_TEST: &str = "tests/smoke.py";

/// An interpreter, and its version.
#[derive(Debug, PartialEq, Eq)]
struct Interpreter {
    program: PathBuf,
    minor: u32,
    step: &'static str,
}

/// Runs the smoke test with every other version that is found.
pub(super) fn test(steps: &mut Steps, place: &Workspace, sdk: &Path, wheel: &Path, used: &Path) {
    let found = find(minor_of(used));
    let names: Vec<String> = found.iter().map(|one| format!("3.{}", one.minor)).collect();
    println!("other versions of Python: {}", if names.is_empty() { "none".into() } else { names.join(", ") });
    for one in found {
        steps.run(one.step, "cargo xtask python --long", || smoke(place, sdk, wheel, &one));
    }
}

fn smoke(place: &Workspace, sdk: &Path, wheel: &Path, interpreter: &Interpreter) -> Result<()> {
    let folder = place.python().join(format!("smoke-3.{}", interpreter.minor));
    let python = environment_of(&interpreter.program, &folder, REQUIREMENTS)?;
    super::install(&python, sdk, wheel)?;
    run(program(&python, sdk).arg(SMOKE_TEST))
}

/// One interpreter of each supported version but the one in use, from the search path or from pyenv.
fn find(used: Option<u32>) -> Vec<Interpreter> {
    let pyenv =
        ask(program("pyenv", Path::new("/")).arg("root")).map(|root| Path::new(&root).join("versions"));
    let of_pyenv = pyenv.and_then(|versions| fs::read_dir(versions).ok());
    let folders: Vec<PathBuf> = of_pyenv.into_iter().flatten().flatten().map(|one| one.path()).collect();
    let candidates = |minor: u32| {
        let name = format!("python3.{minor}");
        let beside = folders.iter().map(|folder| folder.join("bin").join(&name)).collect::<Vec<_>>();
        std::iter::once(PathBuf::from(&name)).chain(beside)
    };
    VERSIONS
        .into_iter()
        .filter(|(minor, _)| Some(*minor) != used)
        .filter_map(|(minor, step)| {
            // A program of pyenv in the search path may lead nowhere.
            let program = candidates(minor).find(|one| minor_of(one) == Some(minor))?;
            Some(Interpreter { program, minor, step })
        })
        .collect()
}

fn minor_of(python: impl AsRef<OsStr>) -> Option<u32> {
    parse_minor(&ask(program(python, Path::new("/")).arg("--version"))?)
}

/// `Python 3.11.7`
fn parse_minor(version: &str) -> Option<u32> {
    version.strip_prefix("Python 3.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_python_says_it() {
        assert_eq!(parse_minor("Python 3.9.18"), Some(9));
        assert_eq!(parse_minor("Python 3.13.0rc1"), Some(13));
        assert_eq!(parse_minor("Python 2.7.18"), None);
    }

    #[test]
    fn the_version_in_use_is_none_of_the_others() {
        let all = find(None);
        for one in &all {
            assert_eq!(minor_of(&one.program), Some(one.minor));
            assert!(!find(Some(one.minor)).contains(one));
        }
    }
}
