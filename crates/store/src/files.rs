//! File names. Numbers have twenty digits, so that a sorted list is in order.

pub(crate) const LOCK: &str = "lock";
pub(crate) const HIGH_WATER: &str = "high-water";
pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const UNFINISHED: &str = ".tmp";
const HOOK_PREFIX: &str = "hook-";
const HOOK_NAME_BYTES_MAX: usize = 64;

/// The kind of file that a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A segment of the journal, by the position of its first byte.
    Journal(u64),
    /// A snapshot, by the position at which the journal continues.
    Snapshot(u64),
    /// An event file, by the number of its first event.
    Events(u64),
    /// A file of the topic log, by the position of its first byte.
    Topics(u64),
    /// A file of the key log, by the position of its first byte.
    Keys(u64),
    /// A file of the task log, by a running number.
    TaskLog(u64),
    /// A spare segment, by a running number.
    Spare(u64),
    /// How far a hook has come.
    Hook,
    /// A temporary file of a process that ended before it was finished.
    Unfinished,
    /// The lock, the high-water mark, a manifest, or a foreign file.
    Other,
}

pub(crate) fn journal(start: u64) -> String {
    format!("journal-{start:020}")
}

pub(crate) fn snapshot(start: u64) -> String {
    format!("snapshot-{start:020}")
}

pub(crate) fn events(first: u64) -> String {
    format!("events-{first:020}")
}

pub(crate) fn spare(number: u64) -> String {
    format!("spare-{number:020}")
}

pub(crate) fn topics(start: u64) -> String {
    format!("topics-{start:020}")
}

pub(crate) fn keys(start: u64) -> String {
    format!("keys-{start:020}")
}

pub(crate) fn task_log(number: u64) -> String {
    format!("printed-{number:020}")
}

/// The file of a hook with this name, if it can be the name of a file.
pub(crate) fn hook(name: &str) -> Option<String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let fits = !name.is_empty() && name.len() <= HOOK_NAME_BYTES_MAX && name.bytes().all(is_plain);
    fits.then(|| format!("{HOOK_PREFIX}{name}"))
}

pub(crate) fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

pub(crate) fn named(name: &str) -> Named {
    if name.ends_with(UNFINISHED) {
        return Named::Unfinished;
    }
    if name.strip_prefix(HOOK_PREFIX).and_then(hook).is_some() {
        return Named::Hook;
    }
    let Some((kind, digits)) = name.split_once('-') else { return Named::Other };
    if digits.len() != 20 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Named::Other;
    }
    let Ok(number) = digits.parse() else { return Named::Other };
    match kind {
        "journal" => Named::Journal(number),
        "snapshot" => Named::Snapshot(number),
        "events" => Named::Events(number),
        "spare" => Named::Spare(number),
        "topics" => Named::Topics(number),
        "keys" => Named::Keys(number),
        "printed" => Named::TaskLog(number),
        _ => Named::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_recognised() {
        assert_eq!(named(&journal(u64::MAX)), Named::Journal(u64::MAX));
        assert_eq!(named(&snapshot(0)), Named::Snapshot(0));
        assert_eq!(named(&events(7)), Named::Events(7));
        assert_eq!(named(&topics(9)), Named::Topics(9));
        assert_eq!(named(&keys(9)), Named::Keys(9));
        assert_eq!(named(&task_log(4)), Named::TaskLog(4));
        assert_eq!(named(&spare(3)), Named::Spare(3));
        assert_eq!(named(&unfinished(&snapshot(1))), Named::Unfinished);
        assert_eq!(hook("ops").as_deref().map(named), Some(Named::Hook));
        assert_eq!((hook("../ops"), hook(""), named("hook-")), (None, None, Named::Other));
        assert_eq!(named("journal-7"), Named::Other);
        assert_eq!(named("99999999999999999999-journal"), Named::Other);
        assert_eq!(named("lock"), Named::Other);
    }
}
