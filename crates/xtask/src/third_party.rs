//! Third-party clients, against which every door is tested.
//!
//! What a door promises is that an unknown client in its language works. Our own client cannot prove that, because
//! it would share our misunderstandings. So the tests speak through redis-cli, redis-py, ioredis, node-redis, BullMQ, pyzmq,
//! grpcio, msgpack, schemathesis and promtool, in versions pinned in `crates/xtask/third_party/`, installed once beside the build.

mod apt;
mod browser;
mod node;
mod patroni;
mod postgres;
mod promtool;
mod python;
mod redis;
mod stamp;

pub(crate) use python::{environment, environment_of};

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::place::Workspace;
use crate::steps::Steps;

/// Install the clients that others wrote, and print where tests find them
///
/// `cargo xtask test` does this by itself. Alone it is for running one test from an editor, or
/// for trying a third-party client by hand. What is already there in the pinned version stays.
#[derive(Args)]
#[command(name = "third-party", alias = "third_party", verbatim_doc_comment)]
pub(crate) struct Prepare {}

impl Prepare {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        let mut steps = Steps::default();
        let third_party = prepare(&mut steps, place);
        for (name, value) in third_party.variables() {
            println!("export {name}={}", value.to_string_lossy());
        }
        Ok(steps.report())
    }
}

/// Where the tests find the third-party clients. What could not be prepared is absent.
#[derive(Default)]
pub(crate) struct ThirdParty {
    python: Option<PathBuf>,
    node_path: Option<PathBuf>,
    browser: Option<PathBuf>,
    postgres: Option<PathBuf>,
    patroni: Option<PathBuf>,
    promtool: Option<PathBuf>,
}

impl ThirdParty {
    /// The environment variables that tell tests where the clients are. A test whose client is missing is skipped.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = Vec::new();
        if let Some(python) = &self.python {
            variables.push(("TENURE_THIRD_PARTY_PYTHON", python.clone().into_os_string()));
        }
        if let Some(node_path) = &self.node_path {
            variables.push(("TENURE_THIRD_PARTY_NODE_PATH", node_path.clone().into_os_string()));
        }
        if let Some(browser) = &self.browser {
            variables.push(("TENURE_THIRD_PARTY_BROWSER", browser.clone().into_os_string()));
        }
        if let Some(postgres) = &self.postgres {
            variables.push(("TENURE_TEST_POSTGRES", postgres.clone().into_os_string()));
        }
        if let Some(patroni) = &self.patroni {
            variables.push(("TENURE_TEST_PATRONI", patroni.clone().into_os_string()));
        }
        if let Some(promtool) = &self.promtool {
            variables.push(("TENURE_THIRD_PARTY_PROMTOOL", promtool.clone().into_os_string()));
        }
        variables
    }
}

/// PostgreSQL alone, for the tests of groups of brokers.
pub(crate) fn prepare_postgres(steps: &mut Steps) -> ThirdParty {
    let mut third_party = ThirdParty::default();
    steps.run("third-party servers: postgresql", "cargo xtask third-party", || {
        third_party.postgres = Some(postgres::prepare()?);
        Ok(())
    });
    third_party
}

/// PostgreSQL and Patroni, for the test of a group on a database that fails over by itself.
pub(crate) fn prepare_patroni(steps: &mut Steps, place: &Workspace) -> ThirdParty {
    let mut third_party = prepare_postgres(steps);
    steps.run("third-party servers: patroni, etcd", "cargo xtask test patroni", || {
        third_party.patroni = Some(patroni::prepare(&place.third_party().join("patroni"))?);
        Ok(())
    });
    third_party
}

/// Installs what is missing. Each kind is a step of its own: without Node the Python tests still say something.
pub(crate) fn prepare(steps: &mut Steps, place: &Workspace) -> ThirdParty {
    const REPEAT: &str = "cargo xtask third-party (or do without them: cargo xtask test --quick)";
    let mut third_party = ThirdParty::default();
    steps.run("third-party clients: redis", REPEAT, || redis::prepare(&place.root));
    steps.run("third-party clients: python", REPEAT, || {
        third_party.python = Some(python::prepare(&place.third_party().join("python"))?);
        Ok(())
    });
    steps.run("third-party clients: node", REPEAT, || {
        third_party.node_path = Some(node::prepare(&place.third_party().join("node"))?);
        Ok(())
    });
    steps.run("third-party clients: browser", REPEAT, || {
        third_party.browser = Some(browser::prepare()?);
        Ok(())
    });
    steps.run("third-party servers: postgresql", REPEAT, || {
        third_party.postgres = Some(postgres::prepare()?);
        Ok(())
    });
    steps.run("third-party clients: promtool", REPEAT, || {
        third_party.promtool = promtool::prepare(&place.third_party().join("promtool"))?;
        Ok(())
    });
    third_party
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_learn_only_of_the_clients_that_are_there() {
        assert!(ThirdParty::default().variables().is_empty());
        let third_party = ThirdParty { python: Some("/venv/bin/python".into()), ..ThirdParty::default() };
        assert_eq!(
            third_party.variables(),
            [("TENURE_THIRD_PARTY_PYTHON", OsString::from("/venv/bin/python"))]
        );
    }
}
