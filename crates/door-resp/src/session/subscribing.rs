//! Channels: news as it happens. `job:updates` and `job:<id>` tell of jobs; other channels carry what peers publish.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tenure_hub::words::{Answer, Event, Filter, Name, Query, TaskId, Timestamp};
use tenure_hub::{Broadcast, Request, Response, Watch};

use super::{Expect, Output, Session};
use crate::codec::{Reply, Version, encode};
use crate::command::{Command, ConnectionCommand, EventsCommand};
use crate::errand::{Outcome, Step};
use crate::glob::glob;
use crate::translate::{event_json, refusal};

/// The channel that tells of every job.
const UPDATES: &[u8] = b"job:updates";
/// How many channels and patterns one connection may follow.
const SUBSCRIPTIONS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    pub(super) channels: BTreeSet<Bytes>,
    pub(super) patterns: BTreeSet<Bytes>,
    /// The watch over all events, while somebody wants to hear of every job.
    everything: Option<u64>,
    /// The watches of single jobs, and the channel each is for.
    jobs: BTreeMap<u64, Bytes>,
    hears: bool,
}

impl Subscriptions {
    fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Patterns may match the channel of any job.
    fn wants_everything(&self) -> bool {
        self.channels.contains(UPDATES) || !self.patterns.is_empty()
    }

    fn wants_broadcasts(&self) -> bool {
        !self.patterns.is_empty() || self.channels.iter().any(|channel| !channel.starts_with(b"job:"))
    }
}

/// What a RESP2 subscriber may still say: its answers could not be told from messages otherwise.
pub(super) fn allowed(command: &Command) -> bool {
    match command {
        Command::Events(command) => !matches!(
            command,
            EventsCommand::Read(_) | EventsCommand::Range { .. } | EventsCommand::Publish { .. }
        ),
        Command::Connection(command) => {
            matches!(command, ConnectionCommand::Ping(_) | ConnectionCommand::Quit | ConnectionCommand::Reset)
        }
        _ => false,
    }
}

impl Session {
    /// Whether this is a RESP2 connection that listens.
    pub(super) fn subscribed_old(&self) -> bool {
        self.version == Version::Resp2 && self.subscriptions.count() > 0
    }

    pub(super) fn subscription(
        &mut self,
        now: Timestamp,
        place: u64,
        command: EventsCommand,
        out: &mut Output,
    ) {
        let mut bytes = BytesMut::new();
        match command {
            EventsCommand::Publish { channel, message } => {
                let subject = Some(Name::from(String::from_utf8_lossy(&channel)));
                let request =
                    Request::Broadcast(Broadcast { sender: None, subject, correlation: None, body: message });
                let step = Step::last(request, |_, outcome| match outcome {
                    Ok(Response::Heard(count)) => Reply::count(count),
                    Ok(_) => Reply::Integer(0),
                    Err(reason) => refusal(&reason),
                });
                return self.run(now, place, step, out);
            }
            EventsCommand::Subscribe(channels) => {
                if self.subscriptions.count() + channels.len() > SUBSCRIPTIONS_MAX {
                    let error = format!("ERR too many subscriptions, at most {SUBSCRIPTIONS_MAX}");
                    return self.fill(place, &Reply::error(error));
                }
                for channel in channels {
                    if self.subscriptions.channels.insert(channel.clone()) {
                        self.watch_job(&channel, out);
                    }
                    self.confirm("subscribe", Some(channel), &mut bytes);
                }
            }
            EventsCommand::SubscribePattern(patterns) => {
                if self.subscriptions.count() + patterns.len() > SUBSCRIPTIONS_MAX {
                    let error = format!("ERR too many subscriptions, at most {SUBSCRIPTIONS_MAX}");
                    return self.fill(place, &Reply::error(error));
                }
                for pattern in patterns {
                    self.subscriptions.patterns.insert(pattern.clone());
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
                    self.subscriptions.channels.remove(&channel);
                    self.unwatch_job(&channel, out);
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
                    self.subscriptions.patterns.remove(&pattern);
                    self.confirm("punsubscribe", Some(pattern), &mut bytes);
                }
            }
            EventsCommand::Read(_) | EventsCommand::Range { .. } => unreachable!("errands of their own"),
        }
        self.listen_as_needed(out);
        self.fill_bytes(place, bytes.freeze());
    }

    pub(super) fn unsubscribe_all(&mut self, out: &mut Output) {
        for channel in std::mem::take(&mut self.subscriptions.channels) {
            self.unwatch_job(&channel, out);
        }
        self.subscriptions.patterns.clear();
        self.listen_as_needed(out);
    }

    /// An event of a watch that a channel began.
    pub(super) fn publish_event(&mut self, watch: u64, event: &Arc<Event>, out: &mut Output) {
        let Some(task) = event.task() else { return };
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

    /// Events of a channel are gone; its subscribers are told how many.
    pub(super) fn publish_gap(&mut self, watch: u64, from: u64, oldest: u64, out: &mut Output) {
        let channel = match self.subscriptions.jobs.get(&watch) {
            Some(channel) => channel.clone(),
            None if self.subscriptions.everything == Some(watch) => Bytes::from_static(UPDATES),
            None => return,
        };
        let message = format!(r#"{{"event":"gap","from":{from},"to":{}}}"#, oldest - 1);
        self.send_message(&channel, message.into(), out);
    }

    /// What a peer published.
    pub(super) fn heard(&mut self, subject: Option<&str>, body: &Bytes, out: &mut Output) {
        let Some(subject) = subject else { return };
        let channel = Bytes::copy_from_slice(subject.as_bytes());
        if self.subscriptions.channels.contains(&channel) && !channel.starts_with(b"job:") {
            self.send_message(&channel, body.clone(), out);
        }
        self.send_to_patterns(&channel, body, out);
    }

    /// The job of a channel is known by its name: now we know which task to watch.
    pub(super) fn channel_found(&mut self, channel: &Bytes, outcome: Outcome, out: &mut Output) {
        if let Ok(Response::Answer(Answer::Task(task))) = outcome
            && self.subscriptions.channels.contains(channel)
        {
            self.watch_task(channel.clone(), task.id, out);
        }
    }

    fn watch_job(&mut self, channel: &Bytes, out: &mut Output) {
        let Some(job) = channel.strip_prefix(b"job:").filter(|_| channel != UPDATES) else { return };
        let Ok(job) = std::str::from_utf8(job) else { return };
        match job.parse::<TaskId>() {
            Ok(task) => self.watch_task(channel.clone(), task, out),
            Err(_) => {
                let find = Request::Query(Query::Find { name: Name::from(job) });
                self.ask(find, Expect::Channel(channel.clone()), out);
            }
        }
    }

    fn watch_task(&mut self, channel: Bytes, task: TaskId, out: &mut Output) {
        let watch = self.token();
        self.subscriptions.jobs.insert(watch, channel);
        let filter = Filter { task: Some(task), ..Filter::default() };
        self.ask(Request::Watch(Watch { watch, filter, from: None }), Expect::Watch, out);
    }

    fn unwatch_job(&mut self, channel: &Bytes, out: &mut Output) {
        let watch = self.subscriptions.jobs.iter().find(|(_, of)| *of == channel).map(|(watch, _)| *watch);
        if let Some(watch) = watch {
            self.subscriptions.jobs.remove(&watch);
            self.ask(Request::Unwatch { watch }, Expect::Nothing, out);
        }
    }

    /// Begins or ends the watch over everything and the hearing of what peers publish.
    fn listen_as_needed(&mut self, out: &mut Output) {
        match (self.subscriptions.wants_everything(), self.subscriptions.everything) {
            (true, None) => {
                let watch = self.token();
                self.subscriptions.everything = Some(watch);
                let all = Watch { watch, filter: Filter::default(), from: None };
                self.ask(Request::Watch(all), Expect::Watch, out);
            }
            (false, Some(watch)) => {
                self.subscriptions.everything = None;
                self.ask(Request::Unwatch { watch }, Expect::Nothing, out);
            }
            (true, Some(_)) | (false, None) => {}
        }
        let hear = self.subscriptions.wants_broadcasts();
        if hear != self.subscriptions.hears {
            self.subscriptions.hears = hear;
            self.ask(Request::HearBroadcasts { hear }, Expect::Nothing, out);
        }
    }

    fn confirm(&self, what: &'static str, channel: Option<Bytes>, bytes: &mut BytesMut) {
        let channel = channel.map_or(Reply::Null, Reply::Bulk);
        let count = Reply::count(self.subscriptions.count());
        encode(&Reply::Push(vec![Reply::word(what), channel, count]), self.version, bytes);
    }

    fn send_message(&self, channel: &Bytes, message: Bytes, out: &mut Output) {
        let push =
            Reply::Push(vec![Reply::word("message"), Reply::Bulk(channel.clone()), Reply::Bulk(message)]);
        encode(&push, self.version, &mut out.bytes);
    }

    fn send_to_patterns(&self, channel: &Bytes, message: &Bytes, out: &mut Output) {
        for pattern in self.subscriptions.patterns.iter().filter(|pattern| glob(pattern, channel)) {
            let push = Reply::Push(vec![
                Reply::word("pmessage"),
                Reply::Bulk(pattern.clone()),
                Reply::Bulk(channel.clone()),
                Reply::Bulk(message.clone()),
            ]);
            encode(&push, self.version, &mut out.bytes);
        }
    }
}
