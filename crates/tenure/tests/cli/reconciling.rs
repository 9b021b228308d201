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
    let explained = broker.tenure(&["explain", &extra]).ok();
    assert!(explained.contains("reconciliation: the other store does not know it"), "{explained}");
    assert_eq!(broker.state("name:job/new"), "ready");
    let shown = broker.tenure(&["show", "name:job/new"]).ok();
    assert!(shown.contains("by the reconciliation of job/*"), "{shown}");
    let explained = broker.tenure(&["explain", "name:job/new"]).ok();
    assert!(explained.contains("submitted by the reconciliation of job/*"), "{explained}");
    let explained = broker.tenure(&["explain", "name:job/new", "-o", "json"]).json();
    assert_eq!(explained["facts"]["reconciliation"], "job/");
    let events = broker.tenure(&["watch", "name:job/new", "--from", "1", "--count", "1"]).ok();
    assert!(events.contains("submitted by the reconciliation of job/* to queue q"), "{events}");
    let known = broker.tenure(&["show", &known, "-o", "json"]).json();
    assert_eq!(known["reconciliation"], serde_json::Value::Null, "a client has submitted it");
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

#[test]
fn arrays_are_compared_and_cancelled_by_their_names() {
    let broker = Broker::start();
    let array = |name: &str| {
        let said = broker.tenure(&["submit", "-q", "q", "--array", "1-3", "--name", name, "-o", "json", "x"]);
        said.json()["array"].as_str().unwrap().to_owned()
    };
    let (known, extra, over, gone) =
        (array("job/known"), array("job/extra"), array("job/over"), array("job/gone"));
    let other = array("mail/1");
    broker.tenure(&["cancel", &gone]).ok();
    let file = broker.dir.join("jobs.jsonl");
    let lines = "{\"name\": \"job/known\", \"queue\": \"q\", \"body\": \"y\"}\n\
        {\"name\": \"job/over\", \"ended\": true}\n{\"name\": \"job/gone\"}\n";
    std::fs::write(&file, lines).unwrap();
    let reconcile =
        ["reconcile", "--prefix", "job/", "--jsonl", file.to_str().unwrap(), "--apply", "-o", "json"];
    let found = broker.tenure(&reconcile).json();
    let mut differences: Vec<(&str, &str, &str)> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ["name", "difference", "state"].map(|field| one[field].as_str().unwrap()).into())
        .collect();
    differences.sort_unstable();
    assert_eq!(
        differences,
        [
            ("job/extra", "unknown-there", "cancelled"),
            ("job/gone", "ended-here", "cancelled"),
            ("job/over", "ended-there", "cancelled"),
        ]
    );
    assert_eq!(
        [&known, &extra, &over, &other].map(|array| broker.state(array)),
        ["ready", "cancelled", "cancelled", "ready"]
    );
    let element = broker.tenure(&["show", &format!("{extra}[2]"), "-o", "json"]).json();
    assert_eq!(element["end"]["message"], "reconciliation: the other store does not know it");
    let again = broker.tenure(&reconcile).json();
    assert_eq!(again.as_array().unwrap().len(), 1, "only what has ended here is left: {again}");
}
