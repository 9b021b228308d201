//! Sorted sets.

use std::collections::BTreeMap;
use std::ops;

use bytes::Bytes;

use super::scanning::{Page, scanned};
use super::{Decided, Decision, ReplySize, check_key, check_value, float_text, index_range};
use crate::command::KeyAct;
use crate::effect::{Effect, Whole};
use crate::hashed::Hashed;
use crate::keyspace::Keyspace;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::{ListEnd, Score, SortedSet, Value};

/// Commands on sorted sets.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq)]
pub enum SortedCommand {
    /// `ZADD`.
    Add { key: Bytes, members: Vec<(f64, Bytes)>, condition: AddCondition, count_changed: bool },
    /// ZINCRBY, and ZADD with INCR.
    Increment { key: Bytes, by: f64, member: Bytes, condition: AddCondition },
    /// `ZREM`.
    Remove { key: Bytes, members: Vec<Bytes> },
    /// `ZSCORE`.
    Score { key: Bytes, member: Bytes },
    /// `ZMSCORE`.
    Scores { key: Bytes, members: Vec<Bytes> },
    /// `ZCARD`.
    Count { key: Bytes },
    /// `ZCOUNT`.
    CountBetween { key: Bytes, low: Bound, high: Bound },
    /// `ZRANK` and `ZREVRANK`.
    Rank { key: Bytes, member: Bytes, reverse: bool },
    /// `ZRANGE` and its older forms.
    Range { key: Bytes, by: RangeBy, reverse: bool, with_scores: bool },
    /// `ZREMRANGEBYRANK` and `ZREMRANGEBYSCORE`.
    RemoveRange { key: Bytes, by: RangeBy },
    /// ZPOPMIN and ZPOPMAX.
    Pop { key: Bytes, end: ListEnd, count: usize },
    /// `ZSCAN`.
    Scan { key: Bytes, page: Page },
}

/// ZADD's options. Without any, every member is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddCondition {
    /// Which members may be changed.
    pub only: Option<Only>,
    /// Which scores may replace others.
    pub score_condition: ScoreCondition,
}

/// Which members `ZADD` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// `NX`: only new members.
    New,
    /// `XX`: only existing members.
    Existing,
}

/// Which scores `ZADD` may replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScoreCondition {
    /// Any score.
    #[default]
    Any,
    /// `GT`: only lower ones.
    Greater,
    /// `LT`: only higher ones.
    Less,
}

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The score itself belongs to the range.
    Including(f64),
    /// The score itself does not belong to the range.
    Excluding(f64),
}

/// LIMIT: a negative count means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many members to skip.
    pub offset: usize,
    /// How many members to return; negative: all.
    pub count: i64,
}

/// The members of a range: by rank, or by scores between two bounds, the lower first.
#[allow(missing_docs, reason = "the fields are the ends of the range")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RangeBy {
    Index { start: i64, stop: i64 },
    Score { low: Bound, high: Bound, limit: Option<Limit> },
}

impl AddCondition {
    fn allows(self, before: Option<Score>, after: Score) -> bool {
        let only = match self.only {
            None => true,
            Some(Only::New) => before.is_none(),
            Some(Only::Existing) => before.is_some(),
        };
        only && before.is_none_or(|before| match self.score_condition {
            ScoreCondition::Any => true,
            ScoreCondition::Greater => after > before,
            ScoreCondition::Less => after < before,
        })
    }
}

impl SortedCommand {
    pub(crate) fn act(&self) -> KeyAct {
        KeyAct::read_if(matches!(
            self,
            Self::Score { .. }
                | Self::Scores { .. }
                | Self::Count { .. }
                | Self::CountBetween { .. }
                | Self::Rank { .. }
                | Self::Range { .. }
                | Self::Scan { .. }
        ))
    }

    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            SortedCommand::Add { key, members, condition, count_changed } => {
                add(space, key, members, *condition, *count_changed, now)
            }
            SortedCommand::Increment { key, by, member, condition } => {
                check_key(key)?;
                check_value(member)?;
                let sorted = space.sorted(key, now)?;
                let before = sorted.and_then(|sorted| sorted.score(member));
                let after = before.map_or(*by, |before| before.0 + by);
                if !after.is_finite() {
                    return Err(KeyspaceRefusal::ScoreNotFinite);
                }
                if !condition.allows(before, Score(after)) {
                    return Ok(Decision::of(Reply::Null));
                }
                let members = vec![(Score(after), member.clone())];
                Ok(Decision::with(Reply::Double(after), adding(key, members, sorted.is_some())))
            }
            SortedCommand::Remove { key, members } => {
                let sorted = space.sorted(key, now)?;
                let mut there: Vec<Bytes> = members
                    .iter()
                    .filter(|member| sorted.is_some_and(|sorted| sorted.score(member).is_some()))
                    .cloned()
                    .collect();
                there.sort_unstable();
                there.dedup();
                Ok(removing(key, there))
            }
            SortedCommand::Score { key, member } => Ok(Decision::of(score(space.sorted(key, now)?, member))),
            SortedCommand::Scores { key, members } => {
                let sorted = space.sorted(key, now)?;
                Ok(Decision::of(Reply::Array(members.iter().map(|member| score(sorted, member)).collect())))
            }
            SortedCommand::Count { key } => {
                let count = space.sorted(key, now)?.map_or(0, |sorted| sorted.scores.len());
                Ok(Decision::of(Reply::count(count)))
            }
            SortedCommand::CountBetween { key, low, high } => {
                let sorted = space.sorted(key, now)?;
                let count = sorted.map_or(0, |sorted| between(sorted, *low, *high).count());
                Ok(Decision::of(Reply::count(count)))
            }
            SortedCommand::Rank { key, member, reverse } => {
                let Some(sorted) = space.sorted(key, now)? else { return Ok(Decision::of(Reply::Null)) };
                let Some(score) = sorted.score(member) else { return Ok(Decision::of(Reply::Null)) };
                let before = sorted.order.range(..(score, member.clone())).count();
                let rank = if *reverse { sorted.order.len() - 1 - before } else { before };
                Ok(Decision::of(Reply::count(rank)))
            }
            SortedCommand::Range { key, by, reverse, with_scores } => {
                let found = space.sorted(key, now)?.map(|sorted| range(sorted, *by, *reverse));
                let found = found.transpose()?.unwrap_or_default();
                Ok(Decision::of(match with_scores {
                    true => {
                        Reply::Scored(found.into_iter().map(|(score, member)| (member, score.0)).collect())
                    }
                    false => Reply::bulks(found.into_iter().map(|(_, member)| member)),
                }))
            }
            SortedCommand::RemoveRange { key, by } => {
                let found = space.sorted(key, now)?.map(|sorted| range(sorted, *by, false));
                let found = found.transpose()?.unwrap_or_default();
                Ok(removing(key, found.into_iter().map(|(_, member)| member).collect()))
            }
            SortedCommand::Pop { key, end, count } => {
                let stop = i64::try_from(*count).unwrap_or(i64::MAX) - 1;
                let by = RangeBy::Index { start: 0, stop };
                let found = match space.sorted(key, now)? {
                    Some(sorted) if *count > 0 => range(sorted, by, *end == ListEnd::Right)?,
                    _ => Vec::new(),
                };
                let members = found.iter().map(|(_, member)| member.clone()).collect();
                let reply =
                    Reply::Scored(found.into_iter().map(|(score, member)| (member, score.0)).collect());
                Ok(Decision { reply, ..removing(key, members) })
            }
            SortedCommand::Scan { key, page } => scan(space, key, page, now),
        }
    }
}

impl Keyspace {
    pub(crate) fn sorted(&self, key: &Bytes, now: Timestamp) -> Result<Option<&SortedSet>, KeyspaceRefusal> {
        self.typed(key, now, |value| match value {
            Value::Sorted(sorted) => Some(&**sorted),
            _ => None,
        })
    }
}

fn scan(space: &Keyspace, key: &Bytes, page: &Page, now: Timestamp) -> Decided {
    let Some(sorted) = space.sorted(key, now)? else { return Ok(Decision::of(scanned(0, Vec::new()))) };
    let (mut found, mut size) = (Vec::new(), ReplySize::default());
    let members = sorted.scores.range(Hashed::from_cursor(page.cursor)..);
    let members = members.map(|(member, score)| (member.hash, (&member.bytes, score)));
    let next = page.walk(members, |(member, score)| {
        if page.wants(member) {
            size.add(member)?;
            found.extend([member.clone(), float_text(score.0)]);
        }
        Ok(())
    })?;
    Ok(Decision::of(scanned(next, found)))
}

fn score(sorted: Option<&SortedSet>, member: &Bytes) -> Reply {
    let score = sorted.and_then(|sorted| sorted.score(member));
    score.map_or(Reply::Null, |score| Reply::Double(score.0))
}

fn add(
    space: &Keyspace,
    key: &Bytes,
    members: &[(f64, Bytes)],
    condition: AddCondition,
    count_changed: bool,
    now: Timestamp,
) -> Decided {
    check_key(key)?;
    let sorted = space.sorted(key, now)?;
    let mut changes: BTreeMap<&Bytes, Score> = BTreeMap::new();
    let (mut added, mut changed) = (0, 0);
    for (score, member) in members {
        check_value(member)?;
        let score = Score(*score);
        let stored = || sorted.and_then(|sorted| sorted.score(member));
        let before = changes.get(member).copied().or_else(stored);
        if !condition.allows(before, score) || before == Some(score) {
            continue;
        }
        added += usize::from(before.is_none());
        changed += 1;
        changes.insert(member, score);
    }
    let reply = Reply::count(if count_changed { changed } else { added });
    if changes.is_empty() {
        return Ok(Decision::of(reply));
    }
    let members = changes.into_iter().map(|(member, score)| (score, member.clone())).collect();
    Ok(Decision::with(reply, adding(key, members, sorted.is_some())))
}

fn adding(key: &Bytes, members: Vec<(Score, Bytes)>, is_there: bool) -> Effect {
    match is_there {
        true => Effect::SortedAdd { key: key.clone(), members },
        false => Effect::put(key, Whole::Sorted(members)),
    }
}

fn removing(key: &Bytes, members: Vec<Bytes>) -> Decision {
    let reply = Reply::count(members.len());
    match members.is_empty() {
        true => Decision::of(reply),
        false => Decision::with(reply, Effect::SortedRemove { key: key.clone(), members }),
    }
}

/// Members with scores between two bounds.
fn between(sorted: &SortedSet, low: Bound, high: Bound) -> impl DoubleEndedIterator<Item = &(Score, Bytes)> {
    let above = move |score: Score| match low {
        Bound::Including(low) => score >= Score(low),
        Bound::Excluding(low) => score > Score(low),
    };
    let below = move |score: Score| match high {
        Bound::Including(high) => score <= Score(high),
        Bound::Excluding(high) => score < Score(high),
    };
    let (Bound::Including(from) | Bound::Excluding(from)) = low;
    let (Bound::Including(to) | Bound::Excluding(to)) = high;
    // The tree's bounds are coarse: empty bytes are the lowest member of a score, but there is no highest
    // one.
    let lower = ops::Bound::Included((Score(from), Bytes::new()));
    let upper = ops::Bound::Excluded((Score(next_up(to)), Bytes::new()));
    let bounds = if Score(from) > Score(to) { (lower.clone(), lower) } else { (lower, upper) };
    sorted.order.range(bounds).filter(move |(score, _)| above(*score) && below(*score))
}

/// The next larger number, or a NaN above infinity, which sorts after everything.
fn next_up(score: f64) -> f64 {
    if score == f64::INFINITY { f64::NAN } else { score.next_up() }
}

type Members = Vec<(Score, Bytes)>;

fn range(sorted: &SortedSet, by: RangeBy, reverse: bool) -> Result<Members, KeyspaceRefusal> {
    match by {
        RangeBy::Index { start, stop } => {
            let places = index_range(start, stop, sorted.order.len());
            let (skip, take) = (places.start, places.len());
            match reverse {
                true => collect(sorted.order.iter().rev().skip(skip).take(take)),
                false => collect(sorted.order.iter().skip(skip).take(take)),
            }
        }
        RangeBy::Score { low, high, limit } => {
            let limit = limit.unwrap_or(Limit { offset: 0, count: -1 });
            let count = usize::try_from(limit.count).unwrap_or(usize::MAX);
            let found = between(sorted, low, high);
            match reverse {
                true => collect(found.rev().skip(limit.offset).take(count)),
                false => collect(found.skip(limit.offset).take(count)),
            }
        }
    }
}

fn collect<'a>(members: impl Iterator<Item = &'a (Score, Bytes)>) -> Result<Members, KeyspaceRefusal> {
    let (mut size, mut found) = (ReplySize::default(), Vec::new());
    for (score, member) in members {
        size.add(member)?;
        found.push((*score, member.clone()));
    }
    Ok(found)
}
