//! Redis commands that the broker does not offer, and what to use instead.

use super::error::{CommandError, quoted};

const NO_DATABASE: &str = "this is a task broker, not a database";
const NO_CLUSTER: &str = "there is one broker and no cluster: connect without cluster mode";
const NO_REPLICATION: &str = "Redis replication is not offered: use tenure backup";
const NO_GROUPS: &str =
    "streams have no consumer groups: use XREAD, or a queue, whose jobs workers share with BRPOP";
const NO_FIELD_TTL: &str = "only whole keys have a time to live: use EXPIRE";
const NO_MODULES: &str = "there are no modules";
const ONE_DATABASE: &str = "there is one database, number 0";
const ON_DISK: &str = "everything is on disk before it is answered; use tenure backup for a copy";
const USE_BACKUP: &str = "use tenure backup";
const USE_COMBINED: &str = "sorted sets are not combined: read them with ZRANGE";
const USE_EVAL: &str = "use EVAL or EVALSHA, for the scripts that are known";
const USE_LIST_POP: &str = "use LPOP, RPOP, BLPOP or BRPOP";
const USE_METRICS: &str = "use METRICS";
const USE_PUBLISH: &str = "use PUBLISH and SUBSCRIBE";
const USE_SCORES: &str = "members are ordered by score: use ZRANGE or ZRANGEBYSCORE";
const USE_XRANGE: &str = "use XLEN and XRANGE";
const ZSETS: &str = "sorted sets do not block: use ZPOPMIN, or BRPOP on a list";

/// What to use instead of each of these commands.
const INSTEAD: &[(&str, &[&str])] = &[
    (NO_DATABASE, &["bitcount", "bitfield", "bitfield_ro", "bitop", "bitpos", "getbit", "setbit"]),
    (NO_DATABASE, &["geoadd", "geodist", "geohash", "geopos", "geosearch", "geosearchstore"]),
    (NO_DATABASE, &["georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro"]),
    (NO_DATABASE, &["pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest"]),
    (NO_DATABASE, &["debug", "lcs", "lolwut"]),
    (NO_DATABASE, &["vadd", "vcard", "vdim", "vemb", "vgetattr", "vinfo", "vismember", "vlinks"]),
    (NO_DATABASE, &["vrandmember", "vrem", "vsetattr", "vsim"]),
    (NO_CLUSTER, &["asking", "cluster", "readonly", "readwrite"]),
    (NO_REPLICATION, &["failover", "psync", "replconf", "replicaof", "slaveof", "sync"]),
    (NO_GROUPS, &["xack", "xackdel", "xautoclaim", "xclaim", "xdelex", "xgroup"]),
    (NO_GROUPS, &["xpending", "xreadgroup"]),
    (USE_XRANGE, &["xinfo"]),
    ("the broker numbers the entries of a stream: use XADD", &["xsetid"]),
    (NO_FIELD_TTL, &["hexpire", "hexpireat", "hexpiretime", "hpersist", "hpexpire", "hpexpireat"]),
    (NO_FIELD_TTL, &["hgetex", "hpexpiretime", "hpttl", "hsetex", "httl"]),
    ("use HGET and HDEL", &["hgetdel"]),
    ("use HKEYS or HSCAN", &["hrandfield"]),
    (NO_MODULES, &["module"]),
    (ONE_DATABASE, &["move", "swapdb"]),
    (ON_DISK, &["bgrewriteaof", "bgsave", "lastsave", "save"]),
    ("everything is on disk before it is answered: there is nothing to wait for", &["wait", "waitaof"]),
    (USE_BACKUP, &["dump", "migrate", "restore", "restore-asking"]),
    ("values are not copied: read the value and write it", &["copy"]),
    (USE_COMBINED, &["zdiff", "zdiffstore", "zinter", "zintercard", "zinterstore", "zrangestore"]),
    (USE_COMBINED, &["zunion", "zunionstore"]),
    (USE_SCORES, &["zlexcount", "zrangebylex", "zremrangebylex", "zrevrangebylex"]),
    ("use ZRANGE", &["zrandmember"]),
    ("use ZPOPMIN or ZPOPMAX", &["zmpop"]),
    (ZSETS, &["bzmpop", "bzpopmax", "bzpopmin"]),
    (USE_LIST_POP, &["blmpop", "lmpop"]),
    ("values are not sorted: use a sorted set, or sort them in the client", &["sort", "sort_ro"]),
    ("use SINTER", &["sintercard"]),
    ("use GETRANGE", &["substr"]),
    ("use SET or APPEND", &["setrange"]),
    ("use MSET and EXPIRE in a transaction", &["msetex"]),
    ("use WATCH, GET and DEL in a transaction", &["delex"]),
    ("use GET", &["digest"]),
    ("use TYPE, STRLEN or TTL", &["object"]),
    ("use SCAN", &["randomkey"]),
    ("use EXISTS", &["touch"]),
    (USE_EVAL, &["eval_ro", "evalsha_ro"]),
    ("there are no functions", &["fcall_ro"]),
    (USE_PUBLISH, &["spublish", "ssubscribe", "sunsubscribe"]),
    ("PUBLISH returns how many receive the message", &["pubsub"]),
    ("keys and their rights are in the configuration file", &["acl"]),
    ("settings are in the configuration file: see tenure config show", &["config"]),
    (
        "stored keys are deleted by name with SCAN and DEL, jobs are cancelled with JOB.CANCEL",
        &["flushall", "flushdb"],
    ),
    (USE_METRICS, &["latency", "memory", "slowlog"]),
    ("use XREAD BLOCK 0 STREAMS events $ to follow jobs", &["monitor"]),
    ("send SIGTERM to the broker", &["shutdown"]),
];

/// What the commands of Redis' modules begin with.
const MODULES: &[&str] = &["bf.", "cf.", "cms.", "ft.", "json.", "tdigest.", "topk.", "ts."];

/// The refusal of such a command, named as the client wrote it.
pub(super) fn hint(name: &[u8]) -> Option<CommandError> {
    let known = |command: &&str| name.eq_ignore_ascii_case(command.as_bytes());
    let of_module = |prefix: &&str| {
        name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    let instead = match INSTEAD.iter().find(|(_, commands)| commands.iter().any(known)) {
        Some((instead, _)) => instead,
        None if MODULES.iter().any(of_module) => &NO_MODULES,
        None => return None,
    };
    Some(CommandError::NotOffered { command: quoted(name), instead })
}

#[cfg(test)]
mod tests {
    use super::super::TABLE;
    use super::*;

    /// The commands of Redis 7.2 and 8.
    const REDIS: &str = "acl append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove \
        blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin client cluster command config copy dbsize debug decr \
        decrby del delex digest discard dump echo eval eval_ro evalsha evalsha_ro exec exists expire expireat \
        expiretime failover fcall fcall_ro flushall flushdb function geoadd geodist geohash geopos georadius \
        georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel getex getrange \
        getset hdel hello hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys \
        hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen \
        httl hvals incr incrby incrbyfloat info keys lastsave latency lcs lindex linsert llen lmove lmpop lolwut lpop \
        lpos lpush lpushx lrange lrem lset ltrim memory mget migrate module monitor move mset msetex msetnx multi \
        object persist pexpire pexpireat pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex psubscribe \
        psync pttl publish pubsub punsubscribe quit randomkey readonly readwrite rename renamenx replconf replicaof \
        reset restore restore-asking role rpop rpoplpush rpush rpushx sadd save scan scard script sdiff sdiffstore \
        select set setbit setex setnx setrange shutdown sinter sintercard sinterstore sismember slaveof slowlog \
        smembers smismember smove sort sort_ro spop spublish srandmember srem sscan ssubscribe strlen subscribe substr \
        sunion sunionstore sunsubscribe swapdb sync time touch ttl type unlink unsubscribe unwatch vadd vcard vdim \
        vemb vgetattr vinfo vismember vlinks vrandmember vrem vsetattr vsim wait waitaof watch xack xackdel xadd \
        xautoclaim xclaim xdel xdelex xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim zadd \
        zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin \
        zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank \
        zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore";

    fn said(name: &str) -> String {
        hint(name.as_bytes()).expect(name).to_string()
    }

    #[test]
    fn nothing_that_is_offered_is_said_not_to_be() {
        for name in INSTEAD.iter().flat_map(|(_, names)| *names) {
            assert!(TABLE.iter().all(|entry| entry.name != *name), "{name} is a command");
        }
        assert_eq!(hint(b"nonsense"), None);
        assert_eq!(hint(b"jsonget"), None);
    }

    #[test]
    fn each_command_of_redis_is_offered_or_has_a_hint() {
        for name in REDIS.split_whitespace() {
            let is_offered = TABLE.iter().any(|entry| entry.name == name);
            assert_ne!(is_offered, hint(name.as_bytes()).is_some(), "{name}");
        }
        for name in ["JSON.GET", "ft.search", "BF.ADD", "ts.add"] {
            assert_eq!(said(name), format!("ERR unknown command '{name}': there are no modules"));
        }
    }

    #[test]
    fn a_hint_is_true_of_stored_lists_and_streams_as_of_queues_and_events() {
        let pops = "use LPOP, RPOP, BLPOP or BRPOP";
        assert_eq!(said("BLMPOP"), format!("ERR unknown command 'BLMPOP': {pops}"));
        assert_eq!(said("lmpop"), format!("ERR unknown command 'lmpop': {pops}"));
        for name in ["XGROUP", "XREADGROUP", "XACK", "XPENDING"] {
            assert!(said(name).contains("streams have no consumer groups: use XREAD"), "{}", said(name));
        }
    }
}
