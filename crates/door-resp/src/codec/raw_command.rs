//! One command as received: a name and arguments, as bytes.

use std::ops::Range;

use bytes::Bytes;

/// A complete command, borrowed from the decoder until the next one.
#[derive(Clone, Copy, Debug)]
pub struct RawCommand<'a> {
    frame: &'a Bytes,
    arguments: &'a [Span],
}

/// The position of an argument in its frame. Half the size of a `Range<usize>`: a command may have many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl<'a> RawCommand<'a> {
    pub(super) fn new(frame: &'a Bytes, arguments: &'a [Span]) -> Self {
        debug_assert!(!arguments.is_empty(), "a command has at least a name");
        Self { frame, arguments }
    }

    /// The command's name as the peer wrote it.
    pub fn name(&self) -> &'a [u8] {
        self.argument(0)
    }

    /// How many arguments follow the name.
    pub fn argument_count(&self) -> usize {
        self.arguments.len() - 1
    }

    /// The name at 0, the arguments from 1.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn argument(&self, index: usize) -> &'a [u8] {
        &self.frame[self.arguments[index].range()]
    }

    /// The same without copying, sharing the frame's memory.
    ///
    /// # Panics
    /// If there is no such argument.
    pub fn share(&self, index: usize) -> Bytes {
        self.frame.slice(self.arguments[index].range())
    }

    /// The arguments, the name first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let frame = self.frame;
        self.arguments.iter().map(move |span| &frame[span.range()])
    }
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        let narrow = |at| u32::try_from(at).expect("a frame is shorter than 4 GiB");
        Self { start: narrow(start), end: narrow(end) }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}
