//! The native half of the Python SDK: `crates/client` for the interpreter.
//!
//! No thread of this crate ever takes the interpreter's lock. A Python thread that waits lets the lock go and waits
//! here; an event loop is woken through a file descriptor and fetches what has come ([`port`]). So heartbeats, reports
//! and reconnects do not depend on the interpreter, and the interpreter can exit while threads of ours run.
//!
//! Reading order: [`operation`] runs one request, [`client`] has one method for each; [`arrays`], [`schedules`],
//! [`reconciler`], [`logs`] and [`hooks`] have a function for each of theirs. [`streams`] are what a program follows,
//! [`worker`] hands tasks to Python.

mod arrays;
mod client;
mod error;
mod exit;
mod hooks;
mod logs;
mod operation;
mod owned;
mod port;
mod reconciler;
mod runtime;
mod schedules;
mod streams;
mod submission;
mod value;
mod worker;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<port::Port>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<streams::Listing>()?;
    module.add_class::<streams::Watcher>()?;
    module.add_class::<streams::Subscriber>()?;
    module.add_class::<streams::Listener>()?;
    module.add_class::<streams::BroadcastReceiver>()?;
    module.add_class::<streams::IncomingCall>()?;
    module.add_class::<worker::Worker>()?;
    module.add_class::<worker::Task>()?;
    module.add_class::<reconciler::Reconciler>()?;
    module.add_function(wrap_pyfunction!(client::connect, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::submit_array, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::show_array, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::find_array, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::list_arrays, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::limit_array, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::wait_array, module)?)?;
    module.add_function(wrap_pyfunction!(schedules::set_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(schedules::list_schedules, module)?)?;
    module.add_function(wrap_pyfunction!(schedules::show_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(schedules::steer_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(schedules::run_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(reconciler::reconcile, module)?)?;
    module.add_function(wrap_pyfunction!(logs::read_logs, module)?)?;
    module.add_function(wrap_pyfunction!(hooks::undelivered, module)?)?;
    module.add_function(wrap_pyfunction!(hooks::redeliver, module)?)?;
    module.add_function(wrap_pyfunction!(worker::start_worker, module)?)?;
    module.add_function(wrap_pyfunction!(exit::leave, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::forked, module)?)?;
    Ok(())
}
