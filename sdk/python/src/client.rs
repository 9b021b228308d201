//! The client: one method for each verb. The last argument says where the answer goes; without it the caller waits.

use std::time::Duration;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tenure_client::{
    Accepted, Broadcast, ConnectionState, Ended, Error, Hear, Move, NewMessage, Policy, Query, Rate,
    ReconnectionPolicy, Recovery, Refusal, StateName, Submission, Subscribe, TaskId, Thresholds, Timestamp,
    Watch,
};
use tokio::sync::mpsc;

use crate::error;
use crate::operation::run;
use crate::owned::Owned;
use crate::port::Via;
use crate::streams::{BroadcastReceiver, Listener, Listing, StateChange, Subscriber, Watcher};
use crate::submission::{bytes, read, task_id};
use crate::value::Value;

/// A connection to a broker.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Client {
    client: Owned<tenure_client::Client>,
}

/// Connects, and answers with a client.
#[pyfunction]
#[pyo3(signature = (address, namespace, key, identity, connect_timeout_ms, software, via=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn connect(
    py: Python<'_>,
    address: &str,
    namespace: Option<String>,
    key: Option<String>,
    identity: Option<String>,
    connect_timeout_ms: u64,
    software: &str,
    via: Option<Via>,
) -> PyResult<Py<PyAny>> {
    let mut builder = tenure_client::Client::builder()
        .address(address)
        .software(software)
        .connect_timeout(Duration::from_millis(connect_timeout_ms));
    if let Some(namespace) = namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(key) = key {
        builder = builder.key(&key);
    }
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    run(py, via, async move {
        let client = builder.connect().await?;
        Ok(Value::object(Client { client: Owned::new(client) }))
    })
}

pub(crate) type Answer = PyResult<Py<PyAny>>;

#[pymethods]
impl Client {
    fn identity(&self) -> PyResult<String> {
        Ok(self.get()?.identity().to_string())
    }

    fn namespace(&self) -> PyResult<String> {
        Ok(self.get()?.namespace().to_string())
    }

    /// What the broker said at the last handshake, as JSON.
    fn welcome(&self) -> PyResult<String> {
        let welcome = self.get()?.welcome();
        serde_json::to_string(&*welcome)
            .map_err(|error| error::bad_setting("the welcome", &error.to_string()))
    }

    fn is_connected(&self) -> PyResult<bool> {
        Ok(self.get()?.is_connected())
    }

    fn close(&self) -> PyResult<()> {
        self.get()?.close();
        Ok(())
    }

    #[pyo3(signature = (via=None))]
    fn ping(&self, py: Python<'_>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(Value::Unsigned(client.ping().await?.0)) })
    }

    /// Submits what one dict describes.
    #[pyo3(signature = (submission, via=None))]
    fn submit(&self, py: Python<'_>, submission: &Bound<'_, PyDict>, via: Option<Via>) -> Answer {
        let (client, submission) = (self.get()?.clone(), read(submission)?);
        run(py, via, async move { Ok(accepted(&client.submit(submission).await?)) })
    }

    /// Submits many; each has a verdict of its own: what was accepted, or a refusal.
    #[pyo3(signature = (submissions, via=None))]
    fn submit_many(&self, py: Python<'_>, submissions: &Bound<'_, PyList>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        let mut read_ones = Vec::with_capacity(submissions.len());
        for submission in submissions {
            read_ones.push(read(submission.cast::<PyDict>()?)?);
        }
        run(py, via, async move { verdicts(client.submit_many(read_ones).await?) })
    }

    /// Submits many that differ in their bodies alone, and in their names if these are given.
    #[pyo3(signature = (submission, bodies, names, via=None))]
    fn submit_same(
        &self,
        py: Python<'_>,
        submission: &Bound<'_, PyDict>,
        bodies: &Bound<'_, PyList>,
        names: Option<Vec<String>>,
        via: Option<Via>,
    ) -> Answer {
        let (client, template) = (self.get()?.clone(), read(submission)?);
        let mut submissions: Vec<Submission> = Vec::with_capacity(bodies.len());
        for body in bodies {
            submissions.push(template.clone().body(bytes(&body)?));
        }
        if let Some(names) = names {
            let named = submissions.into_iter().zip(names);
            submissions = named.map(|(submission, name)| submission.name(name)).collect();
        }
        run(py, via, async move { verdicts(client.submit_many(submissions).await?) })
    }

    /// Waits for the end of a task: `(state, exit_code, at, message, worker, result)`, or nothing when the time is up.
    #[pyo3(signature = (task, timeout_ms, via=None))]
    fn wait(&self, py: Python<'_>, task: &str, timeout_ms: Option<u64>, via: Option<Via>) -> Answer {
        let (client, task) = (self.get()?.clone(), task_id(task)?);
        run(py, via, async move {
            let ended = match timeout_ms {
                None => Some(client.wait(task).await?),
                Some(timeout) => client.wait_timeout(task, Duration::from_millis(timeout)).await?,
            };
            Ok(ended.map_or(Value::None, end))
        })
    }

    /// Waits for the ends of many, results included: `(ended, pending)`.
    #[pyo3(signature = (tasks, timeout_ms, via=None))]
    fn wait_all(
        &self,
        py: Python<'_>,
        tasks: Vec<String>,
        timeout_ms: Option<u64>,
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let tasks: Vec<TaskId> = tasks.iter().map(|task| task_id(task)).collect::<PyResult<_>>()?;
        let timeout = timeout_ms.map(Duration::from_millis);
        run(py, via, async move {
            let waited = client.wait_all_results(&tasks, timeout).await?;
            let ended = waited.ended.into_iter();
            let ended = ended.map(|one| Value::Tuple(vec![Value::text(one.task.to_string()), end(one)]));
            let pending = waited.pending.iter().map(|task| Value::text(task.to_string()));
            Ok(Value::Tuple(vec![Value::List(ended.collect()), Value::List(pending.collect())]))
        })
    }

    #[pyo3(signature = (task, via=None))]
    fn show(&self, py: Python<'_>, task: &str, via: Option<Via>) -> Answer {
        let (client, task) = (self.get()?.clone(), task_id(task)?);
        run(py, via, async move { Ok(Value::json(&client.show(task).await?)) })
    }

    #[pyo3(signature = (name, via=None))]
    fn find(&self, py: Python<'_>, name: String, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(Value::json(&client.find(name).await?)) })
    }

    #[pyo3(signature = (task, via=None))]
    fn explain(&self, py: Python<'_>, task: &str, via: Option<Via>) -> Answer {
        let (client, task) = (self.get()?.clone(), task_id(task)?);
        run(py, via, async move { Ok(Value::json(&client.explain(task).await?)) })
    }

    /// A task's bytes: its `body`, its `result` or its `checkpoint`.
    #[pyo3(signature = (task, what, via=None))]
    fn fetch(&self, py: Python<'_>, task: &str, what: &str, via: Option<Via>) -> Answer {
        let (client, task) = (self.get()?.clone(), task_id(task)?);
        match what {
            "body" => run(py, via, async move { Ok(Value::Bytes(client.body(task).await?)) }),
            "result" => run(py, via, async move { Ok(Value::Bytes(client.result(task).await?)) }),
            "checkpoint" => run(py, via, async move { Ok(Value::Bytes(client.checkpoint(task).await?)) }),
            _ => Err(error::bad_setting("a task", &format!("has no bytes called `{what}`"))),
        }
    }

    /// What people look at: `queues`, `workers`, `limits`, `shares`, `hooks`, `counts`, `stats` or `subscriptions`.
    #[pyo3(signature = (what, via=None))]
    fn look(&self, py: Python<'_>, what: &str, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        match what {
            "queues" => run(py, via, async move { Ok(Value::json(&client.queues().await?)) }),
            "workers" => run(py, via, async move { Ok(Value::json(&client.workers().await?)) }),
            "limits" => run(py, via, async move { Ok(Value::json(&client.limits().await?)) }),
            "shares" => run(py, via, async move { Ok(Value::json(&client.shares().await?)) }),
            "hooks" => run(py, via, async move { Ok(Value::json(&client.hooks().await?)) }),
            "counts" => run(py, via, async move { Ok(Value::json(&client.counts().await?)) }),
            "stats" => run(py, via, async move { Ok(Value::json(&client.stats().await?)) }),
            "subscriptions" => run(py, via, async move { Ok(Value::json(&client.subscriptions().await?)) }),
            _ => Err(error::bad_setting("the broker", &format!("has no `{what}` to look at"))),
        }
    }

    /// Steers a task: `release`, `cancel`, `pause`, `pause-and-terminate`, `resume` or `retry`.
    #[pyo3(signature = (verb, task, reason, via=None))]
    fn steer(
        &self,
        py: Python<'_>,
        verb: &str,
        task: &str,
        reason: Option<String>,
        via: Option<Via>,
    ) -> Answer {
        let (client, task) = (self.get()?.clone(), task_id(task)?);
        match verb {
            "release" => run(py, via, async move { Ok(client.release(task).await?.into()) }),
            "cancel" => run(py, via, async move { Ok(client.cancel(task, reason.as_deref()).await?.into()) }),
            "pause" => run(py, via, async move { Ok(client.pause(task, reason.as_deref()).await?.into()) }),
            "pause-and-terminate" => {
                run(
                    py,
                    via,
                    async move { Ok(client.pause_and_terminate(task, reason.as_deref()).await?.into()) },
                )
            }
            "resume" => run(py, via, async move { Ok(client.resume(task).await?.into()) }),
            "retry" => run(py, via, async move { Ok(client.retry(task).await?.into()) }),
            _ => Err(error::bad_setting("a task", &format!("has no action `{verb}`"))),
        }
    }

    /// Steers a queue or a worker: `pause-queue`, `resume-queue`, `drain-worker` or `clear-worker`.
    #[pyo3(signature = (verb, name, via=None))]
    fn steer_named(&self, py: Python<'_>, verb: &str, name: String, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        match verb {
            "pause-queue" => run(py, via, async move { Ok(client.pause_queue(name).await?.into()) }),
            "resume-queue" => run(py, via, async move { Ok(client.resume_queue(name).await?.into()) }),
            "drain-worker" => run(py, via, async move { Ok(client.drain_worker(name).await?.into()) }),
            "clear-worker" => run(py, via, async move { Ok(client.clear_worker(name).await?.into()) }),
            _ => Err(error::bad_setting("the broker", &format!("knows no `{verb}`"))),
        }
    }

    #[pyo3(signature = (task, queue, priority, tags, via=None))]
    fn move_task(
        &self,
        py: Python<'_>,
        task: &str,
        queue: Option<String>,
        priority: Option<i32>,
        tags: Option<Vec<String>>,
        via: Option<Via>,
    ) -> Answer {
        let (client, task) = (self.get()?.clone(), task_id(task)?);
        let mut to = Move::default();
        if let Some(queue) = queue {
            to = to.queue(queue);
        }
        if let Some(priority) = priority {
            to = to.priority(priority);
        }
        if let Some(tags) = tags {
            to = to.tags(tags);
        }
        run(py, via, async move { Ok(client.move_task(task, to).await?.into()) })
    }

    #[pyo3(signature = (tag, limit, via=None))]
    fn set_limit(&self, py: Python<'_>, tag: String, limit: Option<u32>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(client.set_limit(tag, limit).await?.into()) })
    }

    /// Sets the rate of a `tag` or of a `queue`; with nothing, removes it.
    #[pyo3(signature = (of, name, rate, burst, via=None))]
    fn set_rate(
        &self,
        py: Python<'_>,
        of: &str,
        name: String,
        rate: Option<&str>,
        burst: Option<u32>,
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let rate = match rate {
            None => None,
            Some(text) => {
                let rate = Rate::parse(text).ok_or_else(|| {
                    error::bad_setting("the rate", &format!("is {text:?}: write 10/m, 100/s or 5/30s"))
                })?;
                Some(Rate { burst, ..rate })
            }
        };
        match of {
            "tag" => run(py, via, async move { Ok(client.set_tag_rate(name, rate).await?.into()) }),
            "queue" => run(py, via, async move { Ok(client.set_queue_rate(name, rate).await?.into()) }),
            _ => Err(error::bad_setting("a rate", &format!("is for a tag or a queue, not for `{of}`"))),
        }
    }

    #[pyo3(signature = (share, weight, via=None))]
    fn set_share(&self, py: Python<'_>, share: String, weight: Option<u32>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(client.set_share(share, weight).await?.into()) })
    }

    /// Sets from where on a queue has a backlog; with nothing, those of all queues hold.
    #[pyo3(signature = (queue, depth, age_ms, via=None))]
    fn set_thresholds(
        &self,
        py: Python<'_>,
        queue: String,
        depth: Option<u32>,
        age_ms: Option<u64>,
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let own = depth.is_some() || age_ms.is_some();
        let thresholds = own.then_some(Thresholds { depth, age_ms });
        run(py, via, async move { Ok(client.set_thresholds(queue, thresholds).await?.into()) })
    }

    /// Lists tasks, page by page.
    #[pyo3(signature = (states, queue, tag, worker, parent, array, without_elements, submitter, after_ms, before_ms, page))]
    #[allow(clippy::too_many_arguments)]
    fn list_tasks(
        &self,
        states: Vec<String>,
        queue: Option<String>,
        tag: Option<String>,
        worker: Option<String>,
        parent: Option<String>,
        array: Option<String>,
        without_elements: bool,
        submitter: Option<String>,
        after_ms: Option<u64>,
        before_ms: Option<u64>,
        page: u32,
    ) -> PyResult<Listing> {
        let mut query = Query::default().page(page);
        if !states.is_empty() {
            query = query.states(states.iter().map(|state| StateName::from(state.as_str())));
        }
        if let Some(queue) = queue {
            query = query.queue(queue);
        }
        if let Some(tag) = tag {
            query = query.tag(tag);
        }
        if let Some(worker) = worker {
            query = query.worker(worker);
        }
        if let Some(parent) = parent {
            query = query.parent(task_id(&parent)?);
        }
        if let Some(array) = array {
            query = query.array(task_id(&array)?);
        }
        if without_elements {
            query = query.without_elements();
        }
        if let Some(submitter) = submitter {
            query = query.submitter(submitter);
        }
        if let Some(after) = after_ms {
            query = query.submitted_after(Timestamp(after));
        }
        if let Some(before) = before_ms {
            query = query.submitted_before(Timestamp(before));
        }
        Ok(Listing::new(self.get()?.list(query)))
    }

    /// Watches events, from a number or from now on.
    #[pyo3(signature = (from, task, queue, submitter, worker, kinds, via=None))]
    #[allow(clippy::too_many_arguments)]
    fn watch(
        &self,
        py: Python<'_>,
        from: Option<u64>,
        task: Option<String>,
        queue: Option<String>,
        submitter: Option<String>,
        worker: Option<String>,
        kinds: Vec<String>,
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let mut watch = Watch::default();
        if let Some(from) = from {
            watch = watch.from(from);
        }
        if let Some(task) = task {
            watch = watch.task(task_id(&task)?);
        }
        if let Some(queue) = queue {
            watch = watch.queue(queue);
        }
        if let Some(submitter) = submitter {
            watch = watch.submitter(submitter);
        }
        if let Some(worker) = worker {
            watch = watch.worker(worker);
        }
        if !kinds.is_empty() {
            watch = watch.kinds(kinds.iter().map(|kind| kind.as_str().into()));
        }
        run(py, via, async move { Ok(Value::object(Watcher::new(client.watch(watch).await?))) })
    }

    /// Publishes messages in their order: a verdict for each. A message is
    /// `(topic, payload, retain, ttl_ms, content_type, correlation, source)`.
    #[pyo3(signature = (messages, via=None))]
    fn publish(&self, py: Python<'_>, messages: Vec<Published<'_>>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        let messages = messages.into_iter().map(new_message).collect();
        run(py, via, async move {
            let verdicts = client.publish_many(messages).await?.into_iter().map(|verdict| match verdict {
                Ok(published) => Value::json(&published),
                Err(refusal) => refused(refusal),
            });
            Ok(Value::List(verdicts.collect()))
        })
    }

    /// Asks the subscribers of a topic: `(payload, json)`.
    #[pyo3(signature = (topic, payload, timeout_ms, via=None))]
    fn request(
        &self,
        py: Python<'_>,
        topic: String,
        payload: &Bound<'_, PyBytes>,
        timeout_ms: u64,
        via: Option<Via>,
    ) -> Answer {
        let (client, payload) = (self.get()?.clone(), Bytes::copy_from_slice(payload.as_bytes()));
        run(py, via, async move {
            let mut response = client.request(topic, payload, Duration::from_millis(timeout_ms)).await?;
            let payload = std::mem::take(&mut response.payload);
            Ok(Value::Tuple(vec![Value::Bytes(payload), Value::json(&response)]))
        })
    }

    #[pyo3(signature = (pattern, via=None))]
    fn topics(&self, py: Python<'_>, pattern: Option<String>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(Value::json(&client.topics(pattern.as_deref()).await?)) })
    }

    #[pyo3(signature = (id, via=None))]
    fn unsubscribe(&self, py: Python<'_>, id: String, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(client.unsubscribe(id).await?.into()) })
    }

    /// Answers for how many milliseconds the subscription is kept.
    #[pyo3(signature = (id, via=None))]
    fn pause_subscription(&self, py: Python<'_>, id: String, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move {
            let kept = client.pause_subscription(id).await?;
            Ok(Value::Unsigned(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX)))
        })
    }

    /// Subscribes. The policy is `(max_retries, initial_delay_ms, max_delay_ms, exponential_backoff, jitter_factor)`.
    #[pyo3(signature = (topics, id, group, retained, queue, recovery, from, policy, via=None))]
    #[allow(clippy::too_many_arguments)]
    fn subscribe(
        &self,
        py: Python<'_>,
        topics: Vec<String>,
        id: Option<String>,
        group: Option<String>,
        retained: bool,
        queue: Option<(u32, String)>,
        recovery: &str,
        from: Option<u64>,
        policy: (u32, u64, u64, bool, f64),
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let (max_retries, initial_delay_ms, max_delay_ms, exponential_backoff, jitter_factor) = policy;
        let mut subscribe =
            Subscribe::to(topics).recovery(Recovery::from(recovery)).reconnection(ReconnectionPolicy {
                max_retries,
                initial_delay: Duration::from_millis(initial_delay_ms),
                max_delay: Duration::from_millis(max_delay_ms),
                exponential_backoff,
                jitter_factor,
            });
        if let Some(id) = id {
            subscribe = subscribe.id(id);
        }
        if let Some(group) = group {
            subscribe = subscribe.group(group);
        }
        if retained {
            subscribe = subscribe.retained();
        }
        if let Some((messages, policy)) = queue {
            subscribe = subscribe.queue(messages, Policy::from(policy.as_str()));
        }
        if let Some(from) = from {
            subscribe = subscribe.from(from);
        }
        // Bounded by how often a connection comes and goes while the program takes nothing.
        let (tell, states) = mpsc::channel(Subscriber::STATES_WAITING_MAX);
        let subscribe = subscribe.on_state(move |state: ConnectionState, error: Option<&Error>| {
            let _ = tell.try_send(StateChange { state, error: error.map(ToString::to_string) });
        });
        run(py, via, async move {
            let subscriber = client.subscribe(subscribe).await?;
            Ok(Value::object(Subscriber::new(subscriber, states)))
        })
    }

    /// Calls an address: `(outcome, body)`.
    #[pyo3(signature = (to, body, timeout_ms, via=None))]
    fn call(
        &self,
        py: Python<'_>,
        to: String,
        body: &Bound<'_, PyBytes>,
        timeout_ms: Option<u64>,
        via: Option<Via>,
    ) -> Answer {
        let (client, body) = (self.get()?.clone(), Bytes::copy_from_slice(body.as_bytes()));
        run(py, via, async move {
            let answered = client.call(to, body, timeout_ms.map(Duration::from_millis)).await?;
            Ok(Value::Tuple(vec![Value::text(answered.outcome.as_str()), Value::Bytes(answered.body)]))
        })
    }

    #[pyo3(signature = (addresses, via=None))]
    fn listen(&self, py: Python<'_>, addresses: Vec<String>, via: Option<Via>) -> Answer {
        let client = self.get()?.clone();
        run(py, via, async move { Ok(Value::object(Listener::new(client.listen(addresses).await?))) })
    }

    /// Answers how many heard it.
    #[pyo3(signature = (subject, body, sender, correlation, via=None))]
    fn broadcast(
        &self,
        py: Python<'_>,
        subject: Option<String>,
        body: &Bound<'_, PyBytes>,
        sender: Option<String>,
        correlation: Option<String>,
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let broadcast = Broadcast {
            subject: subject.map(Into::into),
            body: Bytes::copy_from_slice(body.as_bytes()),
            sender: sender.map(Into::into),
            correlation: correlation.map(Into::into),
        };
        run(py, via, async move { Ok(Value::Unsigned(client.broadcast_all(broadcast).await?)) })
    }

    #[pyo3(signature = (subject, sender, via=None))]
    fn receive_broadcasts(
        &self,
        py: Python<'_>,
        subject: Option<String>,
        sender: Option<String>,
        via: Option<Via>,
    ) -> Answer {
        let client = self.get()?.clone();
        let hear = Hear { subject: subject.map(Into::into), sender: sender.map(Into::into) };
        run(py, via, async move {
            Ok(Value::object(BroadcastReceiver::new(client.receive_broadcasts(hear).await?)))
        })
    }
}

impl Client {
    pub(crate) fn get(&self) -> PyResult<&tenure_client::Client> {
        self.client.get()
    }
}

type Published<'py> =
    (String, Bound<'py, PyBytes>, bool, Option<u64>, Option<String>, Option<String>, Option<String>);

fn new_message(message: Published<'_>) -> NewMessage {
    let (topic, payload, retain, ttl_ms, content_type, correlation, source) = message;
    let mut made = NewMessage::new(topic, Bytes::copy_from_slice(payload.as_bytes()));
    made.retain = retain;
    made.ttl_ms = ttl_ms;
    made.content_type = content_type.map(Into::into);
    made.correlation = correlation.map(Into::into);
    made.source = source.map(Into::into);
    made
}

/// `(id, state, known, why unserved)`
pub(crate) fn accepted(accepted: &Accepted) -> Value {
    Value::Tuple(vec![
        Value::text(accepted.task.to_string()),
        Value::text(accepted.state.as_str()),
        Value::Bool(accepted.known),
        accepted.unserved.as_ref().map_or(Value::None, Value::json),
    ])
}

fn verdicts(verdicts: Vec<Result<Accepted, Box<Refusal>>>) -> Result<Value, Error> {
    let verdicts = verdicts.into_iter().map(|verdict| match verdict {
        Ok(one) => accepted(&one),
        Err(refusal) => refused(refusal),
    });
    Ok(Value::List(verdicts.collect()))
}

/// A refusal among other answers is an exception that is not raised.
fn refused(refusal: Box<Refusal>) -> Value {
    Value::Object(Box::new(move |py| Ok(error::refused(py, &refusal).into_value(py).into_any())))
}

/// `(state, exit_code, at, message, worker, result)`
fn end(ended: Ended) -> Value {
    Value::Tuple(vec![
        Value::text(ended.state.as_str()),
        Value::Int(i64::from(ended.exit_code)),
        Value::Unsigned(ended.at.0),
        Value::maybe_text(ended.message),
        Value::maybe_text(ended.worker),
        Value::Bytes(ended.result.unwrap_or_default()),
    ])
}
