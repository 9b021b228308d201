//! The settings of the key space.

use tenure_keyspace::Settings;

/// The settings of stored keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceSettings {
    /// The limits of one namespace.
    pub limits: Settings,
    /// The log is rewritten when it exceeds twice the size of all keys by this much.
    pub log_bytes: u64,
    /// How much of it is rewritten at a time.
    pub sweep_bytes: usize,
}

impl Default for KeyspaceSettings {
    fn default() -> KeyspaceSettings {
        KeyspaceSettings { limits: Settings::default(), log_bytes: 16 << 20, sweep_bytes: 1 << 20 }
    }
}
