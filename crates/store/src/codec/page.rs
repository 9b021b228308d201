//! The dictionary of a page being read.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use tenure_engine::Name;

use super::Base;
use super::take::{ByteCursor, Malformed};

/// The tables that the entries of a page refer to: terms as encoded bytes, and names shared with all pages read before.
#[derive(Debug, Default)]
pub(crate) struct RecordPage<'a> {
    pub(crate) base: Base,
    pub(crate) terms: Vec<&'a [u8]>,
    pub(crate) names: Vec<Name>,
}

impl<'a> RecordPage<'a> {
    pub(crate) fn open(
        base: Base,
        take: &mut ByteCursor<'a>,
        shared: &mut Names,
    ) -> Result<RecordPage<'a>, Malformed> {
        let count = take.count()?;
        let terms = (0..count).map(|_| take.measured()).collect::<Result<_, _>>()?;
        let count = take.count()?;
        let names =
            (0..count).map(|_| take.text().map(|text| shared.share(text))).collect::<Result<_, _>>()?;
        Ok(RecordPage { base, terms, names })
    }

    pub(super) fn name(&self, take: &mut ByteCursor<'_>) -> Result<Name, Malformed> {
        let index = take.varint()?;
        self.named(index)
    }

    pub(super) fn maybe_name(&self, take: &mut ByteCursor<'_>) -> Result<Option<Name>, Malformed> {
        match take.varint()? {
            0 => Ok(None),
            more => self.named(more - 1).map(Some),
        }
    }

    fn named(&self, index: u64) -> Result<Name, Malformed> {
        self.names
            .get(index as usize)
            .cloned()
            .ok_or(Malformed("it names something that the page does not hold"))
    }
}

/// One copy of every name, however many pages hold it.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashSet<Name, FixedState>,
}

impl Names {
    /// The limit keeps names that occur only once, such as a task's own name, from filling the table.
    const KNOWN_MAX: usize = 100_000;

    pub(crate) fn share(&mut self, text: &str) -> Name {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        if self.known.len() < Names::KNOWN_MAX {
            self.known.insert(name.clone());
        }
        name
    }
}
