//! What a group costs and how fast it takes over, beside the journal on the local disk, on the same machine in the same
//! minutes. It measures and asserts nothing about speed. It runs with `cargo xtask test cluster`.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::stage::{Stage, TestMember};
use crate::support::{Broker, Said, eventually, program, run};

/// How many tasks wait when a standby takes over: this many, or `TENURE_TEST_WAITING`.
const WAITING: &str = "20000";

fn waiting() -> String {
    std::env::var("TENURE_TEST_WAITING").unwrap_or_else(|_| WAITING.to_owned())
}

#[test]
#[ignore = "measures: cargo xtask test cluster"]
fn figures() {
    let scratch = tempfile::tempdir().expect("a directory");
    let alone = Broker::start_in(&scratch.path().join("alone"), &[]);
    print("journal on the local disk", |args| alone.tenure(args));
    drop(alone);
    for (name, standbys) in [("one PostgreSQL", 0), ("PostgreSQL, ANY 1 of two standbys", 2)] {
        let Some(mut stage) = Stage::start(standbys, 2) else { return };
        print(name, |args| at_leader(&stage, args));
        let waiting = waiting();
        let leader = stage.leader();
        let standby = 1 - leader;
        let before = (Instant::now(), stage.cpu_ticks_of(standby).unwrap_or(0), end_of(&stage));
        at_leader(&stage, &["bench", "submit", "--running", "--tasks", &waiting, "--rounds", "1"]).ok();
        let copied = || {
            let of = stage.member_status(&stage.members[standby].name);
            of.is_some_and(|member| member["behind_bytes"] == 0)
        };
        eventually("the standby has copied everything", copied);
        let memory = stage.memory_of(standby);
        let (took, ticks) =
            (before.0.elapsed().as_secs_f64(), stage.cpu_ticks_of(standby).unwrap_or(0) - before.1);
        let (cpu, megabytes) = (ticks as f64 / 100.0, (end_of(&stage) - before.2) as f64 / 1e6);
        println!(
            "{name}: standby has copied {megabytes:.0} MB in {took:.1} s with {cpu:.2} CPU s, {:.1} ms for each MB",
            cpu * 1e3 / megabytes
        );
        stage.kill(leader);
        let since = Instant::now();
        stage.leader_other_than(Some(leader));
        println!(
            "{name}: takeover with {waiting} waiting tasks and more {:?}, standby {memory}",
            since.elapsed()
        );
    }
}

/// Where the journal of tasks ends.
fn end_of(stage: &Stage) -> u64 {
    stage.awaited_status()["end"].as_u64().unwrap_or(0)
}

/// A leader that is frozen keeps its session, so only the end of its lease lets another member lead.
#[test]
#[ignore = "measures: cargo xtask test cluster"]
fn takeovers_by_the_lease_alone() {
    for lease in ["3s", "1s"] {
        let Some(mut stage) = Stage::start(2, 0) else { return };
        for (index, name) in ["b1", "b2"].into_iter().enumerate() {
            stage.members.push(TestMember::new(name, stage.scratch.path().join(name)));
            stage.start_member(index, &["--journal-lease", lease]);
        }
        let waiting = waiting();
        at_leader(&stage, &["bench", "submit", "--running", "--tasks", &waiting, "--rounds", "1"]).ok();
        let mut spans = Vec::new();
        for _ in 0..10 {
            let leader = stage.leader();
            eventually("the standby has copied everything", || {
                let standby = stage.member_status(&stage.members[1 - leader].name);
                standby.is_some_and(|member| member["behind_bytes"] == 0)
            });
            stage.signal(leader, Signal::STOP);
            let since = Instant::now();
            stage.leader_other_than(Some(leader));
            spans.push(since.elapsed());
            stage.signal(leader, Signal::CONT);
            eventually("the old leader stands by", || {
                stage.log(leader).rfind("another member leads") > stage.log(leader).rfind("this member leads")
            });
        }
        spans.sort_unstable();
        println!(
            "leader frozen, lease {lease}, {waiting} waiting tasks: takeover after {:?} to {:?}",
            spans[0],
            spans[spans.len() - 1]
        );
    }
}

/// How much an empty member copies: this many megabytes, or `TENURE_TEST_JOIN_MB`.
const JOIN_MEGABYTES: u64 = 64;

#[test]
#[ignore = "measures: cargo xtask test cluster"]
fn an_empty_member_joins() {
    let Some(mut stage) = Stage::start(0, 1) else { return };
    let asked = std::env::var("TENURE_TEST_JOIN_MB").ok().and_then(|text| text.parse().ok());
    let megabytes: u64 = asked.unwrap_or(JOIN_MEGABYTES);
    // One line a task, of a thousand bytes each.
    let file = stage.scratch.path().join("lines");
    let line = "x".repeat(999) + "\n";
    let mut written = std::io::BufWriter::new(std::fs::File::create(&file).expect("a file"));
    for _ in 0..megabytes * 1_000 {
        std::io::Write::write_all(&mut written, line.as_bytes()).expect("a file");
    }
    drop(written);
    let mut command = program(&["submit", "--queue", "q", "--each-line"]);
    command.arg(&file).args(["--broker", &stage.addresses()]);
    run(command).ok();
    let wanted = stage.awaited_status()["end"].as_u64().unwrap_or(0);
    stage.members.push(TestMember::new("b2", stage.scratch.path().join("b2")));
    let since = Instant::now();
    stage.start_member(1, &[]);
    eventually("the member has copied everything", || {
        let position = stage.member_status("b2").and_then(|member| member["position"].as_u64());
        position.is_some_and(|position| position >= wanted)
    });
    println!("an empty member has joined with {} MB after {:?}", wanted >> 20, since.elapsed());
}

/// One, two and three groups on one database, at the same work for each leader: how much they do together, and what it
/// costs.
#[test]
#[ignore = "measures: cargo xtask test cluster"]
fn groups_side_by_side() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let mut alone: Option<f64> = None;
    for count in 1..=3 {
        let group = format!("g{count}");
        run(stage.cluster_command(&group, &["init"])).ok();
        let dir = stage.scratch.path().join(&group);
        let mut member = TestMember::new(&format!("b{count}"), dir);
        member.group.clone_from(&group);
        stage.members.push(member);
        stage.start_member(count - 1, &[]);
        stage.leader_of(&group, None);
        let cpu_before = cpu_seconds(&stage);
        let benches: Vec<_> = stage
            .members
            .iter()
            .map(|member| {
                let mut command = program(&["bench", "submit", "--running", "--rounds", "1", "-o", "json"]);
                command.args(["--tasks", TASKS, "--broker", &format!("127.0.0.1:{}", member.port)]);
                std::thread::spawn(move || run(command).json())
            })
            .collect();
        let answers: Vec<Value> = benches.into_iter().map(|bench| bench.join().expect("it ends")).collect();
        let rate: f64 = answers.iter().map(fastest).sum();
        let ratio = rate / *alone.get_or_insert(rate);
        let cpu = cpu_seconds(&stage) - cpu_before;
        println!(
            "{count} groups: {rate:.0} submissions/s together, {ratio:.2} of one group, {cpu:.1} CPU s of all brokers"
        );
    }
}

/// How many tasks each group gets.
const TASKS: &str = "4000";

/// The highest rate that a run of the benchmark shows.
fn fastest(answer: &Value) -> f64 {
    let none = Vec::new();
    let figures = answer["figures"].as_array().unwrap_or(&none).iter();
    let rates = figures.filter(|figure| figure["unit"].as_str().is_some_and(|unit| unit.ends_with("/s")));
    rates.filter_map(|figure| figure["tenure"].as_f64()).fold(0.0, f64::max)
}

/// What all brokers have used, as the system counts it, in hundredths of a second.
fn cpu_seconds(stage: &Stage) -> f64 {
    let of = |index: usize| stage.cpu_ticks_of(index).unwrap_or(0) as f64 / 100.0;
    (0..stage.members.len()).map(of).sum()
}

/// The benchmark measures one broker.
fn at_leader(stage: &Stage, args: &[&str]) -> Said {
    let mut command = program(args);
    command.args(["--broker", &format!("127.0.0.1:{}", stage.members[stage.leader()].port)]);
    run(command)
}

/// Measures with the program's own benchmark.
fn print(name: &str, tenure: impl Fn(&[&str]) -> Said) {
    for (what, tasks) in [("latency", "300"), ("submit", "5000")] {
        let said =
            tenure(&["bench", what, "--running", "--tasks", tasks, "--rounds", "1", "-o", "json"]).json();
        for figure in said["figures"].as_array().unwrap_or(&Vec::<Value>::new()) {
            println!("{name}: {} {} {}", figure["figure"], figure["tenure"], figure["unit"]);
        }
    }
}
