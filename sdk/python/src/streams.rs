//! What a program follows: events, messages, calls and broadcasts. It takes them when it is ready for more, several at
//! once if several have received; what it does not take waits where the client lets it wait.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tenure_client::{ConnectionState, Error, Received, ReceivedBroadcast, Watched};
use tokio::sync::{Mutex, mpsc, watch};

use crate::operation::{run, within};
use crate::owned::Owned;
use crate::port::Via;
use crate::value::Value;

/// How many are handed over at once, at most.
const BATCH_MAX: usize = 256;

/// A stream of the client's, and whether the program has closed it.
struct Stream<T> {
    slot: Mutex<Option<T>>,
    closed: watch::Sender<bool>,
}

type Shared<T> = Owned<Arc<Stream<T>>>;

fn shared<T>(stream: T) -> Shared<T> {
    let (closed, _) = watch::channel(false);
    Owned::new(Arc::new(Stream { slot: Mutex::new(Some(stream)), closed }))
}

enum Waited<T> {
    Here(T),
    TimeUp,
    Closed,
}

impl<T> Stream<T> {
    /// Waits until something has received, the time is up, or the program has closed the stream.
    async fn until<R>(&self, timeout_ms: Option<u64>, work: impl Future<Output = Option<R>>) -> Waited<R> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Waited::Closed,
            received = within(timeout_ms, work) => match received {
                None => Waited::TimeUp,
                Some(None) => Waited::Closed,
                Some(Some(received)) => Waited::Here(received),
            },
        }
    }
}

/// Ends a stream and every wait for it.
fn end<T: Send + 'static>(py: Python<'_>, stream: &Shared<T>) -> PyResult<()> {
    let stream = Arc::clone(stream.get()?);
    stream.closed.send_replace(true);
    // A stream may leave with a word to the broker, which takes the runtime.
    crate::runtime::handle(py)?.spawn(async move { drop(stream.slot.lock().await.take()) });
    Ok(())
}

/// The same, and returns when the stream is gone: what the program asks after that, the broker hears after that.
fn end_now<T: Send + 'static>(py: Python<'_>, stream: &Shared<T>) -> PyResult<()> {
    let stream = Arc::clone(stream.get()?);
    stream.closed.send_replace(true);
    run(py, None, async move {
        drop(stream.slot.lock().await.take());
        Ok(Value::None)
    })?;
    Ok(())
}

/// What is there right now, without waiting.
async fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Tasks of a listing.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Listing(Shared<tenure_client::Listing>);

impl Listing {
    pub(crate) fn new(listing: tenure_client::Listing) -> Listing {
        Listing(shared(listing))
    }
}

#[pymethods]
impl Listing {
    /// The next page as JSON; nothing at the end.
    #[pyo3(signature = (via=None))]
    fn next_page(&self, py: Python<'_>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let listing = Arc::clone(self.0.get()?);
        run(py, via, async move {
            let mut slot = listing.slot.lock().await;
            let Some(listing) = slot.as_mut() else { return Ok(Value::None) };
            Ok(listing.next_page().await?.map_or(Value::None, |page| Value::json(&page)))
        })
    }
}

/// Events as they happen.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Watcher(Shared<Events>);

struct Events {
    watcher: tenure_client::Watcher,
    /// The watch is over. The reader learns it after the events that came before.
    failed: Option<Error>,
}

impl Watcher {
    pub(crate) fn new(watcher: tenure_client::Watcher) -> Watcher {
        Watcher(shared(Events { watcher, failed: None }))
    }
}

#[pymethods]
impl Watcher {
    /// `[json of an event, or (from, to) of a gap]`; empty when the time is up, nothing when the watch is over.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn next(&self, py: Python<'_>, timeout_ms: Option<u64>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let stream = Arc::clone(self.0.get()?);
        run(py, via, async move {
            let mut slot = stream.slot.lock().await;
            let Some(Events { watcher, failed }) = slot.as_mut() else { return Ok(Value::None) };
            if let Some(error) = failed.take() {
                return Err(error);
            }
            let first = match stream.until(timeout_ms, watcher.next()).await {
                Waited::Here(first) => first,
                Waited::TimeUp => return Ok(Value::List(Vec::new())),
                Waited::Closed => return Ok(Value::None),
            };
            let mut batch = vec![watched(&first?)];
            while batch.len() < BATCH_MAX {
                match at_once(watcher.next()).await {
                    Some(Some(Ok(next))) => batch.push(watched(&next)),
                    Some(Some(Err(error))) => {
                        *failed = Some(error);
                        break;
                    }
                    Some(None) | None => break,
                }
            }
            Ok(Value::List(batch))
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        end(py, &self.0)
    }
}

fn watched(watched: &Watched) -> Value {
    match watched {
        Watched::Event(event) => Value::json(event),
        Watched::Gap { from, to } => Value::Tuple(vec![Value::Unsigned(*from), Value::Unsigned(*to)]),
    }
}

pub(crate) struct StateChange {
    pub(crate) state: ConnectionState,
    pub(crate) error: Option<String>,
}

/// Messages as they are published.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Subscriber {
    id: String,
    missed: Option<u64>,
    inner: Shared<Subscribed>,
}

struct Subscribed {
    subscriber: tenure_client::Subscriber,
    states: mpsc::Receiver<StateChange>,
}

impl Subscriber {
    /// How many changes of the connection may wait to be delivered.
    pub(crate) const STATES_WAITING_MAX: usize = 64;

    pub(crate) fn new(
        subscriber: tenure_client::Subscriber,
        states: mpsc::Receiver<StateChange>,
    ) -> Subscriber {
        let (id, missed) = (subscriber.id().to_string(), subscriber.missed());
        Subscriber { id, missed, inner: shared(Subscribed { subscriber, states }) }
    }
}

#[pymethods]
impl Subscriber {
    fn id(&self) -> &str {
        &self.id
    }

    fn missed(&self) -> Option<u64> {
        self.missed
    }

    /// A list of what has received, each a tuple that begins with its kind; empty when the time is up, nothing at the end.
    #[pyo3(signature = (limit, timeout_ms, via=None))]
    fn next(
        &self,
        py: Python<'_>,
        limit: usize,
        timeout_ms: Option<u64>,
        via: Option<Via>,
    ) -> PyResult<Py<PyAny>> {
        let inner = Arc::clone(self.inner.get()?);
        run(py, via, async move {
            let mut slot = inner.slot.lock().await;
            let Some(Subscribed { subscriber, states }) = slot.as_mut() else { return Ok(Value::None) };
            let received = inner.until(timeout_ms, async {
                tokio::select! {
                    biased;
                    Some(change) = states.recv() => Some(Ok(vec![state_change(change)])),
                    received = subscriber.next_batch(limit) => received.map(|batch| {
                        batch.map(|batch| batch.into_iter().map(received_value).collect())
                    }),
                }
            });
            match received.await {
                Waited::Here(received) => received.map(Value::List),
                Waited::TimeUp => Ok(Value::List(Vec::new())),
                Waited::Closed => Ok(Value::None),
            }
        })
    }

    /// Leaves the subscription, so that the next one with its id goes on: what was handed over counts as taken.
    #[pyo3(signature = (via=None))]
    fn leave(&self, py: Python<'_>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let inner = Arc::clone(self.inner.get()?);
        inner.closed.send_replace(true);
        run(py, via, async move {
            let Some(Subscribed { subscriber, .. }) = inner.slot.lock().await.take() else {
                return Ok(Value::None);
            };
            Ok(subscriber.leave().await?.into())
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        end(py, &self.inner)
    }
}

fn state_change(change: StateChange) -> Value {
    let state = match change.state {
        ConnectionState::Connecting => "connecting",
        ConnectionState::Connected => "connected",
        ConnectionState::Reconnecting => "reconnecting",
        ConnectionState::Disconnected => "disconnected",
    };
    Value::Tuple(vec![Value::text("state"), Value::text(state), Value::maybe_text(change.error)])
}

fn received_value(received: Received) -> Value {
    let unsigned = |value: Option<u64>| value.map_or(Value::None, Value::Unsigned);
    Value::Tuple(match received {
        Received::Message { kind, message } => vec![
            Value::text("message"),
            Value::text(kind.as_str()),
            Value::text(&message.topic),
            Value::Unsigned(message.sequence),
            Value::Bytes(message.payload),
            Value::Unsigned(message.published_at.0),
            Value::maybe_text(message.source),
            Value::maybe_text(message.content_type),
            Value::maybe_text(message.correlation),
            Value::maybe_text(message.reply_to),
        ],
        Received::Gap(gap) => vec![Value::text("gap"), Value::json(&gap)],
        Received::ReplayComplete(complete) => vec![Value::text("replay-complete"), Value::json(&complete)],
        Received::Warning(warning) => vec![Value::text("warning"), Value::json(&warning)],
        Received::Back { missed, restarted } => {
            vec![Value::text("back"), unsigned(missed), Value::Bool(restarted)]
        }
        Received::Ended(why) => vec![Value::text("ended"), Value::text(why.as_str())],
    })
}

/// Calls to the addresses that a program listens at.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Listener(Shared<tenure_client::Listener>);

impl Listener {
    pub(crate) fn new(listener: tenure_client::Listener) -> Listener {
        Listener(shared(listener))
    }
}

#[pymethods]
impl Listener {
    /// Calls that have received; empty when the time is up, nothing when the listener is over.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn next(&self, py: Python<'_>, timeout_ms: Option<u64>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let stream = Arc::clone(self.0.get()?);
        run(py, via, async move {
            let mut slot = stream.slot.lock().await;
            let Some(listener) = slot.as_mut() else { return Ok(Value::None) };
            let first = match stream.until(timeout_ms, listener.next()).await {
                Waited::Here(first) => first,
                Waited::TimeUp => return Ok(Value::List(Vec::new())),
                Waited::Closed => return Ok(Value::None),
            };
            let mut batch = vec![Value::object(IncomingCall::new(first))];
            while batch.len() < BATCH_MAX
                && let Some(Some(next)) = at_once(listener.next()).await
            {
                batch.push(Value::object(IncomingCall::new(next)));
            }
            Ok(Value::List(batch))
        })
    }

    /// Stops listening there.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        end_now(py, &self.0)
    }
}

/// A call to answer.
#[pyclass(frozen, name = "Call", module = "tenure._native")]
pub(crate) struct IncomingCall {
    to: String,
    from: String,
    body: Bytes,
    call: Shared<tenure_client::IncomingCall>,
}

impl IncomingCall {
    fn new(call: tenure_client::IncomingCall) -> IncomingCall {
        IncomingCall {
            to: call.to.to_string(),
            from: call.from.to_string(),
            body: call.body.clone(),
            call: shared(call),
        }
    }
}

#[pymethods]
impl IncomingCall {
    #[getter]
    fn to(&self) -> &str {
        &self.to
    }

    #[getter]
    fn sender(&self) -> &str {
        &self.from
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.body)
    }

    /// Whether the caller does not wait any more, or has its answer.
    fn is_dropped(&self) -> PyResult<bool> {
        let call = self.call.get()?.slot.try_lock();
        Ok(call.is_ok_and(|call| call.as_ref().is_none_or(tenure_client::IncomingCall::is_dropped)))
    }

    /// Answers with `result`, `error` or `cancelled`, once; `pending` says that the answer will take a while.
    #[pyo3(signature = (outcome, body, via=None))]
    fn answer(
        &self,
        py: Python<'_>,
        outcome: &str,
        body: &Bound<'_, PyBytes>,
        via: Option<Via>,
    ) -> PyResult<Py<PyAny>> {
        let (call, outcome) = (Arc::clone(self.call.get()?), outcome.to_owned());
        let body = Bytes::copy_from_slice(body.as_bytes());
        run(py, via, async move {
            let mut slot = call.slot.lock().await;
            if outcome == "pending" {
                let Some(call) = slot.as_ref() else { return Err(answered_already()) };
                return Ok(call.pending().await?.into());
            }
            let Some(call) = slot.take() else { return Err(answered_already()) };
            match outcome.as_str() {
                "result" => call.answer(body).await?,
                "error" => call.error(body).await?,
                _ => call.cancelled().await?,
            }
            Ok(Value::None)
        })
    }
}

fn answered_already() -> Error {
    Error::BadSetting { what: "the call", why: "was answered already".into() }
}

/// Broadcasts that a program hears.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct BroadcastReceiver(Shared<tenure_client::BroadcastReceiver>);

impl BroadcastReceiver {
    pub(crate) fn new(receiver: tenure_client::BroadcastReceiver) -> BroadcastReceiver {
        BroadcastReceiver(shared(receiver))
    }
}

#[pymethods]
impl BroadcastReceiver {
    /// `[(subject, body, sender, correlation), or how many were missed]`; empty when the time is up, nothing at the
    /// end.
    #[pyo3(signature = (timeout_ms, via=None))]
    fn next(&self, py: Python<'_>, timeout_ms: Option<u64>, via: Option<Via>) -> PyResult<Py<PyAny>> {
        let stream = Arc::clone(self.0.get()?);
        run(py, via, async move {
            let mut slot = stream.slot.lock().await;
            let Some(receiver) = slot.as_mut() else { return Ok(Value::None) };
            let first = match stream.until(timeout_ms, receiver.next()).await {
                Waited::Here(first) => first,
                Waited::TimeUp => return Ok(Value::List(Vec::new())),
                Waited::Closed => return Ok(Value::None),
            };
            let mut batch = vec![heard(first)];
            while batch.len() < BATCH_MAX
                && let Some(Some(next)) = at_once(receiver.next()).await
            {
                batch.push(heard(next));
            }
            Ok(Value::List(batch))
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        end(py, &self.0)
    }
}

fn heard(heard: ReceivedBroadcast) -> Value {
    match heard {
        ReceivedBroadcast::Broadcast(said) => Value::Tuple(vec![
            Value::maybe_text(said.subject),
            Value::Bytes(said.body),
            Value::maybe_text(said.sender),
            Value::maybe_text(said.correlation),
        ]),
        ReceivedBroadcast::Missed(count) => Value::Unsigned(count),
    }
}
