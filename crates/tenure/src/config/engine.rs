//! The settings of the engine.

use tenure_hub::words::{Settings, Thresholds};

use super::load::Loaded;
use super::value;

/// From values that have been checked.
pub(super) fn engine(loaded: &Loaded, seed: u64) -> Settings {
    let span = |key: &str| value::span(loaded.text(key)).expect("checked when loaded");
    let count = |key: &str| value::count(loaded.text(key)).expect("checked when loaded") as usize;
    let span_or_off = |key: &str| value::duration_or_off(loaded.text(key)).expect("checked when loaded");
    Settings {
        ended_kept: count("ended_kept"),
        ended_kept_for: span("ended_kept_for"),
        accept_timeout: span("accept_timeout"),
        take_back_after: span("take_back_after"),
        cancel_timeout: span_or_off("cancel_timeout"),
        restart_grace: span("restart_grace"),
        quarantine_crashes: u32::try_from(count("quarantine_crashes")).unwrap_or(u32::MAX),
        quarantine_window: span("quarantine_window"),
        quarantine_for: span("quarantine_for"),
        aging: span_or_off("aging"),
        reserve_after: span("reserve_after"),
        backlog: Thresholds {
            depth: value::count_or_off(loaded.text("backlog_depth"))
                .expect("checked when loaded")
                .map(|depth| u32::try_from(depth).unwrap_or(u32::MAX)),
            age: span_or_off("backlog_age"),
        },
        tasks_max: count("tasks_max"),
        workers_max: count("workers_max"),
        queues_max: count("queues_max"),
        queues_per_namespace_max: count("queues_per_namespace_max"),
        hash_seed: seed.rotate_left(32),
    }
}
