//! The encoding of rows that are written together in one frame.

use tenure_engine::Timestamp;

use super::Messages;
use crate::codec::{ByteCursor, Malformed, put_varint as varint};

pub(super) const BASE: u8 = 1;
pub(super) const BASE_END: u8 = 2;
pub(super) const CHANGES: u8 = 3;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const MESSAGE: u8 = 3;

/// Rows and messages to be written together.
#[derive(Clone, Debug, Default)]
pub struct TopicRows {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    pub(super) messages: Messages,
}

impl TopicRows {
    /// Sets the value of a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.push(PUT);
        text(&mut self.bytes, key);
        text(&mut self.bytes, value);
        self.count += 1;
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.bytes.push(DELETE);
        text(&mut self.bytes, key);
        self.count += 1;
    }

    /// Adds a message of a topic.
    pub fn message(&mut self, at: Timestamp, key: &[u8], value: &[u8]) {
        self.bytes.push(MESSAGE);
        varint(&mut self.bytes, at.0);
        text(&mut self.bytes, key);
        text(&mut self.bytes, value);
        self.count += 1;
        self.messages.add(at, key.len() + value.len());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size on disk.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogRow<'a> {
    Put { key: &'a [u8], value: &'a [u8] },
    Delete { key: &'a [u8] },
    Message { at: Timestamp, key: &'a [u8], value: &'a [u8] },
}

/// Decodes a page: its kind, and each of its rows. The input is untrusted.
pub(super) fn read_page(page: &[u8], mut see: impl FnMut(LogRow<'_>)) -> Result<u8, Malformed> {
    let mut take = ByteCursor::new(page);
    let kind = take.byte()?;
    if !(BASE..=CHANGES).contains(&kind) {
        return Err(Malformed("its kind is not known"));
    }
    while !take.is_empty() {
        see(match take.byte()? {
            PUT => LogRow::Put { key: take_text(&mut take)?, value: take_text(&mut take)? },
            DELETE => LogRow::Delete { key: take_text(&mut take)? },
            MESSAGE => LogRow::Message {
                at: Timestamp(take.varint()?),
                key: take_text(&mut take)?,
                value: take_text(&mut take)?,
            },
            _ => return Err(Malformed("a row is of a kind that is not known")),
        });
    }
    Ok(kind)
}

fn take_text<'a>(take: &mut ByteCursor<'a>) -> Result<&'a [u8], Malformed> {
    let length = take.varint()?;
    take.bytes(usize::try_from(length).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_and_no_cut_page_passes_for_a_whole_one() {
        let mut rows = TopicRows::default();
        rows.put(b"a", b"1");
        rows.delete(b"b");
        rows.message(Timestamp(7), b"c", &[9; 300]);
        let mut page = vec![CHANGES];
        page.extend_from_slice(&rows.bytes);
        let mut seen = 0;
        assert_eq!(read_page(&page, |_| seen += 1), Ok(CHANGES));
        assert_eq!(seen, 3);
        assert_eq!(rows.messages, Messages { bytes: 301, newest: Timestamp(7) });
        let whole: Vec<usize> =
            (1..page.len()).filter(|end| read_page(&page[..*end], |_| ()).is_ok()).collect();
        assert_eq!(whole, [1, 6, 9], "only between rows");
    }
}
