//! The worker actor: the door's side of a worker that pulls its tasks, over any number of connections.
//!
//! A worker may send heartbeats on one connection and pull on another, and may lose a connection without losing its
//! tasks. So the actor stores what the worker holds, waits for and reports, once per worker, with its own hub session;
//! connections come and go. A protocol adds its types and calls with [`Dialect`].
//!
//! [`WorkerActor`] is pure: calls come in with [`WorkerActor::call_from`], the hub's deliveries with
//! [`WorkerActor::deliver`]; requests for the hub and answers for connections go out through [`ActorOutput`].
//! [`Directory`] runs the actors.
//!
//! | file | concern |
//! |---|---|
//! | `presence.rs`, `liveness.rs` | whether the worker is alive, and what the hub assumes |
//! | `terms.rs` | what it offers |
//! | `pulls.rs` | what it waits for |
//! | `claims.rs`, `evidence.rs` | what it holds, and whether it knows |
//! | `claim_recovery.rs` | what it held before it or the broker was away |
//! | `reports.rs` | what it reports about its tasks |
//! | `joining.rs` | registration, heartbeats, goodbye |
//! | `directory.rs` | the runner; the only file that awaits |
//!
//! Protocols that send tasks to a worker over one connection (Majordomo, READY / PING / PONG) share some parts:
//! [`Arrival`] for a worker that returns under its name, [`starts_on_assignment`] for tasks that run at most once, and
//! [`refused`].

mod arrival;
mod call;
mod claim_recovery;
mod claims;
mod dialect;
mod directory;
mod evidence;
mod joining;
mod liveness;
mod presence;
mod pulls;
mod reports;
mod requests;
mod terms;
mod worker;

pub use arrival::{Arrival, begun_by};
pub use call::{
    CallReply, Caller, Figures, Introduction, KeyHolder, Pull, Status, TaskReport, WorkerRequest,
};
pub use claims::{Claim, Claims, starts_on_assignment};
pub use dialect::{Dialect, TaskOutputs};
pub use directory::{Actor, Directory, MailReceiver, Route, WorkerCall, WorkerNotice};
pub use evidence::{Evidence, MENTION_WITHIN, UNREAD_FOR};
pub use presence::{Heartbeats, WorkerKind};
pub use requests::refused;
pub use terms::{NAMELESS_SLOTS, WorkerTerms};
pub use worker::{ActorOutput, WorkerActor};

use presence::ActorState;
