//! Makes untrusted text and bytes safe for a terminal.
//!
//! A task's output, a name or a message may contain escape sequences that move the cursor, forge lines or set the
//! window's title, and characters that change the direction of text. On a terminal they are escaped. Output to a
//! file or a pipe stays unchanged.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use tenure_hub::words::is_invisible;
use unicode_width::UnicodeWidthStr;

/// A piece of one line: a line feed is shown too.
pub(crate) fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, |c| if c == '\n' { Shown::As("⏎") } else { Shown::Escaped })
}

/// Text of several lines: their ends and tabs stay.
pub(crate) fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| if matches!(c, '\n' | '\t') { Shown::As("") } else { Shown::Escaped })
}

/// A JSON document: what could do harm becomes an escape that JSON knows, and means the same.
pub(crate) fn escape_json(document: &str) -> Cow<'_, str> {
    escape(document, |c| if c == '\n' { Shown::As("") } else { Shown::AsJson })
}

/// Writes bytes of a task: as they are, or escaped on a terminal.
pub(crate) fn write<W: Write + IsTerminal>(out: &mut W, bytes: &[u8]) -> io::Result<()> {
    if out.is_terminal() {
        out.write_all(escape_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
    } else {
        out.write_all(bytes)?;
    }
    out.flush()
}

/// Breaks lines between words where they are longer than the terminal is wide. A word that is too long for a line stays
/// whole, and the terminal breaks it.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    text.split('\n').map(|line| wrap_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    if shown_width(line) <= width {
        return line.to_owned();
    }
    let (mut wrapped, mut used) = (String::new(), 0);
    for piece in line.split_inclusive(' ') {
        let word = shown_width(piece.trim_end());
        if used > 0 && used + word > width {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped.push('\n');
            used = 0;
        }
        wrapped += piece;
        used += shown_width(piece);
        if word > width {
            used %= width.max(1);
        }
    }
    wrapped
}

/// The columns that a text takes, without those of its colours.
fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut pieces = text.split("\x1b[");
    width += pieces.next().unwrap_or_default().width();
    for piece in pieces {
        width += piece.split_once('m').map_or(piece, |(_, rest)| rest).width();
    }
    width
}

/// How a dangerous character is shown. An empty text means the character itself.
enum Shown {
    As(&'static str),
    Escaped,
    AsJson,
}

fn escape(text: &str, how: impl Fn(char) -> Shown) -> Cow<'_, str> {
    let is_harmful = |c: char| c.is_control() || is_invisible(c);
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    // The carriage return of a line's end is part of the line's end.
    let text = text.replace("\r\n", "\n");
    for c in text.chars() {
        if !is_harmful(c) {
            shown.push(c);
            continue;
        }
        match how(c) {
            Shown::As("") => shown.push(c),
            Shown::As(instead) => shown.push_str(instead),
            Shown::Escaped if (c as u32) < 0x100 => shown += &format!("\\x{:02x}", c as u32),
            Shown::Escaped => shown += &format!("\\u{{{:x}}}", c as u32),
            Shown::AsJson => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    shown += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_cannot_control_the_terminal() {
        assert_eq!(escape_line("a\x1b[2Jb\nc"), "a\\x1b[2Jb⏎c");
        assert_eq!(escape_line("a\u{202e}b\u{9b}31m"), "a\\u{202e}b\\x9b31m");
        assert_eq!(escape_line("plain é 漢字"), "plain é 漢字");
    }

    #[test]
    fn lines_stay_lines_and_a_lone_carriage_return_cannot_overwrite_one() {
        assert_eq!(escape_lines("a\tb\r\nc\rd\n"), "a\tb\nc\\x0dd\n");
        assert_eq!(escape_lines("\x1b]0;owned\x07"), "\\x1b]0;owned\\x07");
    }

    #[test]
    fn a_long_line_is_broken_between_words() {
        assert_eq!(wrap("one two three four", 9), "one two\nthree\nfour");
        assert_eq!(wrap("one three four", 9), "one three\nfour");
        assert_eq!(wrap("one tree a four", 9), "one tree\na four");
        assert_eq!(wrap("short\none two three", 9), "short\none two\nthree");
        assert_eq!(wrap("\x1b[2mone\x1b[0m two", 7), "\x1b[2mone\x1b[0m two", "a colour takes no room");
        assert_eq!(wrap("a abcdefghijk b", 5), "a\nabcdefghijk b", "a path stays whole for the mouse");
        assert_eq!(wrap("日本 語テ", 6), "日本\n語テ");
    }

    #[test]
    fn an_escaped_document_means_the_same() {
        let value = serde_json::json!({ "a\u{9b}": "b\u{202e}\u{e0001}c\x1b" });
        for document in [value.to_string(), format!("{value:#}")] {
            let shown = escape_json(&document).into_owned();
            assert!(shown.chars().all(|c| c == '\n' || !(c.is_control() || is_invisible(c))), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
