//! A hand-written parser for the notation that reports positions.

use bytes::Bytes;

use super::{NotationError, Part, Pattern};
use crate::limits::DEPTH_MAX;
use crate::value::Value;

/// One pattern that is all of `text`.
pub(super) fn parse(text: &str) -> Result<Pattern, NotationError> {
    let mut parser = Parser { text, at: 0 };
    let pattern = parser.pattern(0)?;
    parser.space();
    if parser.at < text.len() {
        return parser.expected("the end of the line");
    }
    Ok(pattern)
}

/// A text, with or without placeholders.
fn text(text: String) -> Pattern {
    if !text.contains("${") {
        return Pattern::Exactly(Value::Text(text));
    }
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(a, b)| Some((a, b.split_once('}')?)))
    {
        parts.push(Part::Exactly(before.to_owned()));
        parts.push(if name == "*" { Part::Anything } else { Part::Named(name.to_owned()) });
        rest = after;
    }
    parts.push(Part::Exactly(rest.to_owned()));
    Pattern::Text(parts)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn pattern(&mut self, depth: usize) -> Result<Pattern, NotationError> {
        if depth > DEPTH_MAX {
            return self.expected("something less deep");
        }
        self.space();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return self.expected("a value") };
        match first {
            '[' => self.list(depth),
            '{' => self.map(depth),
            '"' => self.quoted().map(text),
            'b' if rest.starts_with("b\"") => {
                self.at += 1;
                self.quoted().map(|text| Pattern::Exactly(Value::Bytes(text.into())))
            }
            'x' if rest.starts_with("x\"") => {
                self.at += 1;
                self.hexadecimal().map(|bytes| Pattern::Exactly(Value::Bytes(bytes)))
            }
            '*' => {
                self.at += 1;
                Ok(Pattern::Anything)
            }
            '$' => {
                self.at += 1;
                let name = self.word();
                if name.is_empty() {
                    return self.expected("a name");
                }
                Ok(Pattern::Named(name.to_owned()))
            }
            '-' | '0'..='9' => self.number(),
            _ => self.constant(),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Pattern, NotationError> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut and_more = false;
        while !self.closes(']')? {
            if self.take_rest_mark() {
                and_more = true;
                continue;
            }
            entries.push(self.pattern(depth + 1)?);
            self.comma(']')?;
        }
        Ok(Pattern::List { entries, and_more })
    }

    fn map(&mut self, depth: usize) -> Result<Pattern, NotationError> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut and_more = false;
        while !self.closes('}')? {
            if self.take_rest_mark() {
                and_more = true;
                continue;
            }
            self.space();
            let key = self.quoted()?;
            self.space();
            if !self.rest().starts_with(':') {
                return self.expected("`:`");
            }
            self.at += 1;
            entries.push((key, self.pattern(depth + 1)?));
            self.comma('}')?;
        }
        Ok(Pattern::Map { entries, and_more })
    }

    fn closes(&mut self, bracket: char) -> Result<bool, NotationError> {
        self.space();
        if self.rest().is_empty() {
            return self.expected("a closing bracket");
        }
        let closes = self.rest().starts_with(bracket);
        self.at += usize::from(closes);
        Ok(closes)
    }

    fn comma(&mut self, bracket: char) -> Result<(), NotationError> {
        self.space();
        if self.rest().starts_with(',') {
            self.at += 1;
            return Ok(());
        }
        if self.rest().starts_with(bracket) { Ok(()) } else { self.expected("`,` or a closing bracket") }
    }

    fn take_rest_mark(&mut self) -> bool {
        self.space();
        for mark in ["…", "..."] {
            if self.rest().starts_with(mark) {
                self.at += mark.len();
                return true;
            }
        }
        false
    }

    fn quoted(&mut self) -> Result<String, NotationError> {
        if !self.rest().starts_with('"') {
            return self.expected("`\"`");
        }
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(letter) = self.rest().chars().next() else { return self.expected("`\"`") };
            self.at += letter.len_utf8();
            match letter {
                '"' => return Ok(text),
                '\\' => text.push(self.escaped()?),
                letter => text.push(letter),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, NotationError> {
        let Some(letter) = self.rest().chars().next() else { return self.expected("an escape") };
        self.at += letter.len_utf8();
        Ok(match letter {
            'n' => '\n',
            't' => '\t',
            'u' => {
                let code = self.rest().get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some(letter) = code.and_then(char::from_u32) else { return self.expected("four digits") };
                self.at += 4;
                letter
            }
            letter => letter,
        })
    }

    fn hexadecimal(&mut self) -> Result<Bytes, NotationError> {
        let digits: Vec<u32> = {
            let text = self.quoted()?;
            let digits: Option<Vec<u32>> =
                text.chars().filter(|letter| *letter != ' ').map(|letter| letter.to_digit(16)).collect();
            let Some(digits) = digits else { return self.expected("hexadecimal digits") };
            digits
        };
        if digits.len() % 2 == 1 {
            return self.expected("an even number of digits");
        }
        Ok(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
    }

    fn number(&mut self) -> Result<Pattern, NotationError> {
        let rest = self.rest();
        let end = rest
            .find(|letter: char| !matches!(letter, '-' | '+' | '.' | 'e' | '0'..='9'))
            .unwrap_or(rest.len());
        let digits = &rest[..end];
        let value = match digits.parse::<i128>() {
            Ok(value) => Value::Int(value),
            Err(_) => match digits.parse::<f64>() {
                Ok(value) => Value::Float(value),
                Err(_) => return self.expected("a number"),
            },
        };
        self.at += end;
        Ok(Pattern::Exactly(value))
    }

    fn constant(&mut self) -> Result<Pattern, NotationError> {
        let start = self.at;
        let value = match self.word() {
            "null" => Value::Nil,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => {
                self.at = start;
                return self.expected("a value");
            }
        };
        Ok(Pattern::Exactly(value))
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, NotationError> {
        Err(NotationError::Syntax { at: self.at, expected })
    }
}
