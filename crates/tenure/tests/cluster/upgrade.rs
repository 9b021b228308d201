//! Upgrading one by one, in the steps of the guide, under load: old and new programs lead and stand by for each other.
//!
//! The old program is the same one, or the one that `TENURE_TEST_OLDER` names: an earlier build, for a test by hand.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::load::Load;
use crate::stage::{Stage, TestMember};

const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn members_are_upgraded_one_by_one_under_load() {
    let Some(mut stage) = Stage::start(1, 0) else { return };
    let older = std::env::var_os("TENURE_TEST_OLDER").map(PathBuf::from);
    for number in 1..=3 {
        let name = format!("b{number}");
        let mut member = TestMember::new(&name, stage.scratch.path().join(&name));
        member.program.clone_from(&older);
        stage.members.push(member);
        stage.start_member(number - 1, &[]);
    }
    let old_leader = stage.leader();
    let load = Load::start(&stage, 2);
    load.goes_on(50, WITHIN);

    let mut standbys = (0..3).filter(|index| *index != old_leader);
    let (first, second) = (standbys.next().expect("a standby"), standbys.next().expect("another"));

    // An old leader with a new standby.
    upgrade(&mut stage, first);
    load.goes_on(50, WITHIN);
    // A new leader, whose other standby has the old program; and that one takes over.
    step_down_to(&stage, first);
    load.goes_on(50, WITHIN);
    follows(&stage, second);
    step_down_to(&stage, second);
    load.goes_on(50, WITHIN);
    follows(&stage, first);
    // Killed, with what it has not said.
    stage.kill(second);
    stage.leader_other_than(Some(second));
    load.goes_on(50, WITHIN);
    stage.members[second].program = None;
    stage.start_member(second, &[]);
    follows(&stage, second);
    // The last one, after a step down if it leads again.
    if stage.leader() == old_leader {
        step_down_to(&stage, second);
    }
    upgrade(&mut stage, old_leader);
    for next in [old_leader, first, second] {
        if stage.leader() != next {
            step_down_to(&stage, next);
        }
        load.goes_on(50, WITHIN);
    }
    println!("{:?}", load.settle());
}

fn step_down_to(stage: &Stage, to: usize) {
    let said = stage.cluster(&["step-down", "--to", &stage.members[to].name]);
    assert_eq!(said.code, 0, "{said:?}; logs:\n{}", stage.logs());
    while stage.leader() != to {}
}

/// Step 1 of the guide.
fn upgrade(stage: &mut Stage, standby: usize) {
    assert_eq!(stage.stop(standby), 0);
    stage.members[standby].program = None;
    stage.start_member(standby, &[]);
    follows(stage, standby);
}

/// Waits until a standby has copied what the group has now.
fn follows(stage: &Stage, standby: usize) {
    let end = stage.awaited_status()["end"].as_u64();
    let since = Instant::now();
    loop {
        let member = stage.member_status(&stage.members[standby].name);
        let position = member.as_ref().and_then(|member| member["position"].as_u64());
        if stage.log(standby).contains("following") && position >= end {
            return;
        }
        let logs = stage.logs();
        assert!(since.elapsed() < WITHIN, "{member:?} does not reach {end:?}; logs:\n{logs}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
