//! What brokers and their clients see of a database that gives no answer, or the wrong one.

use std::time::{Duration, Instant};

use tenure_journal_postgres::testing::{FaultyAnswer, FaultyHost, PASSWORD, PostgresCluster, programs};

use crate::redis::Redis;
use crate::stage::{Stage, TestMember, http};
use crate::support::eventually;

/// Nothing may wait for the end of such a lease.
const LONG_LEASE: Duration = Duration::from_secs(60);

#[test]
fn submissions_are_refused_in_time_when_commits_hang_or_the_database_is_frozen() {
    let Some(mut stage) = Stage::start(2, 0) else { return };
    stage.members.push(TestMember::new("b1", stage.scratch.path().join("b1")));
    stage.start_member(0, &["--journal-lease", &format!("{}s", LONG_LEASE.as_secs())]);
    stage.leader();
    let port = stage.members[0].resp_port;
    let push = || Redis::connect(port).and_then(|mut redis| redis.ask("LPUSH queue:q body"));
    assert!(push().is_ok_and(|reply| reply.starts_with(':')));
    for (what, servers) in [("its standbys are frozen", &[1, 2][..]), ("the primary is frozen", &[0])] {
        for server in servers {
            stage.postgres.freeze(*server, true);
        }
        let since = Instant::now();
        // The first one is decided, and gets no answer; those after it are refused.
        eventually("a submission is refused", || push().is_ok_and(|reply| reply.starts_with("-ERR")));
        println!("{what}: the first refusal came after {:?}", since.elapsed());
        assert!(since.elapsed() < LONG_LEASE, "{what}: {:?}", since.elapsed());
        for server in servers {
            stage.postgres.freeze(*server, false);
        }
        eventually("submissions are accepted again", || push().is_ok_and(|reply| reply.starts_with(':')));
    }
    assert!(stage.log(0).contains("the replicated journal does not answer"), "{}", stage.log(0));
    assert!(!stage.log(0).contains("the disk stalled"), "{}", stage.log(0));
}

#[test]
fn brokers_outlive_hosts_that_refuse_them_while_the_primary_is_away() {
    let Some(programs) = programs() else { return };
    let postgres = PostgresCluster::start_secured(programs, 0);
    let broken = FaultyHost::start(FaultyAnswer::BrokenHandshake);
    let refusing = FaultyHost::start(FaultyAnswer::Refusal("28000"));
    let more = format!(",127.0.0.1:{},127.0.0.1:{}/work", broken.port, refusing.port);
    let url = postgres.secured_url("tenure", PASSWORD, postgres.authority()).replace("/work", &more);
    let mut stage = Stage::on(postgres, url, 2);
    let (leader, submit) = (stage.leader(), ["submit", "--queue", "q", "body"]);
    stage.client(&submit).ok();
    stage.postgres.kill(0);
    eventually("the leader notices", || stage.log(leader).contains("the replicated journal does not answer"));
    eventually("the standby notices", || {
        stage.log(1 - leader).contains("the replicated journal cannot be followed")
    });
    eventually("the reason is logged", || {
        (0..2).any(|index| stage.log(index).contains("refuses settings that have worked before"))
    });
    // A broker that takes the refusal for a mistake ends with its next look at the database.
    std::thread::sleep(Duration::from_secs(3));
    for index in 0..2 {
        assert!(stage.is_running(index), "{}", stage.logs());
    }
    stage.postgres.start_server(0);
    eventually("the group goes on", || stage.client(&submit).code == 0);
    for index in 0..2 {
        assert!(stage.is_running(index), "{}", stage.logs());
    }
}

#[test]
fn an_idle_leader_notices_that_its_database_is_frozen_and_explains_it() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let door = format!("127.0.0.1:{}", tenure_journal_postgres::testing::free_port());
    stage.members.push(TestMember::new("b1", stage.scratch.path().join("b1")));
    stage.start_member(0, &["--http", &door]);
    stage.leader();
    let task = stage.client(&["submit", "--queue", "q", "-o", "json", "body"]).json()["task"].clone();
    let task = task.as_str().expect("an id");
    let is_away = || http(&door, "/readyz", "").contains("journal-away");
    assert!(!is_away());
    // Nothing is submitted meanwhile: only the renewals of its lease show it.
    stage.postgres.freeze(0, true);
    eventually("it is not ready", is_away);
    let said = stage.client(&["explain", task]).ok();
    assert!(said.contains("the replicated journal does not answer"), "{said}");
    stage.client(&["submit", "--queue", "q", "body"]).fails(75, "the replicated journal does not answer");
    stage.postgres.freeze(0, false);
    eventually("it is ready again", || http(&door, "/readyz", "").contains("200 OK"));
    let said = stage.client(&["explain", task]).ok();
    assert!(said.contains("no worker has ever served"), "{said}");
    stage.client(&["submit", "--queue", "q", "body"]).ok();
}
