//! The broker's configuration: one TOML file, the environment and the command line, in rising precedence.
//!
//! `settings.rs` lists every setting once; `load.rs` determines each value and its source; this file converts the
//! texts to the settings of the hub, the store and the doors.

pub(crate) mod absent;
pub(crate) mod access;
pub(crate) mod cluster;
mod engine;
pub(crate) mod flags;
pub(crate) mod hooks;
mod keyspace;
pub(crate) mod load;
pub(crate) mod nearest;
pub(crate) mod otlp;
pub(crate) mod problem;
#[cfg(feature = "resp")]
mod resp;
mod setting;
mod setting_groups;
pub(crate) mod settings;
mod topics;
pub(crate) mod value;
mod xmessage;
#[cfg(feature = "zmq")]
mod zmq;

use std::path::PathBuf;

use tenure_door_msgpack::xmessage::XmessageSettings;
#[cfg(feature = "zmq")]
use tenure_door_zmq::{PingPongSettings, Settings as MajordomoSettings};
use tenure_hub::keyspace::KeyspaceSettings;
use tenure_hub::topics::TopicSettings;
use tenure_hub::{AuditSettings, UnreadLimits, words};
use tenure_outbound::SpanExportSettings;
use tenure_outbound::hooks::HookSettings;
use tenure_store::{StoreSettings, TaskLogSettings};

use access::Access;
use cluster::ClusterSettings;
use load::Loaded;

/// The broker's configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
    /// Absolute, unless the current directory is unknown.
    pub(crate) backup_dir: PathBuf,
    pub(crate) log: String,
    pub(crate) audit: Option<AuditSettings>,
    /// `None`: the journal is on the local disk.
    pub(crate) cluster: Option<ClusterSettings>,
    /// A setting that names a group, without a journal to share, and where it was set.
    pub(crate) groupless: Option<(&'static str, String)>,
    pub(crate) doors: Doors,
    pub(crate) xmessage: XmessageSettings,
    #[cfg(feature = "resp")]
    pub(crate) resp: tenure_door_resp::Settings,
    pub(crate) store: StoreSettings,
    pub(crate) engine: words::Settings,
    pub(crate) topics: TopicSettings,
    pub(crate) keyspace: KeyspaceSettings,
    pub(crate) task_log: TaskLogSettings,
    pub(crate) unread: UnreadLimits,
    pub(crate) namespaces_per_key_max: usize,
    pub(crate) access: Access,
    pub(crate) hooks: Vec<HookSettings>,
    pub(crate) otlp: Option<SpanExportSettings>,
    #[cfg(feature = "zmq")]
    pub(crate) majordomo: MajordomoSettings,
    #[cfg(feature = "zmq")]
    pub(crate) ping_pong: PingPongSettings,
    #[cfg(feature = "http")]
    pub(crate) http: tenure_door_http::Settings,
    /// The certificate files of TLS doors, if TLS is on.
    pub(crate) tls: Option<TlsFiles>,
    /// The same for the gRPC door alone, if it has its own.
    pub(crate) grpc_tls: Option<TlsFiles>,
    pub(crate) connections_per_address_max: usize,
    pub(crate) buffer_bytes_max: usize,
}

/// Where the certificate of a door and its key are, and the authority of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_authority: Option<PathBuf>,
}

/// The address of each door. `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doors {
    pub(crate) native: Option<String>,
    pub(crate) native_unix: Option<PathBuf>,
    pub(crate) xmessage: Option<String>,
    pub(crate) resp: Option<String>,
    pub(crate) mdp: Option<String>,
    pub(crate) pingpong: Option<(String, String)>,
    pub(crate) grpc: Option<String>,
    pub(crate) http: Option<String>,
}

impl Config {
    /// From values that have been checked. `seed` is random: nothing that untrusted clients can influence may be guessable.
    pub(crate) fn build(loaded: &Loaded, seed: u64) -> Config {
        let text = |key: &str| loaded.text(key);
        let span = |key: &str| value::span(text(key)).expect("checked when loaded");
        let count = |key: &str| value::count(text(key)).expect("checked when loaded") as usize;
        let size = |key: &str| value::size(text(key)).expect("checked when loaded");
        let address = |key: &str| value::address(text(key)).expect("checked when loaded");
        let tls_files = |certificate: &str, key: &str| {
            let (certificate, key) = value::path(text(certificate)).zip(value::path(text(key)))?;
            Some(TlsFiles { certificate, key, client_authority: value::path(text("tls_client_ca")) })
        };
        let doors = Doors {
            native: address("native"),
            native_unix: value::path(text("native_unix")),
            xmessage: address("xmessage"),
            resp: address("resp"),
            mdp: address("mdp"),
            pingpong: value::two_addresses(text("pingpong")).expect("checked when loaded"),
            grpc: address("grpc"),
            http: address("http"),
        };
        let store = StoreSettings {
            sync: value::sync(text("sync")).expect("checked when loaded"),
            segment_bytes: size("segment_size"),
            snapshot_bytes: size("snapshot_size"),
            cache_bytes: size("cache_size") as usize,
            events_kept: count("events_kept") as u64,
            events_kept_for: span("events_kept_for"),
            seed,
            ..StoreSettings::default()
        };
        Config {
            data_dir: PathBuf::from(text("data_dir")),
            backup_dir: backup_dir(text("backup_dir"), text("data_dir")),
            log: text("log").to_owned(),
            audit: value::path(text("audit_log")).map(|path| AuditSettings {
                path,
                level: value::audit_level(text("audit_level")).expect("checked when loaded"),
                file_bytes_max: size("audit_log_size"),
                files_max: count("audit_log_files"),
            }),
            cluster: cluster::cluster(loaded),
            groupless: cluster::groupless(loaded),
            doors,
            xmessage: xmessage::xmessage(loaded),
            #[cfg(feature = "resp")]
            resp: resp::resp(loaded),
            store,
            engine: engine::engine(loaded, seed),
            topics: topics::topics(loaded),
            keyspace: keyspace::keyspace(loaded),
            task_log: TaskLogSettings { kept_bytes: size("output_bytes_max"), ..TaskLogSettings::default() },
            namespaces_per_key_max: count("namespaces_per_key_max"),
            unread: UnreadLimits {
                session: size("unread_bytes_max") as usize,
                total: size("unread_bytes_total_max") as usize,
            },
            access: loaded.access.clone(),
            hooks: loaded.hooks.clone(),
            otlp: loaded.otlp.clone(),
            #[cfg(feature = "zmq")]
            majordomo: zmq::majordomo(loaded),
            #[cfg(feature = "zmq")]
            ping_pong: zmq::ping_pong(loaded),
            #[cfg(feature = "http")]
            http: tenure_door_http::Settings {
                hosts: value::names(text("http_hosts"))
                    .expect("checked when loaded")
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
                read_only: value::switch(text("http_read_only")).expect("checked when loaded"),
                ..tenure_door_http::Settings::default()
            },
            tls: tls_files("tls_cert", "tls_key"),
            grpc_tls: tls_files("grpc_tls_cert", "grpc_tls_key"),
            connections_per_address_max: count("connections_per_address_max"),
            buffer_bytes_max: size("buffers_size") as usize,
        }
    }
}

fn backup_dir(said: &str, data_dir: &str) -> PathBuf {
    let directory = value::path(said).unwrap_or_else(|| PathBuf::from(data_dir).join("backups"));
    std::path::absolute(&directory).unwrap_or(directory)
}

/// An unpredictable number, from the operating system's randomness behind the standard library's hash maps.
pub(crate) fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_said_is_what_the_crates_hold_for_right() {
        let loaded = load::load(&flags::Flags::default(), &|_| None, &[]).unwrap();
        let config = Config::build(&loaded, 0);
        assert_eq!(config.engine, words::Settings::default());
        assert_eq!(config.store, StoreSettings::default());
        assert_eq!(config.unread, UnreadLimits::default());
        assert_eq!(config.xmessage, XmessageSettings::default());
        #[cfg(feature = "resp")]
        assert_eq!(format!("{:?}", config.resp), format!("{:?}", tenure_door_resp::Settings::default()));
        let hub = tenure_hub::HubSettings::default();
        assert_eq!(config.namespaces_per_key_max, hub.namespaces_per_key_max);
        assert_eq!(format!("{:?}", config.topics), format!("{:?}", TopicSettings::default()));
        assert_eq!(config.keyspace, KeyspaceSettings::default());
        assert_eq!(config.task_log, TaskLogSettings::default());
        assert_eq!(config.doors.native.as_deref(), Some("127.0.0.1:7171"));
        // These hold counters, which do not compare.
        #[cfg(feature = "zmq")]
        assert_eq!(format!("{:?}", config.majordomo), format!("{:?}", MajordomoSettings::default()));
        #[cfg(feature = "zmq")]
        assert_eq!(format!("{:?}", config.ping_pong), format!("{:?}", PingPongSettings::default()));
    }

    #[test]
    fn what_is_said_about_topics_reaches_them_in_spans_or_bare_milliseconds() {
        let given = [
            ("message_buffer_size", "7"),
            ("max_buffer_memory", "1048576"),
            ("paused_subscription_ttl", "300000"),
            ("subscriber_queue_limit", "8"),
            ("backpressure_policy", "block"),
            ("block_timeout_ms", "20"),
            ("default_message_ttl", "1m"),
            ("topic_ttls", "sensor.>=60s, news = 5000"),
            ("ttl_reaper_interval", "2s"),
            ("topics_max", "9"),
            ("durable_topics", "audit.>, orders.*"),
            ("durable_messages", "10"),
            ("durable_size", "1MB"),
            ("durable_kept_for", "1h"),
        ];
        let mut flags = flags::Flags::default();
        flags.given.extend(given.map(|(key, text)| (key, text.to_owned())));
        let topics = Config::build(&load::load(&flags, &|_| None, &[]).unwrap(), 0).topics;
        let inner = &topics.topics;
        assert_eq!((inner.ring_messages, inner.ring_bytes, inner.queue_messages), (7, 1 << 20, 8));
        assert_eq!(inner.paused_ttl, std::time::Duration::from_secs(300));
        assert_eq!(inner.block_timeout, std::time::Duration::from_millis(20));
        assert_eq!(inner.default_ttl, Some(std::time::Duration::from_secs(60)));
        let rules: Vec<_> =
            inner.ttl_rules.iter().map(|(filter, ttl)| (filter.to_string(), ttl.as_secs())).collect();
        assert_eq!(rules, [("sensor.>".to_owned(), 60), ("news".to_owned(), 5)]);
        assert_eq!(inner.reap_interval, std::time::Duration::from_secs(2));
        assert_eq!((inner.policy.as_str(), inner.topics), ("block", 9));
        assert_eq!(topics.durable.len(), 2);
        assert_eq!((topics.durable_messages, topics.log.kept_bytes), (10, 1 << 20));
    }

    #[test]
    fn what_is_said_about_the_older_dialect_reaches_its_listener() {
        let given = [
            ("xmessage_slots", "3"),
            ("xmessage_task_types", "sync, gpu"),
            ("xmessage_priority", "-7"),
            ("xmessage_tags", "cluster"),
            ("xmessage_on_lost", "requeue"),
        ];
        let mut flags = flags::Flags::default();
        flags.given.extend(given.map(|(key, text)| (key, text.to_owned())));
        let xmessage = Config::build(&load::load(&flags, &|_| None, &[]).unwrap(), 0).xmessage;
        let expected = XmessageSettings {
            slots: 3,
            task_types: vec!["sync".into(), "gpu".into()],
            priority: -7,
            tags: vec!["cluster".into()],
            on_lost: words::OnLost::Requeue,
        };
        assert_eq!(xmessage, expected);
    }

    #[cfg(feature = "zmq")]
    #[test]
    fn what_is_said_about_the_zeromq_doors_reaches_them() {
        let given = [
            ("mdp_heartbeat", "200ms"),
            ("mdp_liveness", "5"),
            ("mdp_busy_lease", "1h"),
            ("mdp_expire", "2m"),
            ("mdp_expire_gone", "3m"),
            ("mdp_retry_attempts", "7"),
            ("mdp_crash_backoff", "4s"),
            ("mdp_crash_backoff_max", "40s"),
            ("mdp_notify_worker_crash", "off"),
            ("mdp_notify_no_workers", "off"),
            ("mdp_crash_notification_delay", "3s"),
            ("mdp_notice_slot", "command"),
            ("pingpong_queue", "cells"),
            ("pingpong_worker_expire", "9s"),
            ("pingpong_busy_lease", "10s"),
            ("pingpong_expire", "11s"),
            ("pingpong_expire_gone", "off"),
            ("pingpong_retry_attempts", "12"),
            ("pingpong_exit_on_drain", "on"),
            ("pingpong_addressed_jobs", "on"),
            ("zmq_ping", "13s"),
            ("zmq_ping_timeout", "14s"),
            ("zmq_handshake_timeout", "15s"),
            ("zmq_connections_max", "16"),
        ];
        let given = given.map(|(key, text)| (key, text.to_owned())).into();
        let flags = flags::Flags { given, ..flags::Flags::default() };
        let config = Config::build(&load::load(&flags, &|_| None, &[]).unwrap(), 0);
        let seconds = std::time::Duration::from_secs;
        let mdp = &config.majordomo;
        assert_eq!((mdp.heartbeat.as_millis(), mdp.liveness), (200, 5));
        assert_eq!((mdp.busy_lease, mdp.expire), (Some(seconds(3600)), Some(seconds(120))));
        assert_eq!((mdp.retry_attempts, mdp.crash_notification_delay), (7, seconds(3)));
        assert_eq!(mdp.expire_gone, Some(seconds(180)));
        assert_eq!(mdp.crash_backoff, Some(words::Backoff { first: seconds(4), max: seconds(40) }));
        assert!(!mdp.notify_worker_crash && !mdp.notify_no_workers);
        assert_eq!(mdp.notice_slot, tenure_door_zmq::mdp::SlotStyle::Command);
        let ping_pong = &config.ping_pong;
        assert_eq!((&*ping_pong.queue, ping_pong.worker_expire), ("cells", seconds(9)));
        assert_eq!((ping_pong.busy_lease, ping_pong.expire), (Some(seconds(10)), Some(seconds(11))));
        assert_eq!((ping_pong.expire_gone, ping_pong.retry_attempts), (None, 12));
        assert!(ping_pong.exit_on_drain && ping_pong.addressed_jobs);
        for transport in [&mdp.transport, &ping_pong.transport] {
            assert_eq!((transport.ping, transport.ping_timeout), (seconds(13), seconds(14)));
            assert_eq!((transport.door.login_within, transport.door.connections_max), (seconds(15), 16));
        }
    }
}
