//! Where an event loop fetches the answers to what it has asked.
//!
//! A port has a file descriptor that becomes readable when something has come. The loop watches it, and takes
//! everything at once: one wake-up for any number of answers.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tenure_client::Error;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::error;
use crate::owned::Owned;
use crate::value::Value;

/// Answers of one event loop.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Port {
    inner: Owned<Arc<Inner>>,
}

struct Inner {
    state: Mutex<State>,
    wake_sender: UnixStream,
    wake_receiver: UnixStream,
}

#[derive(Default)]
struct State {
    done: VecDeque<(u64, Result<Value, Error>)>,
    running: HashMap<u64, AbortHandle>,
}

/// Where an answer goes: the port and the number under which its asker knows it.
pub(crate) type Via = (Py<Port>, u64);

/// An answer for Python: its number, its value or nothing, its exception or nothing.
type Drained = (u64, Py<PyAny>, Py<PyAny>);

#[pymethods]
impl Port {
    #[new]
    fn new() -> PyResult<Port> {
        let (wake_sender, wake_receiver) = UnixStream::pair()?;
        wake_sender.set_nonblocking(true)?;
        wake_receiver.set_nonblocking(true)?;
        Ok(Port {
            inner: Owned::new(Arc::new(Inner { state: Mutex::default(), wake_sender, wake_receiver })),
        })
    }

    fn fileno(&self) -> PyResult<i32> {
        Ok(self.inner.get()?.wake_receiver.as_raw_fd())
    }

    /// Everything that has come: `[(token, value or None, exception or None)]`.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<Drained>> {
        let done = self.inner.get()?.take();
        let mut drained = Vec::with_capacity(done.len());
        for (token, outcome) in done {
            let outcome = match outcome {
                Ok(value) => value.into_python(py),
                Err(error) => Err(error::to_python(py, &error)),
            };
            drained.push(match outcome {
                Ok(value) => (token, value, py.None()),
                Err(error) => (token, py.None(), error.into_value(py).into_any()),
            });
        }
        Ok(drained)
    }

    /// The asker does not wait any more.
    fn forget(&self, token: u64) -> PyResult<()> {
        if let Some(running) = self.inner.get()?.state().running.remove(&token) {
            running.abort();
        }
        Ok(())
    }
}

impl Port {
    /// Runs a request whose answer goes to this port.
    pub(crate) fn spawn(
        &self,
        runtime: &Handle,
        token: u64,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> PyResult<()> {
        let inner = Arc::clone(self.inner.get()?);
        // The lock is held until the request is listed, so that it cannot be done before.
        let mut state = self.inner.get()?.state();
        let task = runtime.spawn(async move { inner.post(token, work.await) });
        state.running.insert(token, task.abort_handle());
        Ok(())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, token: u64, outcome: Result<Value, Error>) {
        let mut state = self.state();
        // The asker has forgotten it.
        if state.running.remove(&token).is_none() {
            return;
        }
        if state.done.is_empty() {
            // A full pipe wakes the reader already.
            let _ = (&self.wake_sender).write(&[1]);
        }
        state.done.push_back((token, outcome));
    }

    fn take(&self) -> VecDeque<(u64, Result<Value, Error>)> {
        let mut state = self.state();
        let mut bytes = [0; 64];
        while matches!((&self.wake_receiver).read(&mut bytes), Ok(64)) {}
        std::mem::take(&mut state.done)
    }
}
