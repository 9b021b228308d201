//! Commands of Redis that the broker does not offer, and what to use instead.

use super::error::CommandError;

const NO_DATABASE: &str = "this is a task broker, not a database";
const NO_SCRIPTS: &str =
    "the broker runs no scripts; libraries that need them, such as BullMQ, cannot use it as their Redis";
const VIEWS: &str = "keys are views and cannot be watched: use XREAD or SUBSCRIBE to follow jobs";
const CANCEL: &str = "jobs are cancelled with JOB.CANCEL and forgotten in time";
const LEFT_END: &str = "jobs enter a queue at the left end: use LPUSH";
const RIGHT_END: &str = "the oldest job of a queue is at the right end: use RPOP or BRPOP";
const EVENTS: &str = "the broker alone writes events: use PUBLISH for messages, and XREAD to follow jobs";
const SETTINGS: &str = "settings are in the configuration file: see tenure config show";
const LATER: &str = "give a job a priority or a time with JOB.SUBMIT";

/// In the order of the alphabet.
const INSTEAD: &[(&str, &str)] = &[
    ("acl", "keys and their rights are in the configuration file"),
    ("append", NO_DATABASE),
    ("bitcount", NO_DATABASE),
    ("blmpop", RIGHT_END),
    ("blpop", RIGHT_END),
    ("bzpopmax", LATER),
    ("bzpopmin", LATER),
    ("cluster", "there is one broker and no cluster: connect without cluster mode"),
    ("config", SETTINGS),
    ("dbsize", "use INFO or METRICS for figures"),
    ("debug", NO_DATABASE),
    ("del", CANCEL),
    ("eval", NO_SCRIPTS),
    ("eval_ro", NO_SCRIPTS),
    ("evalsha", NO_SCRIPTS),
    ("evalsha_ro", NO_SCRIPTS),
    ("expire", "times to live belong to the views"),
    ("fcall", NO_SCRIPTS),
    ("flushall", "jobs are cancelled one by one with JOB.CANCEL, and a queue is emptied with tenure cancel"),
    ("flushdb", "jobs are cancelled one by one with JOB.CANCEL, and a queue is emptied with tenure cancel"),
    ("function", NO_SCRIPTS),
    ("geoadd", NO_DATABASE),
    ("getset", NO_DATABASE),
    ("hdel", NO_DATABASE),
    ("hset", NO_DATABASE),
    ("incr", NO_DATABASE),
    ("latency", "use METRICS"),
    ("lindex", "use LRANGE to look at a queue"),
    ("linsert", LATER),
    ("lmpop", RIGHT_END),
    ("lpop", RIGHT_END),
    ("lpushx", LEFT_END),
    ("lset", "a waiting job is changed with JOB.CANCEL and JOB.SUBMIT"),
    ("ltrim", "jobs leave a queue one by one: use LREM or JOB.CANCEL"),
    ("memory", "use METRICS"),
    ("migrate", "use tenure backup"),
    ("monitor", "use XREAD BLOCK 0 STREAMS events $ to follow jobs"),
    ("pfadd", NO_DATABASE),
    ("psync", "there is no replication: use tenure backup"),
    ("replicaof", "there is no replication: use tenure backup"),
    ("rpush", LEFT_END),
    ("rpushx", LEFT_END),
    ("sadd", NO_DATABASE),
    ("save", "everything is on disk before it is answered; use tenure backup for a copy"),
    ("bgsave", "everything is on disk before it is answered; use tenure backup for a copy"),
    ("script", NO_SCRIPTS),
    ("shutdown", "send SIGTERM to the broker"),
    ("slaveof", "there is no replication: use tenure backup"),
    ("sync", "there is no replication: use tenure backup"),
    ("unlink", CANCEL),
    ("unwatch", VIEWS),
    ("watch", VIEWS),
    ("xack", EVENTS),
    ("xadd", EVENTS),
    ("xgroup", EVENTS),
    ("xreadgroup", "events are read from any number on: use XREAD; jobs are shared among workers: use BRPOP"),
    ("zadd", LATER),
    ("zpopmin", LATER),
    ("zrange", LATER),
    ("zrangebyscore", LATER),
];

/// What to say to whoever tries such a command.
pub(super) fn hint(name: &[u8]) -> Option<CommandError> {
    let known = |(command, _): &&(&'static str, &'static str)| name.eq_ignore_ascii_case(command.as_bytes());
    let (command, instead) = INSTEAD.iter().find(known)?;
    Some(CommandError::NotOffered { command, instead })
}

#[cfg(test)]
mod tests {
    use super::super::TABLE;
    use super::*;

    #[test]
    fn nothing_that_is_offered_is_said_not_to_be() {
        for (name, _) in INSTEAD {
            assert!(TABLE.iter().all(|entry| entry.name != *name), "{name} is a command");
        }
        assert_eq!(hint(b"BLPOP").unwrap().to_string(), format!("ERR unknown command 'blpop': {RIGHT_END}"));
        assert_eq!(hint(b"nonsense"), None);
    }
}
