//! JSON with holes: `*` is any value, `$name` a value that is the same wherever the name appears, `…` any further
//! entries.

use std::collections::HashMap;

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    Any,
    Named(String),
    Exactly(Value),
    List { items: Vec<Pattern>, is_open: bool },
    Object { fields: Vec<(String, Pattern)>, is_open: bool },
}

#[derive(Debug, Default)]
pub(crate) struct Bindings(pub(crate) HashMap<String, Value>);

impl Bindings {
    /// Text with every known name filled in.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.0 {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            filled = filled.replace(&format!("${name}"), &value);
        }
        filled
    }

    pub(crate) fn fits(&mut self, pattern: &Pattern, value: &Value) -> bool {
        match pattern {
            Pattern::Any => true,
            Pattern::Named(name) => match self.0.get(name) {
                Some(known) => known == value,
                None => {
                    self.0.insert(name.clone(), value.clone());
                    true
                }
            },
            Pattern::Exactly(exactly) => exactly == value,
            Pattern::List { items, is_open } => {
                let Some(found) = value.as_array() else { return false };
                (found.len() == items.len() || (*is_open && found.len() > items.len()))
                    && items.iter().zip(found).all(|(pattern, value)| self.fits(pattern, value))
            }
            Pattern::Object { fields, is_open } => {
                let Some(found) = value.as_object() else { return false };
                (*is_open || found.len() == fields.len())
                    && fields
                        .iter()
                        .all(|(name, pattern)| found.get(name).is_some_and(|value| self.fits(pattern, value)))
            }
        }
    }
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Pattern {
        let mut parser = Parser { rest: text };
        let pattern = parser.value();
        assert!(parser.rest.trim().is_empty(), "something follows the pattern: {:?}", parser.rest);
        pattern
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Pattern {
        if self.eat("*") {
            return Pattern::Any;
        }
        if self.eat("$") {
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
            let (name, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Pattern::Named(name.to_owned());
        }
        if self.eat("[") {
            return self.list();
        }
        if self.eat("{") {
            return self.object();
        }
        Pattern::Exactly(self.plain())
    }

    fn list(&mut self) -> Pattern {
        let (mut items, mut is_open) = (Vec::new(), false);
        while !self.eat("]") {
            if self.eat("…") {
                is_open = true;
            } else {
                items.push(self.value());
            }
            self.eat(",");
        }
        Pattern::List { items, is_open }
    }

    fn object(&mut self) -> Pattern {
        let (mut fields, mut is_open) = (Vec::new(), false);
        while !self.eat("}") {
            if self.eat("…") {
                is_open = true;
            } else {
                let name = self.plain().as_str().expect("the name of a field").to_owned();
                assert!(self.eat(":"), "a colon before {:?}", self.rest);
                fields.push((name, self.value()));
            }
            self.eat(",");
        }
        Pattern::Object { fields, is_open }
    }

    /// A text, a number or a word of JSON.
    fn plain(&mut self) -> Value {
        self.rest = self.rest.trim_start();
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        let value =
            values.next().expect("a value").unwrap_or_else(|error| panic!("{error}: {:?}", self.rest));
        let end = values.byte_offset();
        self.rest = &self.rest[end..];
        value
    }
}
