//! Schedules on the command line.

use crate::support::{Broker, eventually};

#[test]
fn a_schedule_is_added_shown_run_paused_and_removed() {
    let broker = Broker::start();
    let said = broker
        .tenure(&[
            "schedules",
            "add",
            "nightly",
            "--cron",
            "0 2 * * *",
            "--zone",
            "Europe/Zurich",
            "-q",
            "q",
            "--body",
            "x",
        ])
        .ok();
    assert!(said.starts_with("schedule nightly is due next at 20"), "{said}");
    let listed = broker.tenure(&["schedules", "list", "-o", "json"]).json();
    assert_eq!(
        (listed[0]["schedule"].as_str(), listed[0]["zone"].as_str()),
        (Some("nightly"), Some("Europe/Zurich"))
    );
    assert_eq!(listed[0]["next"].as_array().map(Vec::len), Some(5));
    let task = broker.tenure(&["schedules", "run-now", "nightly"]).ok();
    assert_eq!(broker.state(task.trim()), "ready");
    let name = broker.tenure(&["show", task.trim(), "-o", "json"]).json()["name"].clone();
    assert!(name.as_str().is_some_and(|name| name.starts_with("nightly@20")), "{name}");
    broker.tenure(&["schedules", "pause", "nightly"]).ok();
    assert!(broker.tenure(&["schedules"]).ok().contains("paused"));
    broker.tenure(&["schedules", "resume", "nightly"]).ok();
    let shown = broker.tenure(&["schedules", "show", "nightly"]).ok();
    assert!(shown.contains("fired      1") && shown.contains("0 2 * * * Europe/Zurich"), "{shown}");
    broker.tenure(&["schedules", "remove", "nightly"]).ok();
    broker.tenure(&["schedules", "show", "nightly"]).fails(76, "unknown-schedule");
}

#[test]
fn a_bad_expression_names_its_field_and_shows_an_example() {
    let broker = Broker::start();
    let add = |cron| broker.tenure(&["schedules", "add", "s", "--cron", cron, "--body", "x"]);
    add("0 25 * * *").fails(76, "hour: \"25\" is not a number from 0 to 23; for example '0 9-17 * * *'");
    add("0 2 * *").fails(76, "4 fields instead of five");
    broker.tenure(&["schedules", "add", "s", "--every", "15", "--body", "x"]).fails(76, "has no unit");
    broker.tenure(&["schedules", "add", "s", "--every", "15m"]).fails(64, "nothing to submit");
    broker
        .tenure(&["schedules", "add", "s", "--every", "15m", "--hold", "--body", "x"])
        .fails(76, "the task of a schedule cannot have hold");
    broker.tenure(&["submit", "--zone", "Europe/Zurich", "x"]).fails(64, "add --schedule");
}

#[test]
fn the_short_way_submits_again_and_again() {
    let broker = Broker::start();
    let said = broker.tenure(&["submit", "--schedule", "every 1s", "--name", "tick", "-q", "q", "x"]);
    assert!(said.err.contains("schedule tick is due next"), "{said:?}");
    assert_eq!(said.ok(), "tick\n");
    eventually("it fires", || {
        let shown = broker.tenure(&["schedules", "show", "tick", "-o", "json"]).json();
        shown["fired"].as_u64().is_some_and(|fired| fired >= 2)
    });
    broker.tenure(&["submit", "--schedule", "every 1s", "x"]).fails(64, "--name");
}
