//! Requests in flight, by number: a reply finds its request in one step, in any order.
//!
//! A number combines a count and a position. A position is reused as soon as its request is answered, with another
//! count, so that a late or repeated reply finds nothing instead of a different request.

/// Maximum number of requests in flight, given by the bits of a position.
pub(crate) const OPEN_MAX: usize = 1 << POSITION_BITS;

const POSITION_BITS: u32 = 16;

#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    /// Requests so far. The first is 1, so that no number is 0.
    count: u64,
}

#[derive(Debug)]
struct Entry<T> {
    number: u64,
    open: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { entries: Vec::new(), free: Vec::new(), count: 0 }
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a request and returns its number; returns the request if [`OPEN_MAX`] are in flight.
    pub(crate) fn insert(&mut self, open: T) -> Result<u64, T> {
        let position = match self.free.pop() {
            Some(position) => position as usize,
            None if self.entries.len() < OPEN_MAX => {
                self.entries.push(Entry { number: 0, open: None });
                self.entries.len() - 1
            }
            None => return Err(open),
        };
        self.count += 1;
        let number = self.count << POSITION_BITS | position as u64;
        self.entries[position] = Entry { number, open: Some(open) };
        Ok(number)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let entry = self.entries.get_mut(position_of(number))?;
        if entry.number == number { entry.open.as_mut() } else { None }
    }

    /// Removes the request with this number, if it is still in flight.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let position = position_of(number);
        let entry = self.entries.get_mut(position)?;
        if entry.number != number {
            return None;
        }
        let open = entry.open.take()?;
        self.free.push(position as u32);
        Some(open)
    }

    /// Removes all requests and returns them with their numbers, oldest first. Later numbers continue the count.
    pub(crate) fn drain(&mut self) -> Vec<(u64, T)> {
        self.free.clear();
        let mut entries: Vec<Entry<T>> = self.entries.drain(..).collect();
        entries.sort_by_key(|entry| entry.number);
        entries.into_iter().filter_map(|entry| Some((entry.number, entry.open?))).collect()
    }
}

fn position_of(number: u64) -> usize {
    (number & (OPEN_MAX as u64 - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_may_overtake_each_other() {
        let mut table = Table::default();
        let numbers: Vec<u64> = ["a", "b", "c"].map(|open| table.insert(open).unwrap()).into();
        assert!(numbers.iter().all(|number| *number != 0));
        assert_eq!(table.remove(numbers[2]), Some("c"));
        assert_eq!(table.remove(numbers[0]), Some("a"));
        assert_eq!(table.remove(numbers[1]), Some("b"));
        assert!(table.is_empty());
    }

    #[test]
    fn a_late_answer_never_finds_the_question_that_took_its_place() {
        let mut table = Table::default();
        let old = table.insert("old").unwrap();
        assert_eq!(table.remove(old), Some("old"));
        let new = table.insert("new").unwrap();
        assert_eq!(position_of(old), position_of(new));
        assert_eq!(table.remove(old), None);
        assert_eq!(table.get_mut(old), None);
        assert_eq!(table.get_mut(new), Some(&mut "new"));
        assert_eq!(table.remove(0), None);
        assert_eq!(table.remove(u64::MAX), None);
    }

    #[test]
    fn a_long_question_does_not_make_the_table_grow() {
        let mut table = Table::default();
        let long = table.insert(0).unwrap();
        for open in 1..100_000 {
            let number = table.insert(open).unwrap();
            assert_eq!(table.remove(number), Some(open));
        }
        assert_eq!(table.entries.len(), 2);
        assert_eq!(table.remove(long), Some(0));
    }

    #[test]
    fn the_table_is_full_at_its_limit() {
        let mut table = Table::default();
        for open in 0..OPEN_MAX {
            table.insert(open).unwrap();
        }
        assert_eq!(table.insert(7), Err(7));
        assert_eq!(table.len(), OPEN_MAX);
    }

    #[test]
    fn what_was_under_way_comes_out_in_the_order_of_asking_and_old_numbers_are_dead() {
        let mut table = Table::default();
        let first = table.insert("first").unwrap();
        let second = table.insert("second").unwrap();
        table.remove(first);
        let third = table.insert("third").unwrap();
        assert_eq!(table.drain(), [(second, "second"), (third, "third")]);
        assert!(table.is_empty());
        assert!(table.insert("fourth").unwrap() > second);
        assert_eq!(table.remove(second), None);
    }
}
