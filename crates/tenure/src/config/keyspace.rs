//! The settings of the RESP door's stored keys.

use tenure_hub::keyspace::{KeyLimits, KeyspaceSettings};

use super::load::Loaded;
use super::value;

const CHECKED: &str = "checked when loaded";

pub(crate) fn keyspace(loaded: &Loaded) -> KeyspaceSettings {
    KeyspaceSettings {
        limits: KeyLimits {
            bytes_max: value::size(loaded.text("keyspace_bytes_max")).expect(CHECKED) as usize,
            keys_max: value::count(loaded.text("keyspace_keys_max")).expect(CHECKED) as usize,
        },
        ..KeyspaceSettings::default()
    }
}
