//! Lists.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Decided, Decision, ReplySize, check_key, check_value, index_range};
use crate::command::KeyAct;
use crate::effect::{Effect, Whole};
use crate::keyspace::Keyspace;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::{ListEnd, Value};

/// Commands on lists.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListCommand {
    /// `LPUSH` and `RPUSH`.
    Push { key: Bytes, end: ListEnd, elements: Vec<Bytes> },
    /// LPUSHX: only to an existing list.
    PushToExisting { key: Bytes, end: ListEnd, elements: Vec<Bytes> },
    /// `LPOP` and `RPOP`.
    Pop { key: Bytes, end: ListEnd },
    /// LPOP with a count.
    PopMany { key: Bytes, end: ListEnd, count: usize },
    /// `LLEN`.
    Length { key: Bytes },
    /// `LRANGE`.
    Range { key: Bytes, start: i64, stop: i64 },
    /// `LINDEX`.
    Index { key: Bytes, index: i64 },
    /// LREM: up to this many from the left, from the right if negative, all if zero.
    Remove { key: Bytes, count: i64, element: Bytes },
    /// `LTRIM`.
    Trim { key: Bytes, start: i64, stop: i64 },
    /// `LSET`.
    Set { key: Bytes, index: i64, element: Bytes },
    /// `LINSERT`.
    Insert { key: Bytes, place: Insert, pivot: Bytes, element: Bytes },
    /// LPOS: without `count` the reply is a single position.
    Position { key: Bytes, element: Bytes, rank: i64, count: Option<usize>, max_compared: usize },
    /// `LMOVE` and `RPOPLPUSH`.
    Move { from: Bytes, to: Bytes, from_end: ListEnd, to_end: ListEnd },
}

/// On which side of the pivot `LINSERT` inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// Before the pivot.
    Before,
    /// After the pivot.
    After,
}

impl ListCommand {
    pub(crate) fn act(&self) -> KeyAct {
        KeyAct::read_if(matches!(
            self,
            Self::Length { .. } | Self::Range { .. } | Self::Index { .. } | Self::Position { .. }
        ))
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            ListCommand::Push { key, end, elements } => {
                let (length, effect) = pushed(space, key, *end, elements, now)?;
                Ok(Decision::with(Reply::count(length), effect))
            }
            ListCommand::PushToExisting { key, end, elements } => {
                if space.list(key, now)?.is_none() {
                    return Ok(Decision::of(Reply::Integer(0)));
                }
                let (length, effect) = pushed(space, key, *end, elements, now)?;
                Ok(Decision::with(Reply::count(length), effect))
            }
            ListCommand::Pop { key, end } => Ok(match popped(space, key, *end, 1, now)? {
                Some((mut elements, effect)) => Decision::with(Reply::bulk_or_null(elements.pop()), effect),
                None => Decision::of(Reply::Null),
            }),
            ListCommand::PopMany { key, end, count } => {
                if *count == 0 && space.list(key, now)?.is_some() {
                    return Ok(Decision::of(Reply::Array(Vec::new())));
                }
                Ok(match popped(space, key, *end, *count, now)? {
                    Some((elements, effect)) => Decision::with(Reply::bulks(elements), effect),
                    None => Decision::of(Reply::NullArray),
                })
            }
            ListCommand::Length { key } => {
                Ok(Decision::of(Reply::count(space.list(key, now)?.map_or(0, VecDeque::len))))
            }
            ListCommand::Range { key, start, stop } => {
                let Some(list) = space.list(key, now)? else {
                    return Ok(Decision::of(Reply::Array(Vec::new())));
                };
                let elements = list.range(index_range(*start, *stop, list.len()));
                Ok(Decision::of(Reply::bulks(ReplySize::collect(elements)?)))
            }
            ListCommand::Index { key, index } => {
                let list = space.list(key, now)?;
                let found = list.and_then(|list| list.get(place(*index, list.len())?).cloned());
                Ok(Decision::of(Reply::bulk_or_null(found)))
            }
            ListCommand::Remove { key, count, element } => {
                let Some(list) = space.list(key, now)? else { return Ok(Decision::of(Reply::Integer(0))) };
                let indexes = occurrences(list, element, *count);
                let reply = Reply::count(indexes.len());
                if indexes.is_empty() {
                    return Ok(Decision::of(reply));
                }
                Ok(Decision::with(reply, Effect::ListRemove { key: key.clone(), indexes }))
            }
            ListCommand::Trim { key, start, stop } => {
                let Some(list) = space.list(key, now)? else { return Ok(Decision::of(Reply::Ok)) };
                let kept = index_range(*start, *stop, list.len());
                if kept.is_empty() {
                    return Ok(Decision::with(Reply::Ok, Effect::Delete { key: key.clone() }));
                }
                let cut = |end, count: usize| {
                    (count > 0).then(|| Effect::ListPop { key: key.clone(), end, count: count as u64 })
                };
                let effects = cut(ListEnd::Left, kept.start).into_iter();
                let effects = effects.chain(cut(ListEnd::Right, list.len() - kept.end)).collect();
                Ok(Decision { reply: Reply::Ok, effects })
            }
            ListCommand::Set { key, index, element } => {
                check_value(element)?;
                let list = space.list(key, now)?.ok_or(KeyspaceRefusal::NoSuchKey)?;
                let index = place(*index, list.len()).ok_or(KeyspaceRefusal::IndexOutOfRange)? as u64;
                let effect = Effect::ListSet { key: key.clone(), index, element: element.clone() };
                Ok(Decision::with(Reply::Ok, effect))
            }
            ListCommand::Insert { key, place, pivot, element } => {
                check_value(element)?;
                let Some(list) = space.list(key, now)? else { return Ok(Decision::of(Reply::Integer(0))) };
                let Some(at) = list.iter().position(|found| found == pivot) else {
                    return Ok(Decision::of(Reply::Integer(-1)));
                };
                let index = at as u64 + u64::from(*place == Insert::After);
                let effect = Effect::ListInsert { key: key.clone(), index, element: element.clone() };
                Ok(Decision::with(Reply::count(list.len() + 1), effect))
            }
            ListCommand::Position { key, element, rank, count, max_compared } => {
                let list = space.list(key, now)?;
                let places = list.map(|list| positions(list, element, *rank, *count, *max_compared));
                let places = places.unwrap_or_default();
                Ok(Decision::of(match count {
                    Some(_) => Reply::Array(places.into_iter().map(Reply::count).collect()),
                    None => places.first().map_or(Reply::Null, |place| Reply::count(*place)),
                }))
            }
            ListCommand::Move { from, to, from_end, to_end } => {
                moved(space, from, to, *from_end, *to_end, now)
            }
        }
    }
}

impl Keyspace {
    pub(crate) fn list(
        &self,
        key: &Bytes,
        now: Timestamp,
    ) -> Result<Option<&VecDeque<Bytes>>, KeyspaceRefusal> {
        self.typed(key, now, |value| match value {
            Value::List(list) => Some(list),
            _ => None,
        })
    }
}

/// The length after a push, and its effect.
pub(crate) fn pushed(
    space: &Keyspace,
    key: &Bytes,
    end: ListEnd,
    elements: &[Bytes],
    now: Timestamp,
) -> Result<(usize, Effect), KeyspaceRefusal> {
    check_key(key)?;
    elements.iter().try_for_each(check_value)?;
    Ok(match space.list(key, now)? {
        Some(list) => {
            let effect = Effect::ListPush { key: key.clone(), end, elements: elements.to_vec() };
            (list.len() + elements.len(), effect)
        }
        None => {
            let mut whole = elements.to_vec();
            if end == ListEnd::Left {
                whole.reverse();
            }
            (elements.len(), Effect::put(key, Whole::List(whole)))
        }
    })
}

/// The popped elements, and the effect.
pub(crate) fn popped(
    space: &Keyspace,
    key: &Bytes,
    end: ListEnd,
    count: usize,
    now: Timestamp,
) -> Result<Option<(Vec<Bytes>, Effect)>, KeyspaceRefusal> {
    let Some(list) = space.list(key, now)? else { return Ok(None) };
    let count = count.min(list.len());
    let elements = match end {
        ListEnd::Left => ReplySize::collect(list.iter().take(count))?,
        ListEnd::Right => ReplySize::collect(list.iter().rev().take(count))?,
    };
    Ok(Some((elements, Effect::ListPop { key: key.clone(), end, count: count as u64 })))
}

/// Moves an element from one list to another, or to the other end of its own.
pub(crate) fn moved(
    space: &Keyspace,
    from: &Bytes,
    to: &Bytes,
    from_end: ListEnd,
    to_end: ListEnd,
    now: Timestamp,
) -> Decided {
    let Some((mut elements, pop)) = popped(space, from, from_end, 1, now)? else {
        return Ok(Decision::of(Reply::Null));
    };
    let element = elements.pop().unwrap_or_default();
    let reply = Reply::Bulk(element.clone());
    if from == to && space.list(from, now)?.is_some_and(|list| list.len() == 1) {
        // Removing the only element would delete the key in between.
        return Ok(Decision::of(reply));
    }
    let (_, push) = pushed(space, to, to_end, &[element], now)?;
    Ok(Decision { reply, effects: vec![pop, push] })
}

fn place(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

fn occurrences(list: &VecDeque<Bytes>, element: &Bytes, count: i64) -> Vec<u64> {
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let is_it = |(_, found): &(usize, &Bytes)| *found == element;
    let mut indexes: Vec<u64> = if count < 0 {
        list.iter().enumerate().rev().filter(is_it).take(most).map(|(index, _)| index as u64).collect()
    } else {
        list.iter().enumerate().filter(is_it).take(most).map(|(index, _)| index as u64).collect()
    };
    indexes.sort_unstable();
    indexes
}

fn positions(
    list: &VecDeque<Bytes>,
    element: &Bytes,
    rank: i64,
    count: Option<usize>,
    max_compared: usize,
) -> Vec<usize> {
    let most = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let compared = if max_compared == 0 { usize::MAX } else { max_compared };
    let skipped = rank.unsigned_abs().saturating_sub(1) as usize;
    let is_it = |(_, found): &(usize, &Bytes)| *found == element;
    let places = list.iter().enumerate();
    if rank < 0 {
        places.rev().take(compared).filter(is_it).skip(skipped).take(most).map(|(place, _)| place).collect()
    } else {
        places.take(compared).filter(is_it).skip(skipped).take(most).map(|(place, _)| place).collect()
    }
}
