//! A store as readable lines: the content of each file, record by record, without the bodies.

use std::sync::Arc;

use tenure_engine::event::EventSubject;
use tenure_engine::{Event, Terms, TermsKey, Timestamp};

use crate::block::BlockKind;
use crate::codec::{
    Base, ByteCursor, ChangeView, Malformed, Names, RecordPage, Setting, TaskRecord, decode_terms, event,
    next_record, setting, whole_task,
};
use crate::disk::Disk;
use crate::error::{Damage, StoreError};
use crate::events::{EventDecoder, EventFile};
use crate::frame::FrameHeader;
use crate::recover::Inventory;
use crate::scan::{Found, Scan};
use crate::segment::Segment;
use crate::snapshot::SnapshotReader;

/// Prints every file of a store line by line. Stops at the first damage.
pub fn dump(disk: &dyn Disk, see: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    let inventory = Inventory::take(disk)?;
    for start in &inventory.snapshots {
        dump_snapshot(disk, *start, see)?;
    }
    for first in &inventory.events {
        dump_events(disk, *first, see)?;
    }
    for start in &inventory.segments {
        dump_segment(&Segment::open(disk, *start)?, see)?;
    }
    Ok(())
}

fn dump_segment(segment: &Segment, see: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    see(&format!("{} position {}", segment.name, segment.start));
    let mut names = Names::default();
    let mut scan = Scan::new(segment, segment.start, u64::MAX)?;
    loop {
        let position = scan.position();
        match scan.next()? {
            Found::Frame(header, payload) => dump_frame(&header, payload, &mut names, see)
                .map_err(|why| Damage::new(&segment.name, segment.offset(position), why.to_string()))?,
            Found::End => {
                see(&format!("  end {position}"));
                return Ok(());
            }
            Found::Bad(why) => {
                see(&format!("  end {position}: {why}"));
                return Ok(());
            }
        }
    }
}

fn dump_frame(
    header: &FrameHeader,
    payload: &[u8],
    names: &mut Names,
    see: &mut dyn FnMut(&str),
) -> Result<(), Malformed> {
    let FrameHeader { position, blob_bytes, page_bytes, events, synced, .. } = header;
    see(&format!("  frame {position} blobs {blob_bytes} page {page_bytes} events {events} synced {synced}"));
    if *page_bytes == 0 {
        see("    empty: a repair wrote it over lost bytes");
        return Ok(());
    }
    let mut take = ByteCursor::new(&payload[*blob_bytes as usize..]);
    let time = Timestamp(take.varint()?);
    let base = Base { time, event: header.first_event, place: *position };
    let page = RecordPage::open(base, &mut take, names)?;
    let terms =
        page.terms.iter().map(|bytes| decode_terms(bytes).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<TermsKey> = (0..terms.len() as u32).map(TermsKey::from_index).collect();
    let mut number = header.first_event;
    while !take.is_empty() {
        let record = next_record(&mut take)?;
        if record.has_event() {
            see(&format!("    {}", event_line(&event(&record, number, &page, &terms)?)));
            number += 1;
        }
        if let Some(line) = change_line(&record.change(&page, &keys)?, &terms) {
            see(&format!("      {line}"));
        }
    }
    Ok(())
}

fn dump_snapshot(disk: &dyn Disk, start: u64, see: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    let mut snapshot = SnapshotReader::open(disk, start)?;
    see(&format!("{} position {start} first event {}", snapshot.name, snapshot.first_event));
    let mut names = Names::default();
    while let Some((header, page, offset)) = snapshot.next()? {
        let mut lines = || {
            let mut take = ByteCursor::new(&page);
            let page = RecordPage::open(header.base, &mut take, &mut names)?;
            let terms = page
                .terms
                .iter()
                .map(|bytes| decode_terms(bytes).map(Arc::new))
                .collect::<Result<Vec<_>, _>>()?;
            let keys: Vec<TermsKey> = (0..terms.len() as u32).map(TermsKey::from_index).collect();
            for _ in 0..header.count {
                let change = match header.kind {
                    BlockKind::Tasks => ChangeView::Task(whole_task(&mut take, &page, &keys)?),
                    _ => ChangeView::Setting(setting(&mut take, &page)?),
                };
                if let Some(line) = change_line(&change, &terms) {
                    see(&format!("  {line}"));
                }
            }
            Ok(())
        };
        lines().map_err(|why: Malformed| snapshot.damage(offset, why.to_string()))?;
    }
    let sum = snapshot.sum.expect("the last block was read");
    see(&format!("  end tasks {} settings {} journal up to {}", sum.tasks, sum.settings, sum.end));
    Ok(())
}

fn dump_events(disk: &dyn Disk, first: u64, see: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    let file = EventFile::open(disk, first)?;
    see(&format!("{} events {} to {}", file.name, file.first, file.end - 1));
    file.read(&mut EventDecoder::default(), first, &mut |event| {
        see(&format!("  {}", event_line(&event)));
        true
    })
}

fn event_line(event: &Event) -> String {
    let about = match &event.about {
        EventSubject::Task { id, attempt, terms } => {
            format!("task {id} attempt {attempt} queue {}", terms.queue)
        }
        EventSubject::Worker { namespace, worker } => format!("worker {worker} of {namespace}"),
        EventSubject::Queue { namespace, queue } => format!("queue {queue} of {namespace}"),
        EventSubject::Tag { namespace, tag } => format!("tag {tag} of {namespace}"),
        EventSubject::Schedule { namespace, schedule } => format!("schedule {schedule} of {namespace}"),
        EventSubject::Array { id, queue, .. } => format!("array {id} queue {queue}"),
        EventSubject::Share { namespace, share } => format!("share {share} of {namespace}"),
    };
    format!("event {} at {} {} {about}", event.seq, event.at, event.kind.as_str())
}

fn change_line(change: &ChangeView, terms: &[Arc<Terms>]) -> Option<String> {
    Some(match change {
        ChangeView::Nothing => return None,
        ChangeView::Task(TaskRecord { task, after }) => {
            let queue = terms.get(task.terms.index()).map_or("?", |terms| &terms.queue);
            let body = format!("{} bytes at {}", task.body.bytes(), task.body.at());
            let (id, state, attempt) = (task.id, task.state.name(), task.attempt);
            let after =
                if after.is_empty() { String::new() } else { format!(" after {} tasks", after.len()) };
            format!(
                "task {id} queue {queue} {state} attempt {attempt} priority {} body {body}{after}",
                task.priority
            )
        }
        ChangeView::Setting(Setting::Worker(worker)) => {
            format!("worker {} of {} crashes {}", worker.worker, worker.namespace, worker.crashes)
        }
        ChangeView::Setting(Setting::Queue(queue)) => {
            format!(
                "queue {} of {} {}",
                queue.queue,
                queue.namespace,
                if queue.paused { "paused" } else { "open" }
            ) + &queue.rate.map_or(String::new(), |rate| format!(" rate {rate}"))
        }
        ChangeView::Setting(Setting::Limit(limit)) => {
            let rate = limit.rate.map_or(String::new(), |rate| format!(" rate {rate}"));
            format!("limit of tag {} of {} {:?}{rate}", limit.tag, limit.namespace, limit.limit)
        }
        ChangeView::Setting(Setting::Share(share)) => {
            format!("share {} of {} weight {:?}", share.share, share.namespace, share.weight)
        }
        ChangeView::Setting(Setting::NamespaceLeft(namespace)) => format!("namespace {namespace} left"),
        ChangeView::Setting(Setting::Schedule(schedule, progress)) => {
            format!(
                "schedule {} of {} when {:?} {}",
                schedule.name, schedule.namespace, schedule.when, progress.state
            )
        }
        ChangeView::Setting(Setting::ScheduleProgress(progress)) => {
            format!(
                "schedule {} of {} settled up to {} {}",
                progress.name, progress.namespace, progress.settled, progress.state
            )
        }
        ChangeView::Setting(Setting::Array(array)) => {
            let body = format!("{} bytes at {}", array.body.bytes(), array.body.at());
            let (id, size, limit) = (array.id, array.size, array.limit);
            format!("array {id} queue {} size {size} limit {limit:?} body {body}", array.queue)
        }
    })
}
