//! Runs commands: decide, check the limits, apply, then serve blocked commands from what was pushed.

use bytes::Bytes;

use crate::account::Growth;
use crate::command::Command;
use crate::effect::{Effect, Record};
use crate::keyspace::Keyspace;
use crate::limits::{ELEMENTS_BYTES_MAX, REPLY_BYTES_MAX};
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::waiting::WaiterId;
use crate::watching::KeyWatch;

/// The result of a command.
#[derive(Debug, PartialEq)]
pub struct CommandOutcome {
    /// The answer.
    pub reply: Reply,
    /// What must be on disk before the replies leave. Empty if nothing changed.
    pub record: Record,
    /// Blocked commands that got their element.
    pub served: Vec<UnblockedCommand>,
}

/// A blocked command that could go on.
#[derive(Debug, PartialEq)]
pub struct UnblockedCommand {
    /// Which one.
    pub waiter: WaiterId,
    /// Its answer.
    pub reply: Reply,
}

/// The result of EXEC.
#[derive(Debug, PartialEq)]
pub enum Transaction {
    /// A watched key changed: no command ran.
    Aborted,
    /// All commands ran.
    CommandOutcome {
        /// One answer for each command.
        replies: Vec<Reply>,
        /// What to write to disk.
        record: Record,
        /// Blocked commands that could go on because of it.
        served: Vec<UnblockedCommand>,
    },
}

impl Keyspace {
    /// Runs one command. A blocking one replies as if it had timed out.
    pub fn run(&mut self, command: &Command, now: Timestamp) -> CommandOutcome {
        let mut record = Record::default();
        let reply = self.run_into(command, now, &mut record);
        let served = self.serve(now, &mut record);
        CommandOutcome { reply, record, served }
    }

    /// Runs commands without others in between, unless a watched key changed.
    pub fn run_all(&mut self, commands: &[Command], watches: &[KeyWatch], now: Timestamp) -> Transaction {
        if !watches.iter().all(|watch| self.is_unchanged(watch)) {
            return Transaction::Aborted;
        }
        let mut record = Record::default();
        let (mut replies, mut bytes) = (Vec::with_capacity(commands.len()), 0);
        for command in commands {
            let changes = record.0.len();
            let mut reply = self.run_into(command, now, &mut record);
            bytes += reply.bytes();
            // The reply of a change is not refused: the change is made.
            if bytes > REPLY_BYTES_MAX && record.0.len() == changes {
                bytes -= reply.bytes();
                reply = Reply::Refused(KeyspaceRefusal::ReplyTooLong);
            }
            replies.push(reply);
        }
        let served = self.serve(now, &mut record);
        Transaction::CommandOutcome { replies, record, served }
    }

    pub(crate) fn run_into(&mut self, command: &Command, now: Timestamp, record: &mut Record) -> Reply {
        let done = match command {
            Command::Script(call) => call.run(self, now, record),
            command => self.decide_and_apply(command, now, record),
        };
        done.unwrap_or_else(Reply::Refused)
    }

    pub(crate) fn decide_and_apply(
        &mut self,
        command: &Command,
        now: Timestamp,
        record: &mut Record,
    ) -> Result<Reply, KeyspaceRefusal> {
        let decision = command.decide(self, now)?;
        self.check_growth(&decision.effects)?;
        self.apply_all(decision.effects, record);
        Ok(decision.reply)
    }

    pub(crate) fn apply_all(&mut self, effects: Vec<Effect>, record: &mut Record) {
        for effect in effects {
            self.apply(&effect);
            record.0.push(effect);
        }
    }

    /// Refuses what would make the key space, or one of its keys, too large.
    fn check_growth(&self, effects: &[Effect]) -> Result<(), KeyspaceRefusal> {
        let (mut bytes, mut keys) = (0, 0);
        for effect in effects {
            let growth = Growth::of(effect, self);
            if growth.elements > ELEMENTS_BYTES_MAX {
                return Err(KeyspaceRefusal::ElementsTooLong);
            }
            bytes += growth.bytes;
            keys += growth.keys;
        }
        let limit = self.settings.keys_max;
        if keys > 0 && self.keys.len() + keys > limit {
            return Err(KeyspaceRefusal::TooManyKeys { limit });
        }
        let (used, limit) = (self.bytes, self.settings.bytes_max);
        if bytes > 0 && used + bytes > limit {
            return Err(KeyspaceRefusal::Full { used, limit });
        }
        Ok(())
    }

    /// Gives pushed elements to blocked commands, first come, first served.
    fn serve(&mut self, now: Timestamp, record: &mut Record) -> Vec<UnblockedCommand> {
        let mut served = Vec::new();
        if self.waiters.is_empty() {
            return served;
        }
        let mut at = 0;
        // A move pushes as well, so the record grows during the loop.
        while at < record.0.len() {
            if let Some(key) = offers(&record.0[at]) {
                let key = key.clone();
                self.serve_key(&key, now, record, &mut served);
            }
            at += 1;
        }
        served
    }

    fn serve_key(
        &mut self,
        key: &Bytes,
        now: Timestamp,
        record: &mut Record,
        served: &mut Vec<UnblockedCommand>,
    ) {
        for waiter in self.waiters.at(key) {
            let Some(command) = self.waiters.command(waiter) else { continue };
            match self.decide_and_apply(&Command::Blocking(command), now, record) {
                Ok(Reply::Null | Reply::NullArray) => {}
                Ok(reply) => {
                    self.waiters.remove(waiter);
                    served.push(UnblockedCommand { waiter, reply });
                }
                // The key now has another type. Redis keeps the command waiting as well.
                Err(KeyspaceRefusal::WrongType) => {}
                Err(refusal) => {
                    self.waiters.remove(waiter);
                    served.push(UnblockedCommand { waiter, reply: Reply::Refused(refusal) });
                }
            }
        }
    }
}

/// The key at which an effect makes something available.
fn offers(effect: &Effect) -> Option<&Bytes> {
    match effect {
        Effect::Put { key, .. }
        | Effect::ListPush { key, .. }
        | Effect::ListInsert { key, .. }
        | Effect::StreamAdd { key, .. } => Some(key),
        Effect::Delete { .. }
        | Effect::Expire { .. }
        | Effect::Append { .. }
        | Effect::ListPop { .. }
        | Effect::ListSet { .. }
        | Effect::ListRemove { .. }
        | Effect::HashSet { .. }
        | Effect::HashRemove { .. }
        | Effect::SetAdd { .. }
        | Effect::SetRemove { .. }
        | Effect::SortedAdd { .. }
        | Effect::SortedRemove { .. }
        | Effect::StreamRemove { .. } => None,
    }
}
