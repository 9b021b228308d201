//! Every setting of the broker, once: its name, what it may be, what it is unless told otherwise, and what it is for.
//!
//! The same name serves in all three places: `ended_kept` in the file is `TENURE_ENDED_KEPT` in the environment and
//! `--ended-kept` on the command line. Whatever lists, checks or documents settings reads this table.

pub(crate) use super::setting::{Kind, Setting};
use super::setting::{reloading, setting};

pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

const BROKER: &str = "Broker";
const AUDIT: &str = "Audit log";
const DOORS: &str = "Doors (HOST:PORT, a port of 0 for any free one, or off)";
const DISK: &str = "Disk";
const XMESSAGE: &str = "The older message dialect, for peers that cannot say it themselves";
const RESP: &str = "The RESP door";
const TASKS: &str = "Tasks and workers";
const LIMITS: &str = "Limits";
const KEYSPACE: &str = "Stored keys";
const TOPICS: &str = "Topics";
const MAJORDOMO: &str = "ZeroMQ Majordomo";
const PINGPONG: &str = "ZeroMQ READY/PING/PONG";
const ZMQ: &str = "Connections of both ZeroMQ doors";

pub(crate) static SETTINGS: &[Setting] = &[
    setting(
        BROKER,
        "data_dir",
        Kind::Path,
        "tenure-data",
        "Where the broker keeps everything; one broker per directory",
    ),
    reloading(
        BROKER,
        "backup_dir",
        Kind::Path,
        "",
        "Where `tenure backup NAME` writes; empty for `backups` in the data directory",
    ),
    setting(
        BROKER,
        "log",
        Kind::Log,
        "info",
        "What is logged to stderr: error, warn, info, debug, trace, or a filter such as info,tenure_hub=debug",
    ),
    setting(
        AUDIT,
        "audit_log",
        Kind::Path,
        "",
        "Write who did what, from where and with which key to this file, as JSON lines; empty for no audit log",
    ),
    setting(AUDIT, "audit_level", Kind::AuditLevel, "acts", "Log acts alone, or all reports of workers too"),
    setting(AUDIT, "audit_log_size", Kind::Size, "64MB", "Begin a new file at this size"),
    setting(AUDIT, "audit_log_files", Kind::Count, "10", "Keep this many files, the current one included"),
    setting(
        DOORS,
        "native",
        Kind::Address,
        "127.0.0.1:7171",
        "The native protocol (MessagePack): this program's own verbs and the SDKs",
    ),
    setting(
        DOORS,
        "native_unix",
        Kind::Path,
        "",
        "A Unix socket for the native protocol, besides the TCP address",
    ),
    setting(
        DOORS,
        "xmessage",
        Kind::Address,
        "127.0.0.1:5677",
        "The older message dialect, for existing clients",
    ),
    setting(DOORS, "resp", Kind::Address, "127.0.0.1:6380", "RESP: redis-cli and Redis libraries"),
    setting(DOORS, "mdp", Kind::Address, "127.0.0.1:5555", "ZeroMQ Majordomo clients and workers"),
    setting(
        DOORS,
        "pingpong",
        Kind::TwoAddresses,
        "127.0.0.1:6001,127.0.0.1:6002",
        "ZeroMQ READY/PING/PONG: an address for clients and one for workers",
    ),
    setting(
        DOORS,
        "grpc",
        Kind::Address,
        "127.0.0.1:7172",
        "gRPC: tasks, workers, and pub/sub with gap recovery",
    ),
    setting(
        DOORS,
        "tls_cert",
        Kind::Path,
        "",
        "A certificate chain in PEM: the native, RESP and gRPC doors speak TLS",
    ),
    setting(DOORS, "tls_key", Kind::Path, "", "The private key of the certificate, in PEM"),
    setting(
        DOORS,
        "tls_client_ca",
        Kind::Path,
        "",
        "Certificates in PEM that sign clients: peers of TLS doors must show a certificate of their own",
    ),
    setting(
        DOORS,
        "grpc_tls_cert",
        Kind::Path,
        "",
        "Another certificate chain for the gRPC door alone, in PEM",
    ),
    setting(DOORS, "grpc_tls_key", Kind::Path, "", "The private key of that certificate, in PEM"),
    setting(
        DOORS,
        "connections_per_address_max",
        Kind::Count,
        "50000",
        "How many connections each door takes from one address",
    ),
    setting(
        DOORS,
        "buffers_size",
        Kind::Size,
        "256MB",
        "How much memory the buffers of all connections may take together",
    ),
    setting(XMESSAGE, "xmessage_slots", Kind::Count, "200", "How many tasks a worker runs at once"),
    setting(XMESSAGE, "xmessage_task_types", Kind::Names, "sync,async", "Which types of tasks a worker runs"),
    setting(XMESSAGE, "xmessage_priority", Kind::Priority, "0", "The priority of a new task; higher first"),
    setting(XMESSAGE, "xmessage_tags", Kind::Names, "", "The tags of a new task, for limits"),
    setting(
        XMESSAGE,
        "xmessage_on_lost",
        Kind::OnLost,
        "pause",
        "What happens to a running task when its worker is lost: pause, requeue or fail",
    ),
    setting(
        RESP,
        "resp_run_limit",
        Kind::Span,
        "1h",
        "How long a task submitted through RESP may run, unless it says otherwise",
    ),
    setting(
        RESP,
        "resp_heartbeat",
        Kind::Span,
        "30s",
        "How often RESP workers say that they are alive; after three times that they are dead",
    ),
    setting(
        RESP,
        "resp_pop_job_alone",
        Kind::Switch,
        "off",
        "Answer BRPOP with the job alone instead of Redis' key and element, for old workers that say neither HELLO nor their id",
    ),
    setting(
        RESP,
        "resp_pull_whole_job",
        Kind::Switch,
        "on",
        "Answer BRPOPLPUSH queue:ready with the whole job until a worker that only pings asks for one by its id",
    ),
    setting(RESP, "resp_message_size", Kind::Size, "10MB", "The largest RESP command, at most 16MB"),
    setting(
        RESP,
        "resp_connections_max",
        Kind::Count,
        "50000",
        "How many RESP connections there may be at once",
    ),
    setting(
        RESP,
        "resp_connections_per_address_max",
        Kind::Count,
        "50000",
        "How many of them may come from one address",
    ),
    setting(
        DISK,
        "sync",
        Kind::Sync,
        "always",
        "When what is acknowledged is on disk: always before (the default), at the latest after a span such as 50ms, or when the operating system likes",
    ),
    setting(DISK, "segment_size", Kind::Size, "64MB", "The size of one journal file"),
    setting(
        DISK,
        "checkpoint_size",
        Kind::Size,
        "128MB",
        "So much journal since the last snapshot asks for the next one",
    ),
    setting(
        DISK,
        "cache_size",
        Kind::Size,
        "8MB",
        "Memory for the newest bodies, so that workers get them without a read",
    ),
    setting(
        DISK,
        "events_kept",
        Kind::Count,
        "1000000",
        "How many events are kept for watchers that were away",
    ),
    setting(DISK, "events_kept_for", Kind::Span, "7d", "How long events are kept"),
    reloading(
        TASKS,
        "ended_kept",
        Kind::Count,
        "100000",
        "How many ended tasks are kept, with their results",
    ),
    reloading(TASKS, "ended_kept_for", Kind::Span, "7d", "How long ended tasks are kept"),
    reloading(
        TASKS,
        "accept_timeout",
        Kind::Span,
        "30s",
        "How long a task may be assigned to a worker without being started, unless the task says otherwise",
    ),
    reloading(
        TASKS,
        "take_back_after",
        Kind::Span,
        "2s",
        "How long a task is assigned without being started before a freer worker may have it",
    ),
    reloading(
        TASKS,
        "cancel_timeout",
        Kind::SpanOrOff,
        "1m",
        "How long a worker may take to stop a cancelled task before the broker ends it, unless the task says otherwise",
    ),
    reloading(
        TASKS,
        "restart_grace",
        Kind::Span,
        "1m",
        "How long after a restart workers may take to come back with what they hold",
    ),
    reloading(
        TASKS,
        "aging",
        Kind::SpanOrOff,
        "off",
        "One step of priority is worth this much waiting; off keeps priorities strict",
    ),
    reloading(
        TASKS,
        "quarantine_crashes",
        Kind::Count,
        "5",
        "So many crashes within the window put a worker into quarantine",
    ),
    reloading(TASKS, "quarantine_window", Kind::Span, "10m", "The window in which crashes are counted"),
    reloading(TASKS, "quarantine_for", Kind::Span, "10m", "How long a worker stays in quarantine"),
    reloading(LIMITS, "tasks_max", Kind::Count, "50000000", "How many tasks the broker holds at most"),
    reloading(LIMITS, "workers_max", Kind::Count, "100000", "How many workers the broker knows at most"),
    reloading(LIMITS, "queues_max", Kind::Count, "100000", "How many queues the broker has at most"),
    reloading(
        LIMITS,
        "queues_per_namespace_max",
        Kind::Count,
        "10000",
        "How many queues one namespace has at most",
    ),
    setting(
        LIMITS,
        "namespaces_per_key_max",
        Kind::Count,
        "1000",
        "How many namespaces the sessions of one key may enter",
    ),
    setting(
        LIMITS,
        "unread_bytes_max",
        Kind::Size,
        "16MB",
        "Refuse queries of a session that leaves this much unread",
    ),
    setting(
        LIMITS,
        "unread_bytes_total_max",
        Kind::Size,
        "256MB",
        "Disconnect the peer that leaves most unread when all sessions together leave this much",
    ),
    setting(
        KEYSPACE,
        "keyspace_bytes_max",
        Kind::Size,
        "256MB",
        "How many bytes the stored keys of a namespace may hold, with what it costs to keep them",
    ),
    setting(
        KEYSPACE,
        "keyspace_keys_max",
        Kind::Count,
        "1000000",
        "How many stored keys a namespace may have",
    ),
    setting(
        TOPICS,
        "message_buffer_size",
        Kind::Count,
        "1000",
        "How many messages of each topic are kept for replay",
    ),
    setting(
        TOPICS,
        "max_buffer_memory",
        Kind::Size,
        "100MB",
        "Memory for the kept messages of all topics; over it the oldest go first",
    ),
    setting(
        TOPICS,
        "paused_subscription_ttl",
        Kind::Millis,
        "300s",
        "How long a subscription is kept whose stream has ended",
    ),
    setting(
        TOPICS,
        "subscriber_queue_limit",
        Kind::Count,
        "10000",
        "How many messages may wait for one subscriber",
    ),
    setting(
        TOPICS,
        "backpressure_policy",
        Kind::Policy,
        "drop-oldest",
        "What happens when a subscriber's queue is full, unless the subscriber chooses",
    ),
    setting(
        TOPICS,
        "block_timeout_ms",
        Kind::Millis,
        "5000",
        "How long a publisher waits for a subscriber with the policy block",
    ),
    setting(
        TOPICS,
        "default_message_ttl",
        Kind::MillisOrOff,
        "off",
        "How long messages live that do not say so themselves; off or 0 is for ever",
    ),
    setting(
        TOPICS,
        "ttl_reaper_interval",
        Kind::Millis,
        "1000",
        "How often what has expired is cleared away",
    ),
    setting(TOPICS, "topics_max", Kind::Count, "2000000", "How many topics a namespace remembers at most"),
    setting(
        TOPICS,
        "durable_topics",
        Kind::Topics,
        "",
        "Topics whose messages are on disk before anybody hears of them, such as audit.>,orders.*",
    ),
    setting(
        TOPICS,
        "durable_messages",
        Kind::Count,
        "10000",
        "How many messages of each durable topic are kept for replay",
    ),
    setting(
        TOPICS,
        "durable_size",
        Kind::Size,
        "100MB",
        "How much of durable topics is kept on disk; what is replayed must fit into max_buffer_memory as well",
    ),
    setting(
        TOPICS,
        "durable_kept_for",
        Kind::Span,
        "7d",
        "How long messages of durable topics are kept on disk",
    ),
    setting(
        MAJORDOMO,
        "mdp_heartbeat",
        Kind::Span,
        "2500ms",
        "How often the broker beats, and workers should",
    ),
    setting(MAJORDOMO, "mdp_liveness", Kind::Count, "3", "How many beats a worker may miss"),
    setting(
        MAJORDOMO,
        "mdp_busy_lease",
        Kind::SpanOrOff,
        "off",
        "How long a computing worker is believed without a word; off is as long as its connection lives",
    ),
    setting(
        MAJORDOMO,
        "mdp_expire",
        Kind::SpanOrOff,
        "off",
        "How long a request waits for a worker; off is for ever",
    ),
    setting(
        MAJORDOMO,
        "mdp_expire_gone",
        Kind::SpanOrOff,
        "1m",
        "How long a request waits after its client is gone, if the client has no identity; off is for ever",
    ),
    setting(MAJORDOMO, "mdp_retry_attempts", Kind::Count, "3", "The crash with this number ends a job"),
    setting(
        MAJORDOMO,
        "mdp_crash_backoff",
        Kind::SpanOrOff,
        "off",
        "How long a job waits after its first crash; doubles with each further one; off tries again at once",
    ),
    setting(MAJORDOMO, "mdp_crash_backoff_max", Kind::Span, "5m", "The longest such wait"),
    setting(
        MAJORDOMO,
        "mdp_notify_worker_crash",
        Kind::Switch,
        "on",
        "Whether clients are told that a worker crashed with their job",
    ),
    setting(
        MAJORDOMO,
        "mdp_notify_no_workers",
        Kind::Switch,
        "on",
        "Whether clients are told that nobody serves what they asked for",
    ),
    setting(
        MAJORDOMO,
        "mdp_crash_notification_delay",
        Kind::SpanOrOff,
        "off",
        "Waits so long before it tells, and gathers what happens meanwhile; off tells at once",
    ),
    setting(
        MAJORDOMO,
        "mdp_notice_slot",
        Kind::NoticeSlot,
        "empty",
        "What stands in a notice where a reply has its service: nothing, or the byte of the notice",
    ),
    setting(PINGPONG, "pingpong_queue", Kind::Name, "pingpong", "The queue of this door's work and workers"),
    setting(
        PINGPONG,
        "pingpong_worker_expire",
        Kind::Span,
        "3s",
        "An idle worker that is silent longer gets nothing until it is heard again",
    ),
    setting(
        PINGPONG,
        "pingpong_busy_lease",
        Kind::SpanOrOff,
        "off",
        "How long a computing worker is believed without a word; off is as long as its connection lives",
    ),
    setting(
        PINGPONG,
        "pingpong_expire",
        Kind::SpanOrOff,
        "off",
        "How long work waits for a worker; off is for ever",
    ),
    setting(
        PINGPONG,
        "pingpong_expire_gone",
        Kind::SpanOrOff,
        "1m",
        "How long work waits after its client is gone, if the client has no identity; off is for ever",
    ),
    setting(PINGPONG, "pingpong_retry_attempts", Kind::Count, "3", "The crash with this number ends a job"),
    setting(PINGPONG, "pingpong_exit_on_drain", Kind::Switch, "off", "Send EXIT to a worker that is drained"),
    setting(PINGPONG, "pingpong_addressed_jobs", Kind::Switch, "off", "Send jobs in the older form"),
    setting(
        ZMQ,
        "zmq_ping",
        Kind::Span,
        "5s",
        "After so much silence a peer's ZeroMQ library is asked for a sign of life",
    ),
    setting(
        ZMQ,
        "zmq_ping_timeout",
        Kind::Span,
        "15s",
        "After so much silence a connection that was asked is given up",
    ),
    setting(ZMQ, "zmq_handshake_timeout", Kind::Span, "10s", "How long a peer may take to introduce itself"),
    setting(ZMQ, "zmq_connections_max", Kind::Count, "10000", "How many connections each address takes"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_of_its_own() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS[index + 1..].iter().all(|other| other.key != setting.key), "{}", setting.key);
            assert!(setting.key.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", setting.key);
        }
        assert_eq!(find("ended_kept").unwrap().flag(), "ended-kept");
        assert_eq!(find("ended_kept").unwrap().variable(), "TENURE_ENDED_KEPT");
    }
}
