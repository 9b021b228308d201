//! Commands on stored keys. They run at once and are answered when the changes are on disk, so commands that arrive
//! together share a sync; only one that waits for an element blocks the next ones.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::ClockReading;
use tenure_hub::keyspace::{
    Blocking, Command as KeyCommand, KeyCommand as OnKey, KeyspaceAnswer, KeyspaceCall, Reply as KeyReply,
};
use tenure_hub::words::Timestamp;

use super::{Expectation, ReplySlot, Session, SessionOutput};
use crate::codec::Reply;
use crate::command::{Command, KeyListing, KeyspaceCommand, STORED_CURSOR, ViewCommand, Wait};
use crate::flow::Input;
use crate::translate::{key_replies, key_reply};

/// This many refused scripts are answered without delay; further ones are answered slowly.
const REFUSED_AT_ONCE: u32 = 3;
const REFUSED_HOLD: Duration = Duration::from_secs(1);

/// The state of a connection's commands on stored keys.
#[derive(Debug, Default)]
pub(super) struct KeyspaceState {
    /// A command that waits for an element.
    blocked: Option<Blocked>,
    /// Keys are watched, so EXEC must check them.
    pub(super) watches: bool,
    refused: u32,
    /// Stored keys for the reply of a listing, by its slot.
    listed: Option<(u64, Vec<Reply>)>,
}

#[derive(Debug)]
struct Blocked {
    token: u64,
    until: Option<Timestamp>,
}

impl KeyspaceState {
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.blocked.as_ref().and_then(|blocked| blocked.until)
    }
}

impl Session {
    pub(super) fn keyspace(
        &mut self,
        now: ClockReading,
        place: u64,
        command: KeyspaceCommand,
        out: &mut SessionOutput,
    ) {
        match command {
            KeyspaceCommand::Run(command) => {
                self.flows.end(place);
                let expect = Expectation::Keys { reply: place, nothing: Reply::NullArray };
                self.call_keys(KeyspaceCall::Run(*command), expect, out);
            }
            KeyspaceCommand::Wait { command, wait } => {
                let nothing = match &command {
                    Blocking::Move { .. } => Reply::Null,
                    Blocking::Pop { .. } | Blocking::ReadStreams { .. } => Reply::NullArray,
                };
                let expect = Expectation::Keys { reply: place, nothing };
                let token = self.call_keys(KeyspaceCall::Wait(command), expect, out);
                let until = match wait {
                    Wait::NotAtAll => Some(now.steady),
                    Wait::AtMost(wait) => Some(now.steady + wait),
                    Wait::ForEver => None,
                };
                self.keyspace.blocked = Some(Blocked { token, until });
            }
            KeyspaceCommand::List { listing, then } => {
                let command = match listing {
                    KeyListing::Keys(pattern) => OnKey::Matching { pattern },
                    KeyListing::Scan(scan) => OnKey::Scan(scan),
                };
                let expect = Expectation::Listed { reply: place, then };
                self.call_keys(KeyspaceCall::Run(KeyCommand::Key(command)), expect, out);
            }
            KeyspaceCommand::Watch(keys) => {
                self.flows.end(place);
                self.keyspace.watches = true;
                self.call_keys(
                    KeyspaceCall::Watch(keys),
                    Expectation::Keys { reply: place, nothing: Reply::Null },
                    out,
                );
            }
            KeyspaceCommand::Unwatch => {
                self.flows.end(place);
                self.keyspace.watches = false;
                self.call_keys(
                    KeyspaceCall::Unwatch,
                    Expectation::Keys { reply: place, nothing: Reply::Null },
                    out,
                );
            }
            KeyspaceCommand::Known { sha1 } => self.fill(place, Reply::bulk(sha1)),
            KeyspaceCommand::AreKnown(known) => {
                self.fill(place, Reply::array(known.into_iter().map(Reply::from)));
            }
            KeyspaceCommand::Refused => {
                self.keyspace.refused += 1;
                if self.keyspace.refused > REFUSED_AT_ONCE {
                    out.hold = REFUSED_HOLD;
                }
                self.fill(place, Reply::error(SCRIPTS_REFUSED));
            }
        }
    }

    /// The key space answers.
    pub fn keys_answered(
        &mut self,
        now: ClockReading,
        token: u64,
        answer: KeyspaceAnswer,
        out: &mut SessionOutput,
    ) {
        self.keyspace.blocked.take_if(|blocked| blocked.token == token);
        match self.pending.take(token) {
            Some(Expectation::Keys { reply: place, nothing }) => {
                let reply = match answer {
                    KeyspaceAnswer::Reply(KeyReply::NullArray) => nothing,
                    KeyspaceAnswer::Reply(reply) => key_reply(reply, self.version),
                    other => unanswered(&other),
                };
                self.fill(place, reply);
            }
            Some(Expectation::Listed { reply: place, then }) => self.listed(now, place, answer, then, out),
            Some(Expectation::Flow { reply: place, flow }) => {
                let answer = match answer {
                    KeyspaceAnswer::Reply(reply) => Ok(reply),
                    other => Err(unanswered(&other)),
                };
                let step = flow.resume(now.wall, Input::Keys(answer));
                self.run(now, place, step, out);
            }
            Some(Expectation::Exec { reply: place, commands }) => self.executed(place, answer, commands),
            _ => {}
        }
        self.flush(out);
    }

    /// Times out the next blocking command that is due.
    pub(super) fn give_up_keys(&mut self, now: ClockReading, out: &mut SessionOutput) {
        if let Some(blocked) = &mut self.keyspace.blocked
            && blocked.until.is_some_and(|until| until <= now.steady)
        {
            blocked.until = None;
            let waiting = blocked.token;
            let token = self.token();
            out.keys.push((token, KeyspaceCall::GiveUp { waiting }));
        }
    }

    /// EXEC: commands on stored keys run atomically, the others after them.
    pub(super) fn exec(&mut self, place: u64, out: &mut SessionOutput) {
        let commands = match self.transaction.take() {
            Ok(commands) => commands,
            Err(reply) => {
                self.unwatch_keys(out);
                return self.fill(place, reply);
            }
        };
        let watches = std::mem::take(&mut self.keyspace.watches);
        let stored: Vec<KeyCommand> = commands.iter().filter_map(stored).cloned().collect();
        if stored.is_empty() && !watches {
            let items = commands.len();
            self.transaction.run(commands.into_iter().map(Ok).collect());
            return self.fill_slot(place, ReplySlot::Header { items });
        }
        if stored.len() == commands.len() {
            self.flows.end(place);
        }
        self.call_keys(KeyspaceCall::Transaction(stored), Expectation::Exec { reply: place, commands }, out);
    }

    /// Nothing is watched any more.
    pub(super) fn unwatch_keys(&mut self, out: &mut SessionOutput) {
        if std::mem::take(&mut self.keyspace.watches) {
            let token = self.token();
            out.keys.push((token, KeyspaceCall::Unwatch));
        }
    }

    fn executed(&mut self, place: u64, answer: KeyspaceAnswer, commands: Vec<Command>) {
        let replies = match answer {
            KeyspaceAnswer::Transaction(Some(replies)) => replies,
            KeyspaceAnswer::Transaction(None) => return self.fill(place, Reply::NullArray),
            other => return self.fill(place, unanswered(&other)),
        };
        let mut replies = key_replies(replies, self.version).into_iter();
        let is_whole = commands.iter().all(|command| stored(command).is_some());
        if is_whole {
            return self.fill(place, Reply::array(replies));
        }
        let items = commands.len();
        let answered = |command: Command| match stored(&command) {
            Some(_) => Err(replies.next().unwrap_or(Reply::Null)),
            None => Ok(command),
        };
        self.transaction.run(commands.into_iter().map(answered).collect());
        self.fill_slot(place, ReplySlot::Header { items });
    }

    fn listed(
        &mut self,
        now: ClockReading,
        place: u64,
        answer: KeyspaceAnswer,
        then: Option<ViewCommand>,
        out: &mut SessionOutput,
    ) {
        let (cursor, found) = match answer {
            KeyspaceAnswer::Reply(KeyReply::Array(parts)) => match <[KeyReply; 2]>::try_from(parts) {
                Ok([KeyReply::Bulk(cursor), KeyReply::Array(found)]) => (Some(cursor), found),
                Ok(found) => (None, found.into()),
                Err(found) => (None, found),
            },
            KeyspaceAnswer::Reply(reply) => return self.fill(place, key_reply(reply, self.version)),
            other => return self.fill(place, unanswered(&other)),
        };
        let found = key_replies(found, self.version);
        let next = cursor.as_deref().and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        match (next, then) {
            (Some(next), _) if next > 0 => self.fill(place, scanned(next | STORED_CURSOR, found)),
            (_, Some(view)) => {
                self.keyspace.listed = Some((place, found));
                self.start_view(now, place, view, out);
            }
            (Some(_), None) => self.fill(place, scanned(0, found)),
            (None, None) => self.fill(place, Reply::Array(found)),
        }
    }

    /// Adds stored keys to the views in an answer.
    pub(super) fn with_listed(&mut self, place: u64, reply: Reply) -> Reply {
        let Some((_, keys)) = self.keyspace.listed.take_if(|(listed, _)| *listed == place) else {
            return reply;
        };
        match reply {
            Reply::Array(mut parts) => {
                match parts.as_mut_slice() {
                    [Reply::Bulk(_), Reply::Array(found)] => add_missing(found, keys),
                    _ => add_missing(&mut parts, keys),
                }
                Reply::Array(parts)
            }
            other => other,
        }
    }

    pub(super) fn call_keys(
        &mut self,
        call: KeyspaceCall,
        expect: Expectation,
        out: &mut SessionOutput,
    ) -> u64 {
        let token = self.token();
        self.pending.insert(token, expect);
        out.keys.push((token, call));
        token
    }
}

const SCRIPTS_REFUSED: &str = "ERR unknown script: the broker runs no Lua. The locks of redis-py, Celery and RQ work; \
    programs that need scripts of their own (BullMQ) do not";

/// The command on stored keys, if it is one that a transaction runs as part of it.
fn stored(command: &Command) -> Option<&KeyCommand> {
    match command {
        Command::Keyspace(KeyspaceCommand::Run(command)) => Some(command),
        _ => None,
    }
}

/// Metadata has the name of its view, which must appear only once.
fn add_missing(found: &mut Vec<Reply>, keys: Vec<Reply>) {
    let name = |reply: &Reply| match reply {
        Reply::Bulk(name) => Some(name.clone()),
        _ => None,
    };
    let known: HashSet<Option<Bytes>> = found.iter().map(name).collect();
    found.extend(keys.into_iter().filter(|key| !known.contains(&name(key))));
}

fn scanned(cursor: u64, found: Vec<Reply>) -> Reply {
    Reply::array([Reply::bulk(cursor.to_string()), Reply::Array(found)])
}

/// A reply that does not fit the request.
fn unanswered(answer: &KeyspaceAnswer) -> Reply {
    match answer {
        KeyspaceAnswer::Failed(failure) => Reply::error(format!("ERR {failure}")),
        KeyspaceAnswer::Reply(_) | KeyspaceAnswer::Transaction(_) => Reply::error("ERR unexpected answer"),
    }
}
