//! What a member says of itself and reads again without a restart.

use rustix::process::Signal;
use tenure_journal_postgres::testing::free_port;

use crate::stage::{Stage, TestMember, http};
use crate::support::eventually;

#[test]
fn a_standby_reads_its_keys_and_settings_again_and_leads_with_them() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("tenure.toml");
    let [first, second, third] = ["11", "22", "33"].map(|digits| digits.repeat(16));
    let write = |key: &str, seconds: u32| {
        let text = format!("accept_timeout = \"{seconds}s\"\n[[keys]]\nname = \"ada\"\nkey = \"{key}\"\n");
        std::fs::write(&file, text).expect("the configuration is written");
    };
    write(&first, 30);
    let config = file.display().to_string();
    let doors = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    for (index, door) in doors.iter().enumerate() {
        let name = format!("b{}", index + 1);
        stage.members.push(TestMember::new(&name, scratch.path().join(&name)));
        stage.start_member(index, &["--config", &config, "--http", door]);
    }
    let leader = stage.leader();
    let standby = 1 - leader;
    // A standby answers for its own metrics, with its own keys.
    let metrics = |index: usize, key: &str| get(&doors[index], "/metrics", key).0;
    eventually("the standby answers", || metrics(standby, &first) == 200);
    assert_eq!(metrics(standby, &second), 401);

    // A broken file changes nothing.
    std::fs::write(&file, "keys = 7").expect("the configuration is written");
    stage.signal(standby, Signal::HUP);
    eventually("it says so", || stage.log(standby).contains("reloading failed"));
    assert_eq!(metrics(standby, &first), 200);

    write(&second, 20);
    stage.signal(standby, Signal::HUP);
    eventually("the standby takes the new key", || metrics(standby, &second) == 200);
    assert_eq!(metrics(standby, &first), 401);
    let log = stage.log(standby);
    assert!(log.contains("setting changed") && log.contains("accept_timeout"), "{log}");

    // The leader has not read its file again. The standby takes over with what it has read.
    let tasks = |index: usize, key: &str| get(&doors[index], "/v1/tasks", key).0;
    assert_eq!((tasks(leader, &first), tasks(leader, &second)), (200, 401));
    stage.kill(leader);
    assert_eq!(stage.leader_other_than(Some(leader)), standby);
    eventually("it serves", || tasks(standby, &second) == 200);
    assert_eq!(tasks(standby, &first), 401);

    // What a leader reads again holds for its next leadership, too: a key that was removed stays removed.
    write(&third, 20);
    stage.signal(standby, Signal::HUP);
    eventually("the leader takes the new key", || tasks(standby, &third) == 200);
    stage.start_member(leader, &["--config", &config, "--http", &doors[leader]]);
    eventually("it stands by", || stage.member_status(&stage.members[leader].name).is_some());
    for (from, to) in [(standby, leader), (leader, standby)] {
        stage.cluster(&["step-down"]).ok();
        assert_eq!(stage.leader_other_than(Some(from)), to);
        eventually("the next leader serves", || tasks(to, &third) == 200);
        assert_eq!((tasks(to, &first), tasks(to, &second)), (401, 401));
    }
}

#[test]
fn a_leader_that_is_asked_to_stop_says_that_it_drains() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    stage.members.push(TestMember::new("b1", scratch.path().join("b1")));
    let door = format!("127.0.0.1:{}", free_port());
    stage.start_member(0, &["--http", &door]);
    assert_eq!(stage.leader(), 0);
    eventually("it is ready", || get(&door, "/readyz", "").0 == 200);
    // The database hangs, so the leader cannot finish.
    stage.postgres.freeze(0, true);
    stage.signal(0, Signal::TERM);
    eventually("it drains", || {
        let (status, text) = get(&door, "/readyz", "");
        status == 503 && text.contains("\"draining\"")
    });
    assert_eq!(get(&door, "/healthz", "").0, 200);
    stage.postgres.freeze(0, false);
    let (code, log) = stage.ended(0);
    assert_eq!(code, 0, "{log}");
}

/// The status and the text of an answer; zero if there is none.
fn get(door: &str, path: &str, key: &str) -> (u16, String) {
    let key = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
    let answer = http(door, path, &key);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}
