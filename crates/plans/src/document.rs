//! A JSON object that is taken apart field by field, with errors that name the field.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::{SchemaError, parse_time};

/// Longest text in a field that has no limit of its own.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Ten years. A longer duration is probably a mistake in the unit.
const DURATION_SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;

/// A JSON object that is parsed field by field.
#[derive(Debug)]
pub struct Document {
    what: &'static str,
    fields: Map<String, Value>,
}

impl Document {
    /// `what` begins every error: `Invalid job`.
    pub fn parse(what: &'static str, json: &[u8], bytes_max: usize) -> Result<Self, SchemaError> {
        if json.len() > bytes_max {
            return Err(SchemaError::invalid(what, format!("longer than {bytes_max} bytes")));
        }
        match serde_json::from_slice(json) {
            Ok(Value::Object(fields)) => Ok(Self { what, fields }),
            Ok(_) => Err(SchemaError::invalid(what, "not a JSON object")),
            Err(error) => Err(SchemaError::invalid(what, format!("Invalid JSON, {error}"))),
        }
    }

    /// A document from JSON that was parsed already. Refuses everything but an object.
    pub fn from_value(what: &'static str, value: Value) -> Result<Self, SchemaError> {
        match value {
            Value::Object(fields) => Ok(Self { what, fields }),
            _ => Err(SchemaError::invalid(what, "not a JSON object")),
        }
    }

    /// An error in this document.
    pub fn invalid(&self, why: impl Into<String>) -> SchemaError {
        SchemaError::invalid(self.what, why)
    }

    /// Whether the field is present and not taken yet.
    pub fn has(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|value| !value.is_null())
    }

    /// A null counts as absent.
    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    /// Refuses a document without this field.
    pub fn required<T>(&self, field: &str, value: Option<T>) -> Result<T, SchemaError> {
        value.ok_or_else(|| self.invalid(format!("Missing required field {field}")))
    }

    /// Takes a text.
    pub fn text(&mut self, field: &str, bytes_max: usize) -> Result<Option<String>, SchemaError> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() > bytes_max => {
                Err(self.invalid(format!("{field} is longer than {bytes_max} bytes")))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(format!("{field} is not a string"))),
        }
    }

    /// Takes a text that must be present.
    pub fn required_text(&mut self, field: &str, bytes_max: usize) -> Result<String, SchemaError> {
        let text = self.text(field, bytes_max)?;
        let text = self.required(field, text)?;
        if text.is_empty() { Err(self.invalid(format!("{field} is empty"))) } else { Ok(text) }
    }

    /// Takes a whole number.
    pub fn integer(&mut self, field: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, SchemaError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        match value.as_i64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(_) => {
                Err(self.invalid(format!("{field} is not between {} and {}", range.start(), range.end())))
            }
            None => Err(self.invalid(format!("{field} is not an integer"))),
        }
    }

    /// Takes a number.
    pub fn number(&mut self, field: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, SchemaError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(_) => {
                Err(self.invalid(format!("{field} is not between {} and {}", range.start(), range.end())))
            }
            None => Err(self.invalid(format!("{field} is not a number"))),
        }
    }

    /// Seconds, possibly with a fraction.
    pub fn seconds(&mut self, field: &str) -> Result<Option<Duration>, SchemaError> {
        Ok(self.number(field, 0.0..=DURATION_SECONDS_MAX)?.map(Duration::from_secs_f64))
    }

    /// A point in time as ISO 8601 or as Unix seconds, in milliseconds since 1970.
    pub fn time(&mut self, field: &str) -> Result<Option<u64>, SchemaError> {
        const UNIX_SECONDS_MAX: f64 = 253_402_300_799.0;
        let wrong = || self.invalid(format!("{field} is neither ISO 8601 nor Unix seconds"));
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => parse_time(text).map(Some).ok_or_else(wrong),
            Some(value) => match value.as_f64() {
                Some(seconds) if (0.0..=UNIX_SECONDS_MAX).contains(&seconds) => {
                    let millis = Duration::from_secs_f64(seconds).as_millis();
                    Ok(Some(u64::try_from(millis).unwrap_or(u64::MAX)))
                }
                _ => Err(wrong()),
            },
        }
    }

    /// A list of distinct names, in the order given.
    pub fn names(
        &mut self,
        field: &str,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<String>>, SchemaError> {
        let Some(value) = self.take(field) else { return Ok(None) };
        let wrong = || self.invalid(format!("{field} is not a list of names"));
        let Value::Array(items) = value else { return Err(wrong()) };
        if items.len() > count_max {
            return Err(self.invalid(format!("{field} has more than {count_max} entries")));
        }
        let mut names: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let Value::String(name) = item else { return Err(wrong()) };
            if !is_name(&name, bytes_max) {
                return Err(self.invalid(format!("{field} has an entry that is not a name")));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(Some(names))
    }

    /// Refuses fields that were not read: most often they are misspelled.
    pub fn end(self) -> Result<(), SchemaError> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(field) => {
                let shown: String = field.chars().filter(|c| !c.is_control()).take(64).collect();
                Err(self.invalid(format!("unknown field {shown}")))
            }
        }
    }
}

/// A name of a capability, a tag or a queue: visible, without spaces, not too long.
pub fn is_name(name: &str, bytes_max: usize) -> bool {
    !name.is_empty() && name.len() <= bytes_max && !name.chars().any(|c| c.is_control() || c.is_whitespace())
}
