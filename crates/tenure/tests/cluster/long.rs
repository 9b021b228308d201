//! Many faults, one after the other, under load. They run with `cargo xtask test cluster`.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_journal_postgres::testing::{AnswerProxy, PostgresCluster, programs};

use crate::load::Load;
use crate::stage::{Stage, has_copied};

const WITHIN: Duration = Duration::from_secs(60);

/// How often a fault is made: in full, or at most `TENURE_TEST_FAULTS` times.
fn times(full: usize) -> usize {
    let most = std::env::var("TENURE_TEST_FAULTS").ok().and_then(|text| text.parse().ok());
    most.map_or(full, |most: usize| full.min(most))
}

fn percentile(mut spans: Vec<Duration>, percent: usize) -> Duration {
    spans.sort_unstable();
    spans.get((spans.len().max(1) - 1) * percent / 100).copied().unwrap_or_default()
}

/// Waits for more acknowledgements, and says what the database and the brokers say if there are none.
fn goes_on(stage: &Stage, load: &Load, more: usize) -> Duration {
    let (since, wanted) = (Instant::now(), load.accepted() + more);
    while load.accepted() < wanted {
        if since.elapsed() > WITHIN {
            let asked =
                "select application_name, state, sync_state, sent_lsn, flush_lsn from pg_stat_replication";
            let standbys = stage.postgres.sql(stage.postgres.primary, asked);
            let servers: Vec<String> = (0..3).map(|index| stage.postgres.log(index)).collect();
            let said = (stage.logs(), servers.join("\n---\n"));
            panic!(
                "nothing is acknowledged; standbys:\n{standbys}\nbrokers:\n{}\nservers:\n{}",
                said.0, said.1
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    since.elapsed()
}

#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn nothing_is_lost_when_the_leader_is_killed_again_and_again() {
    let Some(mut stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    let mut spans = Vec::new();
    for _ in 0..times(50) {
        let leader = stage.leader();
        stage.kill(leader);
        spans.push(load.goes_on(1, WITHIN));
        stage.start_member(leader, &[]);
        load.goes_on(20, WITHIN);
    }
    println!("leader killed: p50 {:?} p99 {:?}", percentile(spans.clone(), 50), percentile(spans, 99));
    println!("{:?}", load.settle());
}

#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn nothing_is_lost_when_the_leader_is_stopped_beyond_its_lease() {
    let Some(stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    let mut spans = Vec::new();
    for _ in 0..times(50) {
        let leader = stage.leader();
        stage.signal(leader, Signal::STOP);
        // What is on its way may still arrive.
        std::thread::sleep(Duration::from_millis(100));
        spans.push(load.goes_on(1, WITHIN));
        stage.leader_other_than(Some(leader));
        load.goes_on(20, WITHIN);
        stage.signal(leader, Signal::CONT);
        load.goes_on(20, WITHIN);
    }
    println!("leader stopped: p50 {:?} p99 {:?}", percentile(spans.clone(), 50), percentile(spans, 99));
    println!("{:?}", load.settle());
}

#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn nothing_is_lost_when_the_primary_is_killed_and_a_standby_promoted() {
    let Some(mut stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    let mut spans = Vec::new();
    for _ in 0..times(50) {
        let old = stage.postgres.primary;
        stage.postgres.fail_over();
        let promoted = Instant::now();
        load.goes_on(1, WITHIN);
        spans.push(promoted.elapsed());
        stage.postgres.rebuild(old);
        load.goes_on(50, WITHIN);
    }
    println!("primary killed: p50 {:?} p99 {:?}", percentile(spans.clone(), 50), percentile(spans, 99));
    println!("{:?}", load.settle());
}

#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn nothing_is_lost_when_connections_are_cut() {
    let Some(stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    for _ in 0..times(200) {
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like 'tenure g1/%'";
        stage.postgres.sql(stage.postgres.primary, cut);
        load.goes_on(5, WITHIN);
    }
    println!("{:?}", load.settle());
}

/// Each time something is done in the database, and no broker learns it from the answer.
#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn nothing_is_lost_or_doubled_when_answers_are_lost() {
    let Some(programs) = programs() else { return };
    let postgres = PostgresCluster::start(programs, 0);
    let proxy = AnswerProxy::start(postgres.servers[0].port);
    let url = format!("postgres://tenure@127.0.0.1:{}/work", proxy.port);
    let stage = Stage::on(postgres, url, 3);
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    for _ in 0..times(200) {
        let before = proxy.lost_bytes();
        proxy.lose_answers();
        crate::support::eventually("an answer is lost", || proxy.lost_bytes() > before);
        proxy.cut();
        load.goes_on(5, WITHIN);
    }
    println!("{:?}", load.settle());
}

/// Leader and primary die together; then the leader's successor reads the tail on the new primary.
#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn nothing_is_lost_when_leader_and_primary_die_together() {
    let Some(mut stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    for _ in 0..times(20) {
        let (leader, old) = (stage.leader(), stage.postgres.primary);
        stage.kill(leader);
        stage.postgres.fail_over();
        goes_on(&stage, &load, 10);
        stage.start_member(leader, &[]);
        stage.postgres.rebuild(old);
        load.goes_on(50, WITHIN);
    }
    println!("{:?}", load.settle());
}

#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn members_step_down_one_after_the_other() {
    let Some(stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    for _ in 0..times(10) {
        stage.leader();
        stage.cluster(&["step-down"]).ok();
        load.goes_on(20, WITHIN);
    }
    println!("{:?}", load.settle());
}

#[test]
#[ignore = "takes minutes: cargo xtask test cluster"]
fn members_with_empty_directories_join_and_lead() {
    let Some(mut stage) = Stage::start(2, 3) else { return };
    let load = Load::start(&stage, 2);
    load.goes_on(200, WITHIN);
    for _ in 0..times(5) {
        let leader = stage.leader();
        let joins = (0..3).find(|index| *index != leader).expect("a standby");
        assert_eq!(stage.stop(joins), 0);
        std::fs::remove_dir_all(&stage.members[joins].dir).expect("the copy goes");
        stage.start_member(joins, &[]);
        let name = stage.members[joins].name.clone();
        crate::support::eventually("the member has joined", || has_copied(&stage, joins));
        stage.cluster(&["step-down", "--to", &name]).ok();
        load.goes_on(20, WITHIN);
    }
    println!("{:?}", load.settle());
}
