//! Sets.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::scanning::{Page, scanned};
use super::{Decided, Decision, ReplySize, check_key, check_value};
use crate::command::KeyAct;
use crate::effect::{Effect, Whole};
use crate::hashed::Hashed;
use crate::keyspace::Keyspace;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::Value;

/// Commands on sets.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// `SADD`.
    Add { key: Bytes, members: Vec<Bytes> },
    /// `SREM`.
    Remove { key: Bytes, members: Vec<Bytes> },
    /// `SMEMBERS`.
    Members { key: Bytes },
    /// `SISMEMBER`.
    IsMember { key: Bytes, member: Bytes },
    /// `SMISMEMBER`.
    AreMembers { key: Bytes, members: Vec<Bytes> },
    /// `SCARD`.
    Count { key: Bytes },
    /// SPOP of one member.
    Pop { key: Bytes },
    /// `SPOP` with a count.
    PopMany { key: Bytes, count: usize },
    /// SRANDMEMBER of one member.
    Random { key: Bytes },
    /// SRANDMEMBER with a count: this many different members, or this many draws if negative.
    RandomMany { key: Bytes, count: i64 },
    /// `SMOVE`.
    Move { from: Bytes, to: Bytes, member: Bytes },
    /// `SSCAN`.
    Scan { key: Bytes, page: Page },
    /// `SUNION`, `SINTER` and `SDIFF`.
    Combine { how: Combine, keys: Vec<Bytes> },
    /// SUNIONSTORE, SINTERSTORE and SDIFFSTORE.
    CombineInto { to: Bytes, how: Combine, keys: Vec<Bytes> },
}

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Members of any set.
    Union,
    /// Members of all sets.
    Intersection,
    /// Members of the first set that are in none of the others.
    Difference,
}

impl SetCommand {
    pub(crate) fn act(&self) -> KeyAct {
        KeyAct::read_if(matches!(
            self,
            Self::Members { .. }
                | Self::IsMember { .. }
                | Self::AreMembers { .. }
                | Self::Count { .. }
                | Self::Random { .. }
                | Self::RandomMany { .. }
                | Self::Scan { .. }
                | Self::Combine { .. }
        ))
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn decide(&self, space: &mut Keyspace, now: Timestamp) -> Decided {
        match self {
            SetCommand::Add { key, members } => {
                check_key(key)?;
                members.iter().try_for_each(check_value)?;
                let set = space.set(key, now)?;
                let fresh: BTreeSet<&Bytes> = members
                    .iter()
                    .filter(|member| !set.is_some_and(|set| set.contains(&Hashed::new(member))))
                    .collect();
                let reply = Reply::count(fresh.len());
                let added: Vec<Bytes> = fresh.into_iter().cloned().collect();
                Ok(match set {
                    Some(_) if added.is_empty() => Decision::of(reply),
                    Some(_) => Decision::with(reply, Effect::SetAdd { key: key.clone(), members: added }),
                    None => Decision::with(reply, Effect::put(key, Whole::Set(added))),
                })
            }
            SetCommand::Remove { key, members } => {
                let set = space.set(key, now)?;
                let there: BTreeSet<&Bytes> = members
                    .iter()
                    .filter(|member| set.is_some_and(|set| set.contains(&Hashed::new(member))))
                    .collect();
                let reply = Reply::count(there.len());
                Ok(removing(key, there.into_iter().cloned().collect(), reply))
            }
            SetCommand::Members { key } => {
                let members = space.set(key, now)?.into_iter().flatten().map(|member| &member.bytes);
                Ok(Decision::of(Reply::Set(ReplySize::collect(members)?)))
            }
            SetCommand::IsMember { key, member } => {
                let found = space.set(key, now)?.is_some_and(|set| set.contains(&Hashed::new(member)));
                Ok(Decision::of(found.into()))
            }
            SetCommand::AreMembers { key, members } => {
                let set = space.set(key, now)?;
                let is_in = |member| set.is_some_and(|set| set.contains(&Hashed::new(member)));
                Ok(Decision::of(Reply::Array(members.iter().map(|member| is_in(member).into()).collect())))
            }
            SetCommand::Count { key } => {
                Ok(Decision::of(Reply::count(space.set(key, now)?.map_or(0, BTreeSet::len))))
            }
            SetCommand::Pop { key } => {
                let drawn = draw(space, key, 1, now)?;
                let reply = Reply::bulk_or_null(drawn.first().cloned());
                Ok(removing(key, drawn, reply))
            }
            SetCommand::PopMany { key, count } => {
                let drawn = draw(space, key, *count, now)?;
                Ok(removing(key, drawn.clone(), Reply::Set(drawn)))
            }
            SetCommand::Random { key } => {
                Ok(Decision::of(Reply::bulk_or_null(draw(space, key, 1, now)?.pop())))
            }
            SetCommand::RandomMany { key, count } => {
                let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
                let mut drawn = draw(space, key, most, now)?;
                if *count < 0 && !drawn.is_empty() {
                    let length = drawn.len();
                    drawn = ReplySize::collect((0..most).map(|index| &drawn[index % length]))?;
                }
                Ok(Decision::of(Reply::bulks(drawn)))
            }
            SetCommand::Move { from, to, member } => {
                check_key(to)?;
                let hashed = Hashed::new(member);
                let goes = space.set(from, now)?.is_some_and(|set| set.contains(&hashed));
                let target = space.set(to, now)?;
                if !goes || from == to {
                    return Ok(Decision::of(goes.into()));
                }
                let add = match target {
                    Some(_) => Effect::SetAdd { key: to.clone(), members: vec![member.clone()] },
                    None => Effect::put(to, Whole::Set(vec![member.clone()])),
                };
                let remove = Effect::SetRemove { key: from.clone(), members: vec![member.clone()] };
                Ok(Decision { reply: Reply::Integer(1), effects: vec![remove, add] })
            }
            SetCommand::Scan { key, page } => scan(space, key, page, now),
            SetCommand::Combine { how, keys } => {
                let found = combine(space, *how, keys, now)?;
                let members = ReplySize::collect(found.iter().map(|member| &member.bytes))?;
                Ok(Decision::of(Reply::Set(members)))
            }
            SetCommand::CombineInto { to, how, keys } => {
                check_key(to)?;
                let found = combine(space, *how, keys, now)?;
                let reply = Reply::count(found.len());
                if found.is_empty() {
                    let effects = space.get(to, now).map(|_| Effect::Delete { key: to.clone() });
                    return Ok(Decision { reply, effects: effects.into_iter().collect() });
                }
                let members = found.into_iter().map(|member| member.bytes).collect();
                Ok(Decision::with(reply, Effect::put(to, Whole::Set(members))))
            }
        }
    }
}

impl Keyspace {
    pub(crate) fn set(
        &self,
        key: &Bytes,
        now: Timestamp,
    ) -> Result<Option<&BTreeSet<Hashed>>, KeyspaceRefusal> {
        self.typed(key, now, |value| match value {
            Value::Set(set) => Some(set),
            _ => None,
        })
    }
}

fn removing(key: &Bytes, members: Vec<Bytes>, reply: Reply) -> Decision {
    match members.is_empty() {
        true => Decision::of(reply),
        false => Decision::with(reply, Effect::SetRemove { key: key.clone(), members }),
    }
}

/// Draws members from a position in hash order that moves with every draw. The effect names them, so
/// replaying the log needs no randomness.
fn draw(
    space: &mut Keyspace,
    key: &Bytes,
    count: usize,
    now: Timestamp,
) -> Result<Vec<Bytes>, KeyspaceRefusal> {
    space.draws = space.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let from = Hashed::from_cursor(space.draws >> (64 - crate::hashed::CURSOR_BITS));
    let Some(set) = space.set(key, now)? else { return Ok(Vec::new()) };
    let around = set.range(&from..).chain(set.range(..&from));
    ReplySize::collect(around.take(count).map(|member| &member.bytes))
}

fn scan(space: &Keyspace, key: &Bytes, page: &Page, now: Timestamp) -> Decided {
    let Some(set) = space.set(key, now)? else { return Ok(Decision::of(scanned(0, Vec::new()))) };
    let (mut found, mut size) = (Vec::new(), ReplySize::default());
    let members = set.range(Hashed::from_cursor(page.cursor)..);
    let next = page.walk(members.map(|member| (member.hash, &member.bytes)), |member| {
        if page.wants(member) {
            size.add(member)?;
            found.push(member.clone());
        }
        Ok(())
    })?;
    Ok(Decision::of(scanned(next, found)))
}

fn combine(
    space: &Keyspace,
    how: Combine,
    keys: &[Bytes],
    now: Timestamp,
) -> Result<BTreeSet<Hashed>, KeyspaceRefusal> {
    let mut result: Option<BTreeSet<Hashed>> = None;
    for key in keys {
        let next = space.set(key, now)?.cloned().unwrap_or_default();
        result = Some(match (result, how) {
            (None, _) => next,
            (Some(mut sum), Combine::Union) => {
                sum.extend(next);
                sum
            }
            (Some(sum), Combine::Intersection) => sum.intersection(&next).cloned().collect(),
            (Some(sum), Combine::Difference) => sum.difference(&next).cloned().collect(),
        });
    }
    Ok(result.unwrap_or_default())
}
