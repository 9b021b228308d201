//! The part of every run: set up, lead, stand by, take over, step down, refuse.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::load::{Load, Settled};
use crate::stage::{Stage, has_copied, http};
use crate::support::eventually;

const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn another_member_leads_when_the_leader_is_killed_stopped_or_asked_to_leave() {
    let Some(mut stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);

    // Killed: the session is gone, so another member need not wait for the lease.
    let leader = stage.leader();
    stage.kill(leader);
    let killed = load.goes_on(10, WITHIN);
    println!("leader killed: next acknowledgements after {killed:?}");
    stage.start_member(leader, &[]);

    // Stopped beyond its lease: it must not acknowledge anything when it continues.
    let leader = stage.leader();
    stage.signal(leader, Signal::STOP);
    stage.leader_other_than(Some(leader));
    load.goes_on(10, WITHIN);
    stage.signal(leader, Signal::CONT);
    eventually("the old leader stands by", || stage.log(leader).contains("another member leads"));
    assert!(stage.is_running(leader), "in the same process");

    // Asked to leave.
    let to = stage.members[leader].name.clone();
    let said = stage.cluster(&["step-down", "--to", &to, "-o", "json"]);
    assert_eq!(said.code, 0, "{said:?}; logs:\n{}", stage.logs());
    assert_eq!(said.json()["to"], to.as_str(), "logs:\n{}", stage.logs());
    load.goes_on(10, WITHIN);

    // The primary of the database dies, and a standby is promoted.
    let leader = stage.leader();
    stage.postgres.fail_over();
    let promoted = Instant::now();
    load.goes_on(10, WITHIN);
    println!("primary killed: next acknowledgements {:?} after the promotion", promoted.elapsed());
    assert!(stage.is_running(leader), "its broker goes on");

    // An empty directory is filled from the database.
    let standby = (0..3).find(|index| *index != stage.leader()).expect("a standby");
    assert_eq!(stage.stop(standby), 0);
    std::fs::remove_dir_all(&stage.members[standby].dir).expect("the copy goes");
    stage.start_member(standby, &[]);
    eventually("the new copy is complete", || has_copied(&stage, standby));
    let settled = load.settle();
    println!("{settled:?}");
    let Settled { accepted, accepted_by_grpc, checkpoints, cancelled, events, .. } = settled;
    let Settled { pushed, published, counted, longest_silence, reported_late, refused_late, .. } = settled;
    let counts = [accepted, accepted_by_grpc, checkpoints, cancelled, events, pushed, published, counted];
    for count in counts.into_iter().chain([reported_late]) {
        assert!(count > 0, "each part of the load has done something");
    }
    assert_eq!(
        refused_late.into_keys().collect::<Vec<_>>(),
        ["grpc", "native", "resp"],
        "reports came too late"
    );
    assert!(longest_silence < WITHIN);
    let leader = stage.leader();
    assert_eq!(stage.stop(leader), 0, "a leader drains");
    stage.leader();
}

#[test]
fn topics_subscriptions_and_stored_keys_survive_every_kind_of_takeover() {
    let Some(mut stage) = Stage::start(1, 2) else { return };
    let publish = |stage: &Stage, topic: &str, payload: &str, more: &[&str]| {
        stage.client(&[&["pub", topic, payload][..], more].concat()).ok();
    };
    // A subscription with an id: the broker keeps its position while no subscriber is connected.
    stage.client(&["pub", "audit.log", "1"]).ok();
    stage.client(&["sub", "audit.log", "--id", "archive", "--replay", "-n", "1", "--raw"]).ok();
    let mut sent = 1;
    for fault in 0..3 {
        for _ in 0..4 {
            sent += 1;
            publish(&stage, "audit.log", &sent.to_string(), &[]);
        }
        publish(&stage, "audit.door", &format!("open {fault}"), &["--retain"]);
        let leader = stage.leader();
        assert_eq!(stage.redis(leader, &format!("SET key{fault} value{fault}")), "+OK");
        assert_eq!(stage.redis(leader, "INCR counter"), format!(":{}", fault + 1));
        match fault {
            0 => stage.kill(leader),
            1 => drop(stage.cluster(&["step-down"]).ok()),
            _ => {
                // The data directory of the leader is lost as well.
                stage.kill(leader);
                std::fs::remove_dir_all(&stage.members[leader].dir).expect("the copy goes");
            }
        }
        let next = stage.leader_other_than(Some(leader));
        if fault != 1 {
            stage.start_member(leader, &[]);
        }
        for seen in 0..=fault {
            assert_eq!(stage.redis(next, &format!("GET key{seen}")), format!("value{seen}"));
        }
        assert_eq!(stage.redis(next, "GET counter"), (fault + 1).to_string());
        let count = sent.to_string();
        let all = stage.client(&["sub", "audit.log", "--replay", "-n", &count, "--raw"]).ok();
        let expected: Vec<String> = (1..=sent).map(|number: u64| number.to_string()).collect();
        assert_eq!(all.split_whitespace().collect::<Vec<_>>(), expected, "after fault {fault}");
        let retained = stage.client(&["sub", "audit.door", "--retained", "-n", "1", "--raw"]).ok();
        assert_eq!(retained.trim(), format!("open {fault}"));
        // The messages since the last time, each once.
        let missed = stage.client(&["sub", "audit.log", "--id", "archive", "-n", "4", "--raw"]).ok();
        assert_eq!(missed.split_whitespace().collect::<Vec<_>>(), expected[expected.len() - 4..]);
        // Through a standby, too.
        if fault == 1 {
            assert_eq!(stage.redis(leader, "GET counter"), "2");
        }
    }
}

#[test]
fn what_a_member_must_not_do_is_refused_with_what_to_do() {
    let Some(mut stage) = Stage::start(0, 1) else { return };
    assert!(stage.log(0).contains("no synchronous standby"), "{}", stage.log(0));
    let text = stage.cluster(&["status"]).ok();
    assert!(
        text.contains("b1") && text.contains("leading") && text.contains("no synchronous standby"),
        "{text}"
    );

    assert!(stage.log(0).contains("journal_single"), "it is said at every start: {}", stage.log(0));

    // No synchronous standby, and nothing that allows it.
    let dir = stage.members[0].dir.with_extension("unreplicated");
    stage.members.push(crate::stage::TestMember::new("b2", dir));
    stage.start_member(1, &["--journal-single", "off"]);
    let (code, log) = stage.ended(1);
    assert!(
        code == 64 && log.contains("no synchronous standby") && log.contains("--journal-single on"),
        "{code} {log}"
    );
    stage.members.pop();

    // A second broker of the same name.
    let dir = stage.members[0].dir.with_extension("twin");
    let twin = crate::stage::TestMember::new("b1", dir);
    stage.members.push(twin);
    stage.start_member(1, &[]);
    let (code, log) = stage.ended(1);
    assert_eq!(code, 71, "{log}");
    assert!(log.contains("another broker with the name b1 is alive") && log.contains("--name"), "{log}");

    // A group that is not there.
    stage.members[1].name = "b2".to_owned();
    stage.start_member(1, &["--group", "g2"]);
    let (code, log) = stage.ended(1);
    assert!(code == 64 && log.contains("no group g2") && log.contains("tenure cluster init"), "{code} {log}");

    // The directory of another group.
    stage.kill(0);
    stage.start_member(0, &["--group", "g2", "--create"]);
    let (code, log) = stage.ended(0);
    assert!(
        code == 71 && log.contains("is a copy of the group g1") && log.contains("--data-dir"),
        "{code} {log}"
    );

    // A copy is no journal of its own, and a journal of its own no copy.
    let mut command = crate::support::program(&["serve", "--native", "127.0.0.1:0", "--data-dir"]);
    command.arg(&stage.members[0].dir);
    crate::support::run(command).fails(71, "start with --journal");
    let alone = stage.members[0].dir.with_extension("alone");
    let broker = crate::support::Broker::start_in(&alone, &[]);
    broker.submit(&["--queue", "q", "body"]);
    drop(broker);
    stage.members[1].dir = alone;
    stage.start_member(1, &[]);
    let (code, log) = stage.ended(1);
    assert!(code == 71 && log.contains("holds the journal of a broker without a group"), "{code} {log}");

    // A member that forgets the journal would lead itself, beside its group.
    for given in [["--group", "g1"], ["--name", "b1"], ["--advertise", "b1.example"]] {
        let mut command = crate::support::program(&["serve", "--native", "127.0.0.1:0", "--data-dir"]);
        command.arg(stage.members[0].dir.with_extension("stray")).args(given);
        crate::support::run(command).fails(64, "Name the group's database with --journal");
    }

    // A password on the command line.
    let mut command =
        crate::support::program(&["serve", "--journal", "postgres://tenure:hunter2@127.0.0.1/work"]);
    command.arg("--data-dir").arg(stage.members[0].dir.with_extension("x"));
    let said = crate::support::run(command).fails(64, "--journal-password-file");
    assert!(!said.contains("hunter2"), "{said}");
    let mut command = crate::support::program(&["config", "show"]);
    command.env("TENURE_JOURNAL", "postgres://tenure:hunter2@127.0.0.1/work");
    let said = crate::support::run(command).ok();
    assert!(said.contains("postgres://tenure@127.0.0.1:5432/work") && !said.contains("hunter2"), "{said}");
}

#[test]
fn a_journal_moves_into_a_group_and_out_of_it_with_its_tasks() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let (alone, out) = (scratch.path().join("alone"), scratch.path().join("out"));
    let broker = crate::support::Broker::start_in(&alone, &[]);
    let first = broker.submit(&["--queue", "q", "first"]);
    drop(broker);
    let broker = crate::support::Broker::start_in(&alone, &[]);
    let second = broker.submit(&["--queue", "q", "second"]);
    broker.tenure(&["pub", "state.door", "open", "--retain"]).ok();
    // The topic is not durable: a broker that is killed may lose the value.
    broker.signal("-TERM");
    assert_eq!(broker.ended().0, Some(0));
    let moved = |args: &[&str]| {
        let mut command = crate::support::program(&["journal", "move", "--group", "g2"]);
        command.args(args);
        crate::support::run(command)
    };
    let url = stage.postgres.url();
    let said = moved(&["--data-dir", alone.to_str().unwrap(), "--to", &url, "-o", "json"]).json();
    assert_eq!(said["tasks"], 2, "{said}");
    moved(&["--data-dir", alone.to_str().unwrap(), "--to", &url]).fails(65, "has a journal already");

    // A member with an empty directory has them.
    stage.members.push(crate::stage::TestMember::new("b1", scratch.path().join("b1")));
    stage.start_member(0, &["--group", "g2"]);
    let list = |address: &str| {
        let said = crate::support::run(crate::support::program(&["list", "--broker", address, "-o", "json"]));
        if said.code == 0 { said.out } else { String::new() }
    };
    let address = stage.addresses();
    eventually("the member leads with the tasks", || {
        list(&address).contains(&first) && list(&address).contains(&second)
    });
    let retained = ["sub", "state.door", "--retained", "-n", "1", "--raw"];
    assert_eq!(stage.client(&retained).ok().trim(), "open", "topics have moved as well");
    moved(&["--journal", &url, "--to", out.to_str().unwrap()]).fails(71, "stop all its members first");
    assert_eq!(stage.stop(0), 0);

    let said = moved(&["--journal", &url, "--to", out.to_str().unwrap(), "-o", "json"]).json();
    assert_eq!(said["tasks"], 2, "{said}");
    let broker = crate::support::Broker::start_in(&out, &[]);
    assert_eq!((broker.state(&first), broker.state(&second)), ("ready".to_owned(), "ready".to_owned()));
    assert_eq!(broker.tenure(&retained).ok().trim(), "open");
}

#[test]
fn a_member_is_repaired_forgotten_and_closed_while_it_stands_by() {
    let Some(mut stage) = Stage::start(0, 2) else { return };
    let leader = stage.leader();
    let standby = 1 - leader;
    let (leads, stands_by) = (stage.members[leader].name.clone(), stage.members[standby].name.clone());
    assert_eq!(stage.redis(leader, "SET key value"), "+OK");
    stage.client(&["pub", "audit.log", "1"]).ok();
    stage.client(&["submit", "--queue", "q", "body"]).ok();
    let begins_with = |dir: &std::path::Path, prefix: &str| {
        let entries = std::fs::read_dir(dir).expect("a directory").flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).count()
    };
    let dir = stage.members[standby].dir.clone();
    for copied in ["journal-", "topics-", "keys-"] {
        eventually("the standby has a copy", || begins_with(&dir, copied) > 0);
    }

    // Its copy is set aside, and read again.
    assert_eq!(stage.stop(standby), 0);
    let said = stage.cluster(&["repair", "--yes", "--data-dir", dir.to_str().unwrap(), "-o", "json"]).json();
    assert!(said["files"].as_u64() >= Some(3), "{said}");
    for copied in ["journal-", "topics-", "keys-", "hook-", "snapshot-"] {
        assert_eq!(begins_with(&dir, copied), 0, "{copied} is set aside");
    }
    // While it stands by, its doors are closed.
    stage.start_member(standby, &["--standby-doors", "closed"]);
    eventually("the copy is complete", || has_copied(&stage, standby));
    eventually("it follows", || stage.log(standby).contains("following"));
    let port = stage.members[standby].port;
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "the doors of a standby are closed");

    // A member that is alive is not forgotten; one that is gone is.
    stage.cluster(&["forget", &stands_by]).fails(64, "is alive");
    stage.cluster(&["forget", "stranger"]).fails(65, "no member stranger");
    stage.kill(leader);
    let next = stage.leader_other_than(Some(leader));
    assert_eq!(stage.redis(next, "GET key"), "value");
    eventually("the member is forgotten", || stage.cluster(&["forget", &leads]).code == 0);
    assert_eq!(stage.member_status(&leads), None);
    stage.cluster(&["step-down", "--to", &leads]).fails(64, "is no standby of the group");
    stage.cluster(&["step-down"]).fails(64, "the group has no other member");

    // A leader that is asked to stop while it is frozen, and replaced meanwhile, ends.
    stage.start_member(leader, &[]);
    eventually("it has joined", || stage.member_status(&leads).is_some());
    stage.signal(next, Signal::STOP);
    stage.signal(next, Signal::TERM);
    stage.leader_other_than(Some(next));
    stage.signal(next, Signal::CONT);
    let (code, log) = stage.ended(next);
    assert_eq!(code, 0, "{log}");
}

#[test]
fn a_leader_says_how_it_leads_and_ends_although_the_database_is_away() {
    let Some(mut stage) = Stage::start(0, 2) else { return };
    let follower = 1 - stage.leader();
    assert_eq!(stage.stop(follower), 0);
    let port = tenure_journal_postgres::testing::free_port();
    let door = format!("127.0.0.1:{port}");
    stage.start_member(follower, &["--http", &door]);
    let get = |path: &str| http(&door, path, "Accept: text/html\r\n");
    let (name, other) = (stage.members[follower].name.clone(), stage.members[1 - follower].name.clone());
    eventually("it stands by", || get("/readyz").contains("\"standby\""));
    stage.cluster(&["step-down", "--to", &name]).ok();
    eventually("it leads", || get("/readyz").contains("200 OK"));
    stage.client(&["submit", "--queue", "q", "body"]).ok();
    let lag = format!("tenure_group_standby_lag_bytes{{member=\"{other}\"}} 0");
    eventually("the other has copied everything", || get("/metrics").contains(&lag));
    let takeover =
        format!("tenure_group_takeover{{group=\"g1\",member=\"{name}\",why=\"the leader had left\"}} 1");
    eventually("it knows why it leads", || get("/metrics").contains(&takeover));
    let metrics = get("/metrics");
    for wanted in [
        "tenure_group_leading 1",
        "tenure_group_epoch 2",
        "tenure_group_journal_away 0",
        "tenure_group_append_seconds{quantile=\"0.99\"}",
        "tenure_group_refilled_bytes_total 0",
    ] {
        assert!(metrics.contains(wanted), "{wanted} is not in\n{metrics}");
    }
    assert!(get("/v1/stats").contains("\"tenure_group_epoch\":2"), "{}", get("/v1/stats"));
    let page = get("/");
    assert!(page.contains("aria-label=\"Group\"") && page.contains(&name), "{page}");

    stage.postgres.kill(0);
    eventually("it says so", || {
        let answer = get("/readyz");
        answer.contains("503 ") && answer.contains("journal-away")
    });
    let metrics = get("/metrics");
    assert!(metrics.contains("tenure_group_journal_away 1"), "{metrics}");
    for index in 0..2 {
        assert_eq!(stage.stop(index), 0, "it does not wait for the database without end");
    }
}
