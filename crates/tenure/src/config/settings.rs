//! Every setting of the broker, once: its name, its type, its default, and its purpose.
//!
//! The same name serves in all three places: `ended_kept` in the file is `TENURE_ENDED_KEPT` in the environment and
//! `--ended-kept` on the command line. All code that lists, checks or documents settings reads this table.

pub(crate) use super::setting::{Kind, Setting};
use super::setting::{reloading, renamed, setting};

pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key || setting.former == Some(key))
}

const BROKER: &str = "Broker";
const AUDIT: &str = "Audit log";
const DOORS: &str = "Doors (HOST:PORT, a port of 0 for any free one, or off)";
const DISK: &str = "Disk";
const XMESSAGE: &str = "xmessage (defaults for peers that do not set them)";
const RESP: &str = "The RESP door";
const TASKS: &str = "Tasks and workers";
const LIMITS: &str = "Limits";
const KEYSPACE: &str = "Stored keys";
const TOPICS: &str = "Topics";
const MAJORDOMO: &str = "ZeroMQ Majordomo";
const PINGPONG: &str = "ZeroMQ READY/PING/PONG";
const ZMQ: &str = "ZeroMQ connections (both doors)";

pub(crate) static SETTINGS: &[Setting] = &[
    setting(
        BROKER,
        "data_dir",
        Kind::Path,
        "tenure-data",
        "Directory for all of the broker's files; only one broker may use it",
    ),
    reloading(
        BROKER,
        "backup_dir",
        Kind::Path,
        "",
        "Directory where `tenure backup NAME` writes; empty: `backups` in the data directory",
    ),
    setting(
        BROKER,
        "log",
        Kind::Log,
        "info",
        "Log level for stderr: error, warn, info, debug, trace, or a filter such as info,tenure_hub=debug",
    ),
    setting(
        AUDIT,
        "audit_log",
        Kind::Path,
        "",
        "Write an audit log (who, from where, with which key, did what) to this file as JSON lines; empty: off",
    ),
    setting(
        AUDIT,
        "audit_level",
        Kind::AuditLevel,
        "acts",
        "What to audit: `acts` of clients, or `all`, which adds the reports of workers",
    ),
    setting(AUDIT, "audit_log_size", Kind::Size, "64MB", "Rotate the audit log at this size"),
    setting(
        AUDIT,
        "audit_log_files",
        Kind::Count,
        "10",
        "Keep this many audit log files, including the current one",
    ),
    setting(
        DOORS,
        "native",
        Kind::Address,
        "127.0.0.1:7171",
        "Listen for the native protocol (MessagePack): this command line and the SDKs",
    ),
    setting(DOORS, "native_unix", Kind::Path, "", "Also listen for the native protocol on this Unix socket"),
    setting(
        DOORS,
        "xmessage",
        Kind::Address,
        "127.0.0.1:5677",
        "Listen for xmessage, an older MessagePack dialect",
    ),
    setting(
        DOORS,
        "resp",
        Kind::Address,
        "127.0.0.1:6380",
        "Listen for RESP: redis-cli and Redis client libraries",
    ),
    setting(DOORS, "mdp", Kind::Address, "127.0.0.1:5555", "Listen for ZeroMQ Majordomo clients and workers"),
    setting(
        DOORS,
        "pingpong",
        Kind::TwoAddresses,
        "127.0.0.1:6001,127.0.0.1:6002",
        "Listen for ZeroMQ READY/PING/PONG: one address for clients, one for workers",
    ),
    setting(
        DOORS,
        "grpc",
        Kind::Address,
        "127.0.0.1:7172",
        "Listen for gRPC: tasks, workers, and pub/sub with gap recovery",
    ),
    setting(
        DOORS,
        "http",
        Kind::Address,
        "127.0.0.1:7173",
        "Listen for HTTP: the dashboard, a JSON API, live events and metrics",
    ),
    setting(
        DOORS,
        "http_hosts",
        Kind::Names,
        "",
        "Host names under which the HTTP door may be reached, beside addresses and localhost; empty: with keys, any",
    ),
    setting(
        DOORS,
        "tls_cert",
        Kind::Path,
        "",
        "Certificate chain (PEM); turns on TLS for the native, RESP, gRPC and HTTP doors",
    ),
    setting(DOORS, "tls_key", Kind::Path, "", "Private key of that certificate (PEM)"),
    setting(
        DOORS,
        "tls_client_ca",
        Kind::Path,
        "",
        "CA certificates (PEM); TLS clients must present a certificate signed by one of them",
    ),
    setting(DOORS, "grpc_tls_cert", Kind::Path, "", "Certificate chain (PEM) for the gRPC door only"),
    setting(DOORS, "grpc_tls_key", Kind::Path, "", "Private key of the gRPC certificate (PEM)"),
    setting(
        DOORS,
        "connections_per_address_max",
        Kind::Count,
        "50000",
        "Maximum number of connections from one address to each door",
    ),
    setting(
        DOORS,
        "buffers_size",
        Kind::Size,
        "256MB",
        "Maximum memory for the buffers of all connections together",
    ),
    setting(
        XMESSAGE,
        "xmessage_slots",
        Kind::Count,
        "200",
        "Slots per worker: how many tasks it runs at once",
    ),
    setting(XMESSAGE, "xmessage_task_types", Kind::Names, "sync,async", "Task types that a worker runs"),
    setting(XMESSAGE, "xmessage_priority", Kind::Priority, "0", "Priority of a new task; higher runs first"),
    setting(XMESSAGE, "xmessage_tags", Kind::Names, "", "Tags of a new task, used by limits"),
    setting(
        XMESSAGE,
        "xmessage_on_lost",
        Kind::OnLost,
        "pause",
        "What to do with a running task whose worker is lost: pause, requeue or fail",
    ),
    setting(RESP, "resp_run_limit", Kind::Span, "1h", "Run limit for jobs of plans that do not set one"),
    setting(
        RESP,
        "resp_heartbeat",
        Kind::Span,
        "30s",
        "Heartbeat interval of RESP workers; a worker is lost after three missed heartbeats",
    ),
    setting(
        RESP,
        "resp_pop_job_alone",
        Kind::Switch,
        "off",
        "Answer BRPOP with the job only, not with Redis' key and element, for old workers that send neither HELLO nor their id",
    ),
    setting(
        RESP,
        "resp_pull_whole_job",
        Kind::Switch,
        "on",
        "Answer BRPOPLPUSH queue:ready with the whole job until the worker asks for a job by id",
    ),
    setting(RESP, "resp_message_size", Kind::Size, "10MB", "Maximum size of a RESP command, up to 16MB"),
    setting(RESP, "resp_connections_max", Kind::Count, "50000", "Maximum number of RESP connections"),
    setting(
        RESP,
        "resp_connections_per_address_max",
        Kind::Count,
        "50000",
        "Maximum number of RESP connections from one address",
    ),
    setting(
        DISK,
        "sync",
        Kind::Sync,
        "always",
        "When to fsync: `always` (before acknowledging), an interval such as `50ms`, or `os` (left to the operating system)",
    ),
    setting(DISK, "segment_size", Kind::Size, "64MB", "Size of a journal segment file"),
    renamed(
        "checkpoint_size",
        setting(DISK, "snapshot_size", Kind::Size, "128MB", "Take a snapshot after this much journal"),
    ),
    setting(DISK, "cache_size", Kind::Size, "8MB", "Memory for caching recent task bodies"),
    setting(DISK, "events_kept", Kind::Count, "1000000", "Maximum number of events to keep for replay"),
    setting(DISK, "events_kept_for", Kind::Span, "7d", "How long to keep events"),
    reloading(
        TASKS,
        "ended_kept",
        Kind::Count,
        "100000",
        "Maximum number of ended tasks to keep, with their results",
    ),
    reloading(TASKS, "ended_kept_for", Kind::Span, "7d", "How long to keep ended tasks"),
    reloading(
        TASKS,
        "accept_timeout",
        Kind::Span,
        "30s",
        "How long a worker may take to start an assigned task, unless the task sets its own limit",
    ),
    reloading(
        TASKS,
        "take_back_after",
        Kind::Span,
        "2s",
        "Reassign a task that its worker has not started after this time if another worker is free",
    ),
    reloading(
        TASKS,
        "cancel_timeout",
        Kind::DurationOrOff,
        "1m",
        "How long a worker may take to stop a cancelled task before the broker fences it, unless the task sets its own limit",
    ),
    reloading(
        TASKS,
        "restart_grace",
        Kind::Span,
        "1m",
        "How long workers may take to reconnect after a broker restart and keep their tasks",
    ),
    reloading(
        TASKS,
        "aging",
        Kind::DurationOrOff,
        "off",
        "Raise a waiting task by one priority step per this much waiting; off: strict priorities",
    ),
    reloading(
        TASKS,
        "reserve_after",
        Kind::Span,
        "5m",
        "How long a task that needs more than one slot waits before a worker makes room for it",
    ),
    reloading(
        TASKS,
        "backlog_depth",
        Kind::CountOrOff,
        "off",
        "Report a backlog when this many tasks of a queue are ready, unless the queue has thresholds of its own",
    ),
    reloading(
        TASKS,
        "backlog_age",
        Kind::DurationOrOff,
        "off",
        "Report a backlog when a task of a queue has been ready this long, unless the queue has thresholds of its own",
    ),
    reloading(
        TASKS,
        "quarantine_crashes",
        Kind::Count,
        "5",
        "Quarantine a worker after this many crashes within the window",
    ),
    reloading(TASKS, "quarantine_window", Kind::Span, "10m", "Time window for counting crashes"),
    reloading(TASKS, "quarantine_for", Kind::Span, "10m", "How long a quarantine lasts"),
    reloading(LIMITS, "tasks_max", Kind::Count, "50000000", "Maximum number of tasks in the broker"),
    reloading(LIMITS, "workers_max", Kind::Count, "100000", "Maximum number of known workers"),
    reloading(LIMITS, "queues_max", Kind::Count, "100000", "Maximum number of queues in the broker"),
    reloading(
        LIMITS,
        "queues_per_namespace_max",
        Kind::Count,
        "10000",
        "Maximum number of queues per namespace",
    ),
    setting(
        LIMITS,
        "namespaces_per_key_max",
        Kind::Count,
        "1000",
        "Maximum number of namespaces that the sessions of one key may enter",
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
        LIMITS,
        "output_bytes_max",
        Kind::Size,
        "256MB",
        "How much to keep on disk of what tasks print while they run",
    ),
    setting(
        KEYSPACE,
        "keyspace_bytes_max",
        Kind::Size,
        "256MB",
        "Maximum memory for the stored keys of a namespace, including overhead",
    ),
    setting(
        KEYSPACE,
        "keyspace_keys_max",
        Kind::Count,
        "1000000",
        "Maximum number of stored keys per namespace",
    ),
    setting(TOPICS, "message_buffer_size", Kind::Count, "1000", "Messages to keep for replay, per topic"),
    setting(
        TOPICS,
        "max_buffer_memory",
        Kind::Size,
        "100MB",
        "Memory for kept messages of all topics; above it the oldest are dropped",
    ),
    setting(
        TOPICS,
        "paused_subscription_ttl",
        Kind::Millis,
        "300s",
        "How long to keep a subscription after its stream has ended",
    ),
    setting(
        TOPICS,
        "subscriber_queue_limit",
        Kind::Count,
        "10000",
        "Maximum number of messages queued for one subscriber",
    ),
    setting(
        TOPICS,
        "backpressure_policy",
        Kind::Policy,
        "drop-oldest",
        "What to do when a subscriber's queue is full, unless the subscriber chooses",
    ),
    setting(
        TOPICS,
        "block_timeout_ms",
        Kind::Millis,
        "5000",
        "How long a publisher waits for a subscriber whose policy is `block`",
    ),
    setting(
        TOPICS,
        "default_message_ttl",
        Kind::MillisOrOff,
        "off",
        "Time to live of messages that do not set one; off or 0: no limit",
    ),
    setting(TOPICS, "ttl_reaper_interval", Kind::Millis, "1000", "How often to remove expired messages"),
    setting(TOPICS, "topics_max", Kind::Count, "2000000", "Maximum number of topics per namespace"),
    setting(
        TOPICS,
        "durable_topics",
        Kind::Topics,
        "",
        "Durable topics, whose messages are synced before delivery, such as audit.>,orders.*",
    ),
    setting(
        TOPICS,
        "durable_messages",
        Kind::Count,
        "10000",
        "Messages to keep for replay, per durable topic",
    ),
    setting(
        TOPICS,
        "durable_size",
        Kind::Size,
        "100MB",
        "Maximum size of durable topics on disk; messages to replay must also fit into max_buffer_memory",
    ),
    setting(TOPICS, "durable_kept_for", Kind::Span, "7d", "How long to keep messages of durable topics"),
    setting(
        MAJORDOMO,
        "mdp_heartbeat",
        Kind::Span,
        "2500ms",
        "Heartbeat interval of the broker and its workers",
    ),
    setting(MAJORDOMO, "mdp_liveness", Kind::Count, "3", "How many heartbeats a worker may miss"),
    setting(
        MAJORDOMO,
        "mdp_busy_lease",
        Kind::DurationOrOff,
        "off",
        "How long a busy worker may be silent; off: as long as its connection is open",
    ),
    setting(
        MAJORDOMO,
        "mdp_expire",
        Kind::DurationOrOff,
        "off",
        "How long a request waits for a worker; off: no limit",
    ),
    setting(
        MAJORDOMO,
        "mdp_expire_gone",
        Kind::DurationOrOff,
        "1m",
        "How long a request waits after its client disconnects, if the client has no identity; off: no limit",
    ),
    setting(MAJORDOMO, "mdp_retry_attempts", Kind::Count, "3", "Fail a job after this many crashes"),
    setting(
        MAJORDOMO,
        "mdp_crash_backoff",
        Kind::DurationOrOff,
        "off",
        "Delay before a retry after a crash; doubles with each further crash; off: retry at once",
    ),
    setting(
        MAJORDOMO,
        "mdp_crash_backoff_max",
        Kind::Span,
        "5m",
        "Maximum delay before a retry after a crash",
    ),
    setting(
        MAJORDOMO,
        "mdp_notify_worker_crash",
        Kind::Switch,
        "on",
        "Tell clients that a worker crashed while it ran their job",
    ),
    setting(
        MAJORDOMO,
        "mdp_notify_no_workers",
        Kind::Switch,
        "on",
        "Tell clients that no worker serves their service",
    ),
    setting(
        MAJORDOMO,
        "mdp_crash_notification_delay",
        Kind::DurationOrOff,
        "off",
        "Delay notices by this time and group them; off: send at once",
    ),
    setting(
        MAJORDOMO,
        "mdp_notice_slot",
        Kind::NoticeSlot,
        "empty",
        "What a notice carries where a reply has its service: `empty`, or the `command` byte of the notice",
    ),
    setting(
        PINGPONG,
        "pingpong_queue",
        Kind::Name,
        "pingpong",
        "Queue for the tasks and workers of this door",
    ),
    setting(
        PINGPONG,
        "pingpong_worker_expire",
        Kind::Span,
        "3s",
        "Assign nothing to an idle worker that has been silent for longer than this",
    ),
    setting(
        PINGPONG,
        "pingpong_busy_lease",
        Kind::DurationOrOff,
        "off",
        "How long a busy worker may be silent; off: as long as its connection is open",
    ),
    setting(
        PINGPONG,
        "pingpong_expire",
        Kind::DurationOrOff,
        "off",
        "How long work waits for a worker; off: no limit",
    ),
    setting(
        PINGPONG,
        "pingpong_expire_gone",
        Kind::DurationOrOff,
        "1m",
        "How long work waits after its client disconnects, if the client has no identity; off: no limit",
    ),
    setting(PINGPONG, "pingpong_retry_attempts", Kind::Count, "3", "Fail a job after this many crashes"),
    setting(
        PINGPONG,
        "pingpong_exit_on_drain",
        Kind::Switch,
        "off",
        "Send EXIT to a worker that is being drained",
    ),
    setting(
        PINGPONG,
        "pingpong_addressed_jobs",
        Kind::Switch,
        "off",
        "Send jobs in the older, addressed form",
    ),
    setting(ZMQ, "zmq_ping", Kind::Span, "5s", "Send a ZMTP PING after this much silence"),
    setting(
        ZMQ,
        "zmq_ping_timeout",
        Kind::Span,
        "15s",
        "Close a connection that does not answer a PING within this time",
    ),
    setting(ZMQ, "zmq_handshake_timeout", Kind::Span, "10s", "Time limit for the ZMTP handshake"),
    setting(
        ZMQ,
        "zmq_connections_max",
        Kind::Count,
        "10000",
        "Maximum number of connections per listening address",
    ),
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
