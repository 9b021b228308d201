//! Reconciliation with an outside store of tasks.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure_client::{Declared, Error};
use tokio::sync::Mutex;

use crate::client::{Answer, Client};
use crate::operation::run;
use crate::owned::Owned;
use crate::port::Via;
use crate::submission::read;
use crate::value::Value;

/// A reconciliation under way.
#[pyclass(frozen, module = "tenure._native")]
pub(crate) struct Reconciler {
    reconciler: Owned<Arc<Mutex<Option<tenure_client::Reconciler>>>>,
}

/// Begins to compare the tasks whose names begin with the prefix.
#[pyfunction]
#[pyo3(signature = (client, prefix, apply, via=None))]
pub(crate) fn reconcile(
    py: Python<'_>,
    client: &Client,
    prefix: String,
    apply: bool,
    via: Option<Via>,
) -> Answer {
    let client = client.get()?.clone();
    run(py, via, async move {
        let reconciler = client.reconcile(prefix, apply).await?;
        Ok(Value::object(Reconciler { reconciler: Owned::new(Arc::new(Mutex::new(Some(reconciler)))) }))
    })
}

/// A task as the other store knows it: its name, whether it has ended there, and how to submit it.
type Row<'py> = (String, bool, Option<Bound<'py, PyDict>>);

#[pymethods]
impl Reconciler {
    #[pyo3(signature = (rows, via=None))]
    fn declare(&self, py: Python<'_>, rows: Vec<Row<'_>>, via: Option<Via>) -> Answer {
        let reconciler = Arc::clone(self.reconciler.get()?);
        let mut declared = Vec::with_capacity(rows.len());
        for (name, ended, submission) in rows {
            let one = if ended { Declared::ended(name) } else { Declared::exists(name) };
            declared.push(match submission {
                None => one,
                Some(submission) => one.submission(read(&submission)?),
            });
        }
        run(py, via, async move {
            let mut reconciler = reconciler.lock().await;
            let reconciler = reconciler.as_mut().ok_or(Error::Closed)?;
            for one in declared {
                reconciler.declare(one).await?;
            }
            Ok(Value::None)
        })
    }

    /// All differences, as JSON.
    #[pyo3(signature = (via=None))]
    fn finish(&self, py: Python<'_>, via: Option<Via>) -> Answer {
        let reconciler = Arc::clone(self.reconciler.get()?);
        run(py, via, async move {
            let reconciler = reconciler.lock().await.take().ok_or(Error::Closed)?;
            Ok(Value::json(&reconciler.finish().await?))
        })
    }
}
