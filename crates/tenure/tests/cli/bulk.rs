//! Acting on many tasks: what matches is shown first, and nothing happens without a yes.

use crate::support::Broker;

#[test]
fn a_dry_run_shows_what_would_be_done_and_does_nothing() {
    let broker = Broker::start();
    let kept = broker.submit(&["-q", "keep", "x"]);
    let doomed = broker.submit(&["-q", "x", "x"]);
    let text = broker.tenure(&["cancel", "--where", "queue=x", "--dry-run"]).ok();
    let end = |task: &str| task[task.len() - 8..].to_owned();
    assert!(
        text.contains("would cancel 1 task") && text.contains(&end(&doomed)) && !text.contains(&end(&kept)),
        "{text}"
    );
    let json = broker.tenure(&["cancel", "--where", "queue=x", "--dry-run", "-o", "json"]).json();
    assert_eq!(json["tasks"][0], doomed.as_str());
    assert_eq!(broker.state(&doomed), "ready");
}

#[test]
fn without_a_terminal_many_are_changed_only_with_yes() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "x", "x"]);
    broker.tenure(&["cancel", "--where", "queue=x"]).fails(64, "--yes");
    assert_eq!(broker.state(&task), "ready");
    assert!(broker.tenure(&["cancel", "--where", "queue=x", "--yes"]).ok().contains("cancelled"));
    assert_eq!(broker.state(&task), "cancelled");
}

#[test]
fn a_verb_without_states_takes_those_it_makes_sense_for() {
    let broker = Broker::start();
    let lines: String = (0..300).map(|n| format!("{{\"body\": \"{n}\"}}\n")).collect();
    broker.tenure_fed(&["submit", "-q", "q", "--jsonl", "-"], lines.as_bytes()).ok();
    let json =
        broker.tenure(&["pause", "--where", "queue=q", "--yes", "-o", "json", "--reason", "later"]).json();
    assert_eq!((json["done"].as_u64(), json["refused"].as_array().map(Vec::len)), (Some(300), Some(0)));
    assert_eq!(broker.tenure(&["pause", "--where", "queue=q", "--yes"]).ok(), "no task matches\n");
    assert_eq!(
        broker.tenure(&["resume", "--where", "state=paused", "--yes", "-o", "json"]).json()["done"],
        300
    );
    let said = broker.tenure(&["resume", "--where", "state=ready", "--yes", "-o", "json"]);
    assert_eq!(said.code, 76, "{}", said.err);
}

#[test]
fn what_to_select_by_is_checked() {
    let broker = Broker::start();
    broker.tenure(&["cancel", "--where", "que=x", "--yes"]).fails(64, "did you mean `queue`");
    broker.tenure(&["cancel", "--where", "state=done", "--yes"]).fails(64, "state");
    broker.tenure(&["cancel", "--where", "queue"]).fails(64, "KEY=VALUE");
    broker.tenure(&["cancel", "0190b5a2", "--where", "queue=x"]).fails(64, "cannot be used with");
}
