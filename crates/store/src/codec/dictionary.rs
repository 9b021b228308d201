//! The dictionary of a page being written: each distinct set of terms and each name once, looked up by
//! pointer.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tenure_engine::{Name, Terms};

use super::put;
use super::terms::encode_terms;

/// Larger tables are reallocated for the next page, so that one unusual page does not slow down all later
/// ones.
const KEPT_CAPACITY: usize = 4096;

/// The engine shares terms and names by pointer, so a pointer identifies them without hashing any text. The
/// dictionary keeps a reference to each, so an address cannot be reused while the page is open.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    terms: Vec<u8>,
    terms_by_address: HashMap<usize, u32, FixedState>,
    terms_held: Vec<Arc<Terms>>,
    terms_count: u32,
    names: Vec<u8>,
    names_by_address: HashMap<(usize, usize), u32, FixedState>,
    names_held: Vec<Name>,
}

impl Dictionary {
    pub(crate) fn clear(&mut self) {
        if self.terms_by_address.capacity() > KEPT_CAPACITY
            || self.names_by_address.capacity() > KEPT_CAPACITY
        {
            *self = Dictionary::default();
            return;
        }
        self.terms.clear();
        self.terms_by_address.clear();
        self.terms_held.clear();
        self.terms_count = 0;
        self.names.clear();
        self.names_by_address.clear();
        self.names_held.clear();
    }

    pub(crate) fn terms(&mut self, terms: &Arc<Terms>) -> u32 {
        if let Some(index) = self.terms_by_address.get(&address(terms)) {
            return *index;
        }
        self.terms_held.push(terms.clone());
        self.define(terms)
    }

    /// For terms without their `Arc`: those of a known `Arc` are found by address, others are compared with
    /// the newest few and else copied.
    pub(crate) fn terms_by_value(&mut self, terms: &Terms) -> u32 {
        const LOOKED_AT: usize = 8;
        if let Some(index) = self.terms_by_address.get(&address(terms)) {
            return *index;
        }
        match self.terms_held.iter().rev().take(LOOKED_AT).find(|held| ***held == *terms) {
            Some(held) => self.terms_by_address[&address(held)],
            None => self.terms(&Arc::new(terms.clone())),
        }
    }

    /// For terms that cannot change or be dropped before the page is complete, as within one walk over the
    /// engine.
    pub(crate) fn terms_in_place(&mut self, terms: &Terms) -> u32 {
        match self.terms_by_address.get(&address(terms)) {
            Some(index) => *index,
            None => self.define(terms),
        }
    }

    pub(crate) fn name(&mut self, name: &Name) -> u32 {
        let address = (name.as_ptr() as usize, name.len());
        if let Some(index) = self.names_by_address.get(&address) {
            return *index;
        }
        let index = self.names_held.len() as u32;
        self.names_by_address.insert(address, index);
        self.names_held.push(name.clone());
        put::text(&mut self.names, name);
        index
    }

    /// The approximate number of bytes that [`Dictionary::write`] takes.
    pub(crate) fn len(&self) -> usize {
        self.terms.len() + self.names.len() + 2
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put::varint(out, u64::from(self.terms_count));
        out.extend_from_slice(&self.terms);
        put::varint(out, self.names_held.len() as u64);
        out.extend_from_slice(&self.names);
    }

    fn define(&mut self, terms: &Terms) -> u32 {
        let index = self.terms_count;
        self.terms_count += 1;
        self.terms_by_address.insert(address(terms), index);
        put::measured(&mut self.terms, |out| encode_terms(out, terms));
        index
    }
}

fn address(terms: &Terms) -> usize {
    std::ptr::from_ref(terms) as usize
}
