//! Topic names: levels separated by dots. Names are validated once and hashed the same way everywhere.

use crate::refusal::TopicRefusal;

/// The longest topic name or filter, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// The most levels in a topic name or filter. It also bounds the walk through the wildcard index.
pub const NAME_LEVELS_MAX: usize = 32;
/// The level separator. A slash is an ordinary character.
pub const LEVEL_SEPARATOR: char = '.';
/// Matches exactly one level in a filter.
pub const ONE_LEVEL: &str = "*";
/// Matches one or more levels at the end of a filter.
pub const REST: &str = ">";
/// Names with this prefix are reply topics of requests and never become topics.
pub const REPLY_PREFIX: &str = "_reply.";

/// Validates a name to publish to.
pub fn check_name(name: &str) -> Result<(), TopicRefusal> {
    check_shape(name)?;
    check_visible(name)?;
    if name.contains(['*', '>']) {
        return Err(TopicRefusal::WildcardInName);
    }
    if name.starts_with(REPLY_PREFIX) {
        return Err(TopicRefusal::NameReserved);
    }
    Ok(())
}

/// The shard, of `shards`, that holds the topic. Stable across restarts and versions.
pub fn shard_of(name: &str, shards: usize) -> usize {
    assert!(shards > 0, "there is at least one shard");
    let spread = stable_hash(name) >> 32;
    usize::try_from(spread).unwrap_or(0) % shards
}

/// The common rules of names and filters: length, levels and characters.
pub(crate) fn check_shape(name: &str) -> Result<(), TopicRefusal> {
    if name.is_empty() {
        return Err(TopicRefusal::NameEmpty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(TopicRefusal::NameTooLong { length: name.len(), limit: NAME_BYTES_MAX });
    }
    if name.chars().any(char::is_control) {
        return Err(TopicRefusal::ControlCharacter);
    }
    let mut levels = 0;
    for level in levels_of(name) {
        if level.is_empty() {
            return Err(TopicRefusal::LevelEmpty);
        }
        levels += 1;
    }
    if levels > NAME_LEVELS_MAX {
        return Err(TopicRefusal::TooManyLevels { levels, limit: NAME_LEVELS_MAX });
    }
    Ok(())
}

/// Refuses invisible characters, so that names that look alike are equal. Names saved before this rule are
/// exempt.
pub(crate) fn check_visible(name: &str) -> Result<(), TopicRefusal> {
    if name.chars().any(is_invisible) { Err(TopicRefusal::ControlCharacter) } else { Ok(()) }
}

/// Characters that are invisible or change how others are displayed. The same set as for all other names of
/// the broker: this crate has no dependency on the engine, so a test in the hub checks that both agree.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

pub(crate) fn levels_of(name: &str) -> std::str::Split<'_, char> {
    name.split(LEVEL_SEPARATOR)
}

/// FNV-1a with a final mix. Implemented here because saved floors depend on it: a library's hash may change
/// with its version, and then a number could decrease.
pub(crate) fn stable_hash(name: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_pass_and_a_slash_is_an_ordinary_character() {
        for name in ["a", "sensor.temp.kitchen", "sensor/temp", "task.0190-ab", "größe.höhe", "with space"]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn bad_names_are_refused_by_name() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let deep = vec!["a"; NAME_LEVELS_MAX + 1].join(".");
        let cases = [
            ("", TopicRefusal::NameEmpty),
            ("a..b", TopicRefusal::LevelEmpty),
            (".a", TopicRefusal::LevelEmpty),
            ("a.", TopicRefusal::LevelEmpty),
            ("a.\n", TopicRefusal::ControlCharacter),
            ("a.\u{202e}b", TopicRefusal::ControlCharacter),
            ("a.*", TopicRefusal::WildcardInName),
            ("a.>", TopicRefusal::WildcardInName),
            ("_reply.7", TopicRefusal::NameReserved),
            (&long, TopicRefusal::NameTooLong { length: NAME_BYTES_MAX + 1, limit: NAME_BYTES_MAX }),
            (&deep, TopicRefusal::TooManyLevels { levels: NAME_LEVELS_MAX + 1, limit: NAME_LEVELS_MAX }),
        ];
        for (name, refusal) in cases {
            assert_eq!(check_name(name), Err(refusal), "{name}");
        }
    }

    #[test]
    fn the_stable_hash_is_pinned_because_saved_floors_depend_on_it() {
        assert_eq!(stable_hash("sensor.temp"), 14_478_806_825_888_213_254);
    }

    #[test]
    fn topics_spread_over_shards() {
        let mut counts = [0; 4];
        for number in 0..4000 {
            counts[shard_of(&format!("task.{number}"), 4)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 800), "{counts:?}");
    }
}
