//! An ordered set whose first element is at hand. Most of the engine's sets have one element, which leaves and comes
//! back with every task: a tree would allocate and free a node each time.

use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub(crate) struct OrderedSet<T> {
    /// The smallest element. It is `None` only if the set is empty.
    first: Option<T>,
    rest: BTreeSet<T>,
}

impl<T> Default for OrderedSet<T> {
    fn default() -> OrderedSet<T> {
        OrderedSet { first: None, rest: BTreeSet::new() }
    }
}

/// For the audit.
impl<T: Ord> PartialEq<BTreeSet<T>> for OrderedSet<T> {
    fn eq(&self, other: &BTreeSet<T>) -> bool {
        self.iter().eq(other)
    }
}

impl<T: Ord> OrderedSet<T> {
    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.first.iter().chain(&self.rest)
    }

    /// Adds an element that is not in the set.
    #[inline]
    pub(crate) fn insert(&mut self, element: T) {
        match &self.first {
            None => self.first = Some(element),
            Some(first) if *first < element => {
                self.rest.insert(element);
            }
            Some(_) => self.rest.extend(self.first.replace(element)),
        }
    }

    /// Removes an element, if it is in the set.
    #[inline]
    pub(crate) fn remove(&mut self, element: &T) {
        if self.first.as_ref() != Some(element) {
            self.rest.remove(element);
        } else if self.rest.is_empty() {
            self.first = None;
        } else {
            self.first = self.rest.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ordered_set_has_what_a_tree_has(acts in prop::collection::vec((any::<bool>(), 0u8..12), 1..200)) {
            let mut set = OrderedSet::default();
            let mut model = BTreeSet::new();
            for (insert, number) in acts {
                if !insert {
                    set.remove(&number);
                    model.remove(&number);
                } else if model.insert(number) {
                    set.insert(number);
                }
                prop_assert_eq!(set.first(), model.first());
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(set.iter().eq(&model));
            }
        }
    }
}
