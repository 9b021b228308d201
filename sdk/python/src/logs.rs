//! What tasks print.

use pyo3::prelude::*;
use tenure_client::{LogChunk, LogStream};

use crate::client::{Answer, Client};
use crate::error;
use crate::operation::run;
use crate::port::Via;
use crate::submission::task_id;
use crate::value::Value;

/// What a task has printed after a place in its log: `(pieces, next, more)`; a piece is
/// `(attempt, stream, offset, at, bytes)`.
#[pyfunction]
#[pyo3(signature = (client, task, after, via=None))]
pub(crate) fn read_logs(py: Python<'_>, client: &Client, task: &str, after: u64, via: Option<Via>) -> Answer {
    let (client, task) = (client.get()?.clone(), task_id(task)?);
    run(py, via, async move {
        let page = client.logs(task, after).await?;
        let pieces = page.chunks.into_iter().map(piece).collect();
        Ok(Value::Tuple(vec![Value::List(pieces), Value::Unsigned(page.next), Value::Bool(page.more)]))
    })
}

pub(crate) fn stream(word: &str) -> PyResult<LogStream> {
    match word {
        "stdout" => Ok(LogStream::Stdout),
        "stderr" => Ok(LogStream::Stderr),
        _ => Err(error::bad_setting("stream", &format!("is `{word}`: use stdout or stderr"))),
    }
}

fn piece(chunk: LogChunk) -> Value {
    Value::Tuple(vec![
        Value::Unsigned(chunk.attempt.into()),
        Value::text(chunk.stream.as_str()),
        Value::Unsigned(chunk.offset),
        Value::Unsigned(chunk.at.0),
        Value::Bytes(chunk.bytes),
    ])
}
