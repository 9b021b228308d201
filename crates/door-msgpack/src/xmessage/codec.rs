//! Bytes ↔ messages of the dialect. A frame is a big-endian length of four bytes and one MessagePack value: a message
//! without fields is its name, any other a map of one entry, from its name to its fields.
//!
//! The codec writes fields as a list in order, as existing peers do, and also reads them as a map. Variants that
//! the broker adds to the dialect (`HandShakeWith`, `AddTaskWith`) are read only: existing peers never receive one.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use zeroize::Zeroizing;

use tenure_wire::frame::LENGTH_BYTES;
use tenure_wire::split_frames;

/// The longest frame. Messages carry names and short texts, never the work itself.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// How deep values may nest. Messages nest four levels deep.
const DEPTH_MAX: usize = 16;

/// All messages of this dialect, in both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XMessage {
    /// Text for people.
    BulkMessage(String),
    /// The broker sends a task to a worker. The record id is the task's body.
    TaskLaunch {
        task_id: XMessageId,
        record_id: String,
    },
    HandShake(String),
    /// A peer introduces itself with more than its role.
    HandShakeWith(XMessageIntroduction),
    /// The peer's port, or 0 from the broker.
    HeartBeat(u16),
    ActionerOp(Operation),
    WorkerOp {
        op: Operation,
        id: XMessageId,
    },
    WorkerTableOp {
        op: Operation,
        id: XMessageId,
        from: XMessageState,
        to: XMessageState,
    },
    WorkerTablePrint,
    TaskTablePrint {
        states: Vec<XMessageState>,
    },
    TaskTableOp {
        op: Operation,
        id: XMessageId,
        from: XMessageState,
        to: XMessageState,
    },
    /// A worker reports the state of a task.
    TaskStateChange {
        id: XMessageId,
        from: XMessageState,
        to: XMessageState,
    },
    /// The actioner has no more requests.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Inspect,
    AddTask(String),
    PlayTask(XMessageId),
    PlayAllTask,
    KillTask(XMessageId),
    Create,
    Update,
    Read,
    Delete,
    PauseTask(XMessageId),
    AddTaskWith(XMessageTaskOptions),
}

/// The introduction of a peer. Everything but the role is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XMessageIntroduction {
    /// `worker` or `actioner`.
    pub role: String,
    #[serde(default)]
    pub key: Option<XMessageKey>,
    /// The worker's name in tables and its identity for keys that belong to one worker.
    #[serde(default)]
    pub name: Option<String>,
    /// How many tasks the worker takes at once.
    #[serde(default)]
    pub slots: Option<u32>,
    /// The types of tasks that the worker runs.
    #[serde(default)]
    pub task_types: Option<Vec<String>>,
}

/// A task with options. Everything but the record id is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XMessageTaskOptions {
    pub record_id: String,
    /// Only a worker that runs this type gets the task.
    #[serde(default)]
    pub task_type: Option<String>,
    /// Higher first.
    #[serde(default)]
    pub priority: Option<i32>,
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    /// `pause`, `requeue` or `fail`.
    #[serde(default)]
    pub on_lost: Option<String>,
    /// How many of the worker's slots the task occupies. It may occupy none.
    #[serde(default)]
    pub slots: Option<u32>,
}

/// A secret. It can be read and written, but not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct XMessageKey(pub Zeroizing<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XMessageState {
    Created,
    Ready,
    Submit,
    Pause,
    Run,
    /// 0 is complete, -1 is killed, anything else is a failure.
    Terminated(i8),
}

/// A task's id: sixteen bytes on the wire; a UUID as text is read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XMessageId(pub [u8; 16]);

#[derive(Debug, Error)]
pub enum XMessageError {
    #[error(transparent)]
    Frame(#[from] tenure_wire::FrameError),
    #[error("the frame is not a message of this dialect: {0}")]
    Message(#[from] rmp_serde::decode::Error),
    #[error("the message is followed by {bytes} more bytes")]
    Trailing { bytes: usize },
}

/// Adds a message to the end of `out`, as a whole frame.
pub fn encode(out: &mut BytesMut, message: &XMessage) {
    let start = out.len();
    out.put_bytes(0, LENGTH_BYTES);
    // Writing into memory does not fail, and all of these types can be encoded.
    rmp_serde::encode::write(&mut out.writer(), message).expect("a message can be written");
    let length = (out.len() - start - LENGTH_BYTES) as u32;
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Takes every complete frame off the front of `arrived`.
pub fn split(arrived: &mut BytesMut) -> Result<tenure_wire::Frames, XMessageError> {
    Ok(split_frames(arrived, FRAME_BYTES_MAX)?)
}

/// Reads one frame.
pub fn decode(frame: &Bytes) -> Result<XMessage, XMessageError> {
    let mut rest = &frame[..];
    let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
    deserializer.set_max_depth(DEPTH_MAX);
    let message = XMessage::deserialize(&mut deserializer)?;
    drop(deserializer);
    if !rest.is_empty() {
        return Err(XMessageError::Trailing { bytes: rest.len() });
    }
    Ok(message)
}

impl fmt::Display for XMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tenure_wire::TaskId(self.0).fmt(f)
    }
}

impl fmt::Debug for XMessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a key)")
    }
}

impl Serialize for XMessageKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for XMessageKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<XMessageKey, D::Error> {
        String::deserialize(deserializer).map(|key| XMessageKey(Zeroizing::new(key)))
    }
}

impl Serialize for XMessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for XMessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<XMessageId, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = XMessageId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a UUID of 16 bytes, or as text")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<XMessageId, E> {
                bytes.try_into().map(XMessageId).map_err(|_| E::invalid_length(bytes.len(), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<XMessageId, E> {
                let id = text.parse::<tenure_wire::TaskId>();
                id.map(|id| XMessageId(id.0)).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

/// For fuzzers and the fixed corpus: no input panics, and what decodes also survives a round trip.
pub fn fuzz(bytes: &[u8]) {
    let mut arrived = BytesMut::from(bytes);
    while let Ok(frames) = split(&mut arrived) {
        if frames.is_empty() {
            break;
        }
        frames.for_each(|frame| one_frame(&frame));
    }
    one_frame(&Bytes::copy_from_slice(bytes));
}

fn one_frame(frame: &Bytes) {
    let Ok(message) = decode(frame) else { return };
    let mut out = BytesMut::new();
    encode(&mut out, &message);
    let again = decode(&out.split_off(LENGTH_BYTES).freeze()).expect("what was written can be read");
    assert_eq!(again, message, "a message changed on its way");
}
