//! Channels of jobs that have not been submitted yet: a client that chooses the id may subscribe first.
//!
//! Events do not carry names, so while such a channel waits, every submission triggers a lookup of its job. A running
//! lookup covers all submissions that come before it ends.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_hub::words::{Answer, EventFilter, Name, Query};
use tenure_hub::{Request, Response, Watch};

use super::{Expectation, Session, SessionOutput};
use crate::flow::FlowOutcome;

/// How many channels of one connection may wait for their jobs.
const EXPECTED_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Expected {
    /// The watch over submissions.
    watch: Option<u64>,
    channels: BTreeMap<Bytes, Search>,
}

#[derive(Debug, Default)]
struct Search {
    /// A lookup is running, and whether a submission came since it began.
    looking: bool,
    again: bool,
    /// The first submission that may be its job.
    since: Option<u64>,
}

impl Session {
    /// Looks for the job of a channel by its name.
    pub(super) fn look_for(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        let Ok(job) = std::str::from_utf8(&channel["job:".len()..]) else { return };
        let find = Request::Query(Query::Find { name: Name::from(job) });
        self.ask(find, Expectation::Channel(channel.clone()), out);
    }

    /// The job of a channel was found, or does not exist yet.
    pub(super) fn handle_lookup(&mut self, channel: &Bytes, outcome: &FlowOutcome, out: &mut SessionOutput) {
        let search = self.expected.channels.remove(channel);
        if !self.subscriptions.channels.contains(channel) {
            return self.expect_no_more(out);
        }
        if let Ok(Response::Answer(Answer::Task(task))) = outcome {
            self.watch_task(channel.clone(), task.id, search.and_then(|search| search.since), out);
            return self.expect_no_more(out);
        }
        match search {
            // It may have been submitted before the watch began: the next lookup is certain.
            None => self.expect(channel, out),
            Some(Search { again: false, .. }) => {
                self.expected.channels.insert(channel.clone(), Search::default());
            }
            Some(Search { since, .. }) => {
                let search = Search { looking: true, again: false, since };
                self.expected.channels.insert(channel.clone(), search);
                self.look_for(channel, out);
            }
        }
    }

    /// Handles a submission, if this is the watch for submissions.
    pub(super) fn handle_submission(&mut self, watch: u64, number: u64, out: &mut SessionOutput) -> bool {
        if self.expected.watch != Some(watch) {
            return false;
        }
        let mut idle = Vec::new();
        for (channel, search) in &mut self.expected.channels {
            search.since.get_or_insert(number);
            search.again = search.looking;
            if !std::mem::replace(&mut search.looking, true) {
                idle.push(channel.clone());
            }
        }
        idle.iter().for_each(|channel| self.look_for(channel, out));
        true
    }

    /// The connection has unsubscribed from its channel.
    pub(super) fn stop_expecting(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        if self.expected.channels.remove(channel).is_some() {
            self.expect_no_more(out);
        }
    }

    fn expect(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        if self.expected.channels.len() >= EXPECTED_MAX {
            let message = format!(
                r#"{{"event":"unknown","reason":"there is no such job yet, and this connection waits for {EXPECTED_MAX} others"}}"#
            );
            return self.send_message(channel, message.into(), out);
        }
        if self.expected.watch.is_none() {
            let watch = self.token();
            self.expected.watch = Some(watch);
            let filter = EventFilter { kinds: vec!["submitted".into()], ..EventFilter::default() };
            self.ask(Request::Watch(Watch { watch, filter, from: None }), Expectation::Watch, out);
        }
        self.expected.channels.insert(channel.clone(), Search { looking: true, ..Search::default() });
        self.look_for(channel, out);
    }

    fn expect_no_more(&mut self, out: &mut SessionOutput) {
        if self.expected.channels.is_empty()
            && let Some(watch) = self.expected.watch.take()
        {
            self.ask(Request::Unwatch { watch }, Expectation::Nothing, out);
        }
    }
}
