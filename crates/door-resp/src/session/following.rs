//! Reading the event log: XREAD and XRANGE collect what a watch delivers.

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::words::{Event, Timestamp};
use tenure_hub::{ClockReading, HubRefusal, Request, Watch};

use super::{Expectation, Session, SessionOutput};
use crate::codec::{Reply, Version};
use crate::command::ReadFrom;
use crate::flow::{EventStream, Follow};
use crate::translate::{event_entry, is_of_jobs, refusal};

#[derive(Debug)]
pub(super) struct Following {
    place: u64,
    parts: Vec<Part>,
    count: usize,
    blocks: bool,
    pub(super) until: Option<Timestamp>,
    range_to: Option<u64>,
}

/// One of the streams.
#[derive(Debug)]
struct Part {
    name: Bytes,
    watch: u64,
    job: Option<String>,
    entries: Vec<Reply>,
    /// It has caught up with the present.
    live: bool,
}

impl Session {
    pub(super) fn follow(&mut self, now: ClockReading, place: u64, follow: Follow, out: &mut SessionOutput) {
        let blocks = follow.block.is_some();
        let until = follow.block.flatten().map(|wait| now.steady + wait);
        let mut parts = Vec::with_capacity(follow.streams.len());
        for EventStream { name, filter, from, job } in follow.streams {
            let watch = self.token();
            let from = match from {
                ReadFrom::After(number) => Some(number.saturating_add(1)),
                ReadFrom::Now => None,
            };
            self.ask(Request::Watch(Watch { watch, filter, from }), Expectation::Watch, out);
            parts.push(Part { name, watch, job, entries: Vec::new(), live: false });
        }
        let count = follow.count;
        self.following = Some(Following { place, parts, count, blocks, until, range_to: follow.range_to });
    }

    pub(super) fn event(&mut self, watch: u64, event: &Arc<Event>, out: &mut SessionOutput) {
        if !is_of_jobs(event) {
            return;
        }
        let Some(following) = &mut self.following else { return self.publish_event(watch, event, out) };
        let (count, range_to) = (following.count, following.range_to);
        let Some(part) = following.parts.iter_mut().find(|part| part.watch == watch) else {
            return self.publish_event(watch, event, out);
        };
        if range_to.is_some_and(|to| event.seq > to) {
            part.live = true;
        } else if part.entries.len() < count {
            part.entries.push(event_entry(event, part.job.as_deref()));
        }
        self.end_if_enough(out);
    }

    pub(super) fn gap(&mut self, watch: u64, from: u64, oldest: u64, out: &mut SessionOutput) {
        if let Some(following) = &mut self.following
            && let Some(part) = following.parts.iter_mut().find(|part| part.watch == watch)
        {
            let to = following.range_to.unwrap_or(u64::MAX);
            part.live |= oldest > to;
            // A slice of numbers that are not there yet is empty.
            if from > to || (oldest < from && following.range_to.is_some()) {
                part.live = true;
                return self.end_if_enough(out);
            }
            let last = to.min(oldest - 1);
            let fields = [("event", "gap".to_owned()), ("from", from.to_string()), ("to", last.to_string())];
            let texts = fields.into_iter().flat_map(|(name, value)| [Reply::word(name), Reply::bulk(value)]);
            part.entries.push(Reply::array([Reply::bulk(format!("{last}-0")), Reply::array(texts)]));
            return self.end_if_enough(out);
        }
        self.publish_gap(watch, from, oldest, out);
    }

    pub(super) fn live(&mut self, watch: u64, out: &mut SessionOutput) {
        if let Some(following) = &mut self.following
            && let Some(part) = following.parts.iter_mut().find(|part| part.watch == watch)
        {
            part.live = true;
            self.end_if_enough(out);
        }
    }

    pub(super) fn give_up_following(&mut self, now: ClockReading, out: &mut SessionOutput) {
        if self
            .following
            .as_ref()
            .is_some_and(|following| following.until.is_some_and(|until| until <= now.steady))
        {
            self.end_following(out);
        }
    }

    pub(super) fn cannot_watch(&mut self, reason: &HubRefusal, out: &mut SessionOutput) {
        if let Some(following) = self.following.take() {
            self.unwatch(&following, out);
            self.fill(following.place, refusal(reason));
        }
    }

    fn end_if_enough(&mut self, out: &mut SessionOutput) {
        let Some(following) = &self.following else { return };
        let full = following.parts.iter().all(|part| part.live || part.entries.len() >= following.count);
        let anything = following.parts.iter().any(|part| !part.entries.is_empty());
        if full && (anything || !following.blocks) {
            self.end_following(out);
        }
    }

    fn end_following(&mut self, out: &mut SessionOutput) {
        let Some(following) = self.following.take() else { return };
        self.unwatch(&following, out);
        let place = following.place;
        let reply = following.reply(self.version);
        self.fill(place, reply);
    }

    fn unwatch(&mut self, following: &Following, out: &mut SessionOutput) {
        for part in &following.parts {
            self.ask(Request::Unwatch { watch: part.watch }, Expectation::Nothing, out);
        }
    }
}

impl Following {
    fn reply(mut self, version: Version) -> Reply {
        if self.range_to.is_some() {
            return Reply::Array(self.parts.pop().map(|part| part.entries).unwrap_or_default());
        }
        self.parts.retain(|part| !part.entries.is_empty());
        if self.parts.is_empty() {
            return Reply::NullArray;
        }
        let parts = self.parts.into_iter().map(|part| (Reply::Bulk(part.name), Reply::Array(part.entries)));
        match version {
            Version::Resp3 => Reply::Map(parts.collect()),
            Version::Resp2 => Reply::array(parts.map(|(name, entries)| Reply::array([name, entries]))),
        }
    }
}
