//! The output of one turn of a session.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use tenure_hub::Ask;
use tenure_hub::keyspace::KeyspaceCall;
use tenure_hub::words::{Blob, Name};

use crate::channel::ChannelAct;
use crate::worker::RespWorkerCall;

/// What the server does after a turn of a session.
#[derive(Debug, Default)]
pub struct SessionOutput {
    /// Bytes for the peer.
    pub bytes: BytesMut,
    /// Requests to the hub.
    pub asks: Vec<Ask>,
    /// Calls to worker actors.
    pub calls: Vec<RespWorkerCall>,
    /// Blobs to read, with the token of the command that waits for them, in order.
    pub reads: VecDeque<(u64, Vec<Blob>)>,
    /// What is to be done about topics, in order.
    pub channels: Vec<ChannelAct>,
    /// Calls of the key space, in order.
    pub keys: Vec<(u64, KeyspaceCall)>,
    /// Delay of the replies.
    pub hold: Duration,
    /// Workers that this connection no longer acts as.
    pub leaves: Vec<Name>,
    /// Say what is left and close.
    pub close: bool,
}
