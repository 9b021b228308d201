//! Opens the log: reads the rows from the last file, and the messages from all files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_engine::Timestamp;

use super::rotate::{Begun, begin};
use super::rows::{BASE_END, LogRow, read_page};
use super::{Committing, LogFamily, Messages, TopicFile, TopicLog, TopicLogSettings};
use crate::disk::Disk;
use crate::error::{Damage, IoContext, StoreError};
use crate::reader::Reader;
use crate::recover::Cut;
use crate::scan::{Found, Scan, synced_frame_behind};
use crate::segment::Segment;
use crate::shared::Shared;

/// The latest value of each key.
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The result of opening the topic log.
#[derive(Debug)]
pub struct TopicsOpened {
    /// The open log.
    pub log: TopicLog,
    /// The latest value of each key.
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The last frame was incomplete and has been cut off.
    pub cut: Option<Cut>,
}

/// The log on the disk, read and not changed yet.
#[derive(Debug)]
pub(crate) struct TopicsFound {
    family: LogFamily,
    files: Vec<(Arc<Segment>, Read)>,
    pub(crate) rows: Rows,
    /// The rows of the last file are not complete: the leader that began it has ended. The others are those of
    /// the file before it, and these keys must go.
    unfinished: Option<BTreeSet<Vec<u8>>>,
}

impl TopicsFound {
    /// Reads all files. A start does this before it changes anything, so that damage here leaves everything
    /// as it was.
    pub(crate) fn read(disk: &dyn Disk, family: LogFamily) -> Result<TopicsFound, StoreError> {
        let segments = segments(disk, family)?;
        let (mut files, mut rows) = (Vec::new(), BTreeMap::new());
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map(|next| next.start);
            let read = match next {
                Some(_) => read_file(segment, next, |_, _| ())?,
                None => read_file(segment, None, |_, row| replay(row, &mut rows))?,
            };
            files.push((Arc::clone(segment), read));
        }
        Ok(TopicsFound { family, files, rows, unfinished: None })
    }

    /// The same for the copy of a replicated log. Its last file may have incomplete rows, because frames are
    /// committed one after the other; then the rows of the file before it apply.
    pub(crate) fn read_copy(disk: &dyn Disk, family: LogFamily) -> Result<TopicsFound, StoreError> {
        let mut segments = segments(disk, family)?;
        let Some(last) = segments.pop() else { return TopicsFound::read(disk, family) };
        let (read_last, mut rows) = read_last_copied(&last)?;
        let is_complete = read_last.base_end > last.start;
        let (mut files, mut rows_before) = (Vec::new(), BTreeMap::new());
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).unwrap_or(&last).start;
            rows_before.clear();
            let read = read_file(segment, Some(next), |_, row| {
                if !is_complete && next == last.start {
                    replay(row, &mut rows_before);
                }
            })?;
            files.push((Arc::clone(segment), read));
        }
        files.push((last, read_last));
        let unfinished = (!is_complete).then(|| {
            let partial = std::mem::replace(&mut rows, rows_before);
            partial.into_keys().filter(|key| !rows.contains_key(key)).collect()
        });
        Ok(TopicsFound { family, files, rows, unfinished })
    }

    /// The position of the first file.
    pub(crate) fn start(&self) -> Option<u64> {
        self.files.first().map(|(segment, _)| segment.start)
    }

    /// Reads the messages, oldest first, before the log is opened.
    pub(crate) fn messages(&self, mut see: impl FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        for (segment, read) in self.files.iter().filter(|(_, read)| read.messages.bytes > 0) {
            read_file(segment, Some(read.end), |_, row| {
                if let LogRow::Message { key, value, .. } = row {
                    see(key, value);
                }
            })?;
        }
        Ok(())
    }
}

impl Reader {
    /// Opens the topic log beside the journal, or creates it.
    pub fn open_topics(&self, settings: TopicLogSettings) -> Result<TopicsOpened, StoreError> {
        let found = match self.shared.take_found(LogFamily::Topics) {
            Some(found) => found,
            None => TopicsFound::read(&*self.shared.disk, LogFamily::Topics)?,
        };
        found.open(&self.shared, settings)
    }
}

impl TopicsFound {
    /// Cuts a torn tail off and continues at the end of the log, or creates the log.
    pub(crate) fn open(
        self,
        shared: &Arc<Shared>,
        settings: TopicLogSettings,
    ) -> Result<TopicsOpened, StoreError> {
        let shared = Arc::clone(shared);
        let TopicsFound { family, mut files, rows, unfinished } = self;
        remove_unfinished(&*shared.disk, family)?;
        let committing = shared.leader.clone().map(|leader| Committing::new(leader, family.stream()));
        let Some((last, read)) = files.pop() else {
            let Begun { segment, end } = begin(&shared, family, 0, std::iter::empty())?;
            let log = TopicLog {
                shared,
                family,
                settings,
                segment,
                position: end,
                synced: end,
                base_end: end,
                messages: Messages::default(),
                failed: false,
                committing,
            };
            return Ok(TopicsOpened { log, rows, cut: None });
        };
        for (segment, read) in files {
            let file = TopicFile { segment, end: read.end, messages: read.messages };
            family.files(&shared).lock().expect("no holder of the lock panics").push(file);
        }
        // The copy of a replicated log is synced already.
        let synced = if committing.is_some() { read.end } else { read.synced };
        last.cut_and_rewrite(synced, read.end)?;
        let file = TopicFile { segment: Arc::clone(&last), end: read.end, messages: read.messages };
        family.files(&shared).lock().expect("no holder of the lock panics").push(file);
        let mut log = TopicLog {
            shared,
            family,
            settings,
            segment: last,
            position: read.end,
            synced: read.end,
            base_end: read.base_end,
            messages: read.messages,
            failed: false,
            committing,
        };
        log.check_end()?;
        if let Some(obsolete) = &unfinished {
            log.finish_base(obsolete, &rows);
        }
        Ok(TopicsOpened { log, rows, cut: read.cut })
    }
}

impl TopicLog {
    /// Reads the kept messages, oldest first.
    pub fn messages(&self, mut see: impl FnMut(Timestamp, &[u8], &[u8])) -> Result<(), StoreError> {
        self.messages_with_position(|_, at, key, value| see(at, key, value))
    }

    /// The same, each with the position of its frame.
    pub fn messages_with_position(
        &self,
        mut see: impl FnMut(u64, Timestamp, &[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let files = self.family.files(&self.shared).lock().expect("no holder of the lock panics").clone();
        for file in files.iter().filter(|file| file.messages.bytes > 0) {
            read_file(&file.segment, Some(file.end), |position, row| {
                if let LogRow::Message { at, key, value } = row {
                    see(position, at, key, value);
                }
            })?;
        }
        Ok(())
    }

    /// The position of the first frame that is kept.
    pub fn start(&self) -> u64 {
        let files = self.family.files(&self.shared).lock().expect("no holder of the lock panics");
        files.first().map_or(self.position, |first| first.segment.start)
    }
}

/// Reads the last file of a replicated log: its rows, complete or not.
fn read_last_copied(segment: &Segment) -> Result<(Read, Rows), StoreError> {
    let mut rows = BTreeMap::new();
    let (read, stopped) = walk(segment, None, &mut |_, row| replay(row, &mut rows))?;
    match stopped {
        None => Ok((read, rows)),
        Some(why) => Err(Damage::new(&segment.name, segment.offset(read.end), why).into()),
    }
}

pub(super) fn replay(row: LogRow<'_>, rows: &mut Rows) {
    match row {
        LogRow::Put { key, value } => {
            rows.insert(key.to_vec(), value.to_vec());
        }
        LogRow::Delete { key } => {
            rows.remove(key);
        }
        LogRow::Message { .. } => {}
    }
}

fn remove_unfinished(disk: &dyn Disk, family: LogFamily) -> Result<(), StoreError> {
    let unfinished = family.unfinished();
    let names = disk.list().doing("listing", "the directory")?;
    if names.iter().any(|name| name == unfinished) {
        disk.remove(unfinished).doing("removing", unfinished)?;
        // Otherwise a crash might keep this file together with the rename of the next one, and give this file
        // that name.
        disk.sync_dir().syncing("the directory")?;
    }
    Ok(())
}

/// The files of the log in order.
pub(super) fn segments(disk: &dyn Disk, family: LogFamily) -> Result<Vec<Arc<Segment>>, StoreError> {
    let names = disk.list().doing("listing", "the directory")?;
    let starts = names.iter().filter_map(|name| family.start_of(name));
    starts.map(|start| open_segment(disk, family, start).map(Arc::new)).collect()
}

pub(super) fn open_segment(disk: &dyn Disk, family: LogFamily, start: u64) -> Result<Segment, StoreError> {
    Segment::open_named(disk, family.file_name(start), start, family.magic())
}

/// How far a file is valid.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) end: u64,
    pub(super) base_end: u64,
    pub(super) synced: u64,
    pub(super) messages: Messages,
    pub(super) frames: u64,
    pub(super) cut: Option<Cut>,
}

/// Reads a file up to `until`, where it must end. The last file, without `until`, may have a torn tail. Each row comes
/// with the position of its frame.
pub(super) fn read_file(
    segment: &Segment,
    until: Option<u64>,
    mut see: impl FnMut(u64, LogRow<'_>),
) -> Result<Read, StoreError> {
    let (mut read, stopped) = walk(segment, until, &mut see)?;
    let offset = segment.offset(read.end);
    let damage = |why: String| StoreError::from(Damage::new(&segment.name, offset, why));
    let missing = || stopped.clone().unwrap_or_else(|| "frames are missing here".to_owned());
    if read.base_end == segment.start {
        return Err(damage(format!("{}, and its rows are not complete", missing())));
    }
    match until {
        Some(until) if until != read.end => {
            return Err(damage(format!("{}, and the log goes on behind it", missing())));
        }
        Some(_) => {}
        None => {
            if synced_frame_behind(segment, read.end)? {
                return Err(damage(format!("{}, and frames written later follow it", missing())));
            }
            read.cut = stopped.map(|why| Cut { file: segment.name.clone(), offset, why });
        }
    }
    Ok(read)
}

/// Reads valid frames as far as they go. Returns what follows them, if it is not the end.
pub(super) fn walk(
    segment: &Segment,
    until: Option<u64>,
    see: &mut dyn FnMut(u64, LogRow<'_>),
) -> Result<(Read, Option<String>), StoreError> {
    let start = segment.start;
    let messages = Messages::default();
    let mut read = Read { end: start, base_end: start, synced: start, messages, frames: 0, cut: None };
    let mut scan = Scan::new(segment, start, until.unwrap_or(u64::MAX))?;
    loop {
        match scan.next()? {
            Found::Frame(header, page) => {
                let messages = &mut read.messages;
                let kind = read_page(page, |row| {
                    if let LogRow::Message { at, key, value } = &row {
                        messages.add(*at, key.len() + value.len());
                    }
                    see(header.position, row);
                });
                match kind {
                    Ok(BASE_END) => read.base_end = header.end(),
                    Ok(_) => {}
                    Err(why) => return Ok((read, Some(format!("a frame is malformed: {why}")))),
                }
                read.frames += 1;
                read.end = header.end();
                read.synced = read.synced.max(header.synced);
            }
            Found::End => return Ok((read, None)),
            Found::Bad(why) => return Ok((read, Some(why.to_owned()))),
        }
    }
}
