//! Connections between peers and the broker that leads, or believes that it does.

use std::sync::Arc;

use tenure_hub::Mailbox;
use tenure_hub::words::{SessionId, TaskId, Timestamp};

use crate::client::Client;
use crate::worker::Worker;

#[derive(Debug)]
pub(super) enum ClusterPeer {
    Client(Client),
    Worker(Worker),
}

#[derive(Debug)]
pub(super) struct ClusterLink {
    /// `None` for the observer.
    pub(super) peer: Option<usize>,
    pub(super) member: usize,
    /// The life of the member at its beginning.
    pub(super) life: u64,
    pub(super) session: SessionId,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) broker_side: bool,
    pub(super) peer_side: bool,
    /// A connection keeps its order: nothing arrives before an earlier message.
    pub(super) last_to_broker: Timestamp,
    pub(super) last_to_peer: Timestamp,
    /// What the observer has asked for: every one of these tasks was acknowledged before.
    pub(super) asked: Vec<TaskId>,
}
