//! What belongs to the process that made it.

use std::ops::Deref;

use pyo3::prelude::*;

use crate::error;

/// A value of the client's. A forked child inherits its memory but not the threads that move it, and its locks may be
/// held by threads that do not exist there: it cannot be used there, and is not dropped.
pub(crate) struct Owned<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Owned<T> {
        Owned { value: Some(value), process: std::process::id() }
    }

    /// The value, if this process made it.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.process == std::process::id() => Ok(value),
            _ => Err(error::forked()),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

/// A value that is used once: `take` leaves nothing behind.
pub(crate) struct Once<T>(Owned<std::sync::Mutex<Option<T>>>);

impl<T> Once<T> {
    pub(crate) fn new(value: T) -> Once<T> {
        Once(Owned::new(std::sync::Mutex::new(Some(value))))
    }

    pub(crate) fn take(&self) -> PyResult<Option<T>> {
        let mut value = self.0.get()?.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(value.deref().is_some().then(|| value.take()).flatten())
    }
}
