//! What a client can say, one file for each kind of thing.

mod calls;
mod list;
mod look;
mod steer;
mod submit;
mod topics;
mod wait;

pub use calls::{BroadcastReceiver, Heard, IncomingCall, Listener};
pub use list::{Listing, Query};
pub use steer::Move;
pub use wait::Waited;
