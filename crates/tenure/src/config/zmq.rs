//! The settings of the ZeroMQ doors.

use tenure_door_zmq::mdp::SlotStyle;
use tenure_door_zmq::{PingPongSettings, Settings, Transport};
use tenure_hub::words::Backoff;

use super::load::Loaded;
use super::value;

const CHECKED: &str = "checked when loaded";

pub(crate) fn majordomo(loaded: &Loaded) -> Settings {
    let text = |key: &str| loaded.text(key);
    let duration_or_off = |key: &str| value::duration_or_off(text(key)).expect(CHECKED);
    let switch = |key: &str| value::switch(text(key)).expect(CHECKED);
    Settings {
        heartbeat: value::span(text("mdp_heartbeat")).expect(CHECKED),
        liveness: count(loaded, "mdp_liveness").try_into().unwrap_or(u32::MAX),
        busy_lease: duration_or_off("mdp_busy_lease"),
        expire: duration_or_off("mdp_expire"),
        expire_gone: duration_or_off("mdp_expire_gone"),
        retry_attempts: count(loaded, "mdp_retry_attempts").try_into().unwrap_or(u16::MAX),
        crash_backoff: duration_or_off("mdp_crash_backoff").map(|first| {
            let max = value::span(text("mdp_crash_backoff_max")).expect(CHECKED).max(first);
            Backoff { first, max }
        }),
        notify_worker_crash: switch("mdp_notify_worker_crash"),
        notify_no_workers: switch("mdp_notify_no_workers"),
        crash_notification_delay: duration_or_off("mdp_crash_notification_delay").unwrap_or_default(),
        notice_slot: if value::notice_slot(text("mdp_notice_slot")).expect(CHECKED) {
            SlotStyle::Command
        } else {
            SlotStyle::Empty
        },
        transport: transport(loaded),
        ..Settings::default()
    }
}

pub(crate) fn ping_pong(loaded: &Loaded) -> PingPongSettings {
    let text = |key: &str| loaded.text(key);
    let duration_or_off = |key: &str| value::duration_or_off(text(key)).expect(CHECKED);
    let switch = |key: &str| value::switch(text(key)).expect(CHECKED);
    PingPongSettings {
        queue: value::name(text("pingpong_queue")).expect(CHECKED).into(),
        worker_expire: value::span(text("pingpong_worker_expire")).expect(CHECKED),
        busy_lease: duration_or_off("pingpong_busy_lease"),
        expire: duration_or_off("pingpong_expire"),
        expire_gone: duration_or_off("pingpong_expire_gone"),
        retry_attempts: count(loaded, "pingpong_retry_attempts").try_into().unwrap_or(u16::MAX),
        exit_on_drain: switch("pingpong_exit_on_drain"),
        addressed_jobs: switch("pingpong_addressed_jobs"),
        transport: transport(loaded),
        ..PingPongSettings::default()
    }
}

fn transport(loaded: &Loaded) -> Transport {
    let span = |key: &str| value::span(loaded.text(key)).expect(CHECKED);
    let mut transport =
        Transport { ping: span("zmq_ping"), ping_timeout: span("zmq_ping_timeout"), ..Transport::default() };
    transport.door.login_within = span("zmq_handshake_timeout");
    transport.door.connections_max = count(loaded, "zmq_connections_max") as usize;
    transport
}

fn count(loaded: &Loaded, key: &str) -> u64 {
    value::count(loaded.text(key)).expect(CHECKED)
}
