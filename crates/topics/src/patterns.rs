//! The index of wildcard filters: a tree by level, so that a publish visits only possible matches.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::filter::TopicFilter;
use crate::name::{NAME_LEVELS_MAX, ONE_LEVEL, REST, levels_of};
use crate::subscriptions::SubscriptionIndex;

#[derive(Debug)]
pub(crate) struct Patterns {
    nodes: Vec<Node>,
    free: Vec<u32>,
    hash: FixedState,
    count: usize,
}

#[derive(Debug)]
struct Node {
    literal: HashMap<Box<str>, u32, FixedState>,
    one_level: Option<u32>,
    /// Filters that end here.
    here: Vec<SubscriptionIndex>,
    /// Filters that end here with `>`.
    rest: Vec<SubscriptionIndex>,
}

const ROOT: u32 = 0;

impl Patterns {
    pub(crate) fn new(hash_seed: u64) -> Patterns {
        let hash = FixedState::with_seed(hash_seed);
        Patterns { nodes: vec![Node::new(&hash)], free: Vec::new(), hash, count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn insert(&mut self, filter: &TopicFilter, subscriber: SubscriptionIndex) {
        debug_assert!(filter.is_wild());
        self.count += 1;
        let mut at = ROOT;
        for level in levels_of(filter.as_str()) {
            if level == REST {
                self.node(at).rest.push(subscriber);
                return;
            }
            at = self.child_or_new(at, level);
        }
        self.node(at).here.push(subscriber);
    }

    pub(crate) fn remove(&mut self, filter: &TopicFilter, subscriber: SubscriptionIndex) {
        let mut path = vec![(ROOT, "")];
        for level in levels_of(filter.as_str()) {
            let at = path.last().expect("the path begins at the root").0;
            if level == REST {
                break;
            }
            let Some(child) = self.child(at, level) else { return };
            path.push((child, level));
        }
        let &(last, _) = path.last().expect("the path begins at the root");
        let ends_with_rest = filter.as_str().ends_with(REST);
        let node = self.node(last);
        let list = if ends_with_rest { &mut node.rest } else { &mut node.here };
        let Some(position) = list.iter().position(|&other| other == subscriber) else { return };
        list.remove(position);
        self.count -= 1;
        self.prune(&path);
    }

    /// Adds the subscribers of every matching filter. One that matches twice appears twice.
    pub(crate) fn find(&self, name: &str, found: &mut Vec<SubscriptionIndex>) {
        if self.is_empty() {
            return;
        }
        let mut levels = [""; NAME_LEVELS_MAX];
        let mut count = 0;
        for level in levels_of(name) {
            // A name with too many levels is not a valid topic, so it has no subscribers.
            let Some(place) = levels.get_mut(count) else { return };
            *place = level;
            count += 1;
        }
        self.walk(ROOT, &levels[..count], found);
    }

    fn walk(&self, at: u32, levels: &[&str], found: &mut Vec<SubscriptionIndex>) {
        let node = &self.nodes[at as usize];
        let Some((level, deeper)) = levels.split_first() else {
            found.extend_from_slice(&node.here);
            return;
        };
        found.extend_from_slice(&node.rest);
        if let Some(&child) = node.literal.get(*level) {
            self.walk(child, deeper, found);
        }
        if let Some(child) = node.one_level {
            self.walk(child, deeper, found);
        }
    }

    fn child(&self, at: u32, level: &str) -> Option<u32> {
        let node = &self.nodes[at as usize];
        if level == ONE_LEVEL { node.one_level } else { node.literal.get(level).copied() }
    }

    fn child_or_new(&mut self, at: u32, level: &str) -> u32 {
        if let Some(child) = self.child(at, level) {
            return child;
        }
        let child = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::new(&self.hash));
            u32::try_from(self.nodes.len() - 1).expect("the limit of filters keeps this small")
        });
        let node = self.node(at);
        if level == ONE_LEVEL {
            node.one_level = Some(child);
        } else {
            node.literal.insert(Box::from(level), child);
        }
        child
    }

    /// Removes nodes without filters and children, from the end of the path upwards.
    fn prune(&mut self, path: &[(u32, &str)]) {
        for pair in path.windows(2).rev() {
            let ((parent, _), (child, level)) = (pair[0], pair[1]);
            if !self.node(child).is_empty() {
                return;
            }
            self.nodes[child as usize] = Node::new(&self.hash);
            self.free.push(child);
            let parent = self.node(parent);
            if level == ONE_LEVEL {
                parent.one_level = None;
            } else {
                parent.literal.remove(level);
            }
        }
    }

    fn node(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }
}

impl Node {
    fn new(hash: &FixedState) -> Node {
        Node {
            literal: HashMap::with_hasher(hash.clone()),
            one_level: None,
            here: Vec::new(),
            rest: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.one_level.is_none() && self.here.is_empty() && self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn index(number: usize) -> SubscriptionIndex {
        SubscriptionIndex(u32::try_from(number).unwrap())
    }

    fn found(patterns: &Patterns, name: &str) -> Vec<SubscriptionIndex> {
        let mut found = Vec::new();
        patterns.find(name, &mut found);
        found.sort_unstable();
        found
    }

    fn pattern() -> impl Strategy<Value = String> {
        let level = prop_oneof![Just("a"), Just("b"), Just("c/d"), Just("*")];
        (vec(level, 0..4), any::<bool>()).prop_filter_map("a wildcard filter", |(mut levels, rest)| {
            if rest {
                levels.push(">");
            }
            let text = levels.join(".");
            TopicFilter::parse(&text).ok().filter(TopicFilter::is_wild).map(|_| text)
        })
    }

    fn name() -> impl Strategy<Value = String> {
        vec(prop_oneof![Just("a"), Just("b"), Just("c/d"), Just("x")], 1..5)
            .prop_map(|levels| levels.join("."))
    }

    /// A reference implementation for the tests: compares level by level.
    fn reference_matches(filter: &[&str], name: &[&str]) -> bool {
        match (filter, name) {
            ([], []) => true,
            ([">"], [_, ..]) => true,
            (["*", filter @ ..], [_, name @ ..]) => reference_matches(filter, name),
            ([a, filter @ ..], [b, name @ ..]) => a == b && reference_matches(filter, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_tree_and_the_filter_agree_with_the_plain_model(
            texts in vec(pattern(), 0..12), removed in vec(any::<bool>(), 12), name in name(),
        ) {
            let filters: Vec<TopicFilter> = texts.iter().map(|text| TopicFilter::parse(text).unwrap()).collect();
            let mut patterns = Patterns::new(0);
            for (number, filter) in filters.iter().enumerate() {
                patterns.insert(filter, index(number));
            }
            for (number, filter) in filters.iter().enumerate() {
                if removed[number] {
                    patterns.remove(filter, index(number));
                }
            }
            let levels: Vec<&str> = name.split('.').collect();
            let mut expected = Vec::new();
            for (number, text) in texts.iter().enumerate() {
                let matches = reference_matches(&text.split('.').collect::<Vec<_>>(), &levels);
                prop_assert_eq!(filters[number].matches(&name), matches, "{} {}", text, name);
                if matches && !removed[number] {
                    expected.push(index(number));
                }
            }
            prop_assert_eq!(found(&patterns, &name), expected);
        }

        #[test]
        fn a_tree_that_loses_its_filters_loses_its_nodes(texts in vec(pattern(), 1..12)) {
            let mut patterns = Patterns::new(0);
            for text in &texts {
                patterns.insert(&TopicFilter::parse(text).unwrap(), index(1));
            }
            for text in &texts {
                patterns.remove(&TopicFilter::parse(text).unwrap(), index(1));
            }
            prop_assert!(patterns.is_empty());
            prop_assert_eq!(patterns.free.len() + 1, patterns.nodes.len());
        }
    }
}
