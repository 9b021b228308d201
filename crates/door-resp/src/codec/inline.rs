//! Commands typed as a line, with the quoting of `redis-cli` and telnet.

use bytes::{BufMut, BytesMut};

use super::error::ProtocolError;
use super::raw_command::Span;

/// Splits a line into words. The words' bytes are appended to `words`, their places to `spans`.
///
/// In double quotes `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` are understood, in single quotes only `\'`.
/// A closing quote ends the word.
pub(super) fn split(line: &[u8], words: &mut BytesMut, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        rest = take_word(rest, words)?;
        spans.push(Span::new(start, words.len()));
        if spans.len() == 1 && is_http(&words[start..]) {
            return Err(ProtocolError::Http);
        }
    }
}

fn take_word<'a>(line: &'a [u8], words: &mut BytesMut) -> Result<&'a [u8], ProtocolError> {
    let mut rest = line;
    while let [first, after @ ..] = rest {
        rest = match first {
            b'"' => return ended(take_double_quoted(after, words)?),
            b'\'' => return ended(take_single_quoted(after, words)?),
            byte if byte.is_ascii_whitespace() || *byte == 0 => return Ok(after),
            byte => {
                words.put_u8(*byte);
                after
            }
        };
    }
    Ok(rest)
}

fn take_double_quoted<'a>(line: &'a [u8], words: &mut BytesMut) -> Result<&'a [u8], ProtocolError> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.put_u8(hex_value(*high) << 4 | hex_value(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                words.put_u8(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                words.put_u8(*byte);
                after
            }
        }
    }
}

fn take_single_quoted<'a>(line: &'a [u8], words: &mut BytesMut) -> Result<&'a [u8], ProtocolError> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                words.put_u8(b'\'');
                after
            }
            [byte, after @ ..] => {
                words.put_u8(*byte);
                after
            }
        }
    }
}

/// Only a space or the end may follow a closing quote.
fn ended(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// A web page can make a browser send a form to a local port. Its body would be read as commands, so the first words
/// of an HTTP request close the connection.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::raw_command::RawCommand;
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut words, mut spans) = (BytesMut::new(), Vec::new());
        split(line, &mut words, &mut spans)?;
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        let frame: Bytes = words.freeze();
        Ok(RawCommand::new(&frame, &spans).iter().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn words_are_separated_by_any_white_space() {
        assert_eq!(words(b"  SET\ta  b ").unwrap(), [&b"SET"[..], b"a", b"b"]);
        assert!(words(b" \t ").unwrap().is_empty());
    }

    #[test]
    fn double_quotes_understand_escapes() {
        assert_eq!(words(br#"ECHO "a\x41\n\t\"\\\q \xZZ""#).unwrap()[1], b"aA\n\t\"\\q xZZ");
        assert_eq!(words(br#"ECHO """#).unwrap()[1], b"");
    }

    #[test]
    fn single_quotes_are_literal_but_for_the_quote_itself() {
        assert_eq!(words(br#"ECHO 'a\n "b" it\'s'"#).unwrap()[1], br#"a\n "b" it's"#);
    }

    #[test]
    fn a_quote_may_begin_inside_a_word() {
        assert_eq!(words(br#"+OK output="agx-ocr 0.1.0""#).unwrap()[1], b"output=agx-ocr 0.1.0");
    }

    #[test]
    fn quotes_must_close_and_end_the_word() {
        for wrong in [&br#"ECHO "a"#[..], b"ECHO 'a", br#"ECHO "a"b"#, br#"ECHO "a\"#] {
            assert_eq!(words(wrong).unwrap_err(), ProtocolError::UnbalancedQuotes);
        }
    }

    #[test]
    fn a_browser_is_turned_away() {
        assert_eq!(words(b"POST / HTTP/1.1").unwrap_err(), ProtocolError::Http);
        assert_eq!(words(b"Host: localhost").unwrap_err(), ProtocolError::Http);
    }
}
