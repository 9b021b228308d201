//! What several tests share.

#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod broker;
pub(crate) mod pattern;
pub(crate) mod peer;
pub(crate) mod transcript;
pub(crate) mod world;
