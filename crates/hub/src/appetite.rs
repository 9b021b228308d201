//! Appetite: how much a door reads from a peer at once. Little from one that says little, more from one that fills it.

#[derive(Clone, Copy, Debug)]
pub struct Appetite {
    least: usize,
    most: usize,
    now: usize,
}

impl Appetite {
    pub const fn between(least: usize, most: usize) -> Appetite {
        Appetite { least, most, now: least }
    }

    /// Room to make before reading.
    pub fn bytes(&self) -> usize {
        self.now
    }

    /// So much came of what there was room for.
    pub fn has_read(&mut self, count: usize) {
        let wanted = if count >= self.now { 2 * self.now } else { count.next_power_of_two() };
        self.now = wanted.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::Appetite;

    #[test]
    fn it_grows_with_what_comes_and_shrinks_again() {
        let mut appetite = Appetite::between(1024, 4096);
        for (count, then) in [(10, 1024), (1024, 2048), (2048, 4096), (9999, 4096), (1500, 2048), (0, 1024)] {
            appetite.has_read(count);
            assert_eq!(appetite.bytes(), then, "after {count}");
        }
    }
}
