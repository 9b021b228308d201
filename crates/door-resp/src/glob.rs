//! Patterns as Redis writes them; the key space has them as well.

pub(crate) use tenure_hub::keyspace::{glob, literal_prefix};
