//! A temporary broker: a real process on a temporary directory, for `demo` and `bench`.

mod broker;
mod process;

pub(crate) use broker::Broker;
pub(crate) use process::{Process, Usage};

use crate::exit::Failure;
use tempfile::TempDir;

/// A directory that is removed when it is dropped.
pub(crate) fn scratch(what: &str) -> Result<TempDir, Failure> {
    let made = tempfile::Builder::new().prefix(&format!("tenure-{what}-")).tempdir();
    made.map_err(|error| Failure::system(format!("cannot create a temporary directory: {error}")))
}
