//! Hooks: what they could not deliver.

use pyo3::prelude::*;
use tenure_client::UndeliveredEvent;

use crate::client::{Answer, Client};
use crate::operation::run;
use crate::port::Via;
use crate::value::Value;

/// The events that a hook has given up, oldest first: `(seq, kind, given_up_at, attempts, error, body)`.
#[pyfunction]
#[pyo3(signature = (client, hook, via=None))]
pub(crate) fn undelivered(py: Python<'_>, client: &Client, hook: String, via: Option<Via>) -> Answer {
    let client = client.get()?.clone();
    run(
        py,
        via,
        async move { Ok(Value::List(client.undelivered(hook).await?.into_iter().map(event).collect())) },
    )
}

/// Sends an event again that a hook has given up, or all of them: how many.
#[pyfunction]
#[pyo3(signature = (client, hook, event, via=None))]
pub(crate) fn redeliver(
    py: Python<'_>,
    client: &Client,
    hook: String,
    event: Option<u64>,
    via: Option<Via>,
) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move { Ok(Value::Unsigned(client.redeliver(hook, event).await?)) })
}

fn event(event: UndeliveredEvent) -> Value {
    Value::Tuple(vec![
        Value::Unsigned(event.seq),
        Value::text(event.kind),
        Value::Unsigned(event.given_up_at.0),
        Value::Unsigned(event.attempts.into()),
        Value::text(event.error),
        Value::Bytes(event.body),
    ])
}
