//! Decodes what recovery reads, on the reading thread. Terms are numbered here in the order of their first
//! appearance; the engine assigns its own keys later.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tenure_engine::{Terms, TermsKey, Timestamp};

use crate::block::{BlockHeader, BlockKind};
use crate::codec::{
    Base, ByteCursor, ChangeView, Malformed, Names, RecordPage, Setting, TaskRecord, decode_terms,
    next_record, setting, whole_task,
};
use crate::frame::FrameHeader;

/// A part of the recovered data, in order. The receiver replaces the numbers of the terms.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Terms that appear for the first time, numbered after the earlier ones.
    pub(crate) terms: Vec<Terms>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) snapshot_tasks: u64,
    pub(crate) frames: u64,
    pub(crate) records: u64,
}

#[derive(Debug)]
pub(crate) enum Fact {
    Task(TaskRecord),
    Setting(Setting),
}

#[derive(Debug, Default)]
pub(crate) struct Decoder {
    names: Names,
    /// Equal terms are equal bytes, so each set is decoded once.
    keys: HashMap<Box<[u8]>, TermsKey, FixedState>,
    /// The terms of the current page.
    page_keys: Vec<TermsKey>,
    piece: Piece,
}

/// A piece is handed over when it holds this many facts.
const PIECE_FACTS: usize = 4096;

impl Decoder {
    /// The collected piece, if it is large enough to hand over.
    pub(crate) fn take_full(&mut self) -> Option<Piece> {
        (self.piece.facts.len() >= PIECE_FACTS).then(|| self.take())
    }

    pub(crate) fn take(&mut self) -> Piece {
        let facts = Vec::with_capacity(PIECE_FACTS);
        std::mem::replace(&mut self.piece, Piece { facts, ..Piece::default() })
    }

    pub(crate) fn frame(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<(), Malformed> {
        self.piece.frames += 1;
        if header.page_bytes == 0 {
            return Ok(()); // What stood here was lost and a repair has said so.
        }
        let mut take = ByteCursor::new(&payload[header.blob_bytes as usize..]);
        let time = Timestamp(take.varint()?);
        let base = Base { time, event: header.first_event, place: header.position };
        let page = self.open_page(base, &mut take)?;
        let mut events = 0;
        while !take.is_empty() {
            let record = next_record(&mut take)?;
            events += u32::from(record.has_event());
            match record.change(&page, &self.page_keys)? {
                ChangeView::Task(task) => self.piece.facts.push(Fact::Task(task)),
                ChangeView::Setting(setting) => self.piece.facts.push(Fact::Setting(setting)),
                ChangeView::Nothing => {}
            }
            self.piece.records += 1;
        }
        if events != header.events {
            return Err(Malformed("it has not as many events as its header says"));
        }
        Ok(())
    }

    pub(crate) fn block(&mut self, header: &BlockHeader, page: &[u8]) -> Result<(), Malformed> {
        let mut take = ByteCursor::new(page);
        let page = self.open_page(header.base, &mut take)?;
        for _ in 0..header.count {
            let fact = match header.kind {
                BlockKind::Tasks => Fact::Task(whole_task(&mut take, &page, &self.page_keys)?),
                BlockKind::Settings => Fact::Setting(setting(&mut take, &page)?),
                BlockKind::Events | BlockKind::Sum => return Err(Malformed("it is of another kind")),
            };
            self.piece.facts.push(fact);
        }
        if header.kind == BlockKind::Tasks {
            self.piece.snapshot_tasks += u64::from(header.count);
        }
        if take.is_empty() { Ok(()) } else { Err(Malformed("it has more entries than its header says")) }
    }

    fn open_page<'a>(&mut self, base: Base, take: &mut ByteCursor<'a>) -> Result<RecordPage<'a>, Malformed> {
        let page = RecordPage::open(base, take, &mut self.names)?;
        self.page_keys.clear();
        for bytes in &page.terms {
            let key = match self.keys.get(*bytes) {
                Some(key) => *key,
                None => {
                    let key = TermsKey::from_index(self.keys.len() as u32);
                    self.piece.terms.push(decode_terms(bytes)?);
                    self.keys.insert((*bytes).into(), key);
                    key
                }
            };
            self.page_keys.push(key);
        }
        Ok(page)
    }
}
