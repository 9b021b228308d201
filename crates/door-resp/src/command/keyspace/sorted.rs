//! Sorted sets on stored keys.

use tenure_hub::keyspace::{
    AddCondition, Bound, Command as KeyCommand, Limit, ListEnd, Only, RangeBy, ScoreCondition, SortedCommand,
};

use super::super::arguments::parse_text;
use super::super::{Arguments, Command, CommandError};
use super::hashes::scan_page;
use super::{ITEMS_MAX, float, key, run, value, values};

type Parsed = Result<Command, CommandError>;

pub(in super::super) fn zadd(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (mut condition, mut count_changed, mut increments) = (AddCondition::default(), false, false);
    loop {
        if arguments.keyword("NX") {
            condition.only = Some(Only::New);
        } else if arguments.keyword("XX") {
            condition.only = Some(Only::Existing);
        } else if arguments.keyword("GT") {
            condition.score_condition = ScoreCondition::Greater;
        } else if arguments.keyword("LT") {
            condition.score_condition = ScoreCondition::Less;
        } else if arguments.keyword("CH") {
            count_changed = true;
        } else if arguments.keyword("INCR") {
            increments = true;
        } else {
            break;
        }
    }
    let pairs = arguments.left() / 2;
    if pairs == 0 || arguments.left() % 2 == 1 || pairs > ITEMS_MAX {
        return Err(CommandError::Syntax);
    }
    let mut members = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        members.push((float(arguments)?, value(arguments)?));
    }
    if !increments {
        return sorted(SortedCommand::Add { key, members, condition, count_changed });
    }
    match <[_; 1]>::try_from(members) {
        Ok([(by, member)]) => sorted(SortedCommand::Increment { key, by, member, condition }),
        Err(_) => Err(CommandError::Syntax),
    }
}

pub(in super::super) fn zincrby(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, by) = (key(arguments)?, float(arguments)?);
    let condition = AddCondition::default();
    sorted(SortedCommand::Increment { key, by, member: value(arguments)?, condition })
}

pub(in super::super) fn zrem(arguments: &mut Arguments<'_>) -> Parsed {
    sorted(SortedCommand::Remove { key: key(arguments)?, members: values(arguments)? })
}

pub(in super::super) fn zscore(arguments: &mut Arguments<'_>) -> Parsed {
    sorted(SortedCommand::Score { key: key(arguments)?, member: value(arguments)? })
}

pub(in super::super) fn zmscore(arguments: &mut Arguments<'_>) -> Parsed {
    sorted(SortedCommand::Scores { key: key(arguments)?, members: values(arguments)? })
}

pub(in super::super) fn zcard(arguments: &mut Arguments<'_>) -> Parsed {
    sorted(SortedCommand::Count { key: key(arguments)? })
}

pub(in super::super) fn zcount(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, low) = (key(arguments)?, bound(arguments)?);
    sorted(SortedCommand::CountBetween { key, low, high: bound(arguments)? })
}

pub(in super::super) fn zrank(arguments: &mut Arguments<'_>) -> Parsed {
    sorted(SortedCommand::Rank { key: key(arguments)?, member: value(arguments)?, reverse: false })
}

pub(in super::super) fn zrevrank(arguments: &mut Arguments<'_>) -> Parsed {
    sorted(SortedCommand::Rank { key: key(arguments)?, member: value(arguments)?, reverse: true })
}

/// ZRANGE key start stop [BYSCORE] [REV] [LIMIT offset count] [WITHSCORES]
pub(in super::super) fn zrange(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (first, second) = (arguments.required()?, arguments.required()?);
    let options = Options::take(arguments)?;
    let by = match options.by_score {
        true => {
            let (low, high) = if options.reverse { (second, first) } else { (first, second) };
            RangeBy::Score { low: parse_bound(low)?, high: parse_bound(high)?, limit: options.limit }
        }
        false if options.limit.is_some() => return Err(CommandError::Syntax),
        false => by_index(first, second)?,
    };
    sorted(SortedCommand::Range { key, by, reverse: options.reverse, with_scores: options.with_scores })
}

pub(in super::super) fn zrevrange(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let by = by_index(arguments.required()?, arguments.required()?)?;
    let with_scores = arguments.keyword("WITHSCORES");
    arguments.end()?;
    sorted(SortedCommand::Range { key, by, reverse: true, with_scores })
}

pub(in super::super) fn zrangebyscore(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (low, high) = (bound(arguments)?, bound(arguments)?);
    let Options { limit, with_scores, .. } = Options::take(arguments)?;
    let by = RangeBy::Score { low, high, limit };
    sorted(SortedCommand::Range { key, by, reverse: false, with_scores })
}

pub(in super::super) fn zrevrangebyscore(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (high, low) = (bound(arguments)?, bound(arguments)?);
    let Options { limit, with_scores, .. } = Options::take(arguments)?;
    let by = RangeBy::Score { low, high, limit };
    sorted(SortedCommand::Range { key, by, reverse: true, with_scores })
}

pub(in super::super) fn zremrangebyscore(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (low, high) = (bound(arguments)?, bound(arguments)?);
    sorted(SortedCommand::RemoveRange { key, by: RangeBy::Score { low, high, limit: None } })
}

pub(in super::super) fn zremrangebyrank(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let by = by_index(arguments.required()?, arguments.required()?)?;
    sorted(SortedCommand::RemoveRange { key, by })
}

pub(in super::super) fn zpopmin(arguments: &mut Arguments<'_>) -> Parsed {
    pop(arguments, ListEnd::Left)
}

pub(in super::super) fn zpopmax(arguments: &mut Arguments<'_>) -> Parsed {
    pop(arguments, ListEnd::Right)
}

pub(in super::super) fn zscan(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    sorted(SortedCommand::Scan { key, page: scan_page(arguments)? })
}

#[derive(Default)]
struct Options {
    by_score: bool,
    reverse: bool,
    limit: Option<Limit>,
    with_scores: bool,
}

impl Options {
    fn take(arguments: &mut Arguments<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        while arguments.left() > 0 {
            if arguments.keyword("BYSCORE") {
                options.by_score = true;
            } else if arguments.keyword("REV") {
                options.reverse = true;
            } else if arguments.keyword("WITHSCORES") {
                options.with_scores = true;
            } else if arguments.keyword("LIMIT") && arguments.left() >= 2 {
                options.limit = Some(Limit { offset: arguments.size()?, count: arguments.integer()? });
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

fn sorted(command: SortedCommand) -> Parsed {
    Ok(run(KeyCommand::Sorted(command)))
}

fn pop(arguments: &mut Arguments<'_>, end: ListEnd) -> Parsed {
    let key = key(arguments)?;
    let count = if arguments.left() > 0 { arguments.size()? } else { 1 };
    arguments.end()?;
    sorted(SortedCommand::Pop { key, end, count })
}

fn by_index(start: &[u8], stop: &[u8]) -> Result<RangeBy, CommandError> {
    let index = |text| parse_text::<i64>(text).ok_or(CommandError::NotAnInteger);
    Ok(RangeBy::Index { start: index(start)?, stop: index(stop)? })
}

fn bound(arguments: &mut Arguments<'_>) -> Result<Bound, CommandError> {
    parse_bound(arguments.required()?)
}

/// A number, `-inf`, `+inf`, or any of them with a parenthesis in front that leaves it out.
fn parse_bound(text: &[u8]) -> Result<Bound, CommandError> {
    let (number, is_excluded) = match text.strip_prefix(b"(") {
        Some(number) => (number, true),
        None => (text, false),
    };
    let number =
        parse_text::<f64>(number).filter(|number| !number.is_nan()).ok_or(CommandError::NotARange)?;
    Ok(if is_excluded { Bound::Excluding(number) } else { Bound::Including(number) })
}
