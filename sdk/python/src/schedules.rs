//! Schedules: tasks that the broker submits again and again.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure_client::{CatchUp, NewSchedule, Overlap};

use crate::client::{Answer, Client, accepted};
use crate::error;
use crate::operation::run;
use crate::port::Via;
use crate::submission::read;
use crate::value::Value;

/// Creates or changes a schedule. The settings are what is said besides its task.
#[pyfunction]
#[pyo3(signature = (client, name, when, submission, settings, via=None))]
pub(crate) fn set_schedule(
    py: Python<'_>,
    client: &Client,
    name: String,
    when: String,
    submission: &Bound<'_, PyDict>,
    settings: &Bound<'_, PyDict>,
    via: Option<Via>,
) -> Answer {
    let client = client.get()?.clone();
    let mut schedule = NewSchedule::new(name, when, read(submission)?);
    for (key, value) in settings {
        let span = || value.extract::<u64>().map(Duration::from_millis);
        schedule = match key.extract::<String>()?.as_str() {
            "zone" => schedule.zone(value.extract::<String>()?),
            "catch_up" => schedule.catch_up(catch_up(&value.extract::<String>()?)?),
            "overlap" => schedule.overlap(overlap(&value.extract::<String>()?)?),
            "jitter_ms" => schedule.jitter(span()?),
            "expires_after_ms" => schedule.expires_after(span()?),
            "paused" => schedule.paused(value.extract()?),
            unknown => return Err(error::bad_setting("the schedule", &format!("knows no `{unknown}`"))),
        };
    }
    run(py, via, async move { Ok(client.set_schedule(schedule).await?.into()) })
}

#[pyfunction]
#[pyo3(signature = (client, via=None))]
pub(crate) fn list_schedules(py: Python<'_>, client: &Client, via: Option<Via>) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move { Ok(Value::json(&client.schedules().await?)) })
}

#[pyfunction]
#[pyo3(signature = (client, name, via=None))]
pub(crate) fn show_schedule(py: Python<'_>, client: &Client, name: String, via: Option<Via>) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move { Ok(Value::json(&client.schedule(name).await?)) })
}

/// Steers a schedule: `pause`, `resume` or `remove`.
#[pyfunction]
#[pyo3(signature = (client, verb, name, via=None))]
pub(crate) fn steer_schedule(
    py: Python<'_>,
    client: &Client,
    verb: &str,
    name: String,
    via: Option<Via>,
) -> Answer {
    let client = client.get()?.clone();
    match verb {
        "pause" => run(py, via, async move { Ok(client.pause_schedule(name).await?.into()) }),
        "resume" => run(py, via, async move { Ok(client.resume_schedule(name).await?.into()) }),
        "remove" => run(py, via, async move { Ok(client.remove_schedule(name).await?.into()) }),
        _ => Err(error::bad_setting("a schedule", &format!("has no action `{verb}`"))),
    }
}

/// Submits the task of a schedule now: what was accepted.
#[pyfunction]
#[pyo3(signature = (client, name, via=None))]
pub(crate) fn run_schedule(py: Python<'_>, client: &Client, name: String, via: Option<Via>) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move { Ok(accepted(&client.run_schedule(name).await?)) })
}

fn catch_up(word: &str) -> PyResult<CatchUp> {
    match CatchUp::from(word) {
        CatchUp::Other(_) => {
            Err(error::bad_setting("catch_up", &format!("is `{word}`: say none, last or all")))
        }
        known => Ok(known),
    }
}

fn overlap(word: &str) -> PyResult<Overlap> {
    match Overlap::from(word) {
        Overlap::Other(_) => {
            Err(error::bad_setting("overlap", &format!("is `{word}`: say queue, skip or cancel-old")))
        }
        known => Ok(known),
    }
}
