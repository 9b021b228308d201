//! Strangers: clients that others wrote, against which every door is tested.
//!
//! What a door promises is that an unknown client in its language works. Our own client cannot prove that, because
//! it would share our misunderstandings. So the tests speak through redis-cli, redis-py, ioredis, node-redis, pyzmq
//! and grpcio, in versions pinned in `crates/xtask/strangers/`, installed once beside the build.

mod apt;
mod node;
mod python;
mod redis;
mod stamp;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::place::Place;
use crate::steps::Steps;

/// Where the tests find the strangers. What could not be prepared is absent.
#[derive(Default)]
pub(crate) struct Strangers {
    python: Option<PathBuf>,
    node_path: Option<PathBuf>,
}

impl Strangers {
    /// The environment by which tests are told. A test that needs a stranger it is not told about steps aside.
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
    const WITHOUT: &str = "cargo xtask test (or leave the strangers out: cargo xtask test --quick)";
    let mut strangers = Strangers::default();
    steps.run("strangers: redis", WITHOUT, || redis::prepare(&place.root));
    steps.run("strangers: python", WITHOUT, || {
        strangers.python = Some(python::prepare(&place.strangers().join("python"))?);
        Ok(())
    });
    steps.run("strangers: node", WITHOUT, || {
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
