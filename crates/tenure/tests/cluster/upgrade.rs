//! Upgrading one by one, in the steps of the guide, under load: old and new programs lead and stand by for each other.
//!
//! The old program is the same one, or the one that `TENURE_TEST_OLDER` names: an earlier build, for a test by hand.

use std::path::PathBuf;
use std::time::Duration;

use crate::load::Load;
use crate::stage::{Stage, TestMember};
use crate::support::eventually;

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

    // The standbys, one after the other. The old leader serves the clients through new standbys.
    for standby in (0..3).filter(|index| *index != old_leader) {
        upgrade(&mut stage, standby);
        load.goes_on(50, WITHIN);
    }
    // A new leader, whose standby has the old program; and that one takes over once more.
    stage.cluster(&["step-down"]).ok();
    let new_leader = stage.leader_other_than(Some(old_leader));
    load.goes_on(50, WITHIN);
    follows(&stage, old_leader);
    let name = stage.members[old_leader].name.clone();
    stage.cluster(&["step-down", "--to", &name]).ok();
    assert_eq!(stage.leader_other_than(Some(new_leader)), old_leader);
    load.goes_on(50, WITHIN);
    // Killed, with what it has not told.
    stage.kill(old_leader);
    stage.leader_other_than(Some(old_leader));
    load.goes_on(50, WITHIN);

    stage.start_member(old_leader, &[]);
    follows(&stage, old_leader);
    upgrade(&mut stage, old_leader);
    stage.cluster(&["step-down", "--to", &name]).ok();
    load.goes_on(50, WITHIN);
    println!("{:?}", load.settle());
}

/// Steps 1 of the guide.
fn upgrade(stage: &mut Stage, standby: usize) {
    assert_eq!(stage.stop(standby), 0);
    stage.members[standby].program = None;
    stage.start_member(standby, &[]);
    follows(stage, standby);
}

/// Waits until a standby has copied what the group has now.
fn follows(stage: &Stage, standby: usize) {
    let end = stage.awaited_status()["end"].as_u64();
    eventually("the standby follows", || {
        let member = stage.member_status(&stage.members[standby].name);
        let position = member.and_then(|member| member["position"].as_u64());
        stage.log(standby).contains("following") && position >= end
    });
}
