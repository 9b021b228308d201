//! Arrays: many tasks that are submitted, shown, limited, waited for and cancelled as one.

use std::time::Duration;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tenure_client::ArraySubmission;

use crate::client::{Answer, Client};
use crate::operation::run;
use crate::port::Via;
use crate::submission::{bytes, read, task_id};
use crate::value::Value;

/// How many elements, and which indexes they have: `(size, first, step)`.
type Indexes = (u32, u32, u32);

/// Submits an array: `(id, size, state, known, why unserved)`. With bodies, each element has one of its own.
#[pyfunction]
#[pyo3(signature = (client, submission, indexes, bodies, limit, via=None))]
pub(crate) fn submit_array(
    py: Python<'_>,
    client: &Client,
    submission: &Bound<'_, PyDict>,
    indexes: Indexes,
    bodies: Option<&Bound<'_, PyList>>,
    limit: Option<u32>,
    via: Option<Via>,
) -> Answer {
    let (client, submission) = (client.get()?.clone(), read(submission)?);
    let (size, first, step) = indexes;
    let array = match bodies {
        None => ArraySubmission::new(submission, size),
        Some(bodies) => {
            let bodies: Vec<Bytes> = bodies.iter().map(|body| bytes(&body)).collect::<PyResult<_>>()?;
            ArraySubmission::of_items(submission, bodies)
        }
    };
    let mut array = array.first(first).step(step);
    if let Some(limit) = limit {
        array = array.limit(limit);
    }
    run(py, via, async move {
        let accepted = client.submit_array(array).await?;
        Ok(Value::Tuple(vec![
            Value::text(accepted.array.to_string()),
            Value::Unsigned(accepted.size.into()),
            Value::text(accepted.state.as_str()),
            Value::Bool(accepted.known),
            accepted.unserved.as_ref().map_or(Value::None, Value::json),
        ]))
    })
}

#[pyfunction]
#[pyo3(signature = (client, array, via=None))]
pub(crate) fn show_array(py: Python<'_>, client: &Client, array: &str, via: Option<Via>) -> Answer {
    let (client, array) = (client.get()?.clone(), task_id(array)?);
    run(py, via, async move { Ok(Value::json(&client.array(array).await?)) })
}

#[pyfunction]
#[pyo3(signature = (client, name, via=None))]
pub(crate) fn find_array(py: Python<'_>, client: &Client, name: String, via: Option<Via>) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move { Ok(Value::json(&client.find_array(name).await?)) })
}

/// At most this many arrays, newest first.
#[pyfunction]
#[pyo3(signature = (client, limit, via=None))]
pub(crate) fn list_arrays(py: Python<'_>, client: &Client, limit: usize, via: Option<Via>) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move { Ok(Value::json(&client.arrays(limit).await?)) })
}

#[pyfunction]
#[pyo3(signature = (client, array, limit, via=None))]
pub(crate) fn limit_array(
    py: Python<'_>,
    client: &Client,
    array: &str,
    limit: Option<u32>,
    via: Option<Via>,
) -> Answer {
    let (client, array) = (client.get()?.clone(), task_id(array)?);
    run(py, via, async move { Ok(client.limit_array(array, limit).await?.into()) })
}

/// Waits until an array has ended or the time is up; the array as it then is.
#[pyfunction]
#[pyo3(signature = (client, array, timeout_ms, via=None))]
pub(crate) fn wait_array(
    py: Python<'_>,
    client: &Client,
    array: &str,
    timeout_ms: Option<u64>,
    via: Option<Via>,
) -> Answer {
    let (client, array) = (client.get()?.clone(), task_id(array)?);
    let timeout = timeout_ms.map(Duration::from_millis);
    run(py, via, async move { Ok(Value::json(&client.wait_array(array, timeout).await?)) })
}
