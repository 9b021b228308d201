//! The headings under which help, files and the guide list the settings.

pub(super) const BROKER: &str = "Broker";
pub(super) const CLUSTER: &str = "Cluster (several brokers that share a journal)";
pub(super) const AUDIT: &str = "Audit log";
pub(super) const DOORS: &str = "Doors (HOST:PORT, a port of 0 for any free one, or off)";
pub(super) const DISK: &str = "Disk";
pub(super) const XMESSAGE: &str = "xmessage (defaults for peers that do not set them)";
pub(super) const RESP: &str = "The RESP door";
pub(super) const TASKS: &str = "Tasks and workers";
pub(super) const LIMITS: &str = "Limits";
pub(super) const KEYSPACE: &str = "Stored keys";
pub(super) const TOPICS: &str = "Topics";
pub(super) const MAJORDOMO: &str = "ZeroMQ Majordomo";
pub(super) const PINGPONG: &str = "ZeroMQ READY/PING/PONG";
pub(super) const ZMQ: &str = "ZeroMQ connections (both doors)";
