//! The RESP door: any Redis client, and the worker registration protocol.
//!
//! Bytes become commands in [`codec`] and [`command`], keys and JSON become typed values in [`key`] and
//! [`shapes`]. Nothing here reads a clock or a socket.

pub mod codec;
pub mod command;
pub mod fuzz;
pub mod key;
pub mod shapes;
