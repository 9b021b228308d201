//! The settings of the key space. Both limits apply per namespace.

/// What can be set for stored keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Keys, values and their overhead.
    pub bytes_max: usize,
    /// The most keys of a namespace.
    pub keys_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { bytes_max: 256 << 20, keys_max: 1_000_000 }
    }
}
