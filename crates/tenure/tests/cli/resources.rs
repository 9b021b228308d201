//! Resources: a worker declares what it has, tasks say what they need, and each attempt learns which devices are its own.

use std::process::{Child, Stdio};

use serde_json::json;

use crate::support::{Broker, eventually};

/// A worker that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn work(broker: &Broker, arguments: &[&str]) -> Running {
    let mut command = broker.command(&[&["work", "--id", "w"], arguments].concat());
    command.env("CUDA_VISIBLE_DEVICES", "2,3");
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_command_finds_its_cpus_and_gpus_in_its_environment() {
    let broker = Broker::start();
    let _worker = work(&broker, &["--cpus", "2", "--mem", "4GB", "--gpus", "2", "--resource", "licence=1"]);
    let print = ["--", "sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES cpus=$TENURE_CPUS"];
    let said = broker.tenure(&[&["submit", "--wait", "--gpus", "2", "--cpus", "1"], &print[..]].concat());
    assert!(said.out.contains("gpus=2,3 cpus=") && !said.out.contains("cpus=\n"), "{said:?}");
    let said = broker.tenure(&[&["submit", "--wait"], &print[..]].concat());
    assert!(said.out.contains("gpus= cpus=\n"), "a task that needs no gpu sees none: {said:?}");
    let workers = broker.tenure(&["workers", "-o", "json"]).json();
    assert_eq!(workers[0]["slots"], 2, "one for each cpu");
    assert_eq!(
        workers[0]["resources"],
        json!({"cpus": 2, "gpus": 2, "licence": 1, "mem": 4_000_000_000_u64})
    );
}

#[test]
fn people_read_what_is_short_and_that_no_worker_is_large_enough() {
    let broker = Broker::start();
    let _worker = work(&broker, &["--slots", "2", "--gpus", "1"]);
    let first = broker.submit(&["--gpus", "0.6", "--", "sleep", "600"]);
    eventually("the task runs", || {
        broker.tenure(&["show", &first, "-o", "json"]).json()["state"] == "running"
    });
    let second = broker.submit(&["--gpus", "0.6", "--", "true"]);
    let said = broker.tenure(&["explain", &second]).ok();
    assert!(said.contains("needs 0.6 gpus, worker w has 0.4 free"), "{said}");
    let table = broker.tenure(&["workers"]).ok();
    assert!(table.contains("1/2"), "{table}");
    let said = broker.tenure(&["submit", "--slots", "3", "--", "true"]);
    assert!(said.err.contains("no worker is large enough: needs 3 slots, worker w has 2"), "{said:?}");
    // One that weighs nothing does not wait.
    broker.tenure(&["submit", "--wait", "--slots", "0", "--", "true"]).ok();
    broker.tenure(&["submit", "--gpus", "1.5", "--", "true"]).fails(76, "whole");
    broker.tenure(&["submit", "--mem", "lots", "--", "true"]).fails(64, "no quantity");
    broker.tenure(&["submit", "--resource", "licence", "--", "true"]).fails(64, "NAME=QUANTITY");
}

#[test]
fn a_worker_finds_out_what_its_machine_has() {
    let broker = Broker::start();
    let _worker = work(&broker, &["--detect", "--mem", "1GB"]);
    eventually("the worker is there", || !broker.tenure(&["workers", "-o", "json"]).json()[0].is_null());
    let resources = &broker.tenure(&["workers", "-o", "json"]).json()[0]["resources"];
    assert!(resources["cpus"].as_u64().unwrap() >= 1, "{resources}");
    assert_eq!((&resources["mem"], &resources["gpus"]), (&json!(1_000_000_000), &json!(2)), "{resources}");
}
