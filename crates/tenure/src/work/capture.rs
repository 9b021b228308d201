//! Captures a command's output within limits: its beginning and its end, and lines for its worker as they come.

use std::collections::VecDeque;

use super::directive::{self, Directive};

/// The longest line that may be for the worker; a longer one is only output.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Keeps the first and the last bytes of a stream.
#[derive(Debug)]
pub(crate) struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Capture {
    /// Keeps at most this many bytes.
    pub(crate) fn new(bytes_max: usize) -> Capture {
        Capture { half: bytes_max / 2, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let to_head = bytes.len().min(self.half - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        // Of a long piece only its end can stay.
        let skipped = rest.len().saturating_sub(self.half);
        self.tail.extend(&rest[skipped..]);
        let surplus = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..surplus);
        self.left_out += (skipped + surplus) as u64;
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.left_out > 0
    }

    /// As text, with a line that says how much is missing where something is.
    pub(crate) fn text(&self) -> String {
        let (front, back) = self.tail.as_slices();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[&self.head, front, back].concat()).into_owned();
        }
        let head = String::from_utf8_lossy(&self.head);
        let tail = [front, back].concat();
        format!("{head}\n[… {} bytes left out …]\n{}", self.left_out, String::from_utf8_lossy(&tail))
    }
}

/// Cuts a stream into lines and finds the ones that are for the worker.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    begun: Vec<u8>,
    is_long: bool,
}

impl Lines {
    pub(crate) fn add(&mut self, bytes: &[u8], mut tell: impl FnMut(Directive)) {
        for &byte in bytes {
            if byte != b'\n' {
                self.is_long |= self.begun.len() >= LINE_BYTES_MAX;
                if !self.is_long {
                    self.begun.push(byte);
                }
                continue;
            }
            if !self.is_long
                && let Ok(line) = std::str::from_utf8(&self.begun)
                && let Some(said) = directive::parse(line)
            {
                tell(said);
            }
            self.begun.clear();
            self.is_long = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_whole_and_much_by_its_ends() {
        let mut capture = Capture::new(8);
        capture.add(b"abc");
        capture.add(b"defgh");
        assert_eq!((capture.text().as_str(), capture.is_truncated()), ("abcdefgh", false));
        capture.add(b"ij");
        assert_eq!(
            (capture.text().as_str(), capture.is_truncated()),
            ("abcd\n[… 2 bytes left out …]\nghij", true)
        );
        capture.add(&[b'x'; 1000]);
        assert_eq!(capture.text(), "abcd\n[… 1002 bytes left out …]\nxxxx");
    }

    #[test]
    fn however_a_stream_is_cut_the_same_is_kept() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut whole = Capture::new(20);
        whole.add(&bytes);
        for size in 1..100 {
            let mut pieces = Capture::new(20);
            bytes.chunks(size).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.text(), whole.text(), "in pieces of {size}");
        }
    }

    #[test]
    fn progress_is_found_across_reads_and_not_in_endless_lines() {
        let mut lines = Lines::default();
        let mut told = Vec::new();
        lines.add(b"hello\n::prog", |said| told.push(said));
        lines.add(b"ress 42 half way\n", |said| told.push(said));
        lines.add(&vec![b'x'; 3 * LINE_BYTES_MAX], |said| told.push(said));
        lines.add(b"\n::progress 50\n", |said| told.push(said));
        let percents = told.iter().map(|said| match said {
            Directive::Progress(progress) => progress.percent,
            Directive::Checkpoint(_) => None,
        });
        assert_eq!(percents.collect::<Vec<_>>(), [Some(42), Some(50)]);
        assert!(lines.begun.capacity() <= 4 * LINE_BYTES_MAX);
    }
}
