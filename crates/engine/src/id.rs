//! Identifiers. A task id is a UUID that a client or the hub generates. Keys are short-lived indexes into the
//! engine's own tables and never leave the process.

use std::fmt;
use std::str::FromStr;

/// A task's id, unique in the whole broker. Printed and parsed as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub [u8; 16]);

impl TaskId {
    /// The id with these bits.
    pub fn from_u128(value: u128) -> TaskId {
        TaskId(value.to_be_bytes())
    }

    /// Whether its text begins so. Hyphens do not count.
    pub fn begins_with(&self, text: &str) -> bool {
        let mut digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let wanted = text.bytes().filter(|byte| *byte != b'-');
        wanted.map(digit).all(|wanted| wanted.is_ok_and(|wanted| digits.next() == Some(wanted)))
    }

    /// Whether its text ends so. Hyphens do not count.
    pub fn ends_with(&self, text: &str) -> bool {
        let mut digits = self.0.iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
        let wanted = text.bytes().rev().filter(|byte| *byte != b'-');
        wanted.map(digit).all(|wanted| wanted.is_ok_and(|wanted| digits.next() == Some(wanted)))
    }

    /// The bytes as they are sent.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let mut at = 0;
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                at += 1;
            }
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        f.write_str(std::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for text that is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task id is a UUID such as 0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d")
    }
}

impl std::error::Error for NotAnId {}

impl FromStr for TaskId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<TaskId, NotAnId> {
        let bytes = text.as_bytes();
        let hyphenated = bytes.len() == 36;
        if !hyphenated && bytes.len() != 32 {
            return Err(NotAnId);
        }
        let mut id = [0; 16];
        let mut at = 0;
        for (index, byte) in id.iter_mut().enumerate() {
            if hyphenated && matches!(index, 4 | 6 | 8 | 10) {
                if bytes[at] != b'-' {
                    return Err(NotAnId);
                }
                at += 1;
            }
            *byte = digit(bytes[at])? << 4 | digit(bytes[at + 1])?;
            at += 2;
        }
        Ok(TaskId(id))
    }
}

fn digit(byte: u8) -> Result<u8, NotAnId> {
    char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or(NotAnId)
}

/// A session, numbered by the hub. Numbers are not reused while the broker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A task's index in the engine's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u32);

/// A worker's index in the engine's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkerKey(pub(crate) u32);

impl WorkerKey {
    /// Not in the table yet.
    pub(crate) const NONE: WorkerKey = WorkerKey(u32::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_begins_and_ends_with_the_digits_of_its_text() {
        let id: TaskId = "0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d".parse().unwrap();
        for beginning in
            ["", "0", "0190A6", "0190a6e2-7f", "0190a6e27f3c7a1080005d2f0a1b2c3d", &id.to_string()]
        {
            assert!(id.begins_with(beginning), "{beginning}");
        }
        for other in ["1", "0190a6e3", "0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d0", "name", "0190 "] {
            assert!(!id.begins_with(other), "{other}");
        }
        for end in ["", "d", "2C3D", "0a1b2c3d", "5d-2f0a1b2c3d", &id.to_string()] {
            assert!(id.ends_with(end), "{end}");
        }
        for other in ["e", "0a1b2c3", "name", "00190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d"] {
            assert!(!id.ends_with(other), "{other}");
        }
    }

    #[test]
    fn an_id_reads_back_what_it_prints() {
        let id = TaskId::from_u128(0x0190_a6e2_7f3c_7a10_8000_5d2f_0a1b_2c3d);
        assert_eq!(id.to_string(), "0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("0190A6E27F3C7A1080005D2F0A1B2C3D".parse(), Ok(id));
        for bad in
            ["", "0190a6e2", "0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3", "0190a6e2+7f3c-7a10-8000-5d2f0a1b2c3d"]
        {
            assert_eq!(bad.parse::<TaskId>(), Err(NotAnId), "{bad}");
        }
    }
}
