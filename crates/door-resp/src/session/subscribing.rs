//! Channels with live events. `job:updates` and `job:<id>` report on jobs; other channels are topics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tenure_hub::words::{Event, EventFilter, TaskId};
use tenure_hub::{Request, Watch};

use super::{Expectation, ReplySlot, Session, SessionOutput};
use crate::channel::{ChannelAct, ChannelListener, OWN, channel_filter, may_be_own, pattern_filter};
use crate::codec::{Reply, Version, encode};
use crate::command::{Command, ConnectionCommand, EventsCommand};
use crate::glob::glob;
use crate::translate::event_json;

/// The channel that reports on every job.
const UPDATES: &[u8] = b"job:updates";
/// How many channels and patterns one connection may follow.
const SUBSCRIPTIONS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct SessionSubscriptions {
    pub(super) channels: BTreeSet<Bytes>,
    pub(super) patterns: BTreeSet<Bytes>,
    /// The watch over all events, while a subscription covers every job.
    everything: Option<u64>,
    /// The watches of single jobs, and the channel each is for.
    jobs: BTreeMap<u64, Bytes>,
}

impl SessionSubscriptions {
    fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// A pattern may match the channel of any job.
    fn wants_everything(&self) -> bool {
        self.channels.contains(UPDATES) || self.patterns.iter().any(|pattern| may_be_own(pattern))
    }
}

/// The commands that a RESP2 subscriber may send: other replies would look like messages.
pub(super) fn allowed(command: &Command) -> bool {
    match command {
        Command::Events(command) => !matches!(
            command,
            EventsCommand::Read(_)
                | EventsCommand::Range { .. }
                | EventsCommand::Logs(_)
                | EventsCommand::Publish { .. }
        ),
        Command::Connection(command) => {
            matches!(command, ConnectionCommand::Ping(_) | ConnectionCommand::Quit | ConnectionCommand::Reset)
        }
        _ => false,
    }
}

impl Session {
    /// Whether this is a RESP2 connection with subscriptions.
    pub(super) fn subscribed_old(&self) -> bool {
        self.version == Version::Resp2 && self.subscriptions.count() > 0
    }

    pub(super) fn subscription(&mut self, place: u64, command: EventsCommand, out: &mut SessionOutput) {
        let mut bytes = BytesMut::new();
        match command {
            EventsCommand::Publish { channel, message } => {
                return match publishable(&channel) {
                    Ok(channel) => {
                        let token = self.token();
                        self.flows.end(place);
                        self.pending.insert(token, Expectation::Published { reply: place });
                        out.channels.push(ChannelAct::Publish { token, channel, message });
                    }
                    Err(reply) => self.fill(place, reply),
                };
            }
            EventsCommand::Subscribe(channels) => {
                if self.subscriptions.count() + channels.len() > SUBSCRIPTIONS_MAX {
                    let error = format!("ERR too many subscriptions, at most {SUBSCRIPTIONS_MAX}");
                    return self.fill(place, Reply::error(error));
                }
                let bad = channels.iter().find_map(|channel| Some((channel, listenable(channel).err()?)));
                if let Some((channel, why)) = bad {
                    return self.fill(place, invalid(channel, &why));
                }
                for channel in channels {
                    if self.subscriptions.channels.insert(channel.clone()) {
                        self.listen(&channel, out);
                    }
                    self.confirm("subscribe", Some(channel), &mut bytes);
                }
            }
            EventsCommand::SubscribePattern(patterns) => {
                if self.subscriptions.count() + patterns.len() > SUBSCRIPTIONS_MAX {
                    let error = format!("ERR too many subscriptions, at most {SUBSCRIPTIONS_MAX}");
                    return self.fill(place, Reply::error(error));
                }
                for pattern in patterns {
                    if self.subscriptions.patterns.insert(pattern.clone()) {
                        let (listener, filter) =
                            (ChannelListener::Pattern(pattern.clone()), pattern_filter(&pattern));
                        out.channels.push(ChannelAct::Begin { listener, filter });
                    }
                    self.confirm("psubscribe", Some(pattern), &mut bytes);
                }
            }
            EventsCommand::Unsubscribe(mut channels) => {
                if channels.is_empty() {
                    channels = self.subscriptions.channels.iter().cloned().collect();
                }
                if channels.is_empty() {
                    self.confirm("unsubscribe", None, &mut bytes);
                }
                for channel in channels {
                    if self.subscriptions.channels.remove(&channel) {
                        self.unlisten(&channel, out);
                    }
                    self.confirm("unsubscribe", Some(channel), &mut bytes);
                }
            }
            EventsCommand::UnsubscribePattern(mut patterns) => {
                if patterns.is_empty() {
                    patterns = self.subscriptions.patterns.iter().cloned().collect();
                }
                if patterns.is_empty() {
                    self.confirm("punsubscribe", None, &mut bytes);
                }
                for pattern in patterns {
                    if self.subscriptions.patterns.remove(&pattern) {
                        out.channels.push(ChannelAct::End(ChannelListener::Pattern(pattern.clone())));
                    }
                    self.confirm("punsubscribe", Some(pattern), &mut bytes);
                }
            }
            EventsCommand::Read(_) | EventsCommand::Range { .. } | EventsCommand::Logs(_) => {
                unreachable!("flows of their own")
            }
        }
        self.listen_as_needed(out);
        self.fill_slot(place, ReplySlot::Written(bytes.freeze()));
    }

    pub(super) fn unsubscribe_all(&mut self, out: &mut SessionOutput) {
        for channel in std::mem::take(&mut self.subscriptions.channels) {
            self.unlisten(&channel, out);
        }
        let patterns = std::mem::take(&mut self.subscriptions.patterns);
        out.channels
            .extend(patterns.into_iter().map(|pattern| ChannelAct::End(ChannelListener::Pattern(pattern))));
        self.listen_as_needed(out);
    }

    /// An event of a channel's watch.
    pub(super) fn publish_event(&mut self, watch: u64, event: &Arc<Event>, out: &mut SessionOutput) {
        let Some(task) = event.task() else { return };
        if self.handle_submission(watch, event.seq, out) {
            return;
        }
        if let Some(channel) = self.subscriptions.jobs.get(&watch).cloned() {
            let job = String::from_utf8_lossy(&channel["job:".len()..]).into_owned();
            let message = event_json(event, Some(&job));
            return self.send_message(&channel, message.into(), out);
        }
        if self.subscriptions.everything != Some(watch) {
            return;
        }
        let message = Bytes::from(event_json(event, None));
        if self.subscriptions.channels.contains(UPDATES) {
            self.send_message(&Bytes::from_static(UPDATES), message.clone(), out);
        }
        let channel = Bytes::from(format!("job:{task}"));
        self.send_to_patterns(&channel, &message, out);
    }

    /// Events of a channel are gone; its subscribers learn how many.
    pub(super) fn publish_gap(&mut self, watch: u64, from: u64, oldest: u64, out: &mut SessionOutput) {
        let channel = match self.subscriptions.jobs.get(&watch) {
            Some(channel) => channel.clone(),
            None if self.subscriptions.everything == Some(watch) => Bytes::from_static(UPDATES),
            None => {
                self.handle_submission(watch, oldest, out);
                return;
            }
        };
        let message = format!(r#"{{"event":"gap","from":{from},"to":{}}}"#, oldest - 1);
        self.send_message(&channel, message.into(), out);
    }

    /// A message that a peer published.
    pub fn channel_message(
        &mut self,
        listener: &ChannelListener,
        topic: &str,
        message: &Bytes,
        out: &mut SessionOutput,
    ) {
        let topic = Bytes::copy_from_slice(topic.as_bytes());
        match listener {
            ChannelListener::Channel(channel) if self.subscriptions.channels.contains(channel) => {
                self.send_message(channel, message.clone(), out);
            }
            ChannelListener::Pattern(pattern)
                if self.subscriptions.patterns.contains(pattern) && glob(pattern, &topic) =>
            {
                let push = pattern_message(pattern, &topic, message);
                self.transaction.push(&push, self.version, out);
            }
            ChannelListener::Channel(_) | ChannelListener::Pattern(_) => {}
        }
    }

    /// Messages that a subscriber was too slow for.
    pub fn missed(
        &mut self,
        listener: &ChannelListener,
        topic: &str,
        first: u64,
        last: u64,
        out: &mut SessionOutput,
    ) {
        let message = Bytes::from(format!(r#"{{"event":"gap","from":{first},"to":{last}}}"#));
        self.channel_message(listener, topic, &message, out);
    }

    /// How many received a published message, or why it failed.
    pub fn published(&mut self, token: u64, outcome: Result<u64, String>, out: &mut SessionOutput) {
        if let Some(Expectation::Published { reply }) = self.pending.take(token) {
            let count = |count| Reply::Integer(i64::try_from(count).unwrap_or(i64::MAX));
            let answer = outcome.map_or_else(|why| Reply::error(format!("ERR {why}")), count);
            self.fill(reply, answer);
        }
        self.flush(out);
    }

    /// The subscription fails after the session has reported success. The session reports the error and closes.
    pub fn cannot_listen(&mut self, why: &str, out: &mut SessionOutput) {
        let place = self.replies.open();
        self.fill(place, Reply::error(format!("ERR {why}")));
        self.closing = true;
        self.flush(out);
    }

    fn listen(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        match listenable(channel) {
            Ok(Some(filter)) => {
                out.channels
                    .push(ChannelAct::Begin { listener: ChannelListener::Channel(channel.clone()), filter });
            }
            Ok(None) | Err(_) => self.watch_job(channel, out),
        }
    }

    fn unlisten(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        match listenable(channel) {
            Ok(Some(_)) => out.channels.push(ChannelAct::End(ChannelListener::Channel(channel.clone()))),
            Ok(None) | Err(_) => self.unwatch_job(channel, out),
        }
    }

    fn watch_job(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        let Some(job) = channel.strip_prefix(b"job:").filter(|_| channel != UPDATES) else { return };
        match std::str::from_utf8(job).map(str::parse::<TaskId>) {
            Ok(Ok(task)) => self.watch_task(channel.clone(), task, None, out),
            Ok(Err(_)) => self.look_for(channel, out),
            // No such task exists.
            Err(_) => {}
        }
    }

    pub(super) fn watch_task(
        &mut self,
        channel: Bytes,
        task: TaskId,
        from: Option<u64>,
        out: &mut SessionOutput,
    ) {
        let watch = self.token();
        self.subscriptions.jobs.insert(watch, channel);
        let filter = EventFilter { task: Some(task), ..EventFilter::default() };
        self.ask(Request::Watch(Watch { watch, filter, from }), Expectation::Watch, out);
    }

    fn unwatch_job(&mut self, channel: &Bytes, out: &mut SessionOutput) {
        self.stop_expecting(channel, out);
        let watch = self.subscriptions.jobs.iter().find(|(_, of)| *of == channel).map(|(watch, _)| *watch);
        if let Some(watch) = watch {
            self.subscriptions.jobs.remove(&watch);
            self.ask(Request::Unwatch { watch }, Expectation::Nothing, out);
        }
    }

    /// Starts or ends the watch over all events.
    fn listen_as_needed(&mut self, out: &mut SessionOutput) {
        match (self.subscriptions.wants_everything(), self.subscriptions.everything) {
            (true, None) => {
                let watch = self.token();
                self.subscriptions.everything = Some(watch);
                let all = Watch { watch, filter: EventFilter::default(), from: None };
                self.ask(Request::Watch(all), Expectation::Watch, out);
            }
            (false, Some(watch)) => {
                self.subscriptions.everything = None;
                self.ask(Request::Unwatch { watch }, Expectation::Nothing, out);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    fn confirm(&self, what: &'static str, channel: Option<Bytes>, bytes: &mut BytesMut) {
        let channel = channel.map_or(Reply::Null, Reply::Bulk);
        let count = Reply::count(self.subscriptions.count());
        encode(&Reply::Push(vec![Reply::word(what), channel, count]), self.version, bytes);
    }

    pub(super) fn send_message(&mut self, channel: &Bytes, message: Bytes, out: &mut SessionOutput) {
        let push =
            Reply::Push(vec![Reply::word("message"), Reply::Bulk(channel.clone()), Reply::Bulk(message)]);
        self.transaction.push(&push, self.version, out);
    }

    fn send_to_patterns(&mut self, channel: &Bytes, message: &Bytes, out: &mut SessionOutput) {
        let Session { subscriptions, transaction, version, .. } = self;
        for pattern in subscriptions.patterns.iter().filter(|pattern| glob(pattern, channel)) {
            transaction.push(&pattern_message(pattern, channel, message), *version, out);
        }
    }
}

fn pattern_message(pattern: &Bytes, channel: &Bytes, message: &Bytes) -> Reply {
    let parts = [pattern, channel, message].map(|part| Reply::Bulk(part.clone()));
    Reply::Push([Reply::word("pmessage")].into_iter().chain(parts).collect())
}

/// The topic behind a channel; none for the channels of jobs.
fn listenable(channel: &[u8]) -> Result<Option<crate::channel::BroadFilter>, String> {
    if channel.starts_with(OWN.as_bytes()) {
        return Ok(None);
    }
    channel_filter(channel).map(Some)
}

/// The channel as a topic to publish to.
fn publishable(channel: &[u8]) -> Result<String, Reply> {
    match listenable(channel) {
        Ok(Some(wide)) => Ok(wide.filter.as_str().to_owned()),
        Ok(None) => Err(invalid(channel, "channels that begin with job: are the broker's own")),
        Err(why) => Err(invalid(channel, &why)),
    }
}

fn invalid(channel: &[u8], why: &str) -> Reply {
    let shown: String = String::from_utf8_lossy(channel).chars().take(64).collect();
    Reply::error(format!("ERR Invalid channel '{shown}': {why}"))
}
