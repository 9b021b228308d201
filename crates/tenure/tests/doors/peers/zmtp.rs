//! The ZeroMQ peer of the ZeroMQ door's own tests.
#![allow(dead_code, reason = "shared with the tests of that door")]

#[path = "../../../../door-zmq/tests/support/zmtp.rs"]
mod frames;
#[path = "../../../../door-zmq/tests/support/wire.rs"]
mod wire;

pub(crate) use frames::{command, frame, greeting, message, metadata};
pub(crate) use wire::Wire;
