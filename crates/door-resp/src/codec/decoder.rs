//! The incremental decoder of commands.

use bytes::{Bytes, BytesMut};

use super::error::ProtocolError;
use super::inline;
use super::limits::RespLimits;
use super::raw_command::{RawCommand, Span};

/// Digits, a sign and some spare: a longer number is invalid.
const LENGTH_DIGITS_MAX: usize = 20;
/// A command with many arguments leaves a long list of spans; keep at most this capacity.
const SPANS_KEPT_MAX: usize = 1024;

/// Decodes the same commands however the byte stream is split.
///
/// It remembers its position, so a command that arrives in a thousand reads is parsed once. After an error it stays
/// broken: the rest of the stream has no meaning.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    limits: RespLimits,
    progress: Progress,
    spans: Vec<Span>,
    /// The last complete command, stored here so that it can be lent without allocating.
    frame: Bytes,
}

#[derive(Clone, Copy, Debug, Default)]
enum Progress {
    #[default]
    Start,
    /// No line end in the first `searched` bytes of an inline command.
    Line {
        searched: usize,
    },
    /// `missing` arguments of an array still to come, the next one begins at `at`.
    Array {
        at: usize,
        missing: usize,
    },
    Broken(ProtocolError),
}

impl Decoder {
    /// A decoder without bytes.
    pub fn new(limits: RespLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Applies from the next argument on, so that a peer may authenticate and continue in one write.
    pub fn set_limits(&mut self, limits: RespLimits) {
        self.limits = limits;
    }

    /// Adds bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Where a socket may write directly.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Bytes that arrived and belong to no complete command yet.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Frees the memory of an idle connection.
    pub fn release_memory(&mut self) {
        self.frame = Bytes::new();
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.spans = Vec::new();
        }
    }

    /// Returns the next complete command, or `None` yet.
    pub fn next_request(&mut self) -> Result<Option<RawCommand<'_>>, ProtocolError> {
        // The buffer can reuse its memory once the last command is no longer borrowed.
        self.frame = Bytes::new();
        match self.advance() {
            Ok(true) => Ok(Some(RawCommand::new(&self.frame, &self.spans))),
            Ok(false) => Ok(None),
            Err(error) => {
                self.progress = Progress::Broken(error);
                self.buffer = BytesMut::new();
                self.spans = Vec::new();
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<bool, ProtocolError> {
        loop {
            match self.progress {
                Progress::Start => {
                    let Some(&first) = self.buffer.first() else { return Ok(false) };
                    if first != b'*' {
                        self.progress = Progress::Line { searched: 0 };
                    } else if !self.begin_array()? {
                        return Ok(false);
                    }
                }
                Progress::Line { searched } => {
                    let Some(end) = self.find_line_end(searched)? else { return Ok(false) };
                    self.progress = Progress::Start;
                    if self.take_line(end)? {
                        return Ok(true);
                    }
                }
                Progress::Array { at, missing: 0 } => {
                    self.frame = self.buffer.split_to(at).freeze();
                    self.progress = Progress::Start;
                    return Ok(true);
                }
                Progress::Array { at, missing } => {
                    let Some(end) = self.take_argument(at)? else { return Ok(false) };
                    self.progress = Progress::Array { at: end, missing: missing - 1 };
                }
                Progress::Broken(error) => return Err(error),
            }
        }
    }

    /// Reads `*<count>`. Returns false if it is incomplete. Skips an empty or null array, which is not a command.
    fn begin_array(&mut self) -> Result<bool, ProtocolError> {
        let Some((count, end)) = length_line(&self.buffer, 1, ProtocolError::ArrayLength)? else {
            return Ok(false);
        };
        if count <= 0 {
            let _ = self.buffer.split_to(end);
            return Ok(true);
        }
        let missing = usize::try_from(count).unwrap_or(usize::MAX);
        if missing > self.limits.arguments {
            return Err(ProtocolError::TooManyArguments { max: self.limits.arguments });
        }
        self.forget_spans();
        self.progress = Progress::Array { at: end, missing };
        Ok(true)
    }

    /// Reads `$<length>`, the bytes and their line end. Returns where the next argument begins, or `None` yet.
    fn take_argument(&mut self, at: usize) -> Result<Option<usize>, ProtocolError> {
        let Some(&kind) = self.buffer.get(at) else { return Ok(None) };
        if kind != b'$' {
            return Err(ProtocolError::ExpectedBulk(kind));
        }
        let Some((length, start)) = length_line(&self.buffer, at + 1, ProtocolError::BulkLength)? else {
            return Ok(None);
        };
        let Ok(length) = usize::try_from(length) else { return Err(ProtocolError::BulkLength) };
        // The size is refused when it is announced, before any byte of it has arrived.
        if length > self.limits.argument_bytes {
            return Err(ProtocolError::ArgumentTooLong { max: self.limits.argument_bytes });
        }
        let end = start + length;
        if end + 2 > self.limits.message_bytes {
            return Err(ProtocolError::MessageTooLong { max: self.limits.message_bytes });
        }
        let Some(line_end) = self.buffer.get(end..end + 2) else { return Ok(None) };
        if line_end != b"\r\n" {
            return Err(ProtocolError::ExpectedLineEnd);
        }
        self.spans.push(Span::new(start, end));
        Ok(Some(end + 2))
    }

    fn find_line_end(&mut self, searched: usize) -> Result<Option<usize>, ProtocolError> {
        let found = self.buffer[searched..].iter().position(|&byte| byte == b'\n');
        let length = found.map_or(self.buffer.len(), |offset| searched + offset);
        if length > self.limits.inline_bytes {
            return Err(ProtocolError::InlineTooLong { max: self.limits.inline_bytes });
        }
        if found.is_none() {
            self.progress = Progress::Line { searched: length };
        }
        Ok(found.map(|_| length))
    }

    /// Takes one line off the buffer. Returns false if it was empty.
    fn take_line(&mut self, end: usize) -> Result<bool, ProtocolError> {
        let line = self.buffer.split_to(end + 1);
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        self.forget_spans();
        let mut words = BytesMut::with_capacity(line.len());
        inline::split(line, &mut words, &mut self.spans)?;
        if self.spans.len() > self.limits.arguments {
            return Err(ProtocolError::TooManyArguments { max: self.limits.arguments });
        }
        self.frame = words.freeze();
        Ok(!self.spans.is_empty())
    }

    fn forget_spans(&mut self) {
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT_MAX);
    }
}

/// A signed decimal and CRLF from `start`: its value and where the next line begins, or none yet.
fn length_line(
    buffer: &[u8],
    start: usize,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let rest = &buffer[start..];
    let Some(digits) = rest.iter().take(LENGTH_DIGITS_MAX + 1).position(|&byte| byte == b'\r') else {
        let complete = rest.len() > LENGTH_DIGITS_MAX;
        return if complete { Err(ProtocolError::LengthTooLong) } else { Ok(None) };
    };
    let value = decimal(&rest[..digits]).ok_or(invalid)?;
    match rest.get(digits + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((value, start + digits + 2))),
        Some(_) => Err(invalid),
    }
}

/// A number as Redis writes it: no plus sign, no leading zeros.
fn decimal(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] if !negative => return Some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(request: &RawCommand<'_>) -> Vec<String> {
        request.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    fn all(decoder: &mut Decoder) -> Result<Vec<Vec<String>>, ProtocolError> {
        let mut commands = Vec::new();
        while let Some(request) = decoder.next_request()? {
            commands.push(words(&request));
        }
        Ok(commands)
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Vec<String>>, ProtocolError> {
        let mut decoder = Decoder::default();
        decoder.feed(bytes);
        all(&mut decoder)
    }

    #[test]
    fn an_array_of_bulk_strings_is_a_command() {
        let commands = decode(b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n").unwrap();
        assert_eq!(commands, [["ECHO", "hello"]]);
    }

    #[test]
    fn pipelined_commands_come_out_in_order_whatever_their_form() {
        let commands =
            decode(b"*1\r\n$4\r\nPING\r\nECHO 'a b'\r\n*0\r\n\r\n*-1\r\n*1\r\n$4\r\nQUIT\r\n").unwrap();
        assert_eq!(commands, [vec!["PING"], vec!["ECHO", "a b"], vec!["QUIT"]]);
    }

    #[test]
    fn a_command_that_arrives_byte_by_byte_is_complete_with_its_last_byte() {
        let bytes = b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n";
        let mut decoder = Decoder::default();
        for byte in &bytes[..bytes.len() - 1] {
            decoder.feed(&[*byte]);
            assert!(decoder.next_request().unwrap().is_none());
        }
        decoder.feed(b"\n");
        assert_eq!(words(&decoder.next_request().unwrap().unwrap()), ["ECHO", "hello"]);
        assert_eq!(decoder.pending_bytes(), 0);
    }

    #[test]
    fn an_argument_may_hold_any_bytes() {
        let mut decoder = Decoder::default();
        decoder.feed(b"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\0\xff\r\n");
        assert_eq!(decoder.next_request().unwrap().unwrap().argument(1), b"\r\n\0\xff");
    }

    #[test]
    fn a_size_is_refused_when_it_is_announced() {
        let limits = RespLimits::trusted_with(100);
        let mut decoder = Decoder::new(limits);
        decoder.feed(b"*2\r\n$4\r\nECHO\r\n$101\r\n");
        assert_eq!(decoder.next_request().unwrap_err(), ProtocolError::ArgumentTooLong { max: 100 });

        let mut decoder = Decoder::new(limits);
        decoder.feed(b"*2\r\n$4\r\nECHO\r\n$99\r\n");
        assert_eq!(decoder.next_request().unwrap_err(), ProtocolError::MessageTooLong { max: 100 });
    }

    #[test]
    fn a_huge_count_is_refused_and_costs_nothing() {
        assert_eq!(
            decode(b"*100001\r\n").unwrap_err(),
            ProtocolError::TooManyArguments { max: RespLimits::ARGUMENTS_MAX }
        );
        assert_eq!(decode(b"*99999999999999999999\r\n").unwrap_err(), ProtocolError::ArrayLength);
        assert_eq!(decode(b"*999999999999999999999999").unwrap_err(), ProtocolError::LengthTooLong);
        let mut decoder = Decoder::default();
        decoder.feed(b"*100000\r\n");
        assert!(decoder.next_request().unwrap().is_none());
        assert_eq!(decoder.spans.capacity(), 0, "a count alone reserves no memory");
    }

    #[test]
    fn nesting_is_refused_at_the_first_level() {
        assert_eq!(decode(&b"*1\r\n".repeat(100_000)).unwrap_err(), ProtocolError::ExpectedBulk(b'*'));
    }

    #[test]
    fn a_broken_stream_stays_broken() {
        let mut decoder = Decoder::default();
        decoder.feed(b"*1\r\n:1\r\n");
        assert_eq!(decoder.next_request().unwrap_err(), ProtocolError::ExpectedBulk(b':'));
        decoder.feed(b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(decoder.next_request().unwrap_err(), ProtocolError::ExpectedBulk(b':'));
    }

    #[test]
    fn a_line_without_end_is_refused_at_its_limit() {
        let mut decoder = Decoder::default();
        for _ in 0..RespLimits::INLINE_BYTES_MAX / 1024 {
            decoder.feed(&[b'x'; 1024]);
            assert!(decoder.next_request().unwrap().is_none());
        }
        decoder.feed(b"x");
        assert_eq!(
            decoder.next_request().unwrap_err(),
            ProtocolError::InlineTooLong { max: RespLimits::INLINE_BYTES_MAX }
        );
    }

    #[test]
    fn counts_are_written_in_one_way_only() {
        for wrong in [&b"*+1\r\n"[..], b"*01\r\n", b"*-0\r\n", b"*\r\n", b"*1 \r\n", b"*x\r\n", b"*1\rx"] {
            assert_eq!(decode(wrong).unwrap_err(), ProtocolError::ArrayLength, "{wrong:?}");
        }
        assert_eq!(decode(b"*1\r\n$-1\r\n").unwrap_err(), ProtocolError::BulkLength);
        assert_eq!(decode(b"*1\r\n$4\r\nPINGxx").unwrap_err(), ProtocolError::ExpectedLineEnd);
    }

    #[test]
    fn before_login_a_peer_may_only_log_in_and_continues_at_once_afterwards() {
        let mut decoder = Decoder::new(RespLimits::unauthenticated());
        decoder.feed(b"*2\r\n$4\r\nAUTH\r\n$1\r\nk\r\n*11\r\n");
        assert_eq!(words(&decoder.next_request().unwrap().unwrap()), ["AUTH", "k"]);
        decoder.set_limits(RespLimits::trusted());
        assert!(decoder.next_request().unwrap().is_none());

        let mut decoder = Decoder::new(RespLimits::unauthenticated());
        decoder.feed(b"*11\r\n");
        assert_eq!(decoder.next_request().unwrap_err(), ProtocolError::TooManyArguments { max: 10 });
    }

    #[test]
    fn an_idle_connection_holds_no_buffer() {
        let mut decoder = Decoder::default();
        decoder.feed(&[b"*2\r\n$4\r\nECHO\r\n$100000\r\n".as_slice(), &[b'x'; 100_000], b"\r\n"].concat());
        assert!(decoder.next_request().unwrap().is_some());
        assert!(decoder.next_request().unwrap().is_none());
        decoder.release_memory();
        assert_eq!(decoder.buffer.capacity(), 0);
    }
}
