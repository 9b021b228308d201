//! The worker: tasks wait here until a thread or an event loop of Python takes them.
//!
//! The connection with its heartbeats is a thread of `crates/client`. What Python says of a task goes into that
//! thread's outbox and never waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tenure_client::{
    Context, Error, Failure, Finish, Interrupt, OnClose, Outcome, TaskId, WaitEnd, WorkerBuilder,
    WorkerHandle,
};
use tokio::sync::{Mutex, mpsc};

use crate::error;
use crate::operation::{run, within};
use crate::owned::{Once, Owned};
use crate::port::Via;
use crate::submission::quantities;
use crate::value::Value;

/// A worker that runs.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Worker {
    handle: Owned<WorkerHandle>,
    // Both are bounded by the slots of the worker: a task waits once, and is interrupted at most four times.
    tasks: Owned<Arc<Mutex<mpsc::UnboundedReceiver<Task>>>>,
    stops: Owned<Arc<Mutex<mpsc::UnboundedReceiver<AttemptStop>>>>,
}

/// A task should wind down.
struct AttemptStop {
    task: String,
    attempt: u32,
    interrupt: Interrupt,
}

/// Starts a worker and answers when the broker knows it. The settings are those of `crates/client`.
#[pyfunction]
#[pyo3(signature = (settings, via=None))]
pub(crate) fn start_worker(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    via: Option<Via>,
) -> PyResult<Py<PyAny>> {
    let Some(address) = settings.get_item("address")? else {
        return Err(error::bad_setting("the worker", "has no address"));
    };
    let mut builder = begin(address.extract()?)?;
    for (key, value) in settings {
        if value.is_none() {
            continue;
        }
        let span = |value: &Bound<'_, PyAny>| value.extract::<u64>().map(Duration::from_millis);
        builder = match key.extract::<String>()?.as_str() {
            "address" => builder,
            "id" => builder.id(value.extract::<String>()?),
            "namespace" => builder.namespace(value.extract::<String>()?),
            "key" => builder.key(&value.extract::<String>()?),
            "queues" => builder.queues(value.extract::<Vec<String>>()?),
            "capabilities" => builder.capabilities(value.extract::<Vec<String>>()?),
            "slots" => builder.slots(value.extract()?),
            "light_slots" => builder.light_slots(value.extract()?),
            "resources" => {
                for (name, quantity) in quantities(&value)? {
                    builder = builder.resource(name, quantity);
                }
                builder
            }
            "heartbeat_ms" => builder.heartbeat(span(&value)?),
            "lost_after_ms" => builder.lost_after(span(&value)?),
            "lease_ms" => builder.lease(span(&value)?),
            "stop_grace_ms" => builder.stop_grace(span(&value)?),
            "connect_timeout_ms" => builder.connect_timeout(span(&value)?),
            "tasks_die" => {
                builder.on_close(if value.extract()? { OnClose::TasksDie } else { OnClose::MayStillRun })
            }
            "die_with_lease" => {
                if value.extract()? {
                    builder.die_with_lease()
                } else {
                    builder
                }
            }
            "software" => builder.software(&value.extract::<String>()?),
            "version" => builder.version(&value.extract::<String>()?),
            unknown => return Err(error::bad_setting("the worker", &format!("knows no `{unknown}`"))),
        };
    }
    let (tell, tasks) = mpsc::unbounded_channel();
    let (stop_sender, stops) = mpsc::unbounded_channel();
    let builder = builder.hand_over(move |context: Context, finish: Finish| {
        let (task, attempt, stops) = (context.task().to_string(), context.attempt(), stop_sender.clone());
        context.on_interrupt(move |interrupt| {
            let _ = stops.send(AttemptStop { task: task.clone(), attempt, interrupt: interrupt.clone() });
        });
        // If Python has gone, the drop of `finish` says so.
        let _ = tell.send(Task { context: Owned::new(context), finish: Once::new(finish) });
    });
    run(py, via, async move {
        let handle = builder.start().await?;
        Ok(Value::object(Worker {
            handle: Owned::new(handle),
            tasks: Owned::new(Arc::new(Mutex::new(tasks))),
            stops: Owned::new(Arc::new(Mutex::new(stops))),
        }))
    })
}

/// A builder with a number of its own. The random numbers of a thread go on after `fork` as they do in the parent, so the
/// number is drawn on a new thread, which begins with numbers of the system.
fn begin(address: String) -> PyResult<WorkerBuilder> {
    let begun = std::thread::Builder::new().spawn(move || tenure_client::Worker::builder(&address));
    let begun = begun.ok().and_then(|thread| thread.join().ok());
    begun.ok_or_else(|| error::bad_setting("the worker", "could not start a thread"))
}

#[pymethods]
impl Worker {
    /// The next task; nothing when the time is up, or when the worker has ended.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn take(&self, py: Python<'_>, timeout_ms: Option<u64>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let tasks = Arc::clone(self.tasks.get()?);
        if via.is_none() {
            // A task that waits already costs no change of threads.
            let waiting = tasks.try_lock().ok().and_then(|mut tasks| tasks.try_recv().ok());
            if let Some(task) = waiting {
                return Ok(Py::new(py, task)?.into_any());
            }
        }
        run(py, via, async move {
            let next = async { tasks.lock().await.recv().await };
            Ok(within(timeout_ms, next).await.flatten().map_or(Value::None, Value::object))
        })
    }

    /// The next tasks, all that wait up to a limit; empty when the time is up, nothing when the worker has ended.
    #[pyo3(signature = (limit, timeout_ms, via=None))]
    fn take_many(
        &self,
        py: Python<'_>,
        limit: usize,
        timeout_ms: Option<u64>,
        via: Option<Via>,
    ) -> PyResult<Py<PyAny>> {
        let tasks = Arc::clone(self.tasks.get()?);
        run(py, via, async move {
            let taken = within(timeout_ms, async {
                let mut taken = Vec::new();
                tasks.lock().await.recv_many(&mut taken, limit.max(1)).await;
                taken
            });
            match taken.await {
                None => Ok(Value::List(Vec::new())),
                Some(taken) if taken.is_empty() => Ok(Value::None),
                Some(taken) => Ok(Value::List(taken.into_iter().map(Value::object).collect())),
            }
        })
    }

    /// The next interrupt: `(task, attempt, kind, reason)`; nothing when the time is up.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn next_interrupt(
        &self,
        py: Python<'_>,
        timeout_ms: Option<u64>,
        via: Option<Via>,
    ) -> PyResult<Py<PyAny>> {
        let stops = Arc::clone(self.stops.get()?);
        run(py, via, async move {
            let next = async { stops.lock().await.recv().await };
            let Some(AttemptStop { task, attempt, interrupt }) = within(timeout_ms, next).await.flatten()
            else {
                return Ok(Value::None);
            };
            let (kind, reason) = words(&interrupt);
            Ok(Value::Tuple(vec![
                Value::Text(task),
                Value::Unsigned(attempt.into()),
                Value::text(kind),
                Value::maybe_text(reason),
            ]))
        })
    }

    /// Takes nothing new, finishes what runs, leaves.
    fn drain(&self) -> PyResult<()> {
        self.handle.get()?.drain();
        Ok(())
    }

    /// The same, but asks running tasks to stop.
    fn stop(&self) -> PyResult<()> {
        self.handle.get()?.stop();
        Ok(())
    }

    /// Leaves at once.
    fn leave_now(&self) -> PyResult<()> {
        self.handle.get()?.leave_now();
        Ok(())
    }

    fn is_connected(&self) -> PyResult<bool> {
        Ok(self.handle.get()?.is_connected())
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let stats = self.handle.get()?.stats();
        let dict = PyDict::new(py);
        for (name, count) in [
            ("started", stats.started),
            ("completed", stats.completed),
            ("failed", stats.failed),
            ("cancelled", stats.cancelled),
            ("paused", stats.paused),
            ("given_back", stats.given_back),
            ("stale", stats.stale),
            ("held", stats.held),
            ("running", stats.running),
            ("unreported", stats.unreported),
            ("reconnects", stats.reconnects),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict.unbind())
    }

    /// Whether the worker has left; waits for it as long as is said. An error says why it could not go on.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn ended(&self, py: Python<'_>, timeout_ms: Option<u64>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let handle = self.handle.get()?.clone();
        run(py, via, async move {
            match within(timeout_ms, handle.ended()).await {
                None => Ok(Value::Bool(false)),
                Some(ended) => ended.map(|_| Value::Bool(true)),
            }
        })
    }
}

/// A task that this process holds. If it is dropped without an end, the broker hears that its handler was dropped.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Task {
    context: Owned<Context>,
    finish: Once<Finish>,
}

#[pymethods]
impl Task {
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.get()?.task().to_string())
    }

    #[getter]
    fn attempt(&self) -> PyResult<u32> {
        Ok(self.get()?.attempt())
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.get()?.body()))
    }

    #[getter]
    fn queue(&self) -> PyResult<&str> {
        Ok(self.get()?.queue())
    }

    #[getter]
    fn name(&self) -> PyResult<Option<&str>> {
        Ok(self.get()?.name().map(|name| &**name))
    }

    #[getter]
    fn parent(&self) -> PyResult<Option<String>> {
        Ok(self.get()?.parent().map(|parent| parent.to_string()))
    }

    #[getter]
    fn array(&self) -> PyResult<Option<String>> {
        Ok(self.get()?.array().map(|array| array.to_string()))
    }

    #[getter]
    fn index(&self) -> PyResult<Option<u32>> {
        Ok(self.get()?.index())
    }

    /// The tasks that it waited for, as JSON.
    fn after(&self) -> PyResult<String> {
        let after = serde_json::to_string(self.get()?.after());
        after.map_err(|error| error::bad_setting("the dependencies", &error.to_string()))
    }

    #[getter]
    fn traceparent(&self) -> PyResult<Option<String>> {
        Ok(self.get()?.traceparent().map(str::to_owned))
    }

    #[getter]
    fn tracestate(&self) -> PyResult<Option<String>> {
        Ok(self.get()?.tracestate().map(str::to_owned))
    }

    #[getter]
    fn priority(&self) -> PyResult<i32> {
        Ok(self.get()?.priority())
    }

    #[getter]
    fn submitter(&self) -> PyResult<Option<&str>> {
        Ok(self.get()?.submitter().map(|name| &**name))
    }

    #[getter]
    fn submitted_at(&self) -> PyResult<u64> {
        Ok(self.get()?.submitted_at().0)
    }

    #[getter]
    fn cpus(&self) -> PyResult<Vec<u16>> {
        Ok(self.get()?.cpus().to_vec())
    }

    #[getter]
    fn gpus(&self) -> PyResult<Vec<u16>> {
        Ok(self.get()?.gpus().to_vec())
    }

    #[getter]
    fn crashes(&self) -> PyResult<u16> {
        Ok(self.get()?.crashes())
    }

    #[getter]
    fn failures(&self) -> PyResult<u16> {
        Ok(self.get()?.failures())
    }

    /// Everything that was said about it at its submission, as JSON.
    fn terms(&self) -> PyResult<String> {
        let terms = serde_json::to_string(self.get()?.terms());
        terms.map_err(|error| error::bad_setting("the terms", &error.to_string()))
    }

    #[getter]
    fn checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.get()?.checkpoint().map(|checkpoint| PyBytes::new(py, checkpoint)))
    }

    /// Saves a checkpoint; the answer comes when it is on the broker's disk.
    #[pyo3(signature = (checkpoint, via=None))]
    fn save_checkpoint(
        &self,
        py: Python<'_>,
        checkpoint: &Bound<'_, PyBytes>,
        via: Option<Via>,
    ) -> PyResult<Py<PyAny>> {
        let receipt = self.get()?.save_checkpoint(Bytes::copy_from_slice(checkpoint.as_bytes()));
        run(py, via, async move { Ok(receipt.await?.into()) })
    }

    /// Waits without a slot until these tasks have ended, or the children if no tasks are given: `(task, state)` for
    /// each. Nothing, if the task should wind down instead.
    #[pyo3(signature = (tasks, via=None))]
    fn wait_for(&self, py: Python<'_>, tasks: Option<Vec<String>>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let context = self.get()?;
        let waiting = match tasks {
            None => context.wait_for_children(),
            Some(tasks) => {
                let parse = |task: &String| task.parse::<TaskId>();
                let tasks: Result<Vec<TaskId>, _> = tasks.iter().map(parse).collect();
                let tasks =
                    tasks.map_err(|error| error::bad_setting("a task to wait for", &error.to_string()))?;
                context.wait_for(&tasks)
            }
        };
        run(py, via, async move {
            let end = |end: &WaitEnd| {
                Value::Tuple(vec![Value::text(end.task.to_string()), Value::text(end.state.as_str())])
            };
            match waiting.await {
                Ok(ends) => Ok(Value::List(ends.iter().map(end).collect())),
                Err(Error::Interrupted { .. }) => Ok(Value::None),
                Err(error) => Err(error),
            }
        })
    }

    fn progress(&self, percent: Option<u8>, note: &str) -> PyResult<()> {
        self.get()?.progress(percent, note);
        Ok(())
    }

    /// Sends a piece of its output, which begins at this offset of its stream.
    fn append_log(&self, stream: &str, offset: u64, piece: &Bound<'_, PyBytes>) -> PyResult<()> {
        let stream = crate::logs::stream(stream)?;
        self.get()?.append_log(stream, offset, Bytes::copy_from_slice(piece.as_bytes()));
        Ok(())
    }

    /// Whether it should wind down: `(kind, reason)`.
    fn interrupt(&self) -> PyResult<Option<(&'static str, Option<String>)>> {
        Ok(self.get()?.interrupt().as_ref().map(words))
    }

    /// Waits until it should wind down, or the time is up.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn wait_interrupt(
        &self,
        py: Python<'_>,
        timeout_ms: Option<u64>,
        via: Option<Via>,
    ) -> PyResult<Py<PyAny>> {
        let context = self.get()?.clone();
        run(py, via, async move {
            let Some(interrupt) = within(timeout_ms, context.interrupted()).await else {
                return Ok(Value::None);
            };
            let (kind, reason) = words(&interrupt);
            Ok(Value::Tuple(vec![Value::text(kind), Value::maybe_text(reason)]))
        })
    }

    fn complete(&self, result: &Bound<'_, PyBytes>) -> PyResult<bool> {
        self.end(Outcome::complete(Bytes::copy_from_slice(result.as_bytes())))
    }

    fn fail(
        &self,
        exit_code: i32,
        message: &str,
        result: &Bound<'_, PyBytes>,
        is_final: bool,
        crashed: bool,
    ) -> PyResult<bool> {
        let mut failure = Failure::new(exit_code, message).result(Bytes::copy_from_slice(result.as_bytes()));
        if is_final {
            failure = failure.last();
        }
        if crashed {
            failure = failure.crashed();
        }
        self.end(Outcome::Failed(failure))
    }

    fn confirm_cancelled(&self, result: &Bound<'_, PyBytes>) -> PyResult<bool> {
        self.end(Outcome::cancelled(Bytes::copy_from_slice(result.as_bytes())))
    }

    fn confirm_paused(&self, result: &Bound<'_, PyBytes>) -> PyResult<bool> {
        self.end(Outcome::paused(Bytes::copy_from_slice(result.as_bytes())))
    }

    fn give_back(&self, reason: Option<&str>) -> PyResult<bool> {
        self.end(Outcome::GivenBack(reason.map(Into::into)))
    }
}

impl Task {
    fn get(&self) -> PyResult<&Context> {
        self.context.get()
    }

    /// Hands over how it ended; not if that was done before.
    fn end(&self, outcome: Outcome) -> PyResult<bool> {
        let Some(finish) = self.finish.take()? else { return Ok(false) };
        finish.with(outcome);
        Ok(true)
    }
}

fn words(interrupt: &Interrupt) -> (&'static str, Option<String>) {
    match interrupt {
        Interrupt::Leaving => ("leaving", None),
        Interrupt::Pause { reason } => ("pause", reason.as_deref().map(str::to_owned)),
        Interrupt::Cancel { reason } => ("cancel", reason.as_deref().map(str::to_owned)),
        Interrupt::Stop { why } => ("stop", Some(why.as_str().to_owned())),
    }
}
