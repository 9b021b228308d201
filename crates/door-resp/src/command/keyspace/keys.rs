//! Commands on keys of any type.

use bytes::Bytes;
use tenure_hub::keyspace::{
    Command as KeyCommand, ExpireCondition, KeyCommand as OnKey, KeyScan, Page, literal_prefix,
};

use super::super::views::{self, SCAN_COUNT_MAX};
use super::super::{Arguments, Command, CommandError, ViewCommand};
use super::{KeyListing, KeyspaceCommand, deletable_key, is_stored, key, keys, next_is_stored, run};

type Parsed = Result<Command, CommandError>;

/// The prefixes of views.
const VIEWS: [&str; 7] = ["queue:", "events", "worker:", "capability:", "job:", "plan:", "action:"];
/// Those prefixes under which keys may also be stored.
const HAS_STORED: [&str; 3] = ["worker:", "job:", "plan:"];
/// Marks a cursor that is still among the stored keys, which come first.
pub(crate) const STORED_CURSOR: u64 = 1 << 50;

pub(in super::super) fn del(arguments: &mut Arguments<'_>) -> Parsed {
    let mut keys = Vec::new();
    while arguments.left() > 0 {
        // A view cannot be deleted, so it is not counted.
        match deletable_key(arguments) {
            Err(CommandError::IsView(_)) => {}
            other => keys.push(other?),
        }
    }
    match keys.is_empty() {
        true => Err(CommandError::Instead("jobs are cancelled with JOB.CANCEL and forgotten in time")),
        false => on_key(OnKey::Delete { keys }),
    }
}

pub(in super::super) fn exists(arguments: &mut Arguments<'_>) -> Parsed {
    if !arguments.all(is_stored) {
        return views::exists(arguments);
    }
    on_key(OnKey::Exists { keys: keys(arguments)? })
}

pub(in super::super) fn key_type(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::key_type(arguments);
    }
    on_key(OnKey::Type { key: key(arguments)? })
}

pub(in super::super) fn expire(arguments: &mut Arguments<'_>) -> Parsed {
    expire_after(arguments, 1000)
}

pub(in super::super) fn pexpire(arguments: &mut Arguments<'_>) -> Parsed {
    expire_after(arguments, 1)
}

pub(in super::super) fn expireat(arguments: &mut Arguments<'_>) -> Parsed {
    expire_at(arguments, 1000)
}

pub(in super::super) fn pexpireat(arguments: &mut Arguments<'_>) -> Parsed {
    expire_at(arguments, 1)
}

pub(in super::super) fn persist(arguments: &mut Arguments<'_>) -> Parsed {
    on_key(OnKey::Persist { key: deletable_key(arguments)? })
}

pub(in super::super) fn ttl(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::ttl(arguments);
    }
    on_key(OnKey::TimeToLive { key: key(arguments)?, millis_per_unit: 1000 })
}

pub(in super::super) fn pttl(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::pttl(arguments);
    }
    on_key(OnKey::TimeToLive { key: key(arguments)?, millis_per_unit: 1 })
}

pub(in super::super) fn expiretime(arguments: &mut Arguments<'_>) -> Parsed {
    on_key(OnKey::ExpireTime { key: key(arguments)?, millis_per_unit: 1000 })
}

pub(in super::super) fn pexpiretime(arguments: &mut Arguments<'_>) -> Parsed {
    on_key(OnKey::ExpireTime { key: key(arguments)?, millis_per_unit: 1 })
}

pub(in super::super) fn rename(arguments: &mut Arguments<'_>) -> Parsed {
    on_key(OnKey::Rename { from: key(arguments)?, to: key(arguments)? })
}

pub(in super::super) fn renamenx(arguments: &mut Arguments<'_>) -> Parsed {
    on_key(OnKey::RenameNew { from: key(arguments)?, to: key(arguments)? })
}

pub(in super::super) fn dbsize(_: &mut Arguments<'_>) -> Parsed {
    on_key(OnKey::Count)
}

pub(in super::super) fn keys_matching(arguments: &mut Arguments<'_>) -> Parsed {
    let command = views::keys_matching(arguments)?;
    let Command::View(ViewCommand::Keys { pattern }) = &command else { return Ok(command) };
    let (pattern, whose) = (pattern.clone(), KeyKind::of(pattern));
    Ok(listing(KeyListing::Keys(pattern), whose, command))
}

pub(in super::super) fn scan(arguments: &mut Arguments<'_>) -> Parsed {
    let command = views::scan(arguments)?;
    let Command::View(ViewCommand::Scan(scan)) = &command else { return Ok(command) };
    let whose = KeyKind::of(scan.pattern.as_deref().unwrap_or(b"*"));
    let is_stored = scan.cursor & STORED_CURSOR != 0;
    if scan.cursor != 0 && !is_stored {
        return Ok(command);
    }
    let stored = KeyScan {
        page: Page {
            cursor: scan.cursor & !STORED_CURSOR,
            pattern: scan.pattern.clone(),
            count: scan.count.min(SCAN_COUNT_MAX),
        },
        kind: scan.kind.clone(),
    };
    let from_the_start = super::super::ScanOptions { cursor: 0, ..scan.clone() };
    let then = Command::View(ViewCommand::Scan(from_the_start));
    Ok(listing(KeyListing::Scan(stored), whose, then))
}

pub(in super::super) fn watch(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return Err(CommandError::Instead("views cannot be watched: use XREAD or SUBSCRIBE to follow jobs"));
    }
    Ok(Command::Keyspace(KeyspaceCommand::Watch(keys(arguments)?)))
}

pub(in super::super) fn unwatch(_: &mut Arguments<'_>) -> Parsed {
    Ok(Command::Keyspace(KeyspaceCommand::Unwatch))
}

/// Which keys a pattern can match.
enum KeyKind {
    Views,
    Stored,
    Both,
}

impl KeyKind {
    fn of(pattern: &[u8]) -> KeyKind {
        let prefix = literal_prefix(pattern);
        if VIEWS.iter().any(|view| prefix.starts_with(view.as_bytes())) {
            // Workers store keys of their own beside their views, and clients store metadata of jobs and plans.
            let is_both = HAS_STORED.iter().any(|view| prefix.starts_with(view.as_bytes()));
            return if is_both { KeyKind::Both } else { KeyKind::Views };
        }
        match VIEWS.iter().any(|view| view.as_bytes().starts_with(prefix)) {
            true => KeyKind::Both,
            false => KeyKind::Stored,
        }
    }
}

fn listing(listing: KeyListing, whose: KeyKind, views: Command) -> Command {
    let then = match (whose, views) {
        (KeyKind::Stored, _) => None,
        (KeyKind::Both, Command::View(view)) => Some(view),
        (KeyKind::Views | KeyKind::Both, views) => return views,
    };
    Command::Keyspace(KeyspaceCommand::List { listing, then })
}

fn on_key(command: OnKey) -> Parsed {
    Ok(run(KeyCommand::Key(command)))
}

fn expire_after(arguments: &mut Arguments<'_>, millis_per_unit: i64) -> Parsed {
    let (key, millis, condition) = expiry(arguments, millis_per_unit)?;
    on_key(OnKey::ExpireAfter { key, millis, condition, command: arguments.name() })
}

fn expire_at(arguments: &mut Arguments<'_>, millis_per_unit: i64) -> Parsed {
    let (key, at, condition) = expiry(arguments, millis_per_unit)?;
    on_key(OnKey::Expire { key, at, condition, command: arguments.name() })
}

fn expiry(
    arguments: &mut Arguments<'_>,
    millis_per_unit: i64,
) -> Result<(Bytes, i64, ExpireCondition), CommandError> {
    let key = deletable_key(arguments)?;
    let millis = arguments.integer()?.saturating_mul(millis_per_unit);
    let mut condition = ExpireCondition::Always;
    for (word, wanted) in [
        ("NX", ExpireCondition::IfNone),
        ("XX", ExpireCondition::IfAny),
        ("GT", ExpireCondition::IfLater),
        ("LT", ExpireCondition::IfEarlier),
    ] {
        if arguments.keyword(word) {
            condition = wanted;
        }
    }
    arguments.end()?;
    Ok((key, millis, condition))
}
