//! Decodes the events of frames and blocks. One decoder shares terms and names across all that it reads.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tenure_engine::{Event, Terms, Timestamp};

use crate::block::BlockHeader;
use crate::codec::{Base, ByteCursor, Malformed, Names, RecordPage, decode_terms, event, next_record};
use crate::frame::FrameHeader;

/// Beyond this number, the shared terms are dropped and collected again.
const TERMS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct EventDecoder {
    names: Names,
    terms: HashMap<Box<[u8]>, Arc<Terms>, FixedState>,
}

impl EventDecoder {
    /// Visits the events of a frame from number `from` on, until `see` asks to stop.
    pub(crate) fn frame(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        from: u64,
        see: &mut dyn FnMut(Event) -> bool,
    ) -> Result<(), Malformed> {
        if header.page_bytes == 0 {
            return Ok(()); // What stood here was lost and a repair has said so.
        }
        let mut take = ByteCursor::new(&payload[header.blob_bytes as usize..]);
        let time = Timestamp(take.varint()?);
        let base = Base { time, event: header.first_event, place: header.position };
        self.page(base, take, header.first_event, from, see)
    }

    pub(crate) fn block(
        &mut self,
        header: &BlockHeader,
        page: &[u8],
        from: u64,
        see: &mut dyn FnMut(Event) -> bool,
    ) -> Result<(), Malformed> {
        self.page(header.base, ByteCursor::new(page), header.base.event, from, see)
    }

    fn page(
        &mut self,
        base: Base,
        mut take: ByteCursor<'_>,
        first: u64,
        from: u64,
        see: &mut dyn FnMut(Event) -> bool,
    ) -> Result<(), Malformed> {
        let page = RecordPage::open(base, &mut take, &mut self.names)?;
        let terms = page.terms.iter().map(|bytes| self.share(bytes)).collect::<Result<Vec<_>, _>>()?;
        let mut number = first;
        while !take.is_empty() {
            let record = next_record(&mut take)?;
            if !record.has_event() {
                continue;
            }
            if number >= from && !see(event(&record, number, &page, &terms)?) {
                return Ok(());
            }
            number += 1;
        }
        Ok(())
    }

    fn share(&mut self, bytes: &[u8]) -> Result<Arc<Terms>, Malformed> {
        if let Some(terms) = self.terms.get(bytes) {
            return Ok(terms.clone());
        }
        if self.terms.len() >= TERMS_MAX {
            self.terms.clear();
        }
        let terms = Arc::new(decode_terms(bytes)?);
        self.terms.insert(bytes.into(), terms.clone());
        Ok(terms)
    }
}
