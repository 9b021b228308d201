//! The benchmark, with numbers so small that only its working is measured.

use crate::stage::Stage;
use crate::support::{program, run};

const SMALL: [&str; 6] = ["--tasks", "300", "--backlog", "300", "--rounds", "1"];

#[test]
fn the_benchmark_prints_a_table_for_people_and_json_for_programs() {
    let table = run(program(&[&["bench"], &SMALL[..]].concat())).ok();
    for figure in
        ["submit", "cycle", "one by one, median", "memory per waiting task", "kill -9 to first task"]
    {
        assert!(table.contains(figure), "{table}");
    }
    let json = run(program(&[&["bench", "all", "-o", "json"], &SMALL[..]].concat())).json();
    let figures = json["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 12, "{json}");
    for figure in figures {
        assert!(figure["tenure"].as_f64().is_some_and(|value| value >= 0.0), "{figure}");
        let is_topic = figure["figure"].as_str().unwrap().contains("subscribers");
        assert_eq!(figure["durability"].as_str().unwrap().contains("disk"), !is_topic);
    }
}

#[test]
fn the_same_load_can_be_put_on_redis() {
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("no redis-server here: nothing to compare with");
        return;
    }
    let json = run(program(&[&["bench", "--against", "redis", "-o", "json"], &SMALL[..]].concat())).json();
    for figure in json["figures"].as_array().unwrap() {
        assert!(figure["redis"].as_f64().is_some(), "{figure}");
    }
}

#[test]
fn the_same_messages_can_go_through_nats() {
    if std::process::Command::new("nats-server").arg("--version").output().is_err() {
        eprintln!("no nats-server here: nothing to compare with");
        return;
    }
    let json = run(program(&[&["bench", "--against", "nats", "-o", "json"], &SMALL[..]].concat())).json();
    let figures = json["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 4, "{json}");
    for figure in figures.iter().filter(|figure| figure["unit"] == "deliveries/s") {
        assert!(figure["nats"].as_f64().is_some_and(|rate| rate > 0.0), "{figure}");
    }
}

#[test]
fn a_running_broker_is_measured_and_left_as_it_was() {
    let stage = Stage::new();
    let json = stage.broker.tenure(&["bench", "submit", "--running", "--tasks", "300", "-o", "json"]).json();
    assert!(json["figures"][0]["tenure"].as_f64().unwrap() > 0.0);
    assert_eq!(stage.block_on(stage.client.counts()).unwrap().by_state.ready, 0);
    stage.broker.tenure(&["bench", "restart", "--running"]).fails(64, "--running");
}
