//! The end of the interpreter. A thread that comes back for the interpreter's lock after that is killed by the
//! interpreter in the middle of a Rust frame, so no thread may be waiting here by then.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error;

static LEAVING: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A wait looks up this often: for signals, and for the end of the interpreter.
pub(crate) const SLICE: Duration = Duration::from_millis(100);
/// How long the end of the interpreter waits for threads that wait here.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that has let go of the interpreter's lock.
pub(crate) struct WaitGuard;

impl WaitGuard {
    pub(crate) fn enter() -> PyResult<WaitGuard> {
        if LEAVING.load(Ordering::SeqCst) {
            return Err(error::closed("the interpreter is exiting"));
        }
        WAITING.fetch_add(1, Ordering::SeqCst);
        Ok(WaitGuard)
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Registered with `atexit`: ends every wait and refuses new ones.
#[pyfunction]
pub(crate) fn leave(py: Python<'_>) {
    LEAVING.store(true, Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    while WAITING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        py.detach(|| std::thread::sleep(Duration::from_millis(5)));
    }
}

/// The threads that waited are the parent's.
pub(crate) fn forked() {
    WAITING.store(0, Ordering::SeqCst);
}
