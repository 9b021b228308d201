//! Reads what a request carries: path, query string, JSON and bytes, each within its limit.

mod body;
mod number;
mod objects;
mod query;
pub(crate) mod sse;

pub(crate) use body::{SharedBody, drain, read_body, read_json};
pub(crate) use number::{seconds, time};
pub(crate) use objects::from_value;
pub(crate) use query::{PathValues, QueryString, percent};
