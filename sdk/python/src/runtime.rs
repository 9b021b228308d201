//! The runtime on which everything of this process runs. A forked child has one of its own.

use std::sync::Mutex;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error;

/// Threads of the runtime. They move bytes; handlers run in Python.
const THREADS: usize = 2;

/// Only threads that have the interpreter's lock lock this, and they keep both. A fork needs that lock too, so a child
/// never finds this one taken.
static RUNTIME: Mutex<Option<Started>> = Mutex::new(None);

struct Started {
    process: u32,
    runtime: Runtime,
}

/// The runtime of this process; the first call starts it.
pub(crate) fn handle(_py: Python<'_>) -> PyResult<Handle> {
    let mut started = RUNTIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let process = std::process::id();
    if let Some(started) = started.as_ref().filter(|started| started.process == process) {
        return Ok(started.runtime.handle().clone());
    }
    // The threads of the parent's runtime do not exist here: to drop it would wait for them.
    std::mem::forget(started.take());
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("tenure")
        .enable_all()
        .build()
        .map_err(|error| error::bad_setting("the runtime", &format!("could not be started: {error}")))?;
    let handle = runtime.handle().clone();
    *started = Some(Started { process, runtime });
    Ok(handle)
}

/// Is called in a child right after `fork`: what the parent left behind is forgotten, not dropped. Returns the parent's
/// sockets, which the child closes.
#[pyfunction]
pub(crate) fn forked() -> Vec<i32> {
    let mut started = RUNTIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::mem::forget(started.take());
    crate::exit::forked();
    tenure_client::take_inherited_sockets()
}
