//! Namespaces: what is counted apart. Queues, workers, names, tags and limits carry their namespace in their keys.

use std::collections::BTreeMap;

use crate::name::Name;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpaceKey(u32);

impl SpaceKey {
    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Tasks by `StateName` as index.
    pub(crate) tasks: [u64; 9],
    pub(crate) live_workers: u64,
    pub(crate) lost_workers: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Spaces {
    list: Vec<Space>,
    by_name: BTreeMap<Name, SpaceKey>,
}

impl Spaces {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn find(&self, name: &Name) -> Option<SpaceKey> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn open(&mut self, name: &Name) -> SpaceKey {
        if let Some(key) = self.find(name) {
            return key;
        }
        self.list.push(Space::default());
        let key = SpaceKey(self.list.len() as u32 - 1);
        self.by_name.insert(name.clone(), key);
        key
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceKey, &Space)> {
        self.list.iter().enumerate().map(|(place, space)| (SpaceKey(place as u32), space))
    }

    pub(crate) fn at(&self, key: SpaceKey) -> &Space {
        &self.list[key.0 as usize]
    }

    pub(crate) fn at_mut(&mut self, key: SpaceKey) -> &mut Space {
        &mut self.list[key.0 as usize]
    }
}
