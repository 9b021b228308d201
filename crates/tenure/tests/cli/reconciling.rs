//! Reconciliation with another store on the command line.

use crate::support::Broker;

#[test]
fn the_difference_is_shown_first_and_mended_with_apply() {
    let broker = Broker::start();
    let known = broker.submit(&["-q", "q", "--name", "job/known", "x"]);
    let extra = broker.submit(&["-q", "q", "--name", "job/extra", "x"]);
    let over = broker.submit(&["-q", "q", "--name", "job/over", "x"]);
    let other = broker.submit(&["-q", "q", "--name", "mail/1", "x"]);
    let gone = broker.submit(&["-q", "q", "--name", "job/gone", "x"]);
    broker.tenure(&["cancel", &gone]).ok();
    let file = broker.dir.join("jobs.jsonl");
    let lines = "{\"name\": \"job/known\"}\n{\"name\": \"job/over\", \"ended\": true}\n{\"name\": \"job/gone\"}\n\
        {\"name\": \"job/new\", \"queue\": \"q\", \"body\": \"y\"}\n";
    std::fs::write(&file, lines).unwrap();
    let file = file.to_str().unwrap();
    let reconcile = ["reconcile", "--prefix", "job/", "--jsonl", file, "-o", "json"];
    let found = broker.tenure(&reconcile).json();
    let mut differences: Vec<(String, String, bool)> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let text = |field: &str| one[field].as_str().unwrap().to_owned();
            (text("name"), text("difference"), one["applied"].as_bool().unwrap())
        })
        .collect();
    differences.sort();
    let expected =
        [("extra", "unknown-there"), ("gone", "ended-here"), ("new", "missing"), ("over", "ended-there")];
    let expected = expected.map(|(name, what)| (format!("job/{name}"), what.to_owned(), false));
    assert_eq!(differences, expected);
    for task in [&known, &extra, &over, &other] {
        assert_eq!(broker.state(task), "ready", "a dry run changes nothing");
    }
    let applied: Vec<&str> = reconcile.into_iter().chain(["--apply"]).collect();
    broker.tenure(&applied).ok();
    assert_eq!(broker.state(&extra), "cancelled");
    assert_eq!(broker.state(&over), "cancelled");
    assert_eq!((broker.state(&known), broker.state(&other)), ("ready".into(), "ready".into()));
    let end = broker.tenure(&["show", &extra, "-o", "json"]).json()["end"]["message"].clone();
    assert_eq!(end, "reconciliation: the other store does not know it");
    assert_eq!(broker.state("name:job/new"), "ready");
    let again = broker.tenure(&applied).json();
    assert_eq!(again.as_array().unwrap().len(), 1, "only what has ended here is left: {again}");
}

#[test]
fn a_line_that_cannot_be_understood_stops_before_anything_changes() {
    let broker = Broker::start();
    let extra = broker.submit(&["-q", "q", "--name", "job/extra", "x"]);
    let file = broker.dir.join("jobs.jsonl");
    std::fs::write(&file, "{\"name\": \"job/1\"}\n{\"name\": \"mail/1\"}\n").unwrap();
    let file = file.to_str().unwrap();
    broker
        .tenure(&["reconcile", "--prefix", "job/", "--jsonl", file, "--apply"])
        .fails(65, "jobs.jsonl:2: name: mail/1 does not begin with the prefix");
    assert_eq!(broker.state(&extra), "ready");
}
