//! Sets on stored keys.

use tenure_hub::keyspace::{Combine, Command as KeyCommand, SetCommand};

use super::super::{Arguments, Command, CommandError, views};
use super::hashes::scan_page;
use super::{key, keys, next_is_stored, run, value, values};

type Parsed = Result<Command, CommandError>;

pub(in super::super) fn sadd(arguments: &mut Arguments<'_>) -> Parsed {
    set(SetCommand::Add { key: key(arguments)?, members: values(arguments)? })
}

pub(in super::super) fn srem(arguments: &mut Arguments<'_>) -> Parsed {
    set(SetCommand::Remove { key: key(arguments)?, members: values(arguments)? })
}

pub(in super::super) fn smembers(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::smembers(arguments);
    }
    set(SetCommand::Members { key: key(arguments)? })
}

pub(in super::super) fn sismember(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::sismember(arguments);
    }
    set(SetCommand::IsMember { key: key(arguments)?, member: value(arguments)? })
}

pub(in super::super) fn smismember(arguments: &mut Arguments<'_>) -> Parsed {
    set(SetCommand::AreMembers { key: key(arguments)?, members: values(arguments)? })
}

pub(in super::super) fn scard(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::scard(arguments);
    }
    set(SetCommand::Count { key: key(arguments)? })
}

pub(in super::super) fn spop(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    if arguments.left() == 0 {
        return set(SetCommand::Pop { key });
    }
    let count = arguments.size()?;
    arguments.end()?;
    set(SetCommand::PopMany { key, count })
}

pub(in super::super) fn srandmember(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    if arguments.left() == 0 {
        return set(SetCommand::Random { key });
    }
    let count = arguments.integer()?;
    arguments.end()?;
    set(SetCommand::RandomMany { key, count })
}

pub(in super::super) fn smove(arguments: &mut Arguments<'_>) -> Parsed {
    set(SetCommand::Move { from: key(arguments)?, to: key(arguments)?, member: value(arguments)? })
}

pub(in super::super) fn sscan(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    set(SetCommand::Scan { key, page: scan_page(arguments)? })
}

pub(in super::super) fn sunion(arguments: &mut Arguments<'_>) -> Parsed {
    combine(arguments, Combine::Union)
}

pub(in super::super) fn sinter(arguments: &mut Arguments<'_>) -> Parsed {
    combine(arguments, Combine::Intersection)
}

pub(in super::super) fn sdiff(arguments: &mut Arguments<'_>) -> Parsed {
    combine(arguments, Combine::Difference)
}

pub(in super::super) fn sunionstore(arguments: &mut Arguments<'_>) -> Parsed {
    combine_into(arguments, Combine::Union)
}

pub(in super::super) fn sinterstore(arguments: &mut Arguments<'_>) -> Parsed {
    combine_into(arguments, Combine::Intersection)
}

pub(in super::super) fn sdiffstore(arguments: &mut Arguments<'_>) -> Parsed {
    combine_into(arguments, Combine::Difference)
}

fn set(command: SetCommand) -> Parsed {
    Ok(run(KeyCommand::Set(command)))
}

fn combine(arguments: &mut Arguments<'_>, how: Combine) -> Parsed {
    set(SetCommand::Combine { how, keys: keys(arguments)? })
}

fn combine_into(arguments: &mut Arguments<'_>, how: Combine) -> Parsed {
    set(SetCommand::CombineInto { to: key(arguments)?, how, keys: keys(arguments)? })
}
