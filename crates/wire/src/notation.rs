//! A text notation for frames: JSON, with additions for what JSON lacks.
//!
//! `b"text"` and `x"00ff"` are bytes. `*` stands for any one value, `$name` for a value that is the same wherever
//! the name appears, and `…` (or `...`) as the last entry of a list or map for any further entries. Inside a text,
//! `${*}` and `${name}` stand for a part of the text.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::value::Value;

mod parser;
mod text;

/// A value with placeholders.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Exactly(Value),
    List {
        entries: Vec<Pattern>,
        and_more: bool,
    },
    Map {
        entries: Vec<(String, Pattern)>,
        and_more: bool,
    },
    Anything,
    Named(String),
    /// A text with placeholders.
    Text(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Exactly(String),
    Anything,
    Named(String),
}

/// A message of one side.
#[derive(Clone, Debug, PartialEq)]
pub enum NotationMessage {
    Frame(Pattern),
    /// `<raw …>`: bytes that are not a valid frame.
    Raw(Bytes),
}

/// The values of the names in patterns.
pub type Bindings = BTreeMap<String, Value>;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotationError {
    #[error("at {at}: expected {expected}")]
    Syntax { at: usize, expected: &'static str },
    #[error("`{0}` does not stand for anything yet")]
    Unbound(String),
    #[error("a pattern with `*` or `…` cannot be sent, only expected")]
    Open,
    #[error("{path}: expected {expected}, got {found}")]
    Mismatch { path: String, expected: String, found: String },
}

impl NotationMessage {
    pub fn parse(text: &str) -> Result<NotationMessage, NotationError> {
        let Some(digits) = text.strip_prefix("<raw ").and_then(|rest| rest.strip_suffix('>')) else {
            return Pattern::parse(text).map(NotationMessage::Frame);
        };
        match Pattern::parse(&format!("x\"{digits}\""))? {
            Pattern::Exactly(Value::Bytes(bytes)) => Ok(NotationMessage::Raw(bytes)),
            _ => Err(NotationError::Syntax { at: 0, expected: "hexadecimal digits" }),
        }
    }
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, NotationError> {
        parser::parse(text)
    }

    /// Returns the value of this pattern.
    pub fn build(&self, bindings: &Bindings) -> Result<Value, NotationError> {
        match self {
            Pattern::Exactly(value) => Ok(value.clone()),
            Pattern::List { entries, and_more: false } => {
                entries.iter().map(|entry| entry.build(bindings)).collect::<Result<_, _>>().map(Value::List)
            }
            Pattern::Map { entries, and_more: false } => entries
                .iter()
                .map(|(key, entry)| Ok((Value::Text(key.clone()), entry.build(bindings)?)))
                .collect::<Result<_, _>>()
                .map(Value::Map),
            Pattern::Named(name) => {
                bindings.get(name).cloned().ok_or_else(|| NotationError::Unbound(name.clone()))
            }
            Pattern::Text(parts) => text::build(parts, bindings).map(Value::Text),
            Pattern::List { .. } | Pattern::Map { .. } | Pattern::Anything => Err(NotationError::Open),
        }
    }

    /// Compares, and binds new names. The order of a map's entries does not matter.
    pub fn match_and_bind(&self, value: &Value, bindings: &mut Bindings) -> Result<(), NotationError> {
        self.match_at(value, bindings, "frame")
    }

    fn match_at(&self, value: &Value, bindings: &mut Bindings, path: &str) -> Result<(), NotationError> {
        let mismatch = |expected: &dyn fmt::Display| NotationError::Mismatch {
            path: path.to_owned(),
            expected: expected.to_string(),
            found: value.to_string(),
        };
        match (self, value) {
            (Pattern::Anything, _) => Ok(()),
            (Pattern::Exactly(expected), _) if expected == value => Ok(()),
            (Pattern::Exactly(expected), _) => Err(mismatch(expected)),
            (Pattern::Named(name), _) => match bindings.get(name) {
                Some(bound) if bound == value => Ok(()),
                Some(bound) => Err(mismatch(&format!("${name}, which is {bound}"))),
                None => {
                    bindings.insert(name.clone(), value.clone());
                    Ok(())
                }
            },
            (Pattern::List { entries, and_more }, Value::List(values)) => {
                if values.len() < entries.len() || (values.len() > entries.len() && !and_more) {
                    return Err(mismatch(&format!("a list of {}", entries.len())));
                }
                let mut pairs = entries.iter().zip(values).enumerate();
                pairs.try_for_each(|(index, (entry, value))| {
                    entry.match_at(value, bindings, &format!("{path}[{index}]"))
                })
            }
            (Pattern::Map { entries, and_more }, Value::Map(values)) => {
                for (key, entry) in entries {
                    let found =
                        values.iter().find(|(name, _)| matches!(name, Value::Text(text) if text == key));
                    let (_, value) = found.ok_or_else(|| mismatch(&format!("a map with {key:?}")))?;
                    entry.match_at(value, bindings, &format!("{path}.{key}"))?;
                }
                if values.len() > entries.len() && !and_more {
                    return Err(mismatch(&format!("a map of {}", entries.len())));
                }
                Ok(())
            }
            (Pattern::Text(parts), Value::Text(text)) if text::match_and_bind(parts, text, bindings) => {
                Ok(())
            }
            (Pattern::Text(parts), _) => Err(mismatch(&format!("a text like {parts:?}"))),
            (Pattern::List { .. }, _) => Err(mismatch(&"a list")),
            (Pattern::Map { .. }, _) => Err(mismatch(&"a map")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nil => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(text) => quote(f, text),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.chars().any(char::is_control) => {
                    f.write_str("b")?;
                    quote(f, text)
                }
                _ => {
                    f.write_str("x\"")?;
                    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                    f.write_str("\"")
                }
            },
            Value::List(entries) => {
                f.write_str("[")?;
                for (index, entry) in entries.iter().enumerate() {
                    write!(f, "{}{entry}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for letter in text.chars() {
        match letter {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            letter if letter.is_control() => write!(f, "\\u{:04x}", u32::from(letter))?,
            letter => write!(f, "{letter}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str, value: &str) -> Result<Bindings, NotationError> {
        let value = Pattern::parse(value)?.build(&Bindings::new())?;
        let mut bindings = Bindings::new();
        Pattern::parse(pattern)?.match_and_bind(&value, &mut bindings)?;
        Ok(bindings)
    }

    #[test]
    fn a_value_prints_as_it_is_written() {
        for text in [
            r#"[7, "submit", {"tasks": [[x"00ff", b"body", null, -3, true]], "rate": 0.5}]"#,
            r#"{"quoted": "a \"b\" \\ \n", "empty": []}"#,
        ] {
            let value = Pattern::parse(text).unwrap().build(&Bindings::new()).unwrap();
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn what_is_left_open_matches_and_what_is_not_must_be_the_same() {
        assert!(matched(r#"[*, "done", {…}]"#, r#"[7, "done", {"new": 1}]"#).is_ok());
        assert!(matched(r#"[1, ...]"#, "[1, 2, 3]").is_ok());
        assert!(
            matched(r#"{"b": 2, "a": 1}"#, r#"{"a": 1, "b": 2}"#).is_ok(),
            "order does not matter in a map"
        );
        assert!(matched("{}", r#"{"new": 1}"#).is_err(), "nothing more is allowed unless said");
        assert!(matched("[1]", "[1, 2]").is_err());
        assert!(matched("1", "2").is_err());
        assert!(matched("[]", "{}").is_err());
    }

    #[test]
    fn a_name_stands_for_the_same_value_everywhere() {
        let bindings = matched("[$task, $task, $other]", r#"["a", "a", "b"]"#).unwrap();
        assert_eq!(bindings["task"], Value::Text("a".into()));
        assert!(matched("[$task, $task]", r#"["a", "b"]"#).is_err());
        assert_eq!(Pattern::parse("[$task]").unwrap().build(&bindings).unwrap().to_string(), r#"["a"]"#);
        assert_eq!(
            Pattern::parse("$new").unwrap().build(&bindings),
            Err(NotationError::Unbound("new".into()))
        );
        assert_eq!(Pattern::parse("[*]").unwrap().build(&bindings), Err(NotationError::Open));
    }

    #[test]
    fn parts_of_a_text_may_be_left_open() {
        let bindings =
            matched(r#"["Add ${id}, done.", "${*}: ${id}"]"#, r#"["Add 7, done.", "again: 7"]"#).unwrap();
        assert_eq!(bindings["id"], Value::Text("7".into()));
        assert_eq!(Pattern::parse(r#""<${id}>""#).unwrap().build(&bindings).unwrap().to_string(), r#""<7>""#);
        assert!(matched(r#"["${id}", "${id}"]"#, r#"["7", "8"]"#).is_err());
        assert!(matched(r#""a ${*} b""#, r#""a c""#).is_err());
        assert!(matched(r#""${*} b""#, r#""a b c""#).is_err());
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        for text in
            ["", "[", "[1", "{1: 2}", "{\"a\" 1}", "\"open", "x\"0\"", "x\"zz\"", "nope", "$", "1 2", "--"]
        {
            assert!(matches!(Pattern::parse(text), Err(NotationError::Syntax { .. })), "{text}");
        }
    }
}
