//! Batching: tasks and events that arrive together share a frame.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tenure_hub::words::{Assignment, Terms};
use tenure_wire::event::Event;
use tenure_wire::notice::{Assign, EventBatch};

use crate::codec::encode_notice;
use crate::translate;

/// A frame of tasks is closed when its bodies reach this size.
const ASSIGN_BYTES: usize = 256 << 10;
/// The size of most assignments without their body.
const ASSIGNMENT_BYTES: usize = 64;
/// How many events go into one frame.
const EVENTS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Bulk {
    work: Assign,
    /// The terms of the last task, to detect repeated ones.
    last_terms: Option<Arc<Terms>>,
    bytes: usize,
    events: EventBatch,
}

impl Bulk {
    pub(super) fn assign(&mut self, assignment: Assignment, body: Bytes, out: &mut BytesMut) {
        let known = self.last_terms.as_ref().is_some_and(|last| Arc::ptr_eq(last, &assignment.terms));
        if !known {
            self.work.terms.push(translate::terms(&assignment.terms));
            self.last_terms = Some(Arc::clone(&assignment.terms));
        }
        self.bytes += body.len();
        let terms = (self.work.terms.len() - 1) as u32;
        self.work.tasks.push(translate::assignment(assignment, body, terms));
        if self.bytes >= ASSIGN_BYTES || self.work.tasks.len() >= tenure_wire::limits::ENTRIES_MAX {
            self.flush_work(out);
        }
    }

    pub(super) fn event(&mut self, watch: u64, event: Event, out: &mut BytesMut) {
        if self.events.watch != watch || self.events.events.len() >= EVENTS_MAX {
            self.flush_events(out);
            self.events.watch = watch;
        }
        self.events.events.push(event);
    }

    pub(super) fn flush(&mut self, out: &mut BytesMut) {
        self.flush_work(out);
        self.flush_events(out);
    }

    fn flush_work(&mut self, out: &mut BytesMut) {
        if self.work.tasks.is_empty() {
            return;
        }
        out.reserve(self.bytes + self.work.tasks.len() * ASSIGNMENT_BYTES);
        // The lists are put back to reuse their capacity.
        let mut notice = tenure_wire::Notice::Assign(std::mem::take(&mut self.work));
        encode_notice(out, &notice);
        if let tenure_wire::Notice::Assign(work) = &mut notice {
            work.tasks.clear();
            work.terms.clear();
            self.work = std::mem::take(work);
        }
        self.last_terms = None;
        self.bytes = 0;
    }

    fn flush_events(&mut self, out: &mut BytesMut) {
        if self.events.events.is_empty() {
            return;
        }
        let mut notice = tenure_wire::Notice::Events(std::mem::take(&mut self.events));
        encode_notice(out, &notice);
        if let tenure_wire::Notice::Events(events) = &mut notice {
            events.events.clear();
            self.events = std::mem::take(events);
        }
    }
}
