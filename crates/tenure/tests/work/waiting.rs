//! A command that waits for other tasks takes no slot meanwhile.

use std::time::Duration;

use tenure_client::{OnLost, Submission, TaskId};

use crate::stage::{Stage, eventually, shell, text, touch};

/// A script that calls the program as `$tenure`.
fn script(body: &str) -> String {
    format!("tenure={}; {body}", env!("CARGO_BIN_EXE_tenure"))
}

/// Three levels: each submits the next and waits for it. The innermost waits for a file.
fn nested(stage: &Stage) -> Submission {
    let (inner, gate) = (stage.path("inner"), stage.path("gate"));
    let inner =
        format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done; echo 42", inner.display(), gate.display());
    let submit = "$tenure submit -q default --parent $TENURE_TASK_ID --wait --cwd private";
    let middle = format!("{submit} -- sh -c \"{inner}\"; echo middle");
    std::fs::write(stage.path("middle.sh"), script(&middle)).unwrap();
    shell(&script(&format!("{submit} -- sh {}; echo outer", stage.path("middle.sh").display())))
}

#[test]
fn three_nested_commands_finish_on_one_slot() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "1"]);
    let task = stage.submit(nested(&stage));
    eventually("the innermost runs", || stage.path("inner").exists());
    assert_eq!(stage.show(task).state.as_str(), "suspended");
    touch(&stage.path("gate"));
    let (ended, result) = stage.result(task);
    assert_eq!(ended.state.as_str(), "completed", "{result}");
    assert_eq!(result["stdout"], "42\nmiddle\nouter\n");
    assert_eq!(stage.show(task).attempt, 1);
}

#[test]
fn nested_commands_outlive_a_killed_broker() {
    let mut stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "1"]);
    let task = stage.submit(nested(&stage));
    eventually("the innermost runs", || stage.path("inner").exists());
    stage.restart_broker(Duration::from_millis(300));
    touch(&stage.path("gate"));
    let (ended, result) = stage.result(task);
    assert_eq!(ended.state.as_str(), "completed", "{result}");
    assert_eq!(result["stdout"], "42\nmiddle\nouter\n");
    assert_eq!(stage.show(task).attempt, 1, "{}", stage.log());
}

#[test]
fn a_command_waits_for_several_tasks_and_an_array_at_once() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "1"]);
    let body = "\
        a=$($tenure submit --parent $TENURE_TASK_ID -- echo a) || exit 1
        b=$($tenure submit --parent $TENURE_TASK_ID --array 1-3 -- true) || exit 2
        c=$($tenure submit --parent $TENURE_TASK_ID -- sh -c 'exit 3') || exit 3
        $tenure wait $a $b > /dev/null & first=$!
        $tenure wait $c > /dev/null; code=$?
        wait $first || exit 4
        echo $code";
    let task = stage.submit(shell(&script(body)));
    let (ended, result) = stage.result(task);
    assert_eq!(ended.state.as_str(), "completed", "{result}");
    assert_eq!(result["stdout"], "3\n");
}

fn is_paused(stage: &Stage, task: TaskId) -> bool {
    let shown = stage.show(task);
    shown.state.as_str() == "suspended" && shown.pause.is_some()
}

#[test]
fn a_command_that_waits_is_paused_resumed_and_cancelled() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "1"]);
    let task = stage.submit(nested(&stage));
    eventually("the innermost runs", || stage.path("inner").exists());
    stage.block_on(stage.client.pause(task, None)).unwrap();
    eventually("it is paused, although its child runs", || is_paused(&stage, task));
    let why = stage.block_on(stage.client.explain(task)).unwrap();
    assert_eq!(why.code, "paused".into());
    let list = stage.broker.tenure(&["list", "--state", "paused", "-o", "json"]).json();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    // Resumed while its child still runs, it waits again.
    stage.block_on(stage.client.resume(task)).unwrap();
    assert!(!is_paused(&stage, task));
    stage.block_on(stage.client.pause(task, None)).unwrap();
    eventually("it is paused again", || is_paused(&stage, task));
    touch(&stage.path("gate"));
    eventually("its child ends", || stage.running() == 0);
    assert!(is_paused(&stage, task));
    stage.block_on(stage.client.resume(task)).unwrap();
    assert_eq!(stage.wait(task).state.as_str(), "completed");
    std::fs::remove_file(stage.path("gate")).unwrap();
    std::fs::remove_file(stage.path("inner")).unwrap();
    let task = stage.submit(nested(&stage));
    eventually("the innermost runs again", || stage.path("inner").exists());
    stage.block_on(stage.client.cancel(task, None)).unwrap();
    assert_eq!(stage.wait(task).state.as_str(), "cancelled");
}

#[test]
fn a_wait_that_gives_up_has_the_slot_again() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "1"]);
    let body = format!(
        "id=$($tenure submit --parent $TENURE_TASK_ID --not-before 1h -- true); \
         $tenure wait $id --timeout 100ms 2> {0}; echo $? >> {0}; $tenure cancel $id > /dev/null",
        stage.path("said").display()
    );
    let task: TaskId = stage.submit(shell(&script(&body)));
    let (ended, result) = stage.result(task);
    assert_eq!(ended.state.as_str(), "completed", "{result}");
    let said = text(&stage.path("said"));
    assert!(said.contains("has not ended") && said.ends_with("83\n"), "{said}");
}

#[test]
fn a_command_with_room_waits_again_after_it_was_resumed() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "2"]);
    let beats = stage.path("beats");
    // One of its processes waits, another one works.
    let body = format!(
        "id=$($tenure submit --parent $TENURE_TASK_ID --hold -- true); \
         (while :; do echo beat >> {}; sleep 0.05; done) & $tenure wait $id > /dev/null; kill $!; echo done",
        beats.display()
    );
    let task = stage.submit(shell(&script(&body)));
    eventually("it waits", || stage.show(task).state.as_str() == "suspended");
    stage.block_on(stage.client.pause(task, None)).unwrap();
    eventually("it is paused", || is_paused(&stage, task));
    let before = text(&beats).len();
    stage.block_on(stage.client.resume(task)).unwrap();
    eventually("its processes go on", || text(&beats).len() > before);
    eventually("it waits again", || {
        let shown = stage.show(task);
        shown.state.as_str() == "suspended" && shown.pause.is_none() && shown.open == Some(1)
    });
    let children = stage.broker.tenure(&["list", "--where", &format!("parent={task}"), "-o", "json"]).json();
    stage.broker.tenure(&["release", children[0]["id"].as_str().unwrap()]).ok();
    let (ended, result) = stage.result(task);
    assert_eq!(ended.state.as_str(), "completed", "{result}");
    assert_eq!((&result["stdout"], stage.show(task).attempt), (&"done\n".into(), 1));
}

#[test]
fn an_array_whose_elements_only_wait_is_not_paused() {
    let stage = Stage::new();
    let _worker = stage.worker("w", &["--slots", "2"]);
    let awaited = stage.submit(shell("true").hold(true));
    let wait = script(&format!("$tenure wait {awaited}"));
    let array =
        stage.broker.tenure(&["submit", "--array", "1-2", "-o", "json", "--", "sh", "-c", &wait]).json();
    let array = array["array"].as_str().unwrap();
    let counted = |state: &str| {
        stage.broker.tenure(&["show", array, "-o", "json"]).json()["counts"][state].as_u64().unwrap()
    };
    let is_listed = |state: &str| {
        let list = stage.broker.tenure(&["list", "--state", state, "-o", "json"]).json();
        list.as_array().unwrap().iter().any(|row| row["id"] == array)
    };
    eventually("both wait", || counted("suspended") == 2);
    assert!(is_listed("suspended") && !is_listed("paused"));
    stage.broker.tenure(&["pause", &format!("{array}[2]")]).ok();
    eventually("one is paused in place", || is_listed("paused"));
    stage.broker.tenure(&["cancel", array]).ok();
    eventually("they have ended", || counted("cancelled") == 2);
}

/// `kill -9` of a worker ends its commands. Each policy says what happens to one that waited; a child with a name is
/// submitted once.
#[test]
fn a_command_whose_worker_is_killed_while_it_waits_follows_its_policy() {
    let stage = Stage::new();
    let mut killed = stage.worker("w", &["--slots", "6"]);
    let gate = stage.path("gate");
    let policies = [OnLost::Requeue, OnLost::Pause, OnLost::Fail];
    let parents: Vec<TaskId> = policies
        .iter()
        .map(|policy| {
            let inner = stage.path(policy.as_str());
            let child =
                format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", inner.display(), gate.display());
            let submit = "$tenure submit -q default --parent $TENURE_TASK_ID --cwd private";
            let body =
                format!("{submit} --name child-{} --wait -- sh -c '{child}' && echo done", policy.as_str());
            stage.submit(shell(&script(&body)).on_lost(policy.clone()))
        })
        .collect();
    for (policy, parent) in policies.iter().zip(&parents) {
        eventually("the child runs", || stage.path(policy.as_str()).exists());
        eventually("it waits", || stage.show(*parent).state.as_str() == "suspended");
    }
    killed.kill();
    // Another process of this name knows nothing of the attempts.
    let _worker = stage.worker("w", &["--slots", "6"]);
    let [requeued, paused, failed] = parents[..] else { unreachable!("three policies") };
    eventually("it is paused", || stage.show(paused).state.as_str() == "paused");
    let ended = stage.wait(failed);
    assert_eq!((ended.state.as_str(), ended.exit_code), ("failed", -2));
    touch(&gate);
    let (ended, result) = stage.result(requeued);
    assert_eq!(ended.state.as_str(), "completed", "{result}");
    assert!(result["stdout"].as_str().unwrap().ends_with("done\n"), "{result}");
    // To wait is no reason for a worker to crash.
    let shown = stage.show(requeued);
    assert_eq!((shown.attempt, shown.crashes), (2, 0));
    assert_eq!(stage.show(paused).attempt, 1, "it does not run again by itself");
    stage.block_on(stage.client.resume(paused)).unwrap();
    assert_eq!(stage.wait(paused).state.as_str(), "completed");
    for parent in [requeued, paused, failed] {
        let children =
            stage.broker.tenure(&["list", "--all", "--where", &format!("parent={parent}"), "-o", "json"]);
        assert_eq!(children.json().as_array().map(Vec::len), Some(1));
    }
    eventually("nothing is held", || stage.running() == 0);
}
