//! A subscription's filter: an exact topic name, or a pattern with wildcards.

use std::fmt;
use std::sync::Arc;

use crate::name::{ONE_LEVEL, REPLY_PREFIX, REST, check_shape, check_visible, levels_of, shard_of};
use crate::refusal::TopicRefusal;

/// A topic name or a pattern: `*` matches one level, `>` at the end one or more.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter {
    text: Arc<str>,
    wild: bool,
}

impl TopicFilter {
    /// Parses and checks a name or a pattern.
    pub fn parse(text: &str) -> Result<TopicFilter, TopicRefusal> {
        check_visible(text)?;
        TopicFilter::parse_saved(text)
    }

    /// Parses a filter that was accepted before.
    pub(crate) fn parse_saved(text: &str) -> Result<TopicFilter, TopicRefusal> {
        check_shape(text)?;
        if text.starts_with(REPLY_PREFIX) {
            return Err(TopicRefusal::NameReserved);
        }
        let mut wild = false;
        let mut ended = false;
        for level in levels_of(text) {
            if ended {
                return Err(TopicRefusal::WildcardMisplaced);
            }
            match level {
                ONE_LEVEL => wild = true,
                REST => (wild, ended) = (true, true),
                other if other.contains(['*', '>']) => return Err(TopicRefusal::WildcardMisplaced),
                _ => {}
            }
        }
        Ok(TopicFilter { text: Arc::from(text), wild })
    }

    /// The filter as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is a pattern, not an exact name.
    pub fn is_wild(&self) -> bool {
        self.wild
    }

    /// Whether messages of this topic pass.
    pub fn matches(&self, name: &str) -> bool {
        if !self.wild {
            return *self.text == *name;
        }
        let mut names = levels_of(name);
        for level in levels_of(&self.text) {
            match (level, names.next()) {
                (_, None) => return false,
                (REST, Some(_)) => return true,
                (ONE_LEVEL, Some(_)) => {}
                (literal, Some(name)) if literal == name => {}
                _ => return false,
            }
        }
        names.next().is_none()
    }

    /// Whether shard `index` of `shards` needs this filter: patterns go to all shards, a name to its own.
    pub fn belongs_to(&self, index: usize, shards: usize) -> bool {
        self.wild || shard_of(&self.text, shards) == index
    }

    /// The common prefix of all matching names: the levels before the first wildcard.
    pub(crate) fn literal_prefix(&self) -> &str {
        let end = self.text.find(['*', '>']).unwrap_or(self.text.len());
        &self.text[..end]
    }
}

impl fmt::Debug for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({})", self.text)
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, name: &str) -> bool {
        TopicFilter::parse(filter).unwrap().matches(name)
    }

    #[test]
    fn a_star_stands_for_exactly_one_level() {
        assert!(matches("a.*.c", "a.b.c"));
        assert!(!matches("a.*.c", "a.c"));
        assert!(!matches("a.*", "a.b.c"));
        assert!(!matches("a.*", "a"));
    }

    #[test]
    fn an_arrow_stands_for_one_or_more_levels() {
        assert!(matches(">", "a"));
        assert!(matches("a.>", "a.b.c"));
        assert!(!matches("a.>", "a"));
    }

    #[test]
    fn misplaced_wildcards_are_refused() {
        for text in ["a.>.b", "a*.b", "a.b>", ">.>"] {
            assert_eq!(TopicFilter::parse(text), Err(TopicRefusal::WildcardMisplaced), "{text}");
        }
    }

    #[test]
    fn the_literal_prefix_ends_before_the_first_wildcard() {
        let prefix = |text| TopicFilter::parse(text).unwrap().literal_prefix().to_owned();
        assert_eq!(prefix("a.b.*.c"), "a.b.");
        assert_eq!(prefix(">"), "");
        assert_eq!(prefix("a.b"), "a.b");
    }
}
