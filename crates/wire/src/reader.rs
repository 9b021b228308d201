//! Reads MessagePack values from one frame. It shares bytes instead of copying them, checks every length against the
//! bytes that are there, and skips values without recursion, however deep an untrusted peer nests them.

use bytes::Bytes;

use crate::error::{Problem, ValueFault};
use crate::limits::ENTRIES_MAX;

/// A position in a frame.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of a frame.
    pub fn new(frame: &'a Bytes) -> Reader<'a> {
        Reader { frame, at: 0 }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.frame.len() - self.at
    }

    /// Takes a nil, if that is the next value.
    #[inline]
    pub(crate) fn take_nil(&mut self) -> bool {
        let is_nil = self.frame.get(self.at) == Some(&0xc0);
        self.at += usize::from(is_nil);
        is_nil
    }

    /// Returns the next byte without taking it.
    pub(crate) fn peek(&self) -> Result<u8, Problem> {
        self.frame.get(self.at).copied().ok_or_else(|| ValueFault::Truncated.into())
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, Problem> {
        match self.byte()? {
            0xc2 => Ok(false),
            0xc3 => Ok(true),
            marker => Err(unexpected("true or false", marker)),
        }
    }

    #[inline]
    pub(crate) fn unsigned(&mut self) -> Result<u64, Problem> {
        let marker = self.byte()?;
        match marker {
            0..=0x7f => Ok(u64::from(marker)),
            0xcc => Ok(u64::from(self.byte()?)),
            0xcd => Ok(u64::from(u16::from_be_bytes(self.chunk()?))),
            0xce => Ok(u64::from(u32::from_be_bytes(self.chunk()?))),
            0xcf => Ok(u64::from_be_bytes(self.chunk()?)),
            0xd0..=0xd3 | 0xe0..=0xff => {
                self.at -= 1;
                u64::try_from(self.signed()?).map_err(|_| ValueFault::OutOfRange.into())
            }
            _ => Err(unexpected("a number", marker)),
        }
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Problem> {
        let marker = self.byte()?;
        match marker {
            0xe0..=0xff => Ok(i64::from(marker as i8)),
            0xd0 => Ok(i64::from(self.byte()? as i8)),
            0xd1 => Ok(i64::from(i16::from_be_bytes(self.chunk()?))),
            0xd2 => Ok(i64::from(i32::from_be_bytes(self.chunk()?))),
            0xd3 => Ok(i64::from_be_bytes(self.chunk()?)),
            0..=0x7f | 0xcc..=0xcf => {
                self.at -= 1;
                i64::try_from(self.unsigned()?).map_err(|_| ValueFault::OutOfRange.into())
            }
            _ => Err(unexpected("a number", marker)),
        }
    }

    /// A floating-point number. Accepts integers too: many languages send 50 for 50.0.
    pub(crate) fn float(&mut self) -> Result<f64, Problem> {
        match self.peek()? {
            0xca => {
                self.at += 1;
                Ok(f64::from(f32::from_be_bytes(self.chunk()?)))
            }
            0xcb => {
                self.at += 1;
                Ok(f64::from_be_bytes(self.chunk()?))
            }
            0xcf => Ok(self.unsigned()? as f64),
            _ => Ok(self.signed()? as f64),
        }
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, Problem> {
        let marker = self.byte()?;
        let length = match marker {
            0xa0..=0xbf => usize::from(marker & 0x1f),
            0xd9 => usize::from(self.byte()?),
            0xda => usize::from(u16::from_be_bytes(self.chunk()?)),
            0xdb => u32::from_be_bytes(self.chunk()?) as usize,
            _ => return Err(unexpected("text", marker)),
        };
        std::str::from_utf8(self.take(length)?).map_err(|_| ValueFault::NotText.into())
    }

    /// Bytes, shared with the frame. Accepts text as its bytes, so that people can type a body.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<Bytes, Problem> {
        let length = self.bytes_length()?;
        let start = self.at;
        self.take(length)?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        Ok(self.frame.slice(start..start + length))
    }

    /// Like `bytes`, without keeping the frame alive.
    pub(crate) fn borrowed_bytes(&mut self) -> Result<&'a [u8], Problem> {
        let length = self.bytes_length()?;
        self.take(length)
    }

    /// The length of a list, checked against the bytes that are left.
    #[inline]
    pub(crate) fn array(&mut self) -> Result<usize, Problem> {
        self.array_up_to(ENTRIES_MAX)
    }

    /// The length of a list that has a limit of its own.
    #[inline]
    pub(crate) fn array_up_to(&mut self, limit: usize) -> Result<usize, Problem> {
        let marker = self.byte()?;
        let length = match marker {
            0x90..=0x9f => usize::from(marker & 0x0f),
            0xdc => usize::from(u16::from_be_bytes(self.chunk()?)),
            0xdd => u32::from_be_bytes(self.chunk()?) as usize,
            _ => return Err(unexpected("a list", marker)),
        };
        self.checked_count(length, 1, limit)
    }

    #[inline]
    pub(crate) fn map(&mut self) -> Result<usize, Problem> {
        let marker = self.byte()?;
        let length = match marker {
            0x80..=0x8f => usize::from(marker & 0x0f),
            0xde => usize::from(u16::from_be_bytes(self.chunk()?)),
            0xdf => u32::from_be_bytes(self.chunk()?) as usize,
            _ => return Err(unexpected("a map", marker)),
        };
        self.checked_count(length, 2, ENTRIES_MAX)
    }

    /// Skips one value of any kind.
    pub(crate) fn skip(&mut self) -> Result<(), Problem> {
        let mut values: u64 = 1;
        while values > 0 {
            values -= 1;
            let marker = self.byte()?;
            let bytes = match marker {
                0..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
                0xc1 => return Err(unexpected("a value", marker)),
                0x80..=0x8f => {
                    values += 2 * u64::from(marker & 0x0f);
                    0
                }
                0x90..=0x9f => {
                    values += u64::from(marker & 0x0f);
                    0
                }
                0xa0..=0xbf => usize::from(marker & 0x1f),
                0xcc | 0xd0 => 1,
                0xcd | 0xd1 => 2,
                0xca | 0xce | 0xd2 => 4,
                0xcb | 0xcf | 0xd3 => 8,
                0xd4..=0xd8 => 1 + (1 << (marker - 0xd4)),
                0xc4 | 0xd9 => usize::from(self.byte()?),
                0xc5 | 0xda => usize::from(u16::from_be_bytes(self.chunk()?)),
                0xc6 | 0xdb => u32::from_be_bytes(self.chunk()?) as usize,
                0xc7 => 1 + usize::from(self.byte()?),
                0xc8 => 1 + usize::from(u16::from_be_bytes(self.chunk()?)),
                0xc9 => 1 + u32::from_be_bytes(self.chunk()?) as usize,
                0xdc => {
                    values += u64::from(u16::from_be_bytes(self.chunk()?));
                    0
                }
                0xdd => {
                    values += u64::from(u32::from_be_bytes(self.chunk()?));
                    0
                }
                0xde => {
                    values += 2 * u64::from(u16::from_be_bytes(self.chunk()?));
                    0
                }
                0xdf => {
                    values += 2 * u64::from(u32::from_be_bytes(self.chunk()?));
                    0
                }
            };
            self.take(bytes)?;
        }
        Ok(())
    }

    fn bytes_length(&mut self) -> Result<usize, Problem> {
        let marker = self.byte()?;
        Ok(match marker {
            0xc4 | 0xd9 => usize::from(self.byte()?),
            0xc5 | 0xda => usize::from(u16::from_be_bytes(self.chunk()?)),
            0xc6 | 0xdb => u32::from_be_bytes(self.chunk()?) as usize,
            0xa0..=0xbf => usize::from(marker & 0x1f),
            _ => return Err(unexpected("bytes", marker)),
        })
    }

    /// Every entry takes at least `each` bytes, so a length beyond the bytes that are left is invalid; so is one above
    /// the limit.
    #[inline]
    fn checked_count(&self, length: usize, each: usize, limit: usize) -> Result<usize, Problem> {
        if length > self.left() / each {
            return Err(ValueFault::Truncated.into());
        }
        if length > limit {
            return Err(ValueFault::TooMany { count: length, limit }.into());
        }
        Ok(length)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Problem> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let chunk = self.frame[self.at..].first_chunk::<N>().ok_or(ValueFault::Truncated)?;
        self.at += N;
        Ok(*chunk)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let taken = self.frame[self.at..].get(..length).ok_or(ValueFault::Truncated)?;
        self.at += length;
        Ok(taken)
    }
}

#[cold]
fn unexpected(expected: &'static str, marker: u8) -> Problem {
    let found = match marker {
        0..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff => "a number",
        0x80..=0x8f | 0xde | 0xdf => "a map",
        0x90..=0x9f | 0xdc | 0xdd => "a list",
        0xa0..=0xbf | 0xd9..=0xdb => "text",
        0xc0 => "nil",
        0xc1 => "the byte c1, which MessagePack does not use",
        0xc2 | 0xc3 => "true or false",
        0xc4..=0xc6 => "bytes",
        0xc7..=0xc9 | 0xd4..=0xd8 => "an extension",
        0xca | 0xcb => "a number with a fraction",
    };
    ValueFault::Unexpected { expected, found }.into()
}
