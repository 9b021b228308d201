//! The fields of a view: the broker's data about a job or a plan, and the metadata that clients store for it. Where
//! both have a field, the broker's value wins.

use bytes::Bytes;
use serde_json::{Map, Value};
use tenure_hub::keyspace::{Command as KeyCommand, HashCommand, Reply as KeyReply, glob};

use super::CallerInfo;
use super::views::{AfterValue, ViewFlow, value_for};
use crate::codec::Reply;
use crate::command::HashPart;
use crate::flow::{CommandFlow, FlowStep};
use crate::key::RespKey;

type Fields = Vec<(Bytes, Bytes)>;

/// Reads the metadata first, then the view.
pub(super) fn read(key: RespKey, part: HashPart, speaker: &CallerInfo) -> FlowStep {
    let Some(name) = key.metadata() else {
        return value_for(speaker, key, AfterValue::Hash { part, kept: Vec::new() });
    };
    let wanted = match &part {
        HashPart::Field(field) | HashPart::Has(field) => Some(vec![field.clone()]),
        HashPart::Fields(fields) => Some(fields.clone()),
        HashPart::All | HashPart::Count | HashPart::Names | HashPart::Values | HashPart::Scan(_) => None,
    };
    let command = match &wanted {
        Some(fields) => HashCommand::GetMany { key: name, fields: fields.clone() },
        None => HashCommand::GetAll { key: name },
    };
    let flow = ViewFlow::Metadata { key, part, wanted, speaker: Box::new(speaker.clone()) };
    FlowStep::Keys(KeyCommand::Hash(command), CommandFlow::View(flow))
}

/// What was found of the fields that were wanted by name, or of all.
pub(super) fn kept(wanted: Option<Vec<Bytes>>, reply: KeyReply) -> Fields {
    match (wanted, reply) {
        (None, KeyReply::Map(fields)) => fields,
        (Some(wanted), KeyReply::Array(values)) => {
            let found = wanted.into_iter().zip(values);
            let found = found.filter_map(|(field, value)| match value {
                KeyReply::Bulk(value) => Some((field, value)),
                _ => None,
            });
            found.collect()
        }
        _ => Vec::new(),
    }
}

/// The part of a view's JSON object, and of what is kept beside it, that was asked for.
pub(super) fn part_of(part: HashPart, json: Option<&Bytes>, kept: Fields) -> Reply {
    let object = json.and_then(|json| serde_json::from_slice::<Map<String, Value>>(json).ok());
    let own = object.unwrap_or_default();
    let beside: Fields = kept.into_iter().filter(|(field, _)| !has(&own, field)).collect();
    let own = own.into_iter().map(|(field, value)| (Bytes::from(field), Bytes::from(text_of(value))));
    let fields: Fields = own.chain(beside).collect();
    let find = |wanted: &Bytes| fields.iter().find(|(field, _)| field == wanted).map(|(_, value)| value);
    let bulk = |value: Option<&Bytes>| value.map_or(Reply::Null, |value| Reply::Bulk(value.clone()));
    match part {
        HashPart::Field(field) => bulk(find(&field)),
        HashPart::Fields(wanted) => Reply::array(wanted.iter().map(|field| bulk(find(field)))),
        HashPart::Has(field) => Reply::from(find(&field).is_some()),
        HashPart::Count => Reply::count(fields.len()),
        HashPart::Names => Reply::array(fields.into_iter().map(|(field, _)| Reply::Bulk(field))),
        HashPart::Values => Reply::array(fields.into_iter().map(|(_, value)| Reply::Bulk(value))),
        HashPart::All => Reply::Map(
            fields.into_iter().map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value))).collect(),
        ),
        // All of them in one page, as Redis does with hashes of this size.
        HashPart::Scan(page) => {
            let wants = |field: &Bytes| page.pattern.as_ref().is_none_or(|pattern| glob(pattern, field));
            let found = fields.into_iter().filter(|(field, _)| wants(field));
            let flat = found.flat_map(|(field, value)| [Reply::Bulk(field), Reply::Bulk(value)]);
            Reply::array([Reply::bulk("0"), Reply::array(flat)])
        }
    }
}

fn has(object: &Map<String, Value>, field: &Bytes) -> bool {
    std::str::from_utf8(field).is_ok_and(|field| object.contains_key(field))
}

fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
