//! Redis lists. Here a list is a queue: a push submits, a pop claims.

use std::time::Duration;

use bytes::Bytes;

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use crate::key::{RespKey, RespQueueKey};

/// How many tasks one pop may claim.
const POP_COUNT_MAX: usize = 1000;
/// How many queues one blocking pop may watch.
const POP_QUEUES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RespListCommand {
    /// LPUSH: one task per body.
    Push {
        queue: RespQueueKey,
        bodies: Vec<Bytes>,
    },
    Claim(ClaimCommand),
    Length {
        key: RespKey,
    },
    Range {
        key: RespKey,
        start: i64,
        stop: i64,
    },
    /// LREM: a worker completes a task, or a waiting task is removed.
    Remove {
        queue: RespQueueKey,
        element: Bytes,
    },
}

/// Any form of pop. The queues are tried in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimCommand {
    pub queues: Vec<(Bytes, RespQueueKey)>,
    pub wait: Wait,
    pub reply: PopReply,
    /// The list that receives the job, for commands that move it.
    pub list: Option<RespQueueKey>,
    /// Return the bytes that were pushed, without any data about the job.
    pub raw: bool,
}

/// How long a pop may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    NotAtAll,
    AtMost(Duration),
    ForEver,
}

/// The form of a pop's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PopReply {
    /// RPOP: the job.
    Job,
    /// RPOP with a count: an array of jobs.
    Jobs { count: usize },
    /// BRPOP: the key and the job, or the job alone for old workers.
    KeyAndJob,
    /// RPOPLPUSH and its relatives: an element that LREM accepts, the job's id or the whole job.
    Element,
}

pub(super) fn lpush(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = arguments.queue_key()?;
    let mut bodies = Vec::with_capacity(arguments.left());
    while arguments.left() > 0 {
        bodies.push(arguments.bytes()?);
    }
    Ok(Command::List(RespListCommand::Push { queue, bodies }))
}

pub(super) fn rpop(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = claimed_queue(arguments)?;
    let reply = if arguments.left() == 0 {
        PopReply::Job
    } else if is_raw(&queue.0) {
        return Err(CommandError::Syntax);
    } else {
        PopReply::Jobs { count: arguments.size()?.min(POP_COUNT_MAX) }
    };
    arguments.end()?;
    Ok(claim(vec![queue], Wait::NotAtAll, reply))
}

pub(super) fn brpop(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let mut queues = Vec::new();
    while arguments.left() > 1 {
        if queues.len() == POP_QUEUES_MAX {
            return Err(CommandError::TooMany { what: "queues", max: POP_QUEUES_MAX });
        }
        queues.push(claimed_queue(arguments)?);
    }
    // A reply has one form, whichever queue it comes from.
    if queues.iter().any(|(key, _)| is_raw(key) != is_raw(&queues[0].0)) {
        return Err(CommandError::Syntax);
    }
    let wait = timeout(arguments)?;
    Ok(claim(queues, wait, PopReply::KeyAndJob))
}

pub(super) fn rpoplpush(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let source = claimed_queue(arguments)?;
    let list = arguments.queue_key()?;
    Ok(move_to(list, source, Wait::NotAtAll))
}

pub(super) fn brpoplpush(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let source = claimed_queue(arguments)?;
    let list = arguments.queue_key()?;
    let wait = timeout(arguments)?;
    Ok(move_to(list, source, wait))
}

pub(super) fn lmove(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let source = claimed_queue(arguments)?;
    let list = arguments.queue_key()?;
    sides(arguments)?;
    Ok(move_to(list, source, Wait::NotAtAll))
}

pub(super) fn blmove(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let source = claimed_queue(arguments)?;
    let list = arguments.queue_key()?;
    sides(arguments)?;
    let wait = timeout(arguments)?;
    Ok(move_to(list, source, wait))
}

pub(super) fn llen(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::List(RespListCommand::Length { key: list_key(arguments)? }))
}

pub(super) fn lrange(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let key = list_key(arguments)?;
    let (start, stop) = (arguments.integer()?, arguments.integer()?);
    Ok(Command::List(RespListCommand::Range { key, start, stop }))
}

pub(super) fn lrem(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = arguments.queue_key()?;
    // An id is in a queue once, so the count and direction do not matter.
    arguments.integer()?;
    Ok(Command::List(RespListCommand::Remove { queue, element: arguments.bytes()? }))
}

fn move_to(list: RespQueueKey, source: (Bytes, RespQueueKey), wait: Wait) -> Command {
    let list = Some(list).filter(|list| *list != RespQueueKey::Processing);
    let raw = is_raw(&source.0);
    Command::List(RespListCommand::Claim(ClaimCommand {
        queues: vec![source],
        wait,
        reply: PopReply::Element,
        list,
        raw,
    }))
}

fn claim(queues: Vec<(Bytes, RespQueueKey)>, wait: Wait, reply: PopReply) -> Command {
    let raw = queues.first().is_some_and(|(key, _)| is_raw(key));
    Command::List(RespListCommand::Claim(ClaimCommand { queues, wait, reply, list: None, raw }))
}

/// A queue to pop from. Held and scheduled jobs cannot be popped.
fn claimed_queue(arguments: &mut Arguments<'_>) -> Result<(Bytes, RespQueueKey), CommandError> {
    let written = arguments.peek().map(Bytes::copy_from_slice).unwrap_or_default();
    let queue = if is_raw(&written) { arguments.raw_queue_key()? } else { arguments.queue_key()? };
    match queue {
        view @ (RespQueueKey::Scheduled | RespQueueKey::Processing) => Err(CommandError::Kept(view.text())),
        queue @ (RespQueueKey::Default | RespQueueKey::Named(_)) => Ok((written, queue)),
    }
}

/// `raw:<queue>` is `queue:<queue>`, popped as the bytes that were pushed.
fn is_raw(key: &[u8]) -> bool {
    key.starts_with(b"raw:")
}

/// A list to read. A key that cannot exist is an empty list, as in Redis.
fn list_key(arguments: &mut Arguments<'_>) -> Result<RespKey, CommandError> {
    let key = arguments.key()?;
    match key.redis_type() {
        None | Some("list") => Ok(key),
        Some(_) => Err(CommandError::WrongType),
    }
}

/// A queue has one order, so the sides of a move are only checked for spelling.
fn sides(arguments: &mut Arguments<'_>) -> Result<(), CommandError> {
    for _ in 0..2 {
        if !arguments.keyword("LEFT") && !arguments.keyword("RIGHT") {
            return Err(CommandError::Syntax);
        }
    }
    Ok(())
}

fn timeout(arguments: &mut Arguments<'_>) -> Result<Wait, CommandError> {
    Ok(arguments.timeout_seconds()?.map_or(Wait::ForEver, Wait::AtMost))
}
