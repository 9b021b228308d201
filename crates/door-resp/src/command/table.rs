//! The table of all commands: the single source for dispatch, argument counts and COMMAND.

use super::arguments::Arguments;
use super::error::{CommandError, quoted};
use super::keyspace::{hashes, keys, lists, scripts, sets, sorted, streams, strings};
use super::{
    Command, actions, arrays, connection, events, jobs, plans, queues, reconcile, schedules, workers,
};
use crate::codec::RawCommand;

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
            || super::hints::hint(name).unwrap_or_else(|| CommandError::UnknownCommand(quoted(name)));
        let letter = name.first().map_or(0, u8::to_ascii_lowercase);
        let (start, end) = LETTERS.get(usize::from(letter.wrapping_sub(b'a'))).ok_or_else(unknown)?;
        let same_letter = &TABLE[usize::from(*start)..usize::from(*end)];
        same_letter.iter().find(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes())).ok_or_else(unknown)
    }

    /// Turns the arguments into a command.
    pub(crate) fn parse(&self, request: &RawCommand<'_>) -> Result<Command, CommandError> {
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

/// The range of each initial letter in the table. Every command needs a lookup, so it should be fast.
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
    entry("append", 3, ONE_KEY, WRITE, strings::append, "Appends to a string"),
    entry("array.cancel", -2, NO_KEY, WRITE, arrays::cancel, "Cancels the jobs of an array"),
    entry("array.get", 2, NO_KEY, READ, arrays::get, "An array with its counts"),
    entry("array.limit", 3, NO_KEY, WRITE, arrays::limit, "Limits how many jobs of an array run at once"),
    entry("array.list", -1, NO_KEY, READ, arrays::list, "The newest arrays"),
    entry("array.pause", -2, NO_KEY, WRITE, arrays::pause, "Pauses the jobs of an array"),
    entry("array.resume", -2, NO_KEY, WRITE, arrays::resume, "Resumes the paused jobs of an array"),
    entry("array.retry", -2, NO_KEY, WRITE, arrays::retry, "Queues the jobs that did not complete again"),
    entry("array.submit", 2, NO_KEY, WRITE, arrays::submit, "Submits many jobs as one"),
    open("auth", -2, connection::auth, "Authenticates with a key"),
    entry(
        "blmove",
        6,
        (1, 2, 1),
        BLOCKING,
        lists::blmove,
        "Claims a task and returns its id, waiting for one",
    ),
    entry(
        "blpop",
        -3,
        (1, -2, 1),
        BLOCKING,
        lists::blpop,
        "Takes the first element of a list, waiting for one",
    ),
    entry("brpop", -3, (1, -2, 1), BLOCKING, lists::brpop, "Claims a task and returns it, waiting for one"),
    entry(
        "brpoplpush",
        4,
        (1, 2, 1),
        BLOCKING,
        lists::brpoplpush,
        "Claims a task and returns its id, waiting",
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
    entry("dbsize", 1, NO_KEY, READ, keys::dbsize, "Counts the stored keys"),
    entry("decr", 2, ONE_KEY, WRITE, strings::decr, "Counts down"),
    entry("decrby", 3, ONE_KEY, WRITE, strings::decrby, "Counts down by a number"),
    entry("del", -2, (1, -1, 1), WRITE, keys::del, "Deletes stored keys"),
    entry("discard", 1, NO_KEY, TALK, connection::discard, "Discards the commands queued since MULTI"),
    entry("echo", 2, NO_KEY, TALK, connection::echo, "Returns its argument"),
    entry("eval", -3, NO_KEY, WRITE, scripts::eval, "Runs one of the known scripts"),
    entry("evalsha", -3, NO_KEY, WRITE, scripts::evalsha, "Runs one of the known scripts"),
    entry("exec", 1, NO_KEY, TALK, connection::exec, "Runs the commands queued since MULTI"),
    entry("exists", -2, (1, -1, 1), READ, keys::exists, "Counts the keys that exist"),
    entry("expire", -3, ONE_KEY, WRITE, keys::expire, "Sets the time to live in seconds"),
    entry("expireat", -3, ONE_KEY, WRITE, keys::expireat, "Sets the expiry time of a key in seconds"),
    entry("expiretime", 2, ONE_KEY, READ, keys::expiretime, "The expiry time of a key in seconds"),
    entry("fcall", -3, NO_KEY, WRITE, scripts::refused, "There are no functions"),
    entry("function", -2, NO_KEY, WRITE, scripts::refused, "There are no functions"),
    entry("get", 2, ONE_KEY, READ, strings::get, "Reads a view"),
    entry("getdel", 2, ONE_KEY, WRITE, strings::getdel, "Reads a string and deletes it"),
    entry("getex", -2, ONE_KEY, WRITE, strings::getex, "Reads a string and sets its time to live"),
    entry("getrange", 4, ONE_KEY, READ, strings::getrange, "A part of a string"),
    entry("getset", 3, ONE_KEY, WRITE, strings::getset, "Replaces a string and returns the old one"),
    entry("hdel", -3, ONE_KEY, WRITE, hashes::hdel, "Removes fields"),
    open("hello", -1, connection::hello, "Opens the session and chooses the protocol version"),
    entry("hexists", 3, ONE_KEY, READ, hashes::hexists, "Whether a hash has a field"),
    entry("hget", 3, ONE_KEY, READ, hashes::hget, "Reads one field of a view"),
    entry("hgetall", 2, ONE_KEY, READ, hashes::hgetall, "Reads a view field by field"),
    entry("hincrby", 4, ONE_KEY, WRITE, hashes::hincrby, "Counts in a field"),
    entry("hincrbyfloat", 4, ONE_KEY, WRITE, hashes::hincrbyfloat, "Adds to a field"),
    entry("hkeys", 2, ONE_KEY, READ, hashes::hkeys, "The fields of a hash"),
    entry("hlen", 2, ONE_KEY, READ, hashes::hlen, "How many fields a hash has"),
    entry("hmget", -3, ONE_KEY, READ, hashes::hmget, "Reads fields"),
    entry("hmset", -4, ONE_KEY, WRITE, hashes::hmset, "Sets fields"),
    entry("hscan", -3, ONE_KEY, READ, hashes::hscan, "Fields with their values"),
    entry("hset", -4, ONE_KEY, WRITE, hashes::hset, "Sets fields"),
    entry("hsetnx", 4, ONE_KEY, WRITE, hashes::hsetnx, "Sets a field that is missing"),
    entry("hstrlen", 3, ONE_KEY, READ, hashes::hstrlen, "How long a field's value is"),
    entry("hvals", 2, ONE_KEY, READ, hashes::hvals, "The values of a hash"),
    entry("incr", 2, ONE_KEY, WRITE, strings::incr, "Counts up"),
    entry("incrby", 3, ONE_KEY, WRITE, strings::incrby, "Counts up by a number"),
    entry("incrbyfloat", 3, ONE_KEY, WRITE, strings::incrbyfloat, "Adds to a number"),
    entry("info", -1, NO_KEY, TALK, connection::info, "Information about the broker"),
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
    entry("keys", 2, NO_KEY, READ, keys::keys_matching, "Keys that match a pattern"),
    entry("limit.delete", 2, NO_KEY, WRITE, queues::delete_limit, "Lets any number of tasks with a tag run"),
    entry("limit.list", 1, NO_KEY, READ, queues::limits, "Tags with their limits"),
    entry(
        "limit.rate",
        -3,
        NO_KEY,
        WRITE,
        queues::tag_rate,
        "Sets how often a task with a tag is handed out",
    ),
    entry("limit.set", 3, NO_KEY, WRITE, queues::set_limit, "Limits how many tasks with a tag run at once"),
    entry("lindex", 3, ONE_KEY, READ, lists::lindex, "An element of a list"),
    entry("linsert", 5, ONE_KEY, WRITE, lists::linsert, "Inserts beside an element"),
    entry("llen", 2, ONE_KEY, READ, lists::llen, "How many tasks wait in a queue"),
    entry("lmove", 5, (1, 2, 1), WRITE, lists::lmove, "Claims a task and returns its id"),
    entry("lpop", -2, ONE_KEY, WRITE, lists::lpop, "Takes the first elements of a list"),
    entry("lpos", -3, ONE_KEY, READ, lists::lpos, "Where an element is"),
    entry("lpush", -3, ONE_KEY, WRITE, lists::lpush, "Submits one task per body"),
    entry("lpushx", -3, ONE_KEY, WRITE, lists::lpushx, "Pushes to a list that is there"),
    entry("lrange", 4, ONE_KEY, READ, lists::lrange, "Ids of waiting tasks, without taking them"),
    entry("lrem", 4, ONE_KEY, WRITE, lists::lrem, "Ends a held task, or takes a waiting one out"),
    entry("lset", 4, ONE_KEY, WRITE, lists::lset, "Replaces an element"),
    entry("ltrim", 4, ONE_KEY, WRITE, lists::ltrim, "Keeps a part of a list"),
    entry("metrics", -1, NO_KEY, READ, queues::metrics, "The broker's metrics"),
    entry("mget", -2, (1, -1, 1), READ, strings::mget, "Reads several views"),
    entry("mset", -3, (1, -1, 2), WRITE, strings::mset, "Sets several strings together"),
    entry("msetnx", -3, (1, -1, 2), WRITE, strings::msetnx, "Sets several strings if all are missing"),
    entry("multi", 1, NO_KEY, TALK, connection::multi, "Queues the next commands until EXEC"),
    entry("persist", 2, ONE_KEY, WRITE, keys::persist, "Removes the time to live"),
    entry("pexpire", -3, ONE_KEY, WRITE, keys::pexpire, "Sets the time to live in milliseconds"),
    entry("pexpireat", -3, ONE_KEY, WRITE, keys::pexpireat, "Sets the expiry time of a key in milliseconds"),
    entry("pexpiretime", 2, ONE_KEY, READ, keys::pexpiretime, "The expiry time of a key in milliseconds"),
    entry(
        "ping",
        -1,
        NO_KEY,
        TALK,
        connection::ping,
        "Returns PONG or its argument; a worker's id is a heartbeat",
    ),
    entry("plan.delete", 2, NO_KEY, WRITE, plans::delete, "Deletes a plan no live job uses"),
    entry("plan.get", 2, NO_KEY, READ, plans::get, "A stored plan"),
    entry("plan.list", -1, NO_KEY, READ, plans::list, "Stored plans"),
    entry("plan.submit", 2, NO_KEY, WRITE, plans::submit, "Stores a plan"),
    entry("psetex", 4, ONE_KEY, WRITE, strings::psetex, "Sets a string for some milliseconds"),
    entry("psubscribe", -2, NO_KEY, PUBSUB, events::psubscribe, "Follows channels that match"),
    entry("pttl", 2, ONE_KEY, READ, keys::pttl, "Milliseconds until a key expires"),
    entry("publish", 3, NO_KEY, PUBSUB, events::publish, "Publishes a message"),
    entry("punsubscribe", -1, NO_KEY, PUBSUB, events::punsubscribe, "Stops following patterns"),
    entry("queue.peek", -2, NO_KEY, READ, queues::peek, "Ids of the tasks that come next"),
    entry(
        "queue.rate",
        -3,
        NO_KEY,
        WRITE,
        queues::queue_rate,
        "Sets how often a task of a queue is handed out",
    ),
    entry("queue.stats", -1, NO_KEY, READ, queues::stats, "How many tasks wait and run"),
    entry("queue.threshold", -3, NO_KEY, WRITE, queues::threshold, "Sets when a queue has a backlog"),
    open("quit", -1, connection::quit, "Closes the connection"),
    entry("reconcile", 3, NO_KEY, WRITE, reconcile::reconcile, "Compares the jobs with another store"),
    entry("rename", 3, (1, 2, 1), WRITE, keys::rename, "Renames a key"),
    entry("renamenx", 3, (1, 2, 1), WRITE, keys::renamenx, "Renames a key if the new name is free"),
    open("reset", 1, connection::reset, "Resets the session"),
    entry("role", 1, NO_KEY, TALK, connection::role, "Whether clients may write here"),
    entry("rpop", -2, ONE_KEY, WRITE, lists::rpop, "Claims a task and returns it"),
    entry("rpoplpush", 3, (1, 2, 1), WRITE, lists::rpoplpush, "Claims a task and returns its id"),
    entry("rpush", -3, ONE_KEY, WRITE, lists::rpush, "Appends to a list"),
    entry("rpushx", -3, ONE_KEY, WRITE, lists::rpushx, "Appends to a list that is there"),
    entry("sadd", -3, ONE_KEY, WRITE, sets::sadd, "Adds members to a set"),
    entry("scan", -2, NO_KEY, READ, keys::scan, "Keys, some at a time"),
    entry("scard", 2, ONE_KEY, READ, sets::scard, "How many workers offer a capability"),
    entry("schedule.delete", 2, NO_KEY, WRITE, schedules::delete, "Removes a schedule"),
    entry("schedule.get", 2, NO_KEY, READ, schedules::get, "A schedule and when it is due next"),
    entry("schedule.list", 1, NO_KEY, READ, schedules::list, "Schedules"),
    entry("schedule.pause", 2, NO_KEY, WRITE, schedules::pause, "Pauses a schedule"),
    entry("schedule.resume", 2, NO_KEY, WRITE, schedules::resume, "Resumes a paused schedule"),
    entry("schedule.run", 2, NO_KEY, WRITE, schedules::run, "Submits the job of a schedule now"),
    entry("schedule.set", 3, NO_KEY, WRITE, schedules::set, "Sets when a job is submitted again and again"),
    entry("script", -2, NO_KEY, TALK, scripts::script, "Whether a script is known"),
    entry("sdiff", -2, (1, -1, 1), READ, sets::sdiff, "What only the first set has"),
    entry("sdiffstore", -3, (1, -1, 1), WRITE, sets::sdiffstore, "Stores what only the first set has"),
    entry("select", 2, NO_KEY, TALK, connection::select, "There is one database, number 0"),
    entry("set", -3, ONE_KEY, WRITE, strings::set, "Reports a job's output or status"),
    entry("setex", 4, ONE_KEY, WRITE, strings::setex, "Sets a string for some seconds"),
    entry("setnx", 3, ONE_KEY, WRITE, strings::setnx, "Sets a string that is missing"),
    entry("share.delete", 2, NO_KEY, WRITE, queues::delete_share, "Gives a share key the default weight"),
    entry("share.list", 1, NO_KEY, READ, queues::shares, "Share keys with their weights"),
    entry("share.set", 3, NO_KEY, WRITE, queues::set_share, "Sets the weight of a share key"),
    entry("sinter", -2, (1, -1, 1), READ, sets::sinter, "What all sets have"),
    entry("sinterstore", -3, (1, -1, 1), WRITE, sets::sinterstore, "Stores what all sets have"),
    entry("sismember", 3, ONE_KEY, READ, sets::sismember, "Whether a worker offers a capability"),
    entry("smembers", 2, ONE_KEY, READ, sets::smembers, "The workers that offer a capability"),
    entry("smismember", -3, ONE_KEY, READ, sets::smismember, "Which members a set has"),
    entry("smove", 4, (1, 2, 1), WRITE, sets::smove, "Moves a member to another set"),
    entry("spop", -2, ONE_KEY, WRITE, sets::spop, "Takes members out of a set"),
    entry("srandmember", -2, ONE_KEY, READ, sets::srandmember, "Some members of a set"),
    entry("srem", -3, ONE_KEY, WRITE, sets::srem, "Removes members"),
    entry("sscan", -3, ONE_KEY, READ, sets::sscan, "Members, some at a time"),
    entry("strlen", 2, ONE_KEY, READ, strings::strlen, "How long a string is"),
    entry("subscribe", -2, NO_KEY, PUBSUB, events::subscribe, "Follows channels"),
    entry("sunion", -2, (1, -1, 1), READ, sets::sunion, "What any of the sets has"),
    entry("sunionstore", -3, (1, -1, 1), WRITE, sets::sunionstore, "Stores what any of the sets has"),
    entry("time", 1, NO_KEY, TALK, connection::time, "The broker's clock"),
    entry("ttl", 2, ONE_KEY, READ, keys::ttl, "Seconds until a key expires"),
    entry("type", 2, ONE_KEY, READ, keys::key_type, "What kind of view a key is"),
    entry("unlink", -2, (1, -1, 1), WRITE, keys::del, "Deletes stored keys"),
    entry("unsubscribe", -1, NO_KEY, PUBSUB, events::unsubscribe, "Stops following channels"),
    entry("unwatch", 1, NO_KEY, TALK, keys::unwatch, "Forgets the watched keys"),
    entry("watch", -2, (1, -1, 1), TALK, keys::watch, "EXEC runs nothing if one of these keys changes"),
    entry("worker.heartbeat", -2, NO_KEY, WRITE, workers::heartbeat, "A worker is alive"),
    entry("worker.register", 2, NO_KEY, WRITE, workers::register, "A worker introduces itself"),
    entry("worker.unregister", 2, NO_KEY, WRITE, workers::unregister, "A worker leaves"),
    entry("worker.verify", 3, NO_KEY, WRITE, workers::verify, "Checks that a capability is real"),
    entry("workers.list", 1, NO_KEY, READ, workers::list, "All workers"),
    entry("xadd", -5, ONE_KEY, WRITE, streams::xadd, "Appends an entry to a stream"),
    entry("xdel", -3, ONE_KEY, WRITE, streams::xdel, "Removes entries"),
    entry("xlen", 2, ONE_KEY, READ, streams::xlen, "How many entries a stream has"),
    entry("xrange", -4, ONE_KEY, READ, streams::xrange, "A slice of the event log"),
    entry(
        "xread",
        -4,
        NO_KEY,
        BLOCKING,
        streams::xread,
        "Reads the event log from a number on, waiting for more",
    ),
    entry("xrevrange", -4, ONE_KEY, READ, streams::xrevrange, "Entries, the last first"),
    entry("xtrim", -4, ONE_KEY, WRITE, streams::xtrim, "Removes the oldest entries"),
    entry("zadd", -4, ONE_KEY, WRITE, sorted::zadd, "Adds members with scores"),
    entry("zcard", 2, ONE_KEY, READ, sorted::zcard, "How many members there are"),
    entry("zcount", 4, ONE_KEY, READ, sorted::zcount, "How many members are within a range of scores"),
    entry("zincrby", 4, ONE_KEY, WRITE, sorted::zincrby, "Adds to a score"),
    entry("zmscore", -3, ONE_KEY, READ, sorted::zmscore, "The scores of members"),
    entry("zpopmax", -2, ONE_KEY, WRITE, sorted::zpopmax, "Takes the members with the highest scores"),
    entry("zpopmin", -2, ONE_KEY, WRITE, sorted::zpopmin, "Takes the members with the lowest scores"),
    entry("zrange", -4, ONE_KEY, READ, sorted::zrange, "Members in order"),
    entry("zrangebyscore", -4, ONE_KEY, READ, sorted::zrangebyscore, "Members within a range of scores"),
    entry("zrank", 3, ONE_KEY, READ, sorted::zrank, "The rank of a member"),
    entry("zrem", -3, ONE_KEY, WRITE, sorted::zrem, "Removes members"),
    entry("zremrangebyrank", 4, ONE_KEY, WRITE, sorted::zremrangebyrank, "Removes members by rank"),
    entry(
        "zremrangebyscore",
        4,
        ONE_KEY,
        WRITE,
        sorted::zremrangebyscore,
        "Removes members within a range of scores",
    ),
    entry("zrevrange", -4, ONE_KEY, READ, sorted::zrevrange, "Members, the highest first"),
    entry(
        "zrevrangebyscore",
        -4,
        ONE_KEY,
        READ,
        sorted::zrevrangebyscore,
        "Members within a range of scores, the highest first",
    ),
    entry(
        "zrevrank",
        3,
        ONE_KEY,
        READ,
        sorted::zrevrank,
        "The rank of a member, counted from the highest score",
    ),
    entry("zscan", -3, ONE_KEY, READ, sorted::zscan, "Members with their scores"),
    entry("zscore", 3, ONE_KEY, READ, sorted::zscore, "The score of a member"),
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
    fn names_are_found_in_any_case_and_unknown_ones_are_reported() {
        assert!(Entry::find(b"").is_err() && Entry::find(b"~").is_err() && Entry::find(b"\x00").is_err());
        assert_eq!(Entry::find(b"bRpOp").unwrap().name, "brpop");
        let error = Entry::find(b"FLUSH\r\nALL").unwrap_err();
        assert_eq!(error.to_string(), "ERR unknown command 'FLUSH??ALL'");
        assert!(Entry::find(&[b'x'; 10_000]).unwrap_err().to_string().len() < 200);
    }
}
