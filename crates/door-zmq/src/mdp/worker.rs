//! Messages from and to workers.

use bytes::Bytes;

use super::dialect::Word;
use super::{MdpDialect, MdpError, MdpRegistration, MdpStats, decimal, registration, service_name, stats};

/// A message from a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerMessage {
    /// It serves one service, one job at a time (MDP/0.1 and 0.2).
    Ready { service: String },
    /// A part of a result (MDP/0.2).
    Partial { address: Bytes, body: Vec<Bytes> },
    /// A result. In `_PL` it goes to the client but does not end the job.
    Reply { address: Bytes, body: Vec<Bytes> },
    /// A heartbeat. `_PL` workers add figures about themselves.
    Heartbeat { stats: MdpStats },
    /// The worker leaves.
    Disconnect,
    /// `_PL`: it has connected and will register.
    Joining,
    /// `_PL`: its registration.
    Processes(MdpRegistration),
    /// `_PL`: the job of this client in this thread is finished. Frames after the thread, which plain workers do not
    /// send, are the result.
    Finished { client: Bytes, thread: u32, result: Vec<Bytes> },
}

/// A message to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToWorker {
    /// A job (MDP/0.1 and 0.2). The worker sends the address back with its result.
    Request {
        address: Bytes,
        body: Vec<Bytes>,
    },
    /// A job (`_PL`): the path of a plugin and its parameters.
    Call {
        service: String,
        parameters: Bytes,
    },
    Heartbeat,
    Disconnect,
    /// `_PL`: asks for the registration again.
    TellProcesses,
    /// `_PL`: the last call of a batch is done, so the worker may free what it keeps for the batch.
    Finished {
        commit: String,
    },
}

/// What a `_PL` worker sends in place of a service with its first READY.
const JOINING: &[u8] = b"processes";

/// Reads what follows the header.
pub(super) fn parse(dialect: MdpDialect, frames: &[Bytes]) -> Result<WorkerMessage, MdpError> {
    let (command, rest) = frames.split_first().ok_or(MdpError::FrameCount)?;
    let &[byte] = command.as_ref() else { return Err(MdpError::UnknownCommand) };
    match (dialect.word(byte).ok_or(MdpError::UnknownCommand)?, dialect) {
        (Word::Ready, MdpDialect::Pl) => plugin_ready(rest),
        (
            Word::Ready,
            MdpDialect::V1 | MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered,
        ) => {
            let [service] = rest else { return Err(MdpError::FrameCount) };
            Ok(WorkerMessage::Ready { service: service_name(service)? })
        }
        (Word::Partial, _) => {
            let (address, body) = addressed(rest)?;
            Ok(WorkerMessage::Partial { address, body })
        }
        (Word::Reply, _) => {
            let (address, body) = addressed(rest)?;
            Ok(WorkerMessage::Reply { address, body })
        }
        (Word::Heartbeat, MdpDialect::Pl) => Ok(WorkerMessage::Heartbeat { stats: stats::parse(rest) }),
        (
            Word::Heartbeat,
            MdpDialect::V1 | MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered,
        ) => {
            nothing_more(rest)?;
            Ok(WorkerMessage::Heartbeat { stats: MdpStats::default() })
        }
        (Word::Disconnect, _) => {
            nothing_more(rest)?;
            Ok(WorkerMessage::Disconnect)
        }
        (Word::Processes, _) => registration::parse(rest).map(WorkerMessage::Processes),
        (Word::Request | Word::Finished, _) => Err(MdpError::NotForBroker),
    }
}

impl ToWorker {
    /// The frames in the worker's dialect, or `None` if the dialect lacks the message.
    pub fn frames(&self, dialect: MdpDialect) -> Option<Vec<Bytes>> {
        let word = match (self, dialect) {
            (ToWorker::Request { .. }, MdpDialect::Pl)
            | (
                ToWorker::Call { .. },
                MdpDialect::V1 | MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered,
            ) => {
                return None;
            }
            (ToWorker::Request { .. } | ToWorker::Call { .. }, _) => Word::Request,
            (ToWorker::Heartbeat, _) => Word::Heartbeat,
            (ToWorker::Disconnect, _) => Word::Disconnect,
            (ToWorker::TellProcesses, _) => Word::Processes,
            (ToWorker::Finished { .. }, _) => Word::Finished,
        };
        let byte = dialect.byte(word)?;
        let mut frames = Vec::with_capacity(6);
        if dialect.is_delimited() {
            frames.push(Bytes::new());
        }
        frames.push(Bytes::from_static(dialect.worker_header()));
        frames.push(Bytes::copy_from_slice(&[byte]));
        match self {
            ToWorker::Request { address, body } => {
                frames.push(address.clone());
                frames.push(Bytes::new());
                frames.extend_from_slice(body);
            }
            ToWorker::Call { service, parameters } => {
                frames.push(Bytes::copy_from_slice(service.as_bytes()));
                frames.push(parameters.clone());
            }
            ToWorker::Finished { commit } => frames.push(Bytes::copy_from_slice(commit.as_bytes())),
            ToWorker::Heartbeat | ToWorker::Disconnect | ToWorker::TellProcesses => {}
        }
        Some(frames)
    }
}

fn plugin_ready(frames: &[Bytes]) -> Result<WorkerMessage, MdpError> {
    match frames {
        [word] if word.as_ref() == JOINING => Ok(WorkerMessage::Joining),
        [client, thread, result @ ..] => Ok(WorkerMessage::Finished {
            client: client.clone(),
            thread: decimal(thread).ok_or(MdpError::Number)?,
            result: result.to_vec(),
        }),
        _ => Err(MdpError::FrameCount),
    }
}

/// The address a worker was given, an empty frame, and the body. A body without frames is an empty one.
fn addressed(frames: &[Bytes]) -> Result<(Bytes, Vec<Bytes>), MdpError> {
    let [address, delimiter, body @ ..] = frames else { return Err(MdpError::FrameCount) };
    if address.is_empty() || !delimiter.is_empty() {
        return Err(MdpError::Envelope);
    }
    Ok((address.clone(), body.to_vec()))
}

fn nothing_more(frames: &[Bytes]) -> Result<(), MdpError> {
    if frames.is_empty() { Ok(()) } else { Err(MdpError::FrameCount) }
}
