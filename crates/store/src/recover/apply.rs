//! Decoding what was read and feeding it to the engine. The last state of each thing wins.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tenure_engine::{Restore, TermsKey, Timestamp};

use crate::block::{BlockHeader, BlockKind};
use crate::codec::{
    Base, ChangeView, Malformed, Names, Page, Setting, Take, decode_terms, next_record, setting, whole_task,
};
use crate::error::{Damage, StoreError};
use crate::frame::FrameHeader;
use crate::recover::OpenReport;
use crate::recover::read::{Frames, Piece};

#[derive(Debug)]
pub(crate) struct Applier {
    restore: Restore,
    names: Names,
    /// Equal terms are equal bytes, so each set is decoded once.
    keys: HashMap<Box<[u8]>, TermsKey, FixedState>,
    /// The terms of the page at hand.
    page_keys: Vec<TermsKey>,
    report: OpenReport,
}

impl Applier {
    pub(crate) fn new(restore: Restore) -> Applier {
        let (names, keys, page_keys, report) = Default::default();
        Applier { restore, names, keys, page_keys, report }
    }

    pub(crate) fn seen_event(&mut self, number: u64) {
        self.restore.event(number);
    }

    pub(crate) fn apply(&mut self, piece: &Piece) -> Result<(), StoreError> {
        match piece {
            Piece::Block { header, page, file, offset } => self
                .block(header, page)
                .map_err(|why| Damage::new(file, *offset, format!("a block is malformed: {why}")).into()),
            Piece::Frames(frames) => self.frames(frames),
        }
    }

    pub(crate) fn finish(self) -> (Restore, OpenReport) {
        (self.restore, self.report)
    }

    fn frames(&mut self, frames: &Frames) -> Result<(), StoreError> {
        let mut pages = &frames.pages[..];
        for frame in &frames.frames {
            let (page, rest) = pages.split_at(frame.header.page_bytes as usize);
            pages = rest;
            self.frame(&frame.header, page).map_err(|why| {
                Damage::new(&frames.file, frame.offset, format!("a frame is malformed: {why}"))
            })?;
        }
        Ok(())
    }

    fn frame(&mut self, header: &FrameHeader, page: &[u8]) -> Result<(), Malformed> {
        self.report.frames += 1;
        if header.events > 0 {
            self.restore.event(header.next_event() - 1);
        }
        if header.page_bytes == 0 {
            return Ok(()); // What stood here was lost and a repair has said so.
        }
        let mut take = Take::new(page);
        let time = Timestamp(take.varint()?);
        let base = Base { time, event: header.first_event, place: header.position };
        let page = self.open_page(base, &mut take)?;
        let mut events = 0;
        while !take.is_empty() {
            let record = next_record(&mut take)?;
            events += u32::from(record.has_event());
            match record.change(&page, &self.page_keys)? {
                ChangeView::Task(task) => self.restore.task(task),
                ChangeView::Setting(setting) => self.setting(setting),
                ChangeView::Nothing => {}
            }
            self.report.records += 1;
        }
        if events != header.events {
            return Err(Malformed("it has not as many events as its header says"));
        }
        Ok(())
    }

    fn block(&mut self, header: &BlockHeader, page: &[u8]) -> Result<(), Malformed> {
        let mut take = Take::new(page);
        let page = self.open_page(header.base, &mut take)?;
        for _ in 0..header.count {
            match header.kind {
                BlockKind::Tasks => self.restore.task(whole_task(&mut take, &page, &self.page_keys)?),
                BlockKind::Settings => {
                    let setting = setting(&mut take, &page)?;
                    self.setting(setting);
                }
                BlockKind::Events | BlockKind::Sum => {}
            }
        }
        if header.kind == BlockKind::Tasks {
            self.report.snapshot_tasks += u64::from(header.count);
        }
        if take.is_empty() { Ok(()) } else { Err(Malformed("it has more entries than its header says")) }
    }

    fn open_page<'a>(&mut self, base: Base, take: &mut Take<'a>) -> Result<Page<'a>, Malformed> {
        let page = Page::open(base, take, &mut self.names)?;
        self.page_keys.clear();
        for bytes in &page.terms {
            let key = match self.keys.get(*bytes) {
                Some(key) => *key,
                None => {
                    let key = self.restore.terms(decode_terms(bytes)?);
                    self.keys.insert((*bytes).into(), key);
                    key
                }
            };
            self.page_keys.push(key);
        }
        Ok(page)
    }

    fn setting(&mut self, setting: Setting) {
        match setting {
            Setting::Worker(worker) => self.restore.worker(worker),
            Setting::Queue(queue) => self.restore.queue(queue),
            Setting::Limit(limit) => self.restore.limit(&limit),
        }
    }
}
