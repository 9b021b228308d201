//! A table with stable slots. It grows by whole chunks, so growing never copies existing entries.

const CHUNK: usize = 4096;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(place) = self.free.pop() {
            *self.cell(place) = Some(value);
            return place;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows as needed: most tables of a small broker stay small.
            self.chunks.push(if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        let last = self.chunks.len() - 1;
        let chunk = &mut self.chunks[last];
        chunk.push(Some(value));
        u32::try_from(last * CHUNK + chunk.len() - 1).expect("the limits keep tables below 2^32 places")
    }

    pub(crate) fn remove(&mut self, place: u32) -> T {
        let value = self.cell(place).take().expect("only a taken place is vacated");
        self.free.push(place);
        self.len -= 1;
        value
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.chunks.get(place as usize / CHUNK)?.get(place as usize % CHUNK)?.as_ref()
    }

    #[inline]
    pub(crate) fn at(&self, place: u32) -> &T {
        self.get(place).expect("the place is taken")
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, place: u32) -> &mut T {
        self.cell(place).as_mut().expect("the place is taken")
    }

    /// All entries from `place` on, in slot order.
    pub(crate) fn iter_from(&self, place: u32) -> impl Iterator<Item = (u32, &T)> {
        let (chunk, within) = (place as usize / CHUNK, place as usize % CHUNK);
        self.chunks.iter().enumerate().skip(chunk).flat_map(move |(index, cells)| {
            let skip = if index == chunk { within } else { 0 };
            cells.iter().enumerate().skip(skip).filter_map(move |(offset, cell)| {
                cell.as_ref().map(|value| ((index * CHUNK + offset) as u32, value))
            })
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    #[inline]
    fn cell(&mut self, place: u32) -> &mut Option<T> {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}
