//! CBOR as the specification pages write it: JSON with integer keys, `*` for anything and `…` for further entries.

use bytes::Bytes;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Float(f64),
    Bool(bool),
    List(Vec<Item>),
    Map { entries: Vec<(Item, Item)>, open: bool },
    Any,
}

impl Item {
    /// Reads an item from its notation; gives what follows it.
    pub(crate) fn read(text: &str) -> (Item, &str) {
        let text = text.trim_start();
        match text.chars().next().expect("an item") {
            '"' => {
                let (string, rest) = string(text);
                (Item::Text(string), rest)
            }
            '{' => read_map(&text[1..]),
            '[' => read_list(&text[1..]),
            '*' => (Item::Any, &text[1..]),
            _ => {
                let end = text.find([',', '}', ']', ':', ' ']).unwrap_or(text.len());
                let (word, rest) = text.split_at(end);
                let item = match word {
                    "true" => Item::Bool(true),
                    "false" => Item::Bool(false),
                    _ => Item::Integer(word.parse().unwrap_or_else(|_| panic!("{word:?} is no item"))),
                };
                (item, rest)
            }
        }
    }

    /// Whether another item is this one, as far as this one says.
    pub(crate) fn covers(&self, other: &Item) -> bool {
        match (self, other) {
            (Item::Any, _) => true,
            (Item::List(mine), Item::List(theirs)) => {
                mine.len() == theirs.len()
                    && mine.iter().zip(theirs).all(|(mine, theirs)| mine.covers(theirs))
            }
            (Item::Map { entries: mine, open }, Item::Map { entries: theirs, .. }) => {
                let found =
                    |key: &Item| theirs.iter().find(|(other, _)| other == key).map(|(_, value)| value);
                (*open || mine.len() == theirs.len())
                    && mine.iter().all(|(key, value)| found(key).is_some_and(|other| value.covers(other)))
            }
            _ => self == other,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Item> {
        let Item::Map { entries, .. } = self else { return None };
        entries.iter().find(|(name, _)| *name == Item::Text(key.to_owned())).map(|(_, value)| value)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Encoder::new(Vec::new());
        self.write(&mut out);
        out.into_writer().into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Item> {
        let mut decoder = Decoder::new(bytes);
        let item = decode(&mut decoder).ok()?;
        (decoder.position() == bytes.len()).then_some(item)
    }

    fn write(&self, out: &mut Encoder<Vec<u8>>) {
        match self {
            Item::Integer(number) => out.i64(*number).map(drop),
            Item::Text(text) => out.str(text).map(drop),
            Item::Bytes(bytes) => out.bytes(bytes).map(drop),
            Item::Float(float) => out.f64(*float).map(drop),
            Item::Bool(truth) => out.bool(*truth).map(drop),
            Item::List(items) => {
                out.array(items.len() as u64).expect("memory");
                items.iter().for_each(|item| item.write(out));
                Ok(())
            }
            Item::Map { entries, open } => {
                assert!(!open, "`…` can only be heard");
                out.map(entries.len() as u64).expect("memory");
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
                Ok(())
            }
            Item::Any => panic!("`*` can only be heard"),
        }
        .expect("memory");
    }
}

/// Reads a string in quotes, with `\"`; gives what follows it.
pub(crate) fn string(text: &str) -> (String, &str) {
    let mut string = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (string, &text[at + 1..]),
            '\\' => string.push(chars.next().expect("something after a backslash").1),
            _ => string.push(char),
        }
    }
    panic!("{text:?} has no end");
}

fn read_map(mut text: &str) -> (Item, &str) {
    let mut entries = Vec::new();
    let mut open = false;
    loop {
        text = text.trim_start_matches([' ', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return (Item::Map { entries, open }, rest);
        }
        if let Some(rest) = text.strip_prefix('…') {
            (open, text) = (true, rest);
            continue;
        }
        let (key, rest) = Item::read(text);
        let rest = rest.trim_start().strip_prefix(':').expect("a colon after a key");
        let (value, rest) = Item::read(rest);
        entries.push((key, value));
        text = rest;
    }
}

fn read_list(mut text: &str) -> (Item, &str) {
    let mut items = Vec::new();
    loop {
        text = text.trim_start_matches([' ', ',']);
        if let Some(rest) = text.strip_prefix(']') {
            return (Item::List(items), rest);
        }
        let (item, rest) = Item::read(text);
        items.push(item);
        text = rest;
    }
}

fn decode(decoder: &mut Decoder<'_>) -> Result<Item, minicbor::decode::Error> {
    Ok(match decoder.datatype()? {
        Type::String => Item::Text(decoder.str()?.to_owned()),
        Type::Bytes => Item::Bytes(decoder.bytes()?.to_vec()),
        Type::Bool => Item::Bool(decoder.bool()?),
        Type::F16 | Type::F32 | Type::F64 => Item::Float(decoder.f64()?),
        Type::Array => {
            let count = decoder.array()?.unwrap_or_default();
            Item::List((0..count).map(|_| decode(decoder)).collect::<Result<_, _>>()?)
        }
        Type::Map => {
            let count = decoder.map()?.unwrap_or_default();
            let entries = (0..count).map(|_| Ok((decode(decoder)?, decode(decoder)?)));
            Item::Map { entries: entries.collect::<Result<_, minicbor::decode::Error>>()?, open: false }
        }
        _ => Item::Integer(decoder.i64()?),
    })
}
