//! What comes back from the client, made without the interpreter and turned into Python's objects with its lock.

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use serde::Serialize;

pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Text(String),
    Bytes(Bytes),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    /// An object of this crate.
    Object(Make),
}

type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

impl Value {
    /// A record of the wire as the JSON that it is shown as; Python reads it into its own class.
    pub(crate) fn json(record: &impl Serialize) -> Value {
        match serde_json::to_string(record) {
            Ok(text) => Value::Text(text),
            // A record of the wire has nothing that JSON cannot say.
            Err(_) => Value::None,
        }
    }

    pub(crate) fn text(text: impl AsRef<str>) -> Value {
        Value::Text(text.as_ref().to_owned())
    }

    pub(crate) fn maybe_text(text: Option<impl AsRef<str>>) -> Value {
        text.map_or(Value::None, Value::text)
    }

    pub(crate) fn object<T>(object: T) -> Value
    where
        T: pyo3::PyClass + Into<PyClassInitializer<T>> + Send + 'static,
    {
        Value::Object(Box::new(move |py| Ok(Py::new(py, object)?.into_any())))
    }

    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let all = |values: Vec<Value>| -> PyResult<Vec<Py<PyAny>>> {
            values.into_iter().map(|value| value.into_python(py)).collect()
        };
        match self {
            Value::None => Ok(py.None()),
            Value::Bool(value) => value.into_py_any(py),
            Value::Int(value) => value.into_py_any(py),
            Value::Unsigned(value) => value.into_py_any(py),
            Value::Text(value) => value.into_py_any(py),
            Value::Bytes(value) => Ok(PyBytes::new(py, &value).into_any().unbind()),
            Value::Tuple(values) => Ok(PyTuple::new(py, all(values)?)?.into_any().unbind()),
            Value::List(values) => Ok(PyList::new(py, all(values)?)?.into_any().unbind()),
            Value::Object(make) => make(py),
        }
    }
}

impl From<()> for Value {
    fn from((): ()) -> Value {
        Value::None
    }
}
