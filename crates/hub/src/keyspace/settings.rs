//! What can be set about the key space.

use tenure_keyspace::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceSettings {
    /// How much one namespace may hold.
    pub limits: Settings,
    /// The log is rewritten when it is this much longer than twice what all keys weigh.
    pub log_bytes: u64,
    /// How much of it is rewritten at a time.
    pub sweep_bytes: usize,
}

impl Default for KeyspaceSettings {
    fn default() -> KeyspaceSettings {
        KeyspaceSettings { limits: Settings::default(), log_bytes: 16 << 20, sweep_bytes: 1 << 20 }
    }
}
