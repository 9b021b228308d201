//! The parameters of a `_PL` call.
//!
//! A client sends a batch: a table that maps small integers to names, then one map of parameters per call that uses
//! the integers as keys. The door puts the names back when the batch arrives, so that the body of the task is a
//! plain map for any worker. When a call goes to a `_PL` worker, the door adds what the worker needs to answer it.

use std::collections::BTreeMap;

use bytes::Bytes;
use minicbor::Decoder;
use minicbor::data::Type;

use super::MdpError;
use super::cbor::{self, DEPTH_MAX, wrote};
use crate::body;

/// The longest parameters of one call.
pub const PARAMS_BYTES_MAX: usize = 4 << 20;
/// The longest key table.
const TABLE_BYTES_MAX: usize = 256 << 10;

/// The names behind a batch's integer keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyTable(BTreeMap<i128, String>);

/// What the broker adds to the parameters of a call on its way to a `_PL` worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MdpCall<'a> {
    /// The slot of the worker, which identifies the job when the worker reports its end.
    pub thread: u32,
    /// Who asked.
    pub client: &'a str,
    /// The task, added only if the client gave no `JobID`.
    pub job: &'a str,
    /// The attempt, for a worker that guards its side effects.
    pub attempt: u32,
}

impl KeyTable {
    /// Reads the table frame of a batch. Skips entries that do not map an integer to a text.
    pub fn parse(frame: &Bytes) -> Result<KeyTable, MdpError> {
        if frame.len() > TABLE_BYTES_MAX {
            return Err(MdpError::Cbor);
        }
        let mut names = BTreeMap::new();
        each_entry(frame, |key, value| {
            if let (Some(number), Ok(name)) = (integer(key), Decoder::new(value).str()) {
                names.insert(number, name.to_owned());
            }
        })?;
        Ok(KeyTable(names))
    }
}

/// Puts the names back in, at every depth. Text keys stay, integers the table does not know are dropped with their
/// values, everything else is copied as it came.
pub fn expand(frame: &Bytes, table: &KeyTable) -> Result<Bytes, MdpError> {
    if frame.len() > PARAMS_BYTES_MAX {
        return Err(MdpError::Cbor);
    }
    let mut decoder = Decoder::new(frame);
    if !matches!(decoder.datatype()?, Type::Map | Type::MapIndef) {
        return Err(MdpError::Cbor);
    }
    let mut expanded = Vec::with_capacity(frame.len() * 2);
    expand_item(&mut decoder, table, &mut expanded, DEPTH_MAX)?;
    if decoder.position() != frame.len() {
        return Err(MdpError::Cbor);
    }
    Ok(expanded.into())
}

/// The parameters frame for a `_PL` worker, from the body of a task. A body that is no CBOR map (a task of another
/// door) is put under `Body`: one byte string, or an array of them when it has several frames.
pub fn for_worker(task_body: &Bytes, call: &MdpCall<'_>) -> Bytes {
    let mut kept = Vec::new();
    let mut count = 0;
    let mut names_job = false;
    let is_map = task_body.len() <= PARAMS_BYTES_MAX
        && each_entry(task_body, |key, value| {
            let name = Decoder::new(key).str().unwrap_or_default();
            if !matches!(name, THREAD | CLIENT | ATTEMPT) {
                names_job |= name == JOB;
                count += 1;
                kept.extend_from_slice(key);
                kept.extend_from_slice(value);
            }
        })
        .is_ok();
    if !is_map {
        (kept, count, names_job) = (wrapped(task_body), 1, false);
    }
    let mut out = cbor::writer();
    wrote(out.map(count + 3 + u64::from(!names_job)));
    out.writer_mut().extend_from_slice(&kept);
    wrote(wrote(out.str(THREAD)).u32(call.thread));
    wrote(wrote(out.str(CLIENT)).str(call.client));
    wrote(wrote(out.str(ATTEMPT)).u32(call.attempt));
    if !names_job {
        wrote(wrote(out.str(JOB)).str(call.job));
    }
    out.into_writer().into()
}

/// A parameter that is text, from a body that is a CBOR map: how `JobID` and `CommitName` are read.
pub fn text_parameter(task_body: &Bytes, name: &str) -> Option<String> {
    if task_body.len() > PARAMS_BYTES_MAX {
        return None;
    }
    let mut found = None;
    each_entry(task_body, |key, value| {
        if Decoder::new(key).str().is_ok_and(|text| text == name) {
            found = Decoder::new(value).str().ok().map(str::to_owned);
        }
    })
    .ok()?;
    found
}

const THREAD: &str = "ThreadID";
const CLIENT: &str = "Client";
const ATTEMPT: &str = "Attempt";
const JOB: &str = "JobID";
const BODY: &str = "Body";

/// Calls `visit` with the bytes of every key and value, if the frame is exactly one map.
fn each_entry(frame: &[u8], mut visit: impl FnMut(&[u8], &[u8])) -> Result<(), MdpError> {
    let mut decoder = Decoder::new(frame);
    let mut left = decoder.map()?;
    while cbor::more(&mut decoder, &mut left)? {
        let key = cbor::skip(&mut decoder, DEPTH_MAX)?;
        let value = cbor::skip(&mut decoder, DEPTH_MAX)?;
        visit(key, value);
    }
    if decoder.position() == frame.len() { Ok(()) } else { Err(MdpError::Cbor) }
}

fn expand_item(
    decoder: &mut Decoder<'_>,
    table: &KeyTable,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), MdpError> {
    let inner = depth.checked_sub(1).ok_or(MdpError::Cbor)?;
    match decoder.datatype()? {
        Type::Map | Type::MapIndef => expand_map(decoder, table, out, inner),
        Type::Array | Type::ArrayIndef => {
            let mut items = Vec::new();
            let mut count = 0;
            let mut left = decoder.array()?;
            while cbor::more(decoder, &mut left)? {
                expand_item(decoder, table, &mut items, inner)?;
                count += 1;
            }
            cbor::open_array(out, count);
            out.extend_from_slice(&items);
            Ok(())
        }
        Type::Tag => {
            let start = decoder.position();
            decoder.tag()?;
            out.extend_from_slice(&decoder.input()[start..decoder.position()]);
            expand_item(decoder, table, out, inner)
        }
        _ => {
            out.extend_from_slice(cbor::skip(decoder, depth)?);
            Ok(())
        }
    }
}

fn expand_map(
    decoder: &mut Decoder<'_>,
    table: &KeyTable,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), MdpError> {
    let mut entries = cbor::writer();
    let mut count = 0;
    let mut left = decoder.map()?;
    while cbor::more(decoder, &mut left)? {
        let key = cbor::skip(decoder, depth)?;
        match integer(key) {
            Some(number) => match table.0.get(&number) {
                Some(name) => wrote(entries.str(name)),
                None => {
                    cbor::skip(decoder, depth)?;
                    continue;
                }
            },
            None => {
                entries.writer_mut().extend_from_slice(key);
                &mut entries
            }
        };
        expand_item(decoder, table, entries.writer_mut(), depth)?;
        count += 1;
    }
    cbor::open_map(out, count);
    out.extend_from_slice(entries.writer());
    Ok(())
}

fn integer(key: &[u8]) -> Option<i128> {
    Decoder::new(key).int().ok().map(i128::from)
}

fn wrapped(task_body: &Bytes) -> Vec<u8> {
    let frames = body::unpack(task_body);
    let mut out = cbor::writer();
    wrote(out.str(BODY));
    match &frames[..] {
        [single] => {
            wrote(out.bytes(single));
        }
        several => {
            wrote(out.array(several.len() as u64));
            for frame in several {
                wrote(out.bytes(frame));
            }
        }
    }
    out.into_writer()
}
