//! The broker's configuration: one TOML file, the environment and the command line, in rising precedence.
//!
//! `settings.rs` lists every setting once; `load.rs` finds out what each is and where that was said; this file turns the
//! texts into what the hub, the store and the doors are told.

pub(crate) mod access;
pub(crate) mod flags;
pub(crate) mod load;
pub(crate) mod nearest;
pub(crate) mod problem;
pub(crate) mod settings;
pub(crate) mod value;

use std::path::PathBuf;

use tenure_hub::store::StoreSettings;
use tenure_hub::words;

use access::Access;
use load::Loaded;

/// What the broker runs with.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
    pub(crate) log: String,
    pub(crate) doors: Doors,
    pub(crate) store: StoreSettings,
    pub(crate) engine: words::Settings,
    pub(crate) access: Access,
}

/// Where each door stands. `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doors {
    pub(crate) native: Option<String>,
    pub(crate) native_unix: Option<PathBuf>,
    pub(crate) xmessage: Option<String>,
    pub(crate) resp: Option<String>,
    pub(crate) mdp: Option<String>,
    pub(crate) pingpong: Option<(String, String)>,
}

impl Config {
    /// From values that have been checked. `seed` is random: nothing that strangers can influence may be guessable.
    pub(crate) fn build(loaded: &Loaded, seed: u64) -> Config {
        let text = |key: &str| loaded.text(key);
        let span = |key: &str| value::span(text(key)).expect("checked when loaded");
        let count = |key: &str| value::count(text(key)).expect("checked when loaded") as usize;
        let size = |key: &str| value::size(text(key)).expect("checked when loaded");
        let address = |key: &str| value::address(text(key)).expect("checked when loaded");
        let doors = Doors {
            native: address("native"),
            native_unix: value::path(text("native_unix")),
            xmessage: address("xmessage"),
            resp: address("resp"),
            mdp: address("mdp"),
            pingpong: value::two_addresses(text("pingpong")).expect("checked when loaded"),
        };
        let store = StoreSettings {
            sync: value::sync(text("sync")).expect("checked when loaded"),
            segment_bytes: size("segment_size"),
            checkpoint_bytes: size("checkpoint_size"),
            cache_bytes: size("cache_size") as usize,
            events_kept: count("events_kept") as u64,
            events_kept_for: span("events_kept_for"),
            seed,
            ..StoreSettings::default()
        };
        let engine = words::Settings {
            ended_kept: count("ended_kept"),
            ended_kept_for: span("ended_kept_for"),
            accept_timeout: span("accept_timeout"),
            take_back_after: span("take_back_after"),
            restart_grace: span("restart_grace"),
            quarantine_crashes: u32::try_from(count("quarantine_crashes")).unwrap_or(u32::MAX),
            quarantine_window: span("quarantine_window"),
            quarantine_for: span("quarantine_for"),
            aging: value::span_or_off(text("aging")).expect("checked when loaded"),
            tasks_max: count("tasks_max"),
            workers_max: count("workers_max"),
            queues_max: count("queues_max"),
            hash_seed: seed.rotate_left(32),
        };
        Config {
            data_dir: PathBuf::from(text("data_dir")),
            log: text("log").to_owned(),
            doors,
            store,
            engine,
            access: loaded.access.clone(),
        }
    }
}

/// A number nobody can guess, from the operating system's randomness behind the standard library's hash maps.
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
        assert_eq!(config.doors.native.as_deref(), Some("127.0.0.1:7171"));
    }
}
