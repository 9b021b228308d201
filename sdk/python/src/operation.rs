//! One request: a thread waits for it without the interpreter's lock, or a port gets its answer.

use std::future::Future;
use std::time::Duration;

use pyo3::prelude::*;
use tenure_client::Error;

use crate::error;
use crate::exit::{SLICE, WaitGuard};
use crate::port::Via;
use crate::runtime;
use crate::value::Value;

/// Runs a request. With a port the answer goes there and nothing is returned.
pub(crate) fn run(
    py: Python<'_>,
    via: Option<Via>,
    work: impl Future<Output = Result<Value, Error>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let runtime = runtime::handle(py)?;
    match via {
        Some((port, token)) => {
            port.get().spawn(&runtime, token, work)?;
            Ok(py.None())
        }
        None => match block(py, &runtime, work)? {
            Ok(value) => value.into_python(py),
            Err(error) => Err(error::to_python(py, &error)),
        },
    }
}

/// Waits in slices, so that a signal (Ctrl-C) and the end of the interpreter are noticed.
fn block<T: Send>(
    py: Python<'_>,
    runtime: &tokio::runtime::Handle,
    work: impl Future<Output = T> + Send,
) -> PyResult<T> {
    let mut work = Box::pin(work);
    loop {
        let waiting = WaitGuard::enter()?;
        let waited =
            py.detach(|| runtime.block_on(async { tokio::time::timeout(SLICE, work.as_mut()).await }));
        drop(waiting);
        match waited {
            Ok(done) => return Ok(done),
            Err(_) => py.check_signals()?,
        }
    }
}

/// At most so long, if a limit is given; nothing when it is over.
pub(crate) async fn within<T>(timeout_ms: Option<u64>, work: impl Future<Output = T>) -> Option<T> {
    match timeout_ms {
        None => Some(work.await),
        Some(timeout) => tokio::time::timeout(Duration::from_millis(timeout), work).await.ok(),
    }
}
