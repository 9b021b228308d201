//! The list of all commands: one truth for dispatch, for argument counts and for what COMMAND answers.

use super::arguments::Arguments;
use super::error::{CommandError, shown};
use super::{Command, actions, connection, events, jobs, lists, plans, queues, views, workers};
use crate::codec::Request;

/// One command's grammar.
#[derive(Debug)]
pub(crate) struct Entry {
    /// In lower case, as Redis lists it.
    pub name: &'static str,
    /// As Redis counts: the name included, negative for "at least".
    pub arity: i32,
    /// Which arguments are keys: first, last (negative from the end), step. Zero for none.
    pub keys: (i32, i32, i32),
    pub flags: &'static [&'static str],
    pub summary: &'static str,
    /// Whether it may come before AUTH.
    pub before_auth: bool,
    parse: fn(&mut Arguments<'_>) -> Result<Command, CommandError>,
}

impl Entry {
    /// Looks a name up, in any case.
    pub(crate) fn find(name: &[u8]) -> Result<&'static Self, CommandError> {
        let unknown =
            || super::hints::hint(name).unwrap_or_else(|| CommandError::UnknownCommand(shown(name)));
        let letter = name.first().map_or(0, u8::to_ascii_lowercase);
        let (start, end) = LETTERS.get(usize::from(letter.wrapping_sub(b'a'))).ok_or_else(unknown)?;
        let same_letter = &TABLE[usize::from(*start)..usize::from(*end)];
        same_letter.iter().find(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes())).ok_or_else(unknown)
    }

    /// Turns the arguments into a command.
    pub(crate) fn parse(&self, request: &Request<'_>) -> Result<Command, CommandError> {
        if !self.takes(request.argument_count() + 1) {
            return Err(CommandError::WrongNumberOfArguments(self.name));
        }
        (self.parse)(&mut Arguments::new(request, self.name))
    }

    fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= wanted } else { words == wanted }
    }
}

/// Where in the table each letter begins and ends. A lookup is on every command's way.
static LETTERS: [(u8, u8); 26] = letters();

const fn letters() -> [(u8, u8); 26] {
    let mut letters = [(0, 0); 26];
    let mut index = 0;
    while index < TABLE.len() {
        let letter = (TABLE[index].name.as_bytes()[0] - b'a') as usize;
        if letters[letter].1 == 0 {
            letters[letter].0 = index as u8;
        }
        index += 1;
        letters[letter].1 = index as u8;
    }
    letters
}

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write"];
const BLOCKING: &[&str] = &["write", "blocking"];
const TALK: &[&str] = &["noscript", "loading", "stale", "fast"];
const PUBSUB: &[&str] = &["pubsub", "noscript", "loading", "stale"];
const NO_KEY: (i32, i32, i32) = (0, 0, 0);
const ONE_KEY: (i32, i32, i32) = (1, 1, 1);

type Parse = fn(&mut Arguments<'_>) -> Result<Command, CommandError>;

const fn entry(
    name: &'static str,
    arity: i32,
    keys: (i32, i32, i32),
    flags: &'static [&'static str],
    parse: Parse,
    summary: &'static str,
) -> Entry {
    Entry { name, arity, keys, flags, summary, before_auth: false, parse }
}

/// A command that may come before AUTH.
const fn open(name: &'static str, arity: i32, parse: Parse, summary: &'static str) -> Entry {
    Entry { name, arity, keys: NO_KEY, flags: TALK, summary, before_auth: true, parse }
}

/// Sorted by name; the lookup relies on it.
pub(crate) static TABLE: &[Entry] = &[
    entry("action.get", -2, NO_KEY, READ, actions::get, "An action with a page of its job ids"),
    entry("action.list", -1, NO_KEY, READ, actions::list, "Actions, newest first"),
    entry(
        "action.status",
        2,
        NO_KEY,
        READ,
        actions::status,
        "How many of an action's jobs are in which state",
    ),
    entry("action.submit", 2, NO_KEY, WRITE, actions::submit, "Runs a plan once per input"),
    open("auth", -2, connection::auth, "Authenticates with a key"),
    entry(
        "blmove",
        6,
        (1, 2, 1),
        BLOCKING,
        lists::blmove,
        "Claims a task and answers its id, waiting for one",
    ),
    entry("brpop", -3, (1, -2, 1), BLOCKING, lists::brpop, "Claims a task and answers it, waiting for one"),
    entry(
        "brpoplpush",
        4,
        (1, 2, 1),
        BLOCKING,
        lists::brpoplpush,
        "Claims a task and answers its id, waiting",
    ),
    entry(
        "capability.search",
        -2,
        NO_KEY,
        READ,
        workers::search,
        "Capabilities whose descriptions match, the best first",
    ),
    open("client", -2, connection::client, "Names and lists connections"),
    entry("command", -1, NO_KEY, TALK, connection::command, "Describes the commands"),
    entry("discard", 1, NO_KEY, TALK, connection::discard, "Forgets what came since MULTI"),
    entry("echo", 2, NO_KEY, TALK, connection::echo, "Answers with its argument"),
    entry("exec", 1, NO_KEY, TALK, connection::exec, "Runs what came since MULTI"),
    entry("exists", -2, (1, -1, 1), READ, views::exists, "Counts the keys that exist"),
    entry("get", 2, ONE_KEY, READ, views::get, "Reads a view"),
    open("hello", -1, connection::hello, "Opens the conversation and chooses the protocol version"),
    entry("hget", 3, ONE_KEY, READ, views::hget, "Reads one field of a view"),
    entry("hgetall", 2, ONE_KEY, READ, views::hgetall, "Reads a view field by field"),
    entry("info", -1, NO_KEY, TALK, connection::info, "Facts about the broker"),
    entry("job.cancel", -2, NO_KEY, WRITE, jobs::cancel, "Cancels a job"),
    entry("job.get", 2, NO_KEY, READ, jobs::get, "A job with everything about it"),
    entry("job.list", -1, NO_KEY, READ, jobs::ids, "Ids of an action's jobs, or of all"),
    entry("job.pause", -2, NO_KEY, WRITE, jobs::pause, "Pauses a job"),
    entry("job.resume", -2, NO_KEY, WRITE, jobs::resume, "Resumes a paused job"),
    entry("job.retry", -2, NO_KEY, WRITE, jobs::retry, "Queues an ended job again"),
    entry("job.status", 2, NO_KEY, READ, jobs::status, "A job's state and results"),
    entry("job.submit", 2, NO_KEY, WRITE, jobs::submit, "Submits a job"),
    entry("job.update", 3, NO_KEY, WRITE, jobs::update, "A worker reports on a job it holds"),
    entry("jobs.list", -1, NO_KEY, READ, jobs::list, "Jobs"),
    entry("jobs.search", -1, NO_KEY, READ, jobs::search, "Ids of the jobs that match"),
    entry("keys", 2, NO_KEY, READ, views::keys_matching, "Keys that match a pattern"),
    entry("llen", 2, ONE_KEY, READ, lists::llen, "How many tasks wait in a queue"),
    entry("lmove", 5, (1, 2, 1), WRITE, lists::lmove, "Claims a task and answers its id"),
    entry("lpush", -3, ONE_KEY, WRITE, lists::lpush, "Submits one task per body"),
    entry("lrange", 4, ONE_KEY, READ, lists::lrange, "Ids of waiting tasks, without taking them"),
    entry("lrem", 4, ONE_KEY, WRITE, lists::lrem, "Ends a held task, or takes a waiting one out"),
    entry("metrics", -1, NO_KEY, READ, queues::metrics, "The broker's figures"),
    entry("mget", -2, (1, -1, 1), READ, views::mget, "Reads several views"),
    entry("multi", 1, NO_KEY, TALK, connection::multi, "Puts the next commands by until EXEC"),
    entry(
        "ping",
        -1,
        NO_KEY,
        TALK,
        connection::ping,
        "Answers PONG or its argument; a worker's id is a heartbeat",
    ),
    entry("plan.delete", 2, NO_KEY, WRITE, plans::delete, "Deletes a plan no live job uses"),
    entry("plan.get", 2, NO_KEY, READ, plans::get, "A stored plan"),
    entry("plan.list", -1, NO_KEY, READ, plans::list, "Stored plans"),
    entry("plan.submit", 2, NO_KEY, WRITE, plans::submit, "Stores a plan"),
    entry("psubscribe", -2, NO_KEY, PUBSUB, events::psubscribe, "Follows channels that match"),
    entry("pttl", 2, ONE_KEY, READ, views::pttl, "Milliseconds until a view ends"),
    entry("publish", 3, NO_KEY, PUBSUB, events::publish, "Publishes a message"),
    entry("punsubscribe", -1, NO_KEY, PUBSUB, events::punsubscribe, "Stops following patterns"),
    entry("queue.peek", -2, NO_KEY, READ, queues::peek, "Ids of the tasks that come next"),
    entry("queue.stats", -1, NO_KEY, READ, queues::stats, "How many tasks wait and run"),
    open("quit", -1, connection::quit, "Closes the connection"),
    open("reset", 1, connection::reset, "Starts the conversation afresh"),
    entry("rpop", -2, ONE_KEY, WRITE, lists::rpop, "Claims a task and answers it"),
    entry("rpoplpush", 3, (1, 2, 1), WRITE, lists::rpoplpush, "Claims a task and answers its id"),
    entry("scan", -2, NO_KEY, READ, views::scan, "Keys, some at a time"),
    entry("scard", 2, ONE_KEY, READ, views::scard, "How many workers offer a capability"),
    entry("select", 2, NO_KEY, TALK, connection::select, "There is one database, number 0"),
    entry("set", -3, ONE_KEY, WRITE, views::set, "Reports a job's output or status"),
    entry("sismember", 3, ONE_KEY, READ, views::sismember, "Whether a worker offers a capability"),
    entry("smembers", 2, ONE_KEY, READ, views::smembers, "The workers that offer a capability"),
    entry("subscribe", -2, NO_KEY, PUBSUB, events::subscribe, "Follows channels"),
    entry("time", 1, NO_KEY, TALK, connection::time, "The broker's clock"),
    entry("ttl", 2, ONE_KEY, READ, views::ttl, "Seconds until a view ends"),
    entry("type", 2, ONE_KEY, READ, views::key_type, "What kind of view a key is"),
    entry("unsubscribe", -1, NO_KEY, PUBSUB, events::unsubscribe, "Stops following channels"),
    entry("worker.heartbeat", -2, NO_KEY, WRITE, workers::heartbeat, "A worker is alive"),
    entry("worker.register", 2, NO_KEY, WRITE, workers::register, "A worker introduces itself"),
    entry("worker.unregister", 2, NO_KEY, WRITE, workers::unregister, "A worker leaves"),
    entry("worker.verify", 3, NO_KEY, WRITE, workers::verify, "Checks that a capability is real"),
    entry("workers.list", 1, NO_KEY, READ, workers::list, "All workers"),
    entry("xrange", -4, ONE_KEY, READ, events::xrange, "A slice of the event log"),
    entry(
        "xread",
        -4,
        NO_KEY,
        BLOCKING,
        events::xread,
        "Reads the event log from a number on, waiting for more",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_are_unique() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(TABLE.len() <= usize::from(u8::MAX));
        assert!(TABLE.iter().all(|entry| Entry::find(entry.name.as_bytes()).unwrap().name == entry.name));
    }

    #[test]
    fn names_are_found_in_any_case_and_strangers_are_named() {
        assert!(Entry::find(b"").is_err() && Entry::find(b"~").is_err() && Entry::find(b"\x00").is_err());
        assert_eq!(Entry::find(b"bRpOp").unwrap().name, "brpop");
        let error = Entry::find(b"FLUSH\r\nALL").unwrap_err();
        assert_eq!(error.to_string(), "ERR unknown command 'FLUSH??ALL'");
        assert!(Entry::find(&[b'x'; 10_000]).unwrap_err().to_string().len() < 200);
    }
}
