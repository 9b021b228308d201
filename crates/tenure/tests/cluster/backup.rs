//! A backup of a group without its brokers.

use std::path::Path;

use crate::stage::Stage;
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
