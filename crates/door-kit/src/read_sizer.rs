//! Adapts the read size to a peer: small if it sends little, larger if it fills the buffer.

/// The size of the next read of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ReadSizer {
    least: usize,
    most: usize,
    now: usize,
}

impl ReadSizer {
    /// A sizer that begins with the least.
    pub const fn between(least: usize, most: usize) -> ReadSizer {
        ReadSizer { least, most, now: least }
    }

    /// The size of the next read.
    pub fn bytes(&self) -> usize {
        self.now
    }

    /// Adapts to the number of bytes read.
    pub fn has_read(&mut self, count: usize) {
        let wanted = if count >= self.now { 2 * self.now } else { count.next_power_of_two() };
        self.now = wanted.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::ReadSizer;

    #[test]
    fn it_grows_with_what_comes_and_shrinks_again() {
        let mut sizer = ReadSizer::between(1024, 4096);
        for (count, then) in [(10, 1024), (1024, 2048), (2048, 4096), (9999, 4096), (1500, 2048), (0, 1024)] {
            sizer.has_read(count);
            assert_eq!(sizer.bytes(), then, "after {count}");
        }
    }
}
