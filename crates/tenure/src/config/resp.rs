//! The settings of the RESP door.

use tenure_door_kit::DoorSettings;
use tenure_door_resp::Settings;

use super::load::Loaded;
use super::value;

const CHECKED: &str = "checked when loaded";

pub(crate) fn resp(loaded: &Loaded) -> Settings {
    let text = |key: &str| loaded.text(key);
    let span = |key: &str| value::span(text(key)).expect(CHECKED);
    let switch = |key: &str| value::switch(text(key)).expect(CHECKED);
    let count = |key: &str| value::count(text(key)).expect(CHECKED) as usize;
    Settings {
        run_limit: span("resp_run_limit"),
        heartbeat: span("resp_heartbeat"),
        pulls_whole_job: switch("resp_pull_whole_job"),
        pops_job_alone: switch("resp_pop_job_alone"),
        message_bytes_max: value::size(text("resp_message_size")).expect(CHECKED) as usize,
        door: DoorSettings {
            connections_max: count("resp_connections_max"),
            connections_per_address_max: count("resp_connections_per_address_max"),
            ..DoorSettings::default()
        },
    }
}
