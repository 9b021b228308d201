//! Redis patterns, shared with the key space.

pub(crate) use tenure_hub::keyspace::{glob, literal_prefix};
