//! A group on a database that Patroni fails over by itself. It runs with `cargo xtask test patroni`.

use std::time::{Duration, Instant};

use tenure_journal_postgres::testing::{PatroniCluster, PostgresCluster, patroni_programs};

use crate::load::Load;
use crate::stage::Stage;

/// Patroni waits for the end of a lease of 30 s by default.
const WITHIN: Duration = Duration::from_secs(300);
/// How often each fault is made.
const TIMES: usize = 2;

#[test]
#[ignore = "needs Patroni: cargo xtask test patroni"]
fn nothing_is_lost_when_patroni_fails_over() {
    let Some(programs) = patroni_programs() else { return };
    let mut patroni = PatroniCluster::start(programs);
    let mut stage = Stage::on(PostgresCluster::elsewhere(), patroni.url(), 0);
    for number in 1..=3 {
        let name = format!("b{number}");
        stage.members.push(crate::stage::TestMember::new(&name, stage.scratch.path().join(&name)));
        stage.start_member(number - 1, &[]);
    }
    stage.leader();
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);
    for time in 1..=TIMES {
        for fault in ["PostgreSQL killed", "switchover", "machine killed"] {
            patroni.await_healthy();
            load.goes_on(50, WITHIN);
            let old = patroni.primary().expect("a primary");
            load.forget_silence();
            let since = Instant::now();
            match fault {
                "PostgreSQL killed" => patroni.kill_postgres(old),
                "switchover" => patroni.switch_over(old),
                _ => patroni.kill_machine(old),
            }
            // A switchover goes on for a while, and after a kill Patroni may start the same server again.
            patroni.await_primary(|now| now != old || fault == "PostgreSQL killed");
            load.goes_on(50, WITHIN);
            println!(
                "{fault} ({time}): no acknowledgement for {:.1?}, everything took {:.1?}",
                load.longest_silence(),
                since.elapsed()
            );
            if fault == "machine killed" {
                patroni.start_node(old);
            }
        }
    }
    patroni.await_healthy();
    println!("{:?}", load.settle());
}
