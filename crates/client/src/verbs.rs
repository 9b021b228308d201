//! What a client can say, one file for each kind of thing.

mod list;
mod look;
mod steer;
mod submit;
mod talk;
mod topics;
mod wait;

pub use list::{Listing, Query};
pub use steer::Move;
pub use talk::{Ear, Heard, IncomingCall, Listener};
pub use wait::Waited;
