//! The encoding of an array. Its elements are tasks, and have records of their own.

use tenure_engine::{ArrayEnd, ArrayRecord, ForgottenElements};

use super::Base;
use super::dictionary::Dictionary;
use super::event::{state_code, take_state_name};
use super::page::RecordPage;
use super::put;
use super::settings::take_limit_number;
use super::take::{ByteCursor, Malformed};

pub(super) fn encode_array(out: &mut Vec<u8>, book: &mut Dictionary, base: &Base, array: &ArrayRecord) {
    out.extend_from_slice(array.id.as_bytes());
    for name in [&array.namespace, &array.queue, &array.submitter] {
        put::varint(out, u64::from(book.name(name)));
    }
    put::varint(out, array.name.as_ref().map_or(0, |name| u64::from(book.name(name)) + 1));
    put::varint(out, array.fingerprint);
    for number in [array.first, array.step, array.size] {
        put::varint(out, u64::from(number));
    }
    put::varint(out, array.limit.map_or(0, |limit| u64::from(limit) + 1));
    put::blob(out, base, array.body);
    put::distance(out, base.event, array.age);
    put::time(out, base, array.submitted_at);
    match array.end {
        None => out.push(0),
        Some(ArrayEnd { at, event, state }) => {
            out.push(1);
            put::time(out, base, at);
            put::distance(out, base.event, event);
            out.push(state_code(state));
        }
    }
    let ForgottenElements { through, completed, failed, cancelled } = array.forgotten;
    put::varint(out, through);
    if through > 0 {
        for number in [completed, failed, cancelled] {
            put::varint(out, u64::from(number));
        }
    }
}

pub(super) fn take_array(take: &mut ByteCursor<'_>, page: &RecordPage<'_>) -> Result<ArrayRecord, Malformed> {
    let base = &page.base;
    let id = take.id()?;
    let (namespace, queue, submitter) = (page.name(take)?, page.name(take)?, page.name(take)?);
    let (name, fingerprint) = (page.maybe_name(take)?, take.varint()?);
    let (first, step, size) = (take.small()?, take.small()?, take.small()?);
    let limit = take_limit_number(take)?;
    let (body, age, submitted_at) = (take.blob(base)?, take.distance(base.event)?, take.time(base)?);
    let end = if take.flag()? {
        let (at, event) = (take.time(base)?, take.distance(base.event)?);
        Some(ArrayEnd { at, event, state: take_state_name(take)? })
    } else {
        None
    };
    let mut forgotten = ForgottenElements { through: take.varint()?, ..ForgottenElements::default() };
    if forgotten.through > 0 {
        (forgotten.completed, forgotten.failed) = (take.small()?, take.small()?);
        forgotten.cancelled = take.small()?;
    }
    Ok(ArrayRecord {
        id,
        namespace,
        queue,
        submitter,
        name,
        fingerprint,
        first,
        step,
        size,
        limit,
        body,
        age,
        submitted_at,
        end,
        forgotten,
    })
}
