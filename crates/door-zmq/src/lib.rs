//! The ZeroMQ doors of Tenure.
//!
//! Two old protocols come in over ZeroMQ: *Majordomo* in three dialects and the small *READY/PING/PONG* dialogue.
//! ZeroMQ itself is only a way to frame messages (ZMTP), and this crate speaks it with a codec of its own, because a
//! broker must know which peer closed its connection and must bound whatever a stranger sends.
//!
//! Reading order: [`codec`] turns bytes into multipart messages, [`mdp`] and [`pingpong`] turn messages into words,
//! [`body`] says how a body of several frames becomes one. All of this is pure: no socket, no clock.

pub mod body;
pub mod codec;
pub mod mdp;
pub mod pingpong;
