//! Redis commands that the broker does not offer, and what to use instead.

use super::error::{CommandError, shown};

const NO_DATABASE: &str = "this is a task broker, not a database";
const USE_EVAL: &str = "use EVAL or EVALSHA, for the scripts that are known";
const ZSETS: &str = "sorted sets do not block: use ZPOPMIN, or BRPOP on a list";
const RIGHT_END: &str = "the oldest job of a queue is at the right end: use RPOP or BRPOP";
const EVENTS: &str = "the broker alone writes events: use PUBLISH for messages, and XREAD to follow jobs";
const SETTINGS: &str = "settings are in the configuration file: see tenure config show";

/// Sorted by name.
const INSTEAD: &[(&str, &str)] = &[
    ("acl", "keys and their rights are in the configuration file"),
    ("bitcount", NO_DATABASE),
    ("blmpop", RIGHT_END),
    ("bzpopmax", ZSETS),
    ("bzpopmin", ZSETS),
    ("cluster", "there is one broker and no cluster: connect without cluster mode"),
    ("config", SETTINGS),
    ("debug", NO_DATABASE),
    ("eval_ro", USE_EVAL),
    ("evalsha_ro", USE_EVAL),
    ("flushall", "stored keys are deleted by name with SCAN and DEL, jobs are cancelled with JOB.CANCEL"),
    ("flushdb", "stored keys are deleted by name with SCAN and DEL, jobs are cancelled with JOB.CANCEL"),
    ("geoadd", NO_DATABASE),
    ("latency", "use METRICS"),
    ("lmpop", RIGHT_END),
    ("memory", "use METRICS"),
    ("migrate", "use tenure backup"),
    ("monitor", "use XREAD BLOCK 0 STREAMS events $ to follow jobs"),
    ("pfadd", NO_DATABASE),
    ("psync", "there is no replication: use tenure backup"),
    ("replicaof", "there is no replication: use tenure backup"),
    ("save", "everything is on disk before it is answered; use tenure backup for a copy"),
    ("bgsave", "everything is on disk before it is answered; use tenure backup for a copy"),
    ("shutdown", "send SIGTERM to the broker"),
    ("slaveof", "there is no replication: use tenure backup"),
    ("sync", "there is no replication: use tenure backup"),
    ("xack", EVENTS),
    ("xgroup", EVENTS),
    ("xreadgroup", "events are read from any number on: use XREAD; jobs are shared among workers: use BRPOP"),
];

/// The refusal of such a command, named as the client wrote it.
pub(super) fn hint(name: &[u8]) -> Option<CommandError> {
    let known = |(command, _): &&(&'static str, &'static str)| name.eq_ignore_ascii_case(command.as_bytes());
    let (_, instead) = INSTEAD.iter().find(known)?;
    Some(CommandError::NotOffered { command: shown(name), instead })
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
        assert_eq!(
            hint(b"BLMPOP").unwrap().to_string(),
            format!("ERR unknown command 'BLMPOP': {RIGHT_END}")
        );
        assert_eq!(hint(b"nonsense"), None);
    }
}
