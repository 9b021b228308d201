//! Steering single tasks, queues and workers.

use crate::support::{Broker, eventually};

#[test]
fn a_task_is_held_released_paused_resumed_moved_cancelled_and_retried() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "--hold", "x"]);
    let steps: [(&[&str], &str); 7] = [
        (&["release", &task], "ready"),
        (&["pause", &task, "--reason", "lunch"], "paused"),
        (&["play", &task], "ready"),
        (&["move", &task, "--queue", "other", "--priority", "5", "--tag", "t"], "ready"),
        (&["kill", &task, "--reason", "enough"], "cancelled"),
        (&["retry", &task], "ready"),
        (&["cancel", &task], "cancelled"),
    ];
    for (step, state) in steps {
        broker.tenure(step).ok();
        assert_eq!(broker.state(&task), state, "{step:?}");
    }
    let shown = broker.tenure(&["show", &task, "-o", "json"]).json();
    assert_eq!((shown["queue"].as_str(), shown["priority"].as_i64()), (Some("other"), Some(5)));
    assert_eq!(shown["tags"][0], "t");
    broker.tenure(&["resume", &task]).fails(76, "wrong-state");
    broker.tenure(&["move", &task]).fails(64, "nothing to change");
    broker.tenure(&["cancel"]).fails(64, "TASK");
}

#[test]
fn the_reason_is_shown_to_clients() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "q", "x"]);
    broker.tenure(&["pause", &task, "--reason", "disk is being replaced"]).ok();
    assert!(broker.tenure(&["show", &task]).ok().contains("disk is being replaced"));
    broker.tenure(&["cancel", &task, "--reason", "wrong sample"]).ok();
    assert_eq!(broker.tenure(&["show", &task, "-o", "json"]).json()["end"]["message"], "wrong sample");
}

#[test]
fn a_running_task_is_cancelled_through_its_worker() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    let task = broker.submit(&["-q", "q", "wait"]);
    eventually("it runs", || broker.state(&task) == "running");
    broker.tenure(&["cancel", &task]).ok();
    assert_eq!(broker.tenure(&["wait", &task, "--timeout", "30s"]).code, 130);
}

#[test]
fn what_still_runs_was_only_asked() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    let file = broker.dir.join("enough");
    let task = broker.submit(&["-q", "q", &format!("until {}", file.display())]);
    let waiting = broker.submit(&["-q", "absent", "x"]);
    eventually("it runs", || broker.state(&task) == "running");
    let said = broker.tenure(&["pause", &task]).ok();
    assert_eq!(said.trim_end(), format!("asked to pause {}", &task[task.len() - 8..]));
    let said = broker.tenure(&["cancel", &task, "-o", "json"]).json();
    assert_eq!((said["done"].as_u64(), said["asked"].as_u64()), (Some(0), Some(1)));
    let said = broker.tenure(&["cancel", &task, &waiting]).ok();
    assert_eq!(said.trim_end(), "cancelled 1 task, asked to cancel 1 task still running");
    std::fs::write(&file, "x").unwrap();
    assert_eq!(broker.tenure(&["wait", &task, "--timeout", "30s"]).code, 130);
}

#[test]
fn a_worker_drains_and_leaves() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    broker.tenure(&["drain", "w1"]).ok();
    eventually("it is gone", || {
        broker.tenure(&["workers", "-o", "json"]).json().as_array().unwrap().is_empty()
    });
    broker.tenure(&["workers", "drain", "absent"]).fails(76, "unknown-worker");
    broker.tenure(&["workers", "clear", "absent"]).fails(76, "unknown-worker");
}

#[test]
fn a_paused_queue_starts_nothing_until_it_is_resumed() {
    let broker = Broker::start();
    broker.tenure(&["queues", "pause", "q"]).ok();
    let _worker = broker.worker("w1", "q");
    let task = broker.submit(&["-q", "q", "x"]);
    assert_eq!(broker.tenure(&["explain", &task, "-o", "json"]).json()["code"], "queue-paused");
    assert!(broker.tenure(&["queues"]).ok().contains("paused"));
    broker.tenure(&["queues", "resume", "q"]).ok();
    assert_eq!(broker.tenure(&["wait", &task, "--timeout", "30s"]).ok(), "did x");
}

#[test]
fn a_queue_tells_of_its_backlog_from_its_thresholds_on() {
    let broker = Broker::start();
    let told = broker.tenure(&["queues", "threshold", "q", "--depth", "2", "--age", "1h"]).ok();
    assert_eq!(told, "queue q reports a backlog when 2 tasks are ready, or a task has been ready for 1h\n");
    let first = broker.submit(&["-q", "q", "x"]);
    let second = broker.submit(&["-q", "q", "y"]);
    let queue = &broker.tenure(&["queues", "-o", "json"]).json()[0];
    assert_eq!(queue["backlog"], serde_json::json!(["depth"]));
    assert_eq!(queue["thresholds"], serde_json::json!({ "depth": 2, "age_ms": 3_600_000 }));
    let table = broker.tenure(&["queues"]).ok();
    assert!(table.contains("no worker ever, backlog by depth"), "{table}");
    broker.tenure(&["cancel", &first, &second]).ok();
    let kinds = "queue-thresholds-set,queue-backlog,queue-backlog-cleared";
    let told = broker.tenure(&["watch", "--from", "1", "--kind", kinds, "--count", "3"]).ok();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].ends_with("thresholds of queue q are now depth 2, age 1h"), "{told}");
    assert!(lines[1].contains("queue q has a backlog (by depth): 2 tasks are ready, one for "), "{told}");
    assert!(
        lines[2].contains("queue q has cleared its backlog (by depth): 1 task is ready, one for "),
        "{told}"
    );
    let told = broker.tenure(&["queues", "threshold", "q", "--none"]).ok();
    assert_eq!(told, "queue q reports no backlogs\n");
    let told = broker.tenure(&["queues", "threshold", "q", "--default"]).ok();
    assert_eq!(told, "queue q has the thresholds of all queues again\n");
    broker.tenure(&["queues", "threshold", "q"]).fails(64, "--depth");
    broker.tenure(&["queues", "threshold", "q", "--depth", "0"]).fails(64, "--depth");
}

#[test]
fn a_rate_holds_tasks_back_and_explain_says_until_when() {
    let broker = Broker::start();
    let told = broker.tenure(&["queues", "rate", "q", "1/h"]).ok();
    assert_eq!(told, "rate of queue q is 1/h\n");
    let _worker = broker.worker("w1", "q");
    let first = broker.submit(&["-q", "q", "x"]);
    assert_eq!(broker.tenure(&["wait", &first, "--timeout", "30s"]).ok(), "did x");
    let second = broker.submit(&["-q", "q", "y"]);
    let why = broker.tenure(&["explain", &second, "-o", "json"]).json();
    assert_eq!(why["code"], "queue-rate");
    let why = broker.tenure(&["explain", &second]).ok();
    assert!(why.contains("rate limit of queue q (1/h, burst 1): next at "), "{why}");
    let queue = &broker.tenure(&["queues", "-o", "json"]).json()[0];
    assert_eq!(queue["rate"], serde_json::json!({ "count": 1, "period_ms": 3_600_000, "burst": 1 }));
    assert!(broker.tenure(&["queues"]).ok().contains("rate 1/h, burst 1"));
    let told = broker.tenure(&["queues", "rate", "q", "--none"]).ok();
    assert_eq!(told, "rate of queue q removed\n");
    assert_eq!(broker.tenure(&["wait", &second, "--timeout", "30s"]).ok(), "did y");

    let told = broker.tenure(&["limits", "rate", "licence", "10/m", "--burst", "5"]).ok();
    assert_eq!(told, "rate of tag licence is 10/m, burst 5\n");
    let table = broker.tenure(&["limits"]).ok();
    assert!(table.contains("10/m, burst 5"), "{table}");
    let kinds = "queue-rate-set,rate-set";
    let told = broker.tenure(&["watch", "--from", "1", "--kind", kinds, "--count", "3"]).ok();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].ends_with("rate of queue q is now 1/h, burst 1"), "{told}");
    assert!(lines[1].ends_with("rate of queue q is now none"), "{told}");
    assert!(lines[2].ends_with("rate of tag licence is now 10/m, burst 5"), "{told}");
    broker.tenure(&["limits", "rate", "licence", "--none"]).ok();
    assert_eq!(broker.tenure(&["limits", "-o", "json"]).json(), serde_json::json!([]));
    broker.tenure(&["limits", "rate", "licence", "often"]).fails(64, "10/m");
    broker.tenure(&["limits", "rate", "licence"]).fails(64, "RATE");
}

#[test]
fn share_keys_take_turns_by_weight() {
    let broker = Broker::start();
    assert_eq!(broker.tenure(&["shares", "set", "alice", "3"]).ok(), "share alice has weight 3\n");
    for share in ["alice", "alice", "bob"] {
        broker.submit(&["-q", "q", "--share", share, "x"]);
    }
    let shares = broker.tenure(&["shares", "-o", "json"]).json();
    assert_eq!(
        shares,
        serde_json::json!([
            { "share": "alice", "weight": 3, "ready": 2 },
            { "share": "bob", "weight": 1, "ready": 1 },
        ])
    );
    let table = broker.tenure(&["shares"]).ok();
    assert!(table.contains("alice") && table.contains("WEIGHT"), "{table}");
    let told = broker.tenure(&["shares", "unset", "alice"]).ok();
    assert_eq!(told, "share alice has the default weight\n");
    let told = broker.tenure(&["watch", "--from", "1", "--kind", "share-set", "--count", "2"]).ok();
    assert!(
        told.lines().next().is_some_and(|line| line.ends_with("weight of share alice is now 3")),
        "{told}"
    );
    broker.tenure(&["shares", "set", "alice", "0"]).fails(76, "between 1 and 1000");
    let task = broker.submit(&["-q", "q", "--share", "carol", "x"]);
    assert!(broker.tenure(&["show", &task]).ok().contains("carol"));
    assert_eq!(broker.tenure(&["show", &task, "-o", "json"]).json()["share"], "carol");
}
