//! The store.
mod codec;
