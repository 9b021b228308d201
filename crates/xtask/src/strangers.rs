//! Strangers: clients that others wrote, against which every door is tested.
//!
//! What a door promises is that an unknown client in its language works. Our own client cannot prove that, because
//! it would share our misunderstandings. So the tests speak through redis-cli, redis-py, ioredis, node-redis, pyzmq,
//! grpcio and msgpack, in versions pinned in `crates/xtask/strangers/`, installed once beside the build.

mod apt;
mod node;
mod python;
mod redis;
mod stamp;

pub(crate) use python::environment;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::place::Place;
use crate::steps::Steps;

/// Install the clients that others wrote, and print where tests find them
///
/// `cargo xtask test` does this by itself. Alone it is for running one test from an editor, or
/// for trying a stranger by hand. What is already there in the pinned version stays.
#[derive(Args)]
#[command(name = "strangers", verbatim_doc_comment)]
pub(crate) struct Prepare {}

impl Prepare {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode> {
        let mut steps = Steps::default();
        let strangers = prepare(&mut steps, place);
        for (name, value) in strangers.variables() {
            println!("export {name}={}", value.to_string_lossy());
        }
        Ok(steps.report())
    }
}

/// Where the tests find the strangers. What could not be prepared is absent.
#[derive(Default)]
pub(crate) struct Strangers {
    python: Option<PathBuf>,
    node_path: Option<PathBuf>,
}

impl Strangers {
    /// The environment by which tests are told. A test that needs a stranger it is not told about is skipped.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = Vec::new();
        if let Some(python) = &self.python {
            variables.push(("TENURE_STRANGERS_PYTHON", python.clone().into_os_string()));
        }
        if let Some(node_path) = &self.node_path {
            variables.push(("TENURE_STRANGERS_NODE_PATH", node_path.clone().into_os_string()));
        }
        variables
    }
}

/// Installs what is missing. Each kind is a step of its own: without Node the Python tests still say something.
pub(crate) fn prepare(steps: &mut Steps, place: &Place) -> Strangers {
    const REPEAT: &str = "cargo xtask strangers (or do without them: cargo xtask test --quick)";
    let mut strangers = Strangers::default();
    steps.run("strangers: redis", REPEAT, || redis::prepare(&place.root));
    steps.run("strangers: python", REPEAT, || {
        strangers.python = Some(python::prepare(&place.strangers().join("python"))?);
        Ok(())
    });
    steps.run("strangers: node", REPEAT, || {
        strangers.node_path = Some(node::prepare(&place.strangers().join("node"))?);
        Ok(())
    });
    strangers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_only_of_the_strangers_that_are_there() {
        assert!(Strangers::default().variables().is_empty());
        let strangers = Strangers { python: Some("/venv/bin/python".into()), node_path: None };
        assert_eq!(strangers.variables(), [("TENURE_STRANGERS_PYTHON", OsString::from("/venv/bin/python"))]);
    }
}
