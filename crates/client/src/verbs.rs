//! The requests of a client, one file for each kind.

mod calls;
mod list;
mod queries;
mod reconcile;
mod schedules;
mod steer;
mod submit;
mod topics;
mod wait;

pub use calls::{BroadcastReceiver, IncomingCall, Listener, ReceivedBroadcast};
pub use list::{Listing, Query};
pub use reconcile::{Declared, Reconciler};
pub use schedules::NewSchedule;
pub use steer::Move;
pub use wait::Waited;
