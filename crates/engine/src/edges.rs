//! The edges between tasks and the tasks they wait for.
//!
//! An edge belongs to the task that waits (its *dependent*) and names the task it waits for (its
//! *dependency*). While the dependency has not ended, the edge also stands in a list of that task, so an end
//! visits exactly the tasks that wait for it. The edges of all tasks live in one table, because a million of
//! them may wait.

use crate::arrays::ArrayKey;
use crate::dependency::{Condition, Dependency, DependencyProgress};
use crate::id::{Slot, TaskId};

/// The target of a dependency: another task, or a whole array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    Task(Slot),
    Array(ArrayKey),
}

/// The first edge of a task in the engine's table. It says nothing about the task, so it takes no part in
/// comparisons.
#[derive(Clone, Copy, Debug)]
pub struct EdgeList(u32);

impl EdgeList {
    /// A list without edges.
    pub const EMPTY: EdgeList = EdgeList(NONE);

    pub(crate) fn is_empty(self) -> bool {
        self.0 == NONE
    }
}

impl PartialEq for EdgeList {
    fn eq(&self, _: &EdgeList) -> bool {
        true
    }
}

impl Eq for EdgeList {}

/// An edge's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeKey(u32);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) dependency: TaskId,
    pub(crate) dependent: Slot,
    /// The next edge of the same dependent, and the condition.
    own: Tagged,
    /// The next edge in the dependency's list, and the progress. A free place has the next free one here.
    next: Tagged,
    /// The previous edge in the dependency's list; `NONE` in the first one.
    previous: u32,
}

impl Edge {
    pub(crate) fn condition(&self) -> Condition {
        CONDITIONS[self.own.tag()]
    }

    pub(crate) fn progress(&self) -> DependencyProgress {
        DependencyProgress::ALL[self.next.tag()]
    }

    pub(crate) fn is_open(&self) -> bool {
        self.progress() == DependencyProgress::Open
    }

    pub(crate) fn is_wait(&self) -> bool {
        self.condition() == Condition::Waited
    }

    fn is_linked(&self) -> bool {
        self.previous != UNLINKED
    }
}

const CONDITIONS: [Condition; 4] =
    [Condition::Completed, Condition::Ended, Condition::Failed, Condition::Waited];
const NONE: u32 = u32::MAX >> 2;
const UNLINKED: u32 = NONE - 1;
/// How many edges there may be, over all tasks: about 8 GB.
pub(crate) const EDGES_MAX: usize = 1 << 28;

/// A place in the table in 30 bits, and a tag in the other two.
#[derive(Clone, Copy, Debug)]
struct Tagged(u32);

impl Tagged {
    fn new(place: u32, tag: usize) -> Tagged {
        Tagged((tag as u32) << 30 | place)
    }

    fn place(self) -> u32 {
        self.0 & NONE
    }

    fn tag(self) -> usize {
        (self.0 >> 30) as usize
    }

    fn with_place(self, place: u32) -> Tagged {
        Tagged::new(place, self.tag())
    }
}

/// All edges. Chunks never move, so growing copies nothing.
#[derive(Debug)]
pub(crate) struct Edges {
    chunks: Vec<Vec<Edge>>,
    free: u32,
    len: usize,
    /// The first edge of each list, by the slot of the dependency.
    lists: SparseHeads,
    /// The same for arrays.
    array_lists: SparseHeads,
}

const CHUNK: usize = 4096;

impl Default for Edges {
    fn default() -> Edges {
        Edges {
            chunks: Vec::new(),
            free: NONE,
            len: 0,
            lists: SparseHeads::default(),
            array_lists: SparseHeads::default(),
        }
    }
}

impl Edges {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds edges of a task in front of those it has, in order. None of them is linked yet.
    pub(crate) fn add<'a>(
        &mut self,
        dependent: Slot,
        dependencies: impl DoubleEndedIterator<Item = &'a Dependency>,
        before: EdgeList,
    ) -> EdgeList {
        let mut own = before.0;
        for dependency in dependencies.rev() {
            let edge = Edge {
                dependency: dependency.task,
                dependent,
                own: Tagged::new(own, dependency.condition as usize),
                next: Tagged::new(NONE, dependency.progress as usize),
                previous: UNLINKED,
            };
            own = self.insert(edge);
        }
        EdgeList(own)
    }

    /// Removes the edges of a task. They must not be linked.
    pub(crate) fn remove(&mut self, list: EdgeList) {
        self.remove_while(list, |_| true);
    }

    /// Removes the edges of the tasks for which a suspended attempt waits: they stand before the others.
    /// Returns what is left.
    pub(crate) fn remove_waits(&mut self, list: EdgeList) -> EdgeList {
        self.remove_while(list, Edge::is_wait)
    }

    fn remove_while(&mut self, list: EdgeList, is_meant: impl Fn(&Edge) -> bool) -> EdgeList {
        let mut place = list.0;
        while place != NONE {
            if !is_meant(self.at(EdgeKey(place))) {
                break;
            }
            let edge = self.at_mut(EdgeKey(place));
            assert!(!edge.is_linked(), "an edge leaves its list before it goes");
            let own = edge.own.place();
            edge.next = Tagged::new(NONE, 0);
            self.vacate(place);
            place = own;
        }
        EdgeList(place)
    }

    pub(crate) fn at(&self, key: EdgeKey) -> &Edge {
        &self.chunks[key.0 as usize / CHUNK][key.0 as usize % CHUNK]
    }

    fn at_mut(&mut self, key: EdgeKey) -> &mut Edge {
        &mut self.chunks[key.0 as usize / CHUNK][key.0 as usize % CHUNK]
    }

    /// The edges of a task, in the order in which they were given.
    pub(crate) fn of(&self, list: EdgeList) -> impl Iterator<Item = (EdgeKey, &Edge)> {
        let mut place = list.0;
        std::iter::from_fn(move || {
            if place == NONE {
                return None;
            }
            let key = EdgeKey(place);
            let edge = self.at(key);
            place = edge.own.place();
            Some((key, edge))
        })
    }

    pub(crate) fn first(&self, list: EdgeList) -> Option<EdgeKey> {
        (list.0 != NONE).then_some(EdgeKey(list.0))
    }

    /// The next edge of the same task.
    pub(crate) fn next(&self, key: EdgeKey) -> Option<EdgeKey> {
        let own = self.at(key).own.place();
        (own != NONE).then_some(EdgeKey(own))
    }

    /// The dependencies of a task, as the store keeps them.
    pub(crate) fn write(&self, list: EdgeList, into: &mut Vec<Dependency>) {
        into.clear();
        into.extend(self.of(list).map(|(_, edge)| Dependency {
            task: edge.dependency,
            condition: edge.condition(),
            progress: edge.progress(),
        }));
    }

    pub(crate) fn open_count(&self, list: EdgeList) -> u32 {
        self.of(list).filter(|(_, edge)| edge.is_open()).count() as u32
    }

    pub(crate) fn set_progress(&mut self, key: EdgeKey, progress: DependencyProgress) {
        let edge = self.at_mut(key);
        edge.next = Tagged::new(edge.next.place(), progress as usize);
    }

    fn head(&self, dependency: Awaited) -> u32 {
        match dependency {
            Awaited::Task(slot) => self.lists.get(slot.0),
            Awaited::Array(key) => self.array_lists.get(key.0),
        }
    }

    fn set_head(&mut self, dependency: Awaited, head: u32) {
        match dependency {
            Awaited::Task(slot) => self.lists.set(slot.0, head),
            Awaited::Array(key) => self.array_lists.set(key.0, head),
        }
    }

    /// Puts an edge into the list of its dependency.
    pub(crate) fn link(&mut self, key: EdgeKey, dependency: Awaited) {
        let first = self.head(dependency);
        if first != NONE {
            self.at_mut(EdgeKey(first)).previous = key.0;
        }
        let edge = self.at_mut(key);
        assert!(!edge.is_linked(), "an edge stands in one list");
        edge.next = edge.next.with_place(first);
        edge.previous = NONE;
        self.set_head(dependency, key.0);
    }

    /// Takes an edge out of the list of its dependency. `dependency` finds it.
    pub(crate) fn unlink(&mut self, key: EdgeKey, dependency: impl FnOnce(&TaskId) -> Option<Awaited>) {
        let edge = *self.at(key);
        if !edge.is_linked() {
            return;
        }
        let next = edge.next.place();
        if next != NONE {
            self.at_mut(EdgeKey(next)).previous = edge.previous;
        }
        if edge.previous == NONE {
            let waited_for = dependency(&edge.dependency).expect("what others wait for exists");
            self.set_head(waited_for, next);
        } else {
            let previous = self.at_mut(EdgeKey(edge.previous));
            previous.next = previous.next.with_place(next);
        }
        let edge = self.at_mut(key);
        edge.next = edge.next.with_place(NONE);
        edge.previous = UNLINKED;
    }

    pub(crate) fn has_dependents(&self, dependency: Awaited) -> bool {
        self.head(dependency) != NONE
    }

    /// Takes the first edge out of the list of this dependency.
    pub(crate) fn pop(&mut self, dependency: Awaited) -> Option<EdgeKey> {
        let first = self.head(dependency);
        if first == NONE {
            return None;
        }
        self.unlink(EdgeKey(first), |_| Some(dependency));
        Some(EdgeKey(first))
    }

    /// The edges that stand in the list of this dependency, for the audit.
    pub(crate) fn dependents(&self, dependency: Awaited) -> impl Iterator<Item = (EdgeKey, &Edge)> {
        let mut place = self.head(dependency);
        std::iter::from_fn(move || {
            if place == NONE {
                return None;
            }
            let key = EdgeKey(place);
            let edge = self.at(key);
            place = edge.next.place();
            Some((key, edge))
        })
    }

    /// The dependency has ended: settles all edges of its list, and turns the list round, so that the dependents
    /// follow in the order in which they came.
    pub(crate) fn resolve(
        &mut self,
        dependency: Awaited,
        progress: impl Fn(Condition) -> DependencyProgress,
    ) {
        let mut place = self.head(dependency);
        let mut last = NONE;
        while place != NONE {
            let edge = self.at_mut(EdgeKey(place));
            let next = edge.next.place();
            edge.next = Tagged::new(last, progress(edge.condition()) as usize);
            edge.previous = next;
            last = place;
            place = next;
        }
        if last != NONE {
            self.set_head(dependency, last);
        }
    }

    /// The memory that the table takes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Edge>()).sum();
        chunks + self.lists.pages.iter().flatten().count() * PAGE * size_of::<u32>()
    }

    fn insert(&mut self, edge: Edge) -> u32 {
        self.len += 1;
        if self.free != NONE {
            let place = self.free;
            let free = self.at_mut(EdgeKey(place));
            let next = free.next.place();
            *free = edge;
            self.free = next;
            return place;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        let last = self.chunks.len() - 1;
        let chunk = &mut self.chunks[last];
        chunk.push(edge);
        u32::try_from(last * CHUNK + chunk.len() - 1).expect("the limit keeps the table below 2^28 places")
    }

    fn vacate(&mut self, place: u32) {
        let free = self.free;
        self.at_mut(EdgeKey(place)).next = Tagged::new(free, 0);
        self.free = place;
        self.len -= 1;
    }
}

/// One number per slot, in pages that exist only where a slot has one.
#[derive(Debug, Default)]
struct SparseHeads {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
}

const PAGE: usize = 1024;

impl SparseHeads {
    fn get(&self, slot: u32) -> u32 {
        let page = self.pages.get(slot as usize / PAGE).and_then(Option::as_ref);
        page.map_or(NONE, |page| page[slot as usize % PAGE])
    }

    fn set(&mut self, slot: u32, head: u32) {
        let index = slot as usize / PAGE;
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, || None);
        }
        self.pages[index].get_or_insert_with(|| Box::new([NONE; PAGE]))[slot as usize % PAGE] = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(number: u128) -> Dependency {
        let progress = DependencyProgress::Open;
        Dependency { task: TaskId::from_u128(number), condition: Condition::Completed, progress }
    }

    #[test]
    fn a_million_edges_take_at_most_forty_bytes_each() {
        let mut edges = Edges::default();
        // A chain is the dearest graph: every edge has a list of its own.
        for slot in 1..1_000_000 {
            let list = edges.add(Slot(slot), [dependency(u128::from(slot - 1))].iter(), EdgeList::EMPTY);
            let (key, _) = edges.of(list).next().expect("one edge");
            edges.link(key, Awaited::Task(Slot(slot - 1)));
        }
        let each = edges.bytes() as f64 / edges.len() as f64;
        assert!(each <= 40.0, "{each} bytes an edge");
    }

    #[test]
    fn edges_leave_the_middle_the_front_and_the_end_of_a_list() {
        const ROOT: Awaited = Awaited::Task(Slot(0));
        let mut edges = Edges::default();
        let keys: Vec<EdgeKey> = (1..=5)
            .map(|slot| {
                let list = edges.add(Slot(slot), [dependency(0)].iter(), EdgeList::EMPTY);
                let (key, _) = edges.of(list).next().expect("one edge");
                edges.link(key, ROOT);
                key
            })
            .collect();
        edges.resolve(ROOT, |_| DependencyProgress::Met);
        let there = |edges: &Edges| -> Vec<u32> {
            edges.dependents(ROOT).map(|(_, edge)| edge.dependent.0).collect()
        };
        assert_eq!(there(&edges), [1, 2, 3, 4, 5]);
        for (key, left) in [(2, vec![1, 2, 4, 5]), (0, vec![2, 4, 5]), (4, vec![2, 4])] {
            edges.unlink(keys[key], |_| Some(ROOT));
            assert_eq!(there(&edges), left);
        }
        assert!(edges.has_dependents(ROOT));
        assert_eq!(edges.pop(ROOT), Some(keys[1]));
        assert_eq!(edges.pop(ROOT), Some(keys[3]));
        assert_eq!(edges.pop(ROOT), None);
    }
}
