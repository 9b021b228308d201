//! Streams, as far as programs use them to keep a few results: no consumer groups.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Decided, Decision, ReplySize, check_key, check_value};
use crate::command::KeyAct;
use crate::effect::{Effect, Whole};
use crate::keyspace::Keyspace;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::{KeyStream, Value};

/// The id of an entry: milliseconds and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(pub u64, pub u64);

impl StreamId {
    /// The greatest id.
    pub const LAST: StreamId = StreamId(u64::MAX, u64::MAX);

    /// The smallest id after this one.
    pub fn next(self) -> StreamId {
        match self.1.checked_add(1) {
            Some(number) => StreamId(self.0, number),
            None => StreamId(self.0.saturating_add(1), 0),
        }
    }

    /// The previous id; the first has none.
    pub fn before(self) -> Option<StreamId> {
        match self.1.checked_sub(1) {
            Some(number) => Some(StreamId(self.0, number)),
            None => self.0.checked_sub(1).map(|millis| StreamId(millis, u64::MAX)),
        }
    }
}

impl std::fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.0, self.1)
    }
}

/// Commands on streams.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamCommand {
    /// `XADD`.
    Add { key: Bytes, id: NewId, fields: Vec<(Bytes, Bytes)>, trim: Option<Trim>, only_existing: bool },
    /// `XLEN`.
    Length { key: Bytes },
    /// `XRANGE` and `XREVRANGE`.
    Range { key: Bytes, from: StreamId, to: StreamId, count: usize, reverse: bool },
    /// `XDEL`.
    Delete { key: Bytes, ids: Vec<StreamId> },
    /// `XTRIM`.
    Trim { key: Bytes, trim: Trim },
    /// XREAD without BLOCK.
    Read { streams: Vec<(Bytes, StreamId)>, count: usize },
}

/// The id of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// `*`
    Fresh,
    /// `<millis>-*`
    FreshAt(u64),
    /// This id.
    Given(StreamId),
}

/// Which entries a stream keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// At most this many, the newest ones.
    MaxLength(usize),
    /// Those from this id on.
    MinId(StreamId),
}

impl StreamCommand {
    pub(crate) fn act(&self) -> KeyAct {
        match self {
            StreamCommand::Length { .. } | StreamCommand::Range { .. } | StreamCommand::Read { .. } => {
                KeyAct::Read
            }
            StreamCommand::Add { .. } | StreamCommand::Delete { .. } | StreamCommand::Trim { .. } => {
                KeyAct::Write
            }
        }
    }

    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            StreamCommand::Add { key, id, fields, trim, only_existing } => {
                add(space, key, *id, fields, *trim, *only_existing, now)
            }
            StreamCommand::Length { key } => {
                let count = space.stream(key, now)?.map_or(0, |stream| stream.entries.len());
                Ok(Decision::of(Reply::count(count)))
            }
            StreamCommand::Range { key, from, to, count, reverse } => {
                let entries = match space.stream(key, now)? {
                    Some(stream) if from <= to => {
                        let found = stream.entries.range(from..=to);
                        match reverse {
                            true => entries(found.rev().take(*count))?,
                            false => entries(found.take(*count))?,
                        }
                    }
                    Some(_) | None => Vec::new(),
                };
                Ok(Decision::of(Reply::Array(entries)))
            }
            StreamCommand::Delete { key, ids } => {
                let stream = space.stream(key, now)?;
                let mut there: Vec<StreamId> = ids
                    .iter()
                    .filter(|id| stream.is_some_and(|stream| stream.entries.contains_key(*id)))
                    .copied()
                    .collect();
                there.sort_unstable();
                there.dedup();
                Ok(removing(key, there))
            }
            StreamCommand::Trim { key, trim } => {
                let ids = space.stream(key, now)?.map(|stream| too_old(stream, *trim, 0));
                Ok(removing(key, ids.unwrap_or_default()))
            }
            StreamCommand::Read { streams, count } => Ok(Decision::of(read(space, streams, *count, now)?)),
        }
    }
}

impl Keyspace {
    pub(crate) fn stream(&self, key: &Bytes, now: Timestamp) -> Result<Option<&KeyStream>, KeyspaceRefusal> {
        self.typed(key, now, |value| match value {
            Value::Stream(stream) => Some(&**stream),
            _ => None,
        })
    }

    /// The last id of a stream, for clients that read from now on.
    pub fn last_id(&self, key: &Bytes, now: Timestamp) -> StreamId {
        self.stream(key, now).ok().flatten().map_or(StreamId::default(), |stream| stream.last)
    }
}

/// The entries after these ids, if any.
pub(crate) fn read(
    space: &Keyspace,
    streams: &[(Bytes, StreamId)],
    count: usize,
    now: Timestamp,
) -> Result<Reply, KeyspaceRefusal> {
    let mut found = Vec::new();
    for (key, after) in streams {
        if let Some(stream) = space.stream(key, now)? {
            let entries = entries(stream.entries.range(after.next()..).take(count))?;
            if !entries.is_empty() {
                found.push((key.clone(), entries));
            }
        }
    }
    Ok(if found.is_empty() { Reply::NullArray } else { Reply::Streams(found) })
}

fn add(
    space: &Keyspace,
    key: &Bytes,
    id: NewId,
    fields: &[(Bytes, Bytes)],
    trim: Option<Trim>,
    only_existing: bool,
    now: Timestamp,
) -> Decided {
    check_key(key)?;
    for (field, value) in fields {
        check_value(field)?;
        check_value(value)?;
    }
    let stream = space.stream(key, now)?;
    if stream.is_none() && only_existing {
        return Ok(Decision::of(Reply::Null));
    }
    let last = stream.map_or(StreamId::default(), |stream| stream.last);
    let id = match id {
        NewId::Fresh if now.0 > last.0 => StreamId(now.0, 0),
        NewId::Fresh => last.next(),
        NewId::FreshAt(millis) if millis > last.0 => StreamId(millis, 0),
        NewId::FreshAt(millis) if millis == last.0 => last.next(),
        NewId::Given(id) if id > last => id,
        NewId::FreshAt(_) | NewId::Given(_) => return Err(KeyspaceRefusal::StreamIdTooSmall),
    };
    let reply = Reply::Bulk(Bytes::from(id.to_string()));
    let Some(stream) = stream else {
        let whole = Whole::Stream { last: id, entries: vec![(id, fields.to_vec())] };
        return Ok(Decision::with(reply, Effect::put(key, whole)));
    };
    let mut effects = vec![Effect::StreamAdd { key: key.clone(), id, fields: fields.to_vec() }];
    let old = trim.map(|trim| too_old(stream, trim, 1)).unwrap_or_default();
    if !old.is_empty() {
        effects.push(Effect::StreamRemove { key: key.clone(), ids: old });
    }
    Ok(Decision { reply, effects })
}

/// The entries that a trim removes after `added` more are added.
fn too_old(stream: &KeyStream, trim: Trim, added: usize) -> Vec<StreamId> {
    match trim {
        Trim::MaxLength(length) => {
            let over = (stream.entries.len() + added).saturating_sub(length);
            stream.entries.keys().take(over).copied().collect()
        }
        Trim::MinId(id) => stream.entries.range(..id).map(|(id, _)| *id).collect(),
    }
}

fn removing(key: &Bytes, ids: Vec<StreamId>) -> Decision {
    let reply = Reply::count(ids.len());
    match ids.is_empty() {
        true => Decision::of(reply),
        false => Decision::with(reply, Effect::StreamRemove { key: key.clone(), ids }),
    }
}

fn entries<'a>(
    found: impl Iterator<Item = (&'a StreamId, &'a Vec<(Bytes, Bytes)>)>,
) -> Result<Vec<Reply>, KeyspaceRefusal> {
    let (mut size, mut entries) = (ReplySize::default(), Vec::new());
    for (id, fields) in found {
        for (field, value) in fields {
            size.add(field)?;
            size.add(value)?;
        }
        let flat = fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
        entries.push(Reply::Array(vec![Reply::Bulk(Bytes::from(id.to_string())), Reply::bulks(flat)]));
    }
    Ok(entries)
}
