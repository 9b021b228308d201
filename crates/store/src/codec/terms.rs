//! The encoding of a task's terms. It is self-contained and uses no dictionary, so that equal terms are equal
//! bytes and recovery decodes each set once.

use tenure_engine::terms::{Backoff, OnLost};
use tenure_engine::{ArrayTerms, Name, OnBroken, Quantity, Resource, Terms};

use super::fields::{encode_field, take_fields};
use super::put;
use super::take::{ByteCursor, Malformed};

/// A flag in the byte of the `on_lost` policy.
const OVERRUN_FAILS: u8 = 16;

pub(super) fn encode_terms(out: &mut Vec<u8>, terms: &Terms) {
    put::text(out, &terms.namespace);
    put::text(out, &terms.queue);
    put::text(out, &terms.submitter);
    encode_names(out, &terms.needs);
    encode_names(out, &terms.tags);
    let on_lost = match terms.on_lost {
        OnLost::Requeue => 0,
        OnLost::Pause => 1,
        OnLost::Fail => 2,
    };
    out.push(if terms.overrun_fails { on_lost | OVERRUN_FAILS } else { on_lost });
    put::varint(out, u64::from(terms.crash_budget));
    put::varint(out, u64::from(terms.retries));
    put::span(out, terms.backoff.first);
    put::span(out, terms.backoff.max);
    put::maybe_span(out, terms.accept_timeout);
    put::maybe_span(out, terms.run_limit);
    // Terms from versions without the later fields end here, and so do terms that use none of them.
    let mut fields = Vec::new();
    encode_optional_terms(&mut fields, terms);
    if terms.crash_backoff.is_some() || terms.abandon_after.is_some() || !fields.is_empty() {
        encode_later_terms(out, terms);
        out.extend_from_slice(&fields);
    } else if let Some(timeout) = terms.cancel_timeout {
        put::span(out, timeout);
    }
}

/// A marker where older versions wrote the seconds of a cancel timeout, which never reach this value. The
/// later fields follow, each with a byte that says whether it is present.
const LATER_TERMS: u64 = u64::MAX;

fn encode_later_terms(out: &mut Vec<u8>, terms: &Terms) {
    put::varint(out, LATER_TERMS);
    put::maybe_span(out, terms.cancel_timeout);
    put::maybe_span(out, terms.crash_backoff.map(|backoff| backoff.first));
    put::maybe_span(out, terms.crash_backoff.map(|backoff| backoff.max));
    put::maybe_span(out, terms.abandon_after);
}

const ON_BROKEN: u8 = 1;
const SLOTS: u8 = 4;
const RESOURCES: u8 = 5;
const ARRAY: u8 = 7;
const SHARE: u8 = 10;

/// Behind the later terms. Terms of version 1 have none of these.
fn encode_optional_terms(out: &mut Vec<u8>, terms: &Terms) {
    if terms.on_broken != OnBroken::default() {
        encode_field(out, ON_BROKEN, |out| {
            out.push(match terms.on_broken {
                OnBroken::Cancel => 0,
                OnBroken::Run => 1,
                OnBroken::Hold => 2,
            });
        });
    }
    if terms.demand.slots != 1 {
        encode_field(out, SLOTS, |out| put::varint(out, u64::from(terms.demand.slots)));
    }
    if !terms.demand.resources.is_empty() {
        encode_field(out, RESOURCES, |out| {
            put::varint(out, terms.demand.resources.len() as u64);
            for resource in &terms.demand.resources {
                put::text(out, &resource.name);
                put::varint(out, resource.quantity.0);
            }
        });
    }
    if let Some(array) = terms.array {
        encode_field(out, ARRAY, |out| {
            out.extend_from_slice(array.id.as_bytes());
            put::varint(out, u64::from(array.first));
            put::varint(out, u64::from(array.step));
        });
    }
    if let Some(share) = &terms.share {
        encode_field(out, SHARE, |out| put::text(out, share));
    }
}

fn decode_optional_term(tag: u8, take: &mut ByteCursor<'_>, terms: &mut Terms) -> Result<(), Malformed> {
    match tag {
        ON_BROKEN => {
            terms.on_broken = match take.byte()? {
                0 => OnBroken::Cancel,
                1 => OnBroken::Run,
                2 => OnBroken::Hold,
                _ => return Err(Malformed("an unknown policy for a broken dependency")),
            };
        }
        SLOTS => terms.demand.slots = take.small()?,
        RESOURCES => {
            let count = take.count()?;
            let one = |_| Ok(Resource::new(take.text()?, Quantity(take.varint()?)));
            terms.demand.resources = (0..count).map(one).collect::<Result<_, Malformed>>()?;
        }
        ARRAY => {
            terms.array = Some(ArrayTerms { id: take.id()?, first: take.small()?, step: take.small()? });
        }
        SHARE => terms.share = Some(take.text()?.into()),
        _ => return Err(Malformed("an unknown field of a task's terms")),
    }
    Ok(())
}

fn decode_later_terms(take: &mut ByteCursor<'_>, terms: &mut Terms) -> Result<(), Malformed> {
    let mut peek = take.clone();
    if peek.varint()? != LATER_TERMS {
        terms.cancel_timeout = Some(take.span()?);
        return Ok(());
    }
    *take = peek;
    terms.cancel_timeout = take.maybe_span()?;
    let (first, max) = (take.maybe_span()?, take.maybe_span()?);
    terms.crash_backoff = first.zip(max).map(|(first, max)| Backoff { first, max });
    terms.abandon_after = take.maybe_span()?;
    take_fields(take, |tag, take| decode_optional_term(tag, take, terms))
}

pub(crate) fn decode_terms(bytes: &[u8]) -> Result<Terms, Malformed> {
    let mut take = ByteCursor::new(bytes);
    let (namespace, queue, submitter) = (take.text()?, take.text()?, take.text()?);
    let mut terms = Terms::new(namespace.into(), queue.into(), submitter.into());
    terms.needs = decode_names(&mut take)?;
    terms.tags = decode_names(&mut take)?;
    let policy = take.byte()?;
    terms.overrun_fails = policy & OVERRUN_FAILS != 0;
    terms.on_lost = match policy & !OVERRUN_FAILS {
        0 => OnLost::Requeue,
        1 => OnLost::Pause,
        2 => OnLost::Fail,
        _ => return Err(Malformed("an unknown policy for a lost worker")),
    };
    terms.crash_budget = take.small()?;
    terms.retries = take.small()?;
    terms.backoff = Backoff { first: take.span()?, max: take.span()? };
    terms.accept_timeout = take.maybe_span()?;
    terms.run_limit = take.maybe_span()?;
    if !take.is_empty() {
        decode_later_terms(&mut take, &mut terms)?;
    }
    if !take.is_empty() {
        return Err(Malformed("terms are longer than they should be"));
    }
    Ok(terms)
}

fn encode_names(out: &mut Vec<u8>, names: &[Name]) {
    put::varint(out, names.len() as u64);
    for name in names {
        put::text(out, name);
    }
}

fn decode_names(take: &mut ByteCursor<'_>) -> Result<Vec<Name>, Malformed> {
    let count = take.count()?;
    (0..count).map(|_| take.text().map(Name::from)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Terms as written by a version without the cancel timeout.
    const OLD: &[u8] = b"\x07default\x01q\x03ann\x00\x00\x00\x03\x00\x01\x00\xac\x02\x00\x00\x00";

    #[test]
    fn terms_without_a_cancel_timeout_are_the_bytes_that_older_builds_wrote() {
        let mut bytes = Vec::new();
        let terms = Terms::new("default".into(), "q".into(), "ann".into());
        encode_terms(&mut bytes, &terms);
        assert_eq!(bytes, OLD, "{bytes:x?}");
        assert_eq!(decode_terms(OLD), Ok(terms));
    }

    #[test]
    fn a_cancel_timeout_comes_behind_what_older_builds_wrote() {
        let mut terms = decode_terms(OLD).expect("terms");
        terms.cancel_timeout = Some(Duration::from_secs(5));
        let mut bytes = Vec::new();
        encode_terms(&mut bytes, &terms);
        assert!(bytes.starts_with(OLD) && bytes.len() > OLD.len());
        assert_eq!(decode_terms(&bytes).expect("terms"), terms);
    }

    #[test]
    fn later_terms_come_back_whether_or_not_there_is_a_cancel_timeout() {
        let seconds = Duration::from_secs;
        let backoff = Some(Backoff { first: seconds(1), max: seconds(60) });
        for (cancel_timeout, crash_backoff, abandon_after, on_broken) in [
            (None, backoff, None, OnBroken::Cancel),
            (None, None, Some(seconds(60)), OnBroken::Cancel),
            (None, None, None, OnBroken::Run),
            (Some(seconds(5)), backoff, Some(Duration::ZERO), OnBroken::Hold),
        ] {
            let old = decode_terms(OLD).expect("terms");
            let terms = Terms { cancel_timeout, crash_backoff, abandon_after, on_broken, ..old };
            let mut bytes = Vec::new();
            encode_terms(&mut bytes, &terms);
            assert!(bytes.starts_with(OLD) && bytes.len() > OLD.len());
            assert_eq!(decode_terms(&bytes), Ok(terms));
        }
    }
}
