//! Backups of a group: without its brokers, and of a standby's copy.

use std::path::Path;

use crate::stage::{Stage, TestMember, has_copied};
use crate::support::{Broker, eventually, program, run};

#[test]
fn a_group_is_backed_up_from_its_database_and_restored() {
    let Some(mut stage) = Stage::start(0, 2) else { return };
    let submit = |stage: &Stage, body: &str| {
        let said = stage.client(&["submit", "-o", "json", "--queue", "q", body]).json();
        said["task"].as_str().expect("an id").to_owned()
    };
    let first = submit(&stage, "first");
    stage.client(&["pub", "audit.log", "1"]).ok();
    stage.client(&["pub", "state.door", "open", "--retain"]).ok();
    let leader = stage.leader();
    assert_eq!(stage.redis(leader, "SET key value"), "+OK");
    let dir = |name: &str| stage.scratch.path().join(name).display().to_string();
    let (monday, tuesday, restored) = (dir("monday"), dir("tuesday"), dir("restored"));

    // Beside its members, and again without any: what was acknowledged is there at once.
    let said = stage.cluster(&["backup", &monday, "-o", "json"]).json();
    assert!(said["files"].as_u64() >= Some(3) && said["position"].as_u64() > Some(0), "{said}");
    stage.cluster(&["backup", &monday]).fails(65, "is not empty");
    let second = submit(&stage, "second");
    for index in 0..2 {
        stage.kill(index);
    }
    let later = stage.cluster(&["backup", &tuesday, "-o", "json"]).json();
    assert!(later["position"].as_u64() > said["position"].as_u64(), "{said} {later}");
    eventually("the backup has led nothing", || stage.cluster(&["status"]).code == 78);

    let restore = |args: &[&str]| {
        let mut command = program(&["restore"]);
        command.args(args);
        run(command)
    };
    restore(&[&monday, "--check"]).ok();
    restore(&[&tuesday, "--data-dir", &restored]).ok();
    let broker = Broker::start_in(
        Path::new(&restored),
        &["--durable-topics", "audit.>", "--durable-messages", "1000", "--resp", "127.0.0.1:0"],
    );
    assert_eq!((broker.state(&first), broker.state(&second)), ("ready".to_owned(), "ready".to_owned()));
    let replayed = broker.tenure(&["sub", "audit.log", "--replay", "-n", "1", "--raw"]).ok();
    assert_eq!(replayed.trim(), "1");
    let retained = broker.tenure(&["sub", "state.door", "--retained", "-n", "1", "--raw"]).ok();
    assert_eq!(retained.trim(), "open");
    let port = broker.doors["resp"].as_str().and_then(|door| door.rsplit(':').next()?.parse().ok());
    let mut redis = crate::redis::Redis::connect(port.expect("the port of its door")).expect("a door");
    assert_eq!(redis.ask("GET key").expect("an answer"), "value");

    // Those who are left of the group go on.
    stage.start_member(0, &[]);
    eventually("the group goes on", || stage.client(&["submit", "--queue", "q", "third"]).code == 0);
}

const ADA: &str = "11111111111111111111111111111111";
const EVE: &str = "22222222222222222222222222222222";

/// Exit codes.
const REFUSED: i32 = 76;
const NOT_ALLOWED: i32 = 77;
const TRY_LATER: i32 = 75;

/// Members with keys, TLS and a Unix socket; `ada` may make backups, `eve` may not.
fn secured_stage(stage: &mut Stage) -> (String, String) {
    let scratch = stage.scratch.path().to_owned();
    let file = |name: &str| scratch.join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let (certificate, key, config) = (file("cert.pem"), file("key.pem"), file("tenure.toml"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let keys = format!(
        "tls_cert = \"{certificate}\"\ntls_key = \"{key}\"\n[[keys]]\nname = \"ada\"\nkey = \"{ADA}\"\n\
         [[keys]]\nname = \"eve\"\nkey = \"{EVE}\"\nmay = [\"submit\", \"read\"]\n"
    );
    std::fs::write(&config, keys).expect("written");
    for index in 0..2 {
        let name = format!("b{}", index + 1);
        let (dir, socket) = (scratch.join(&name), file(&format!("{name}.sock")));
        stage.members.push(TestMember::new(&name, dir));
        let audit = file(&format!("{name}.audit"));
        stage.start_member(index, &["--config", &config, "--native-unix", &socket, "--audit-log", &audit]);
    }
    (certificate, file("b"))
}

#[test]
fn a_standby_backs_up_its_own_copy_for_those_who_may() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let (certificate, prefix) = secured_stage(&mut stage);
    let leader = stage.leader();
    let standby = 1 - leader;
    let asked = |address: &str, key: &str, args: &[&str]| {
        let mut command = program(args);
        command.args(["--broker", address]).env("TENURE_KEY", key);
        run(command)
    };
    let tls = |index: usize| format!("tls://127.0.0.1:{}?ca={certificate}", stage.members[index].port);
    let unix = |index: usize| format!("unix:{prefix}{}.sock", index + 1);
    let submit = |body: &str| {
        let said = asked(&tls(standby), ADA, &["submit", "-o", "json", "--queue", "q", body]).json();
        said["task"].as_str().expect("an id").to_owned()
    };
    submit("first");
    eventually("the standby has copied", || has_copied(&stage, standby));
    let (stands_by, leads) = (stage.members[standby].name.clone(), stage.members[leader].name.clone());

    // At each entrance of the native door; what was acknowledged before is in it.
    let mut last = 0;
    for (name, address) in [("tls", tls(standby)), ("unix", unix(standby))] {
        let task = submit(name);
        let said = asked(&address, ADA, &["backup", name, "-o", "json"]).json();
        assert_eq!(said["member"], stands_by.as_str(), "{said}");
        let position = said["position"].as_u64().expect("a position");
        assert!(position > last && said["bytes"].as_u64() > Some(0), "{said}");
        last = position;
        let written = stage.members[standby].dir.join("backups").join(name);
        let restored = stage.scratch.path().join(format!("restored-{name}"));
        let mut restore = program(&["restore", "-o", "json"]);
        restore.arg(&written).arg("--data-dir").arg(&restored);
        let said = run(restore).json();
        assert_eq!(said["position"].as_u64(), Some(position));
        assert_eq!(Broker::start_in(&restored, &[]).state(&task), "ready");
        // A name is used once, and leads nowhere else.
        asked(&address, ADA, &["backup", name]).fails(REFUSED, "is not empty");
        asked(&address, ADA, &["backup", "../other"]).fails(REFUSED, "backup_dir");
        asked(&address, EVE, &["backup", "eve"]).fails(NOT_ALLOWED, "make backups");
        asked(&address, "33333333333333333333333333333333", &["backup", "x"])
            .fails(NOT_ALLOWED, "invalid key");
    }
    // The leader as before.
    let said = asked(&tls(leader), ADA, &["backup", "leader", "-o", "json"]).json();
    assert_eq!((&said["member"], said["position"].as_u64() >= Some(last)), (&leads.as_str().into(), true));
    let audit = std::fs::read_to_string(format!("{prefix}{}.audit", standby + 1)).expect("an audit log");
    for wanted in ["\"directory\":\"tls\"", "\"key\":\"ada\"", "not-allowed", "wrong-key"] {
        assert!(audit.contains(wanted), "{wanted} is not in {audit}");
    }

    // It waits for the database as long as a backup may, and then says that nothing was written.
    stage.postgres.kill(0);
    asked(&unix(standby), ADA, &["backup", "away"]).fails(TRY_LATER, "journal does not answer");
    stage.postgres.start_server(0);
    eventually("it works again", || asked(&unix(standby), ADA, &["backup", "again"]).code == 0);
}

#[test]
fn backups_of_a_standby_under_load_are_whole_at_every_moment() {
    let Some(mut stage) = Stage::start(0, 2) else { return };
    // Small segments, so that files are replaced while they are copied.
    for index in 0..2 {
        assert_eq!(stage.stop(index), 0);
        stage.start_member(index, &["--segment-size", "1MB", "--snapshot-size", "1MB"]);
    }
    let standby = 1 - stage.leader();
    let address = format!("127.0.0.1:{}", stage.members[standby].port);
    let load = crate::load::Load::start(&stage, 2);
    for number in 0..5 {
        load.goes_on(200, std::time::Duration::from_secs(60));
        let before = load.accepted_tasks();
        let name = number.to_string();
        let mut command = program(&["backup", &name, "-o", "json", "--broker", &address]);
        command.env("TENURE_KEY", "");
        let said = run(command).json();
        assert_eq!(said["member"], stage.members[standby].name.as_str(), "{said}");
        let restored = stage.scratch.path().join(format!("restored-{number}"));
        let mut restore = program(&["restore"]);
        restore.arg(stage.members[standby].dir.join("backups").join(&name)).arg("--data-dir").arg(&restored);
        run(restore).ok();
        let broker =
            Broker::start_in(&restored, &["--durable-topics", "audit.>", "--durable-messages", "1000000"]);
        for task in before.iter().rev().take(20) {
            broker.tenure(&["show", &task.to_string()]).ok();
        }
    }
    println!("{:?}", load.settle());
}
