//! Scripts that client libraries send, for example for compare-and-delete. There is no interpreter: the
//! broker knows a script by its SHA-1 and implements what it does here.
//!
//! If a library changes the text of its script, that is a new script. Unknown scripts are refused.

use bytes::Bytes;

use super::hashes::HashCommand;
use super::keys::{ExpireCondition, KeyCommand};
use super::lists::ListCommand;
use super::sets::SetCommand;
use super::sorted::{AddCondition, Bound, Limit, RangeBy, ScoreCondition, SortedCommand};
use super::strings::{SetCondition, SetExpiry, StringCommand};
use super::{parse_float, parse_integer};
use crate::command::Command;
use crate::effect::Record;
use crate::keyspace::Keyspace;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::ListEnd;

/// The known scripts, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Delete a key if it has this value: releases a lock.
    DeleteIfEqual,
    /// Extend the time to live of a key if it has this value.
    ExtendIfEqual,
    /// Set the time to live, in milliseconds, of a key if it has this value.
    ExpireIfEqual,
    /// Set a missing key, or renew the time to live of one with this value.
    SetOrRenew,
    /// RQ: store and enqueue a job unless it exists.
    EnqueueUnique,
    /// RQ: store and schedule a job unless it exists.
    ScheduleUnique,
    /// RQ: empty a queue and delete its jobs.
    EmptyQueue,
    /// Kombu: bind a queue and extend the expiry of its exchange's table.
    RefreshBinding,
    /// Kombu: remove expired tables.
    SweepBindings,
    /// Celery: a task of a chord's header is done.
    ChordPart,
    /// Celery: a chord has ended.
    ChordCleanup,
    /// Celery: renew the claim to run a chord's body.
    ChordClaim,
}

const KNOWN: [(&str, Script); 13] = [
    // redis-py 3 to 8
    ("c3f8721cbb97f72bc19e972846bd7aaf91901658", Script::DeleteIfEqual),
    ("a4e8783852e6b949f9ef3a97212805108459a890", Script::ExtendIfEqual),
    ("1cac51482acf5858da00f6d685d68f886cd6b6b2", Script::ExpireIfEqual),
    // RQ 2.12
    ("5cee5213d2ee93f19f93badbfc1c8abbccde5baf", Script::EnqueueUnique),
    ("10808fbebdc9b5ffafa2b7f5f2ce29a5bc6a1e07", Script::ScheduleUnique),
    ("4227fa753143e6f652e2e185d254964b3a7413a5", Script::SetOrRenew),
    ("d44df6e1a0e76df1009084a91af26cc23ac035a9", Script::DeleteIfEqual),
    ("0f72f97be1eabbfce0148fd466da8c4ad73236fe", Script::EmptyQueue),
    // kombu 5.7
    ("ef7a9e205fbaf46bf959e1522ff796622fc676c7", Script::RefreshBinding),
    ("9a2b966a0a2d2d0e36ec32bc30fc89342b94a4bf", Script::SweepBindings),
    // Celery 5.7
    ("b8fc152c83a7e634103ccebd49dcd3146a8f4366", Script::ChordPart),
    ("59d7aab41242d82196947ba8926cab712416da4f", Script::ChordCleanup),
    ("dc87180d6bcb7f73c7275eb0fe7a70baf0a8b7c7", Script::ChordClaim),
];

impl Script {
    /// Finds a script by the SHA-1 of its text, in hexadecimal digits of either case.
    pub fn find(sha1: &[u8]) -> Option<Script> {
        KNOWN.iter().find(|(known, _)| sha1.eq_ignore_ascii_case(known.as_bytes())).map(|(_, script)| *script)
    }
}

/// A call of a known script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCall {
    /// Which script.
    pub script: Script,
    /// The keys that the caller names.
    pub keys: Vec<Bytes>,
    /// The other arguments.
    pub arguments: Vec<Bytes>,
}

impl ScriptCall {
    pub(crate) fn run(
        &self,
        space: &mut Keyspace,
        now: Timestamp,
        record: &mut Record,
    ) -> Result<Reply, KeyspaceRefusal> {
        let mut calls = Calls { space, now, record };
        match self.script {
            Script::DeleteIfEqual => {
                let ([key], [token]) = self.take()?;
                match calls.is_equal(key, token)? {
                    true => calls.run(Command::Key(KeyCommand::Delete { keys: vec![key.clone()] })),
                    false => Ok(Reply::Integer(0)),
                }
            }
            Script::ExpireIfEqual => {
                let ([key], [token, millis]) = self.take()?;
                match calls.is_equal(key, token)? {
                    true => calls.expire(key, integer(millis)?),
                    false => Ok(Reply::Integer(0)),
                }
            }
            Script::ExtendIfEqual => self.extend_if_equal(&mut calls),
            Script::SetOrRenew => self.set_or_renew(&mut calls),
            Script::EnqueueUnique => self.enqueue_unique(&mut calls),
            Script::ScheduleUnique => self.schedule_unique(&mut calls),
            Script::EmptyQueue => self.empty_queue(&mut calls),
            Script::RefreshBinding => {
                let ([table, deadlines], [member, exchange, millis]) = self.take()?;
                calls.run(Command::Set(SetCommand::Add {
                    key: table.clone(),
                    members: vec![member.clone()],
                }))?;
                let at = now.0 as f64 + float(millis)?;
                let condition =
                    AddCondition { score_condition: ScoreCondition::Greater, ..AddCondition::default() };
                calls.add_sorted(deadlines, at, exchange, condition)?;
                Ok(Reply::Null)
            }
            Script::SweepBindings => self.sweep_bindings(&mut calls),
            Script::ChordPart => self.chord_part(&mut calls),
            Script::ChordCleanup => self.chord_cleanup(&mut calls),
            Script::ChordClaim => self.chord_claim(&mut calls),
        }
    }

    fn extend_if_equal(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([key], [token, millis, replace]) = self.take()?;
        let expires = calls.space.expires(key, calls.now);
        if !calls.is_equal(key, token)? || expires == Timestamp::NEVER {
            return Ok(Reply::Integer(0));
        }
        let left = if &**replace == b"0" { expires.left(calls.now) as i64 } else { 0 };
        calls.expire(key, integer(millis)?.saturating_add(left))
    }

    fn set_or_renew(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([key], [token, seconds]) = self.take()?;
        let millis = integer(seconds)?.saturating_mul(1000);
        if calls.space.get(key, calls.now).is_none() {
            calls.set(key, token, millis)?;
            return Ok(Reply::Integer(1));
        }
        if !calls.is_equal(key, token)? {
            return Ok(Reply::Integer(0));
        }
        calls.expire(key, millis)?;
        Ok(Reply::Integer(2))
    }

    fn chord_cleanup(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([claim, rest @ ..], [token, seconds]) = (self.keys.as_slice(), self.arguments.as_slice()) else {
            return Err(KeyspaceRefusal::ScriptArguments);
        };
        if !calls.is_equal(claim, token)? {
            return Ok(Reply::Integer(0));
        }
        calls.run(Command::Key(KeyCommand::Delete { keys: rest.to_vec() }))?;
        let seconds = integer(seconds)?;
        if seconds > 0 {
            calls.set(claim, &Bytes::from_static(DONE), seconds.saturating_mul(1000))?;
        }
        Ok(Reply::Integer(1))
    }

    fn chord_claim(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([claim, size], [token, seconds]) = self.take()?;
        let millis = integer(seconds)?.saturating_mul(1000);
        if calls.is_equal(claim, token)? {
            return calls.expire(claim, millis);
        }
        if calls.space.get(claim, calls.now).is_none() && calls.space.get(size, calls.now).is_some() {
            calls.set(claim, token, millis)?;
            return Ok(Reply::Integer(1));
        }
        Ok(Reply::Integer(0))
    }

    fn enqueue_unique(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([job, queue], [id, direction, seconds, fields @ ..]) =
            (self.keys.as_slice(), self.arguments.as_slice())
        else {
            return Err(KeyspaceRefusal::ScriptArguments);
        };
        if calls.space.get(job, calls.now).is_some() {
            return Ok(Reply::Integer(0));
        }
        calls.store_job(job, fields, integer(seconds)?)?;
        let end = match &**direction {
            b"L" => ListEnd::Left,
            b"R" => ListEnd::Right,
            _ => return Ok(Reply::Integer(1)),
        };
        calls.run(Command::List(ListCommand::Push {
            key: queue.clone(),
            end,
            elements: vec![id.clone()],
        }))?;
        Ok(Reply::Integer(1))
    }

    fn schedule_unique(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([job, registry, queues], [id, seconds, at, queue, fields @ ..]) =
            (self.keys.as_slice(), self.arguments.as_slice())
        else {
            return Err(KeyspaceRefusal::ScriptArguments);
        };
        if calls.space.get(job, calls.now).is_some() {
            return Ok(Reply::Integer(0));
        }
        calls.store_job(job, fields, integer(seconds)?)?;
        calls.add_sorted(registry, float(at)?, id, AddCondition::default())?;
        calls.run(Command::Set(SetCommand::Add { key: queues.clone(), members: vec![queue.clone()] }))?;
        Ok(Reply::Integer(1))
    }

    fn empty_queue(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([queue], []) = self.take()?;
        let ids: Vec<Bytes> = calls.space.list(queue, calls.now)?.into_iter().flatten().cloned().collect();
        let job = |id: &Bytes, suffix: &[u8]| Bytes::from([b"rq:job:", &**id, suffix].concat());
        let mut keys: Vec<Bytes> =
            ids.iter().flat_map(|id| [job(id, b""), job(id, b":dependents")]).collect();
        keys.push(queue.clone());
        calls.run(Command::Key(KeyCommand::Delete { keys }))?;
        Ok(Reply::count(ids.len()))
    }

    fn sweep_bindings(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let ([deadlines], [table, permanent, most]) = self.take()?;
        let by = RangeBy::Score {
            low: Bound::Including(f64::NEG_INFINITY),
            high: Bound::Including(calls.now.0 as f64),
            limit: Some(Limit { offset: 0, count: integer(most)? }),
        };
        let range = SortedCommand::Range { key: deadlines.clone(), by, reverse: false, with_scores: false };
        let Reply::Array(overdue) = calls.run(Command::Sorted(range))? else { return Ok(Reply::Integer(0)) };
        let exchanges: Vec<Bytes> = overdue
            .into_iter()
            .filter_map(|reply| if let Reply::Bulk(exchange) = reply { Some(exchange) } else { None })
            .collect();
        for exchange in &exchanges {
            let permanent = Bytes::from([&**permanent, &**exchange].concat());
            if calls.space.get(&permanent, calls.now).is_none() {
                let table = Bytes::from([&**table, &**exchange].concat());
                calls.run(Command::Key(KeyCommand::Delete { keys: vec![table] }))?;
            }
        }
        let count = Reply::count(exchanges.len());
        calls.run(Command::Sorted(SortedCommand::Remove { key: deadlines.clone(), members: exchanges }))?;
        Ok(count)
    }

    fn chord_part(&self, calls: &mut Calls<'_>) -> Result<Reply, KeyspaceRefusal> {
        let (
            [results, difference, size, seen, group, claim],
            [task, value, ordered, score, seconds, group_seconds, claim_seconds, token],
        ) = self.take()?;
        if calls.is_equal(claim, &Bytes::from_static(DONE))? {
            return Ok(Reply::Array([-1, 0, 0, 0].map(Reply::Integer).to_vec()));
        }
        let is_ordered = &**ordered == b"1";
        let member = Bytes::from([task, &b":"[..], score].concat());
        let add = SetCommand::Add { key: seen.clone(), members: vec![member] };
        if calls.run(Command::Set(add))? == Reply::Integer(1) {
            if is_ordered {
                calls.add_sorted(results, float(score)?, value, AddCondition::default())?;
            } else {
                let elements = vec![value.clone()];
                calls.run(Command::List(ListCommand::Push {
                    key: results.clone(),
                    end: ListEnd::Right,
                    elements,
                }))?;
            }
        }
        let ready = calls.run(match is_ordered {
            true => Command::Sorted(SortedCommand::Count { key: results.clone() }),
            false => Command::List(ListCommand::Length { key: results.clone() }),
        })?;
        let (seconds, group_seconds) = (integer(seconds)?, integer(group_seconds)?);
        if seconds > 0 {
            for key in [results, difference, size, seen] {
                calls.expire(key, seconds.saturating_mul(1000))?;
            }
            if group_seconds > 0 {
                calls.expire(group, group_seconds.saturating_mul(1000))?;
            }
        }
        let total_difference = calls.space.string(difference, calls.now)?.cloned();
        let size = calls.space.string(size, calls.now)?.cloned();
        let mut claimed = 0;
        if let Some(size) = &size {
            let total = integer(size)? + total_difference.as_ref().map_or(Ok(0), integer)?;
            if ready == Reply::Integer(total) && calls.space.get(claim, calls.now).is_none() {
                calls.set(claim, token, integer(claim_seconds)?.saturating_mul(1000))?;
                claimed = 1;
            }
        }
        let parts = [Reply::bulk_or_null(total_difference), Reply::bulk_or_null(size)];
        Ok(Reply::Array([ready].into_iter().chain(parts).chain([Reply::Integer(claimed)]).collect()))
    }

    /// The keys and arguments, if their number is exactly this.
    fn take<const K: usize, const A: usize>(&self) -> Result<(&[Bytes; K], &[Bytes; A]), KeyspaceRefusal> {
        match (self.keys.as_slice().try_into(), self.arguments.as_slice().try_into()) {
            (Ok(keys), Ok(arguments)) => Ok((keys, arguments)),
            _ => Err(KeyspaceRefusal::ScriptArguments),
        }
    }
}

const DONE: &[u8] = b"done";

/// The commands of one script: their effects form one record.
struct Calls<'a> {
    space: &'a mut Keyspace,
    now: Timestamp,
    record: &'a mut Record,
}

impl Calls<'_> {
    #[allow(clippy::needless_pass_by_value, reason = "commands are made for the call")]
    fn run(&mut self, command: Command) -> Result<Reply, KeyspaceRefusal> {
        self.space.decide_and_apply(&command, self.now, self.record)
    }

    fn is_equal(&self, key: &Bytes, value: &Bytes) -> Result<bool, KeyspaceRefusal> {
        Ok(self.space.string(key, self.now)? == Some(value))
    }

    fn expire(&mut self, key: &Bytes, millis: i64) -> Result<Reply, KeyspaceRefusal> {
        let condition = ExpireCondition::Always;
        self.run(Command::Key(KeyCommand::ExpireAfter {
            key: key.clone(),
            millis,
            condition,
            command: "expire",
        }))
    }

    fn set(&mut self, key: &Bytes, value: &Bytes, millis: i64) -> Result<Reply, KeyspaceRefusal> {
        self.run(Command::String(StringCommand::Set {
            key: key.clone(),
            value: value.clone(),
            condition: SetCondition::Always,
            expiry: SetExpiry::After(millis),
            get: false,
        }))
    }

    fn add_sorted(
        &mut self,
        key: &Bytes,
        score: f64,
        member: &Bytes,
        condition: AddCondition,
    ) -> Result<Reply, KeyspaceRefusal> {
        let members = vec![(score, member.clone())];
        self.run(Command::Sorted(SortedCommand::Add {
            key: key.clone(),
            members,
            condition,
            count_changed: false,
        }))
    }

    fn store_job(&mut self, key: &Bytes, fields: &[Bytes], seconds: i64) -> Result<(), KeyspaceRefusal> {
        let (pairs, rest) = fields.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(KeyspaceRefusal::ScriptArguments);
        }
        if !pairs.is_empty() {
            let fields = pairs.iter().map(|[field, value]| (field.clone(), value.clone())).collect();
            self.run(Command::Hash(HashCommand::Set { key: key.clone(), fields }))?;
        }
        if seconds > 0 {
            self.expire(key, seconds.saturating_mul(1000))?;
        }
        Ok(())
    }
}

fn integer(text: &Bytes) -> Result<i64, KeyspaceRefusal> {
    // Lua's numbers may have a fraction.
    parse_integer(text)
        .or_else(|| parse_float(text).map(|value| value as i64))
        .ok_or(KeyspaceRefusal::NotAnInteger)
}

fn float(text: &Bytes) -> Result<f64, KeyspaceRefusal> {
    parse_float(text).ok_or(KeyspaceRefusal::NotAFloat)
}
