//! The encoding of schedules. A schedule is written whole when a client sets it; a firing writes only how far it has
//! come, without its body and terms.

use std::sync::Arc;

use tenure_engine::{CatchUp, Overlap, ScheduleProgress, ScheduleSetting, ScheduleState};

use super::Base;
use super::dictionary::Dictionary;
use super::page::RecordPage;
use super::put;
use super::take::{ByteCursor, Malformed};
use super::terms::{decode_terms, encode_terms};

pub(super) const SCHEDULE: u8 = 12;
pub(super) const SCHEDULE_PROGRESS: u8 = 13;

pub(super) fn encode_schedule(
    out: &mut Vec<u8>,
    book: &mut Dictionary,
    base: &Base,
    schedule: &ScheduleSetting,
    progress: &ScheduleProgress,
) {
    encode_progress(out, book, base, progress);
    put::text(out, &schedule.when);
    put::maybe_text(out, schedule.zone.as_deref());
    out.push(catch_up_code(schedule.catch_up));
    out.push(overlap_code(schedule.overlap));
    put::span(out, schedule.jitter);
    put::time(out, base, schedule.created_at);
    put::time(out, base, schedule.anchor);
    put::measured(out, |out| encode_terms(out, &schedule.terms));
    out.push(u8::from(schedule.priority.is_some()));
    put::signed(out, i64::from(schedule.priority.unwrap_or(0)));
    put::maybe_span(out, schedule.expires_after);
    put::measured(out, |out| out.extend_from_slice(&schedule.body));
}

pub(super) fn take_schedule(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
) -> Result<(ScheduleSetting, ScheduleProgress), Malformed> {
    let progress = take_progress(take, page)?;
    let (when, zone) = (take.text()?.into(), take.maybe_text()?.map(|zone| zone.as_ref().into()));
    let (catch_up, overlap) = (take.byte()?, take.byte()?);
    let catch_up = CatchUp::ALL.iter().copied().find(|one| catch_up_code(*one) == catch_up);
    let overlap = Overlap::ALL.iter().copied().find(|one| overlap_code(*one) == overlap);
    let jitter = take.span()?;
    let (created_at, anchor) = (take.time(&page.base)?, take.time(&page.base)?);
    let terms = decode_terms(take.measured()?)?;
    let (has_priority, priority) = (take.flag()?, take.small_signed()?);
    let schedule = ScheduleSetting {
        namespace: progress.namespace.clone(),
        name: progress.name.clone(),
        when,
        zone,
        catch_up: catch_up.ok_or(Malformed("an unknown way to catch up"))?,
        overlap: overlap.ok_or(Malformed("an unknown policy for overlapping tasks"))?,
        jitter,
        created_at,
        anchor,
        terms: Arc::new(terms),
        priority: has_priority.then_some(priority),
        expires_after: take.maybe_span()?,
        body: take.measured()?.into(),
    };
    Ok((schedule, progress))
}

pub(super) fn encode_progress(
    out: &mut Vec<u8>,
    book: &mut Dictionary,
    base: &Base,
    progress: &ScheduleProgress,
) {
    put::varint(out, u64::from(book.name(&progress.namespace)));
    put::varint(out, u64::from(book.name(&progress.name)));
    out.push(state_code(progress.state));
    put::time(out, base, progress.settled);
    put::maybe_time(out, base, progress.last_due);
    out.push(u8::from(progress.last_task.is_some()));
    if let Some(task) = &progress.last_task {
        out.extend_from_slice(task.as_bytes());
    }
    put::varint(out, progress.fired);
    put::varint(out, progress.skipped);
}

pub(super) fn take_progress(
    take: &mut ByteCursor<'_>,
    page: &RecordPage<'_>,
) -> Result<ScheduleProgress, Malformed> {
    let (namespace, name) = (page.name(take)?, page.name(take)?);
    let code = take.byte()?;
    let state = ScheduleState::ALL.iter().copied().find(|state| state_code(*state) == code);
    Ok(ScheduleProgress {
        namespace,
        name,
        state: state.ok_or(Malformed("an unknown state of a schedule"))?,
        settled: take.time(&page.base)?,
        last_due: take.maybe_time(&page.base)?,
        last_task: if take.flag()? { Some(take.id()?) } else { None },
        fired: take.varint()?,
        skipped: take.varint()?,
    })
}

fn catch_up_code(catch_up: CatchUp) -> u8 {
    match catch_up {
        CatchUp::None => 0,
        CatchUp::Last => 1,
        CatchUp::All => 2,
    }
}

fn overlap_code(overlap: Overlap) -> u8 {
    match overlap {
        Overlap::Skip => 0,
        Overlap::Queue => 1,
        Overlap::CancelOld => 2,
    }
}

fn state_code(state: ScheduleState) -> u8 {
    match state {
        ScheduleState::Active => 0,
        ScheduleState::Paused => 1,
        ScheduleState::Removed => 2,
    }
}
