//! `kill -9` of workers and of the broker.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::stage::{Process, Stage, eventually, is_running, shell, text, touch};

#[test]
fn a_command_runs_through_the_brokers_death() {
    let mut stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let (begun, go_on) = (stage.path("begun"), stage.path("go-on"));
    let script = format!(
        "echo x >> {}; while [ ! -e {} ]; do sleep 0.02; done; echo done",
        begun.display(),
        go_on.display()
    );
    let task = stage.script(&script);
    eventually("it runs", || begun.exists());
    stage.restart_broker(Duration::from_millis(300));
    touch(&go_on);
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("done\n")));
    assert_eq!((stage.show(task).attempt, text(&begun).as_str()), (1, "x\n"), "it was not run again");
}

#[test]
fn a_command_that_ends_while_the_broker_is_away_is_reported_later() {
    let mut stage = Stage::new();
    let _worker = stage.worker("w", &[]);
    let begun = stage.path("begun");
    let task = stage.script(&format!("echo x >> {}; sleep 0.3; echo done", begun.display()));
    eventually("it runs", || begun.exists());
    stage.restart_broker(Duration::from_millis(800));
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("done\n")));
    assert_eq!((stage.show(task).attempt, text(&begun).as_str()), (1, "x\n"), "it was not run again");
}

#[test]
fn a_broker_that_was_stopped_for_longer_than_a_lease_blames_no_worker() {
    let stage = Stage::new();
    // Long enough for a busy machine to keep its heartbeats.
    let _worker = stage.worker("w", &["--lease", "7s"]);
    let begun = stage.path("begun");
    let task = stage.script(&format!("echo x >> {}; sleep 10; echo done", begun.display()));
    eventually("it runs", || begun.exists());
    stage.stop_broker(Duration::from_secs(9));
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("done\n")));
    let info = stage.show(task);
    assert_eq!((info.attempt, info.crashes, text(&begun).as_str()), (1, 0, "x\n"), "it was not run again");
}

#[test]
fn the_next_attempt_goes_on_where_a_killed_one_was() {
    let stage = Stage::new();
    let mut first = stage.worker("first", &[]);
    let task = stage.script(
        r#"[ -n "$TENURE_CHECKPOINT" ] && echo "from $TENURE_CHECKPOINT" && exit
        echo "::checkpoint row 1"; echo "::checkpoint row 2000"; sleep 300"#,
    );
    eventually("it is paused", || stage.show(task).checkpoint.is_some_and(|last| last.bytes == 8));
    first.kill();
    let _next = stage.worker("next", &[]);
    let (ended, result) = stage.result(task);
    assert_eq!((ended.state.as_str(), result["stdout"].as_str()), ("completed", Some("from row 2000\n")));
    assert_eq!(stage.show(task).attempt, 2);
}

#[test]
fn a_killed_workers_commands_die_with_it_and_are_taken_over_at_once() {
    let stage = Stage::new();
    // So long a lease that only the guard's word can end it within this story.
    let mut first = stage.worker("first", &["--lease", "10m"]);
    let file = stage.path("pids");
    let task = stage.script(&format!(
        "echo $$ >> {}; [ $TENURE_ATTEMPT = 1 ] && sleep 300; echo took over",
        file.display()
    ));
    eventually("it runs", || text(&file).lines().count() == 1);
    let _second = stage.worker("second", &[]);
    first.kill();
    let (ended, result) = stage.result(task);
    assert_eq!((ended.worker.as_deref(), result["stdout"].as_str()), (Some("second"), Some("took over\n")));
    let info = stage.show(task);
    assert_eq!((info.attempt, info.crashes), (2, 1));
    assert!(!is_running(text(&file).lines().next().unwrap()));
}

#[test]
fn a_killed_worker_leaves_no_directory_behind() {
    let stage = Stage::new();
    let (tmp, given) = (stage.path("tmp"), stage.path("given"));
    std::fs::create_dir(&tmp).unwrap();
    let left_in = |dir: &Path| -> Vec<String> {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    };
    for args in [&[][..], &["--dir", given.to_str().unwrap()]] {
        let mut worker = stage.worker_in(&tmp, "w", args);
        let pids = stage.path("pids");
        let task = stage
            .script(&format!("mkdir -p a/b; echo $$ > {0}.new; mv {0}.new {0}; sleep 300", pids.display()));
        eventually("it runs", || pids.exists());
        let pid = text(&pids).trim().to_owned();
        let base = if args.is_empty() { &tmp } else { &given };
        assert!(!left_in(base).is_empty());
        worker.kill();
        eventually("its command dies", || !is_running(&pid));
        eventually("its directories go", || {
            left_in(&tmp).is_empty() && (!given.exists() || left_in(&given).is_empty())
        });
        stage.block_on(stage.client.cancel(task, None)).unwrap();
        std::fs::remove_file(&pids).unwrap();
    }
    // A user can still look at what failed.
    let mut worker = stage.worker_in(&tmp, "w", &["--dir", given.to_str().unwrap(), "--keep"]);
    let pids = stage.path("pids");
    stage.script(&format!("echo $$ > {}; sleep 300", pids.display()));
    eventually("it runs", || text(&pids).ends_with('\n'));
    worker.kill();
    eventually("its command dies", || !is_running(text(&pids).trim()));
    eventually("the guard is gone", || left_in(&tmp).is_empty());
    assert_eq!(left_in(&given).len(), 1);
}

/// A small generator, so that a seed reproduces a failing run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn nothing_is_lost_and_no_task_runs_twice_at_once_whatever_is_killed() {
    const TASKS: usize = 40;
    const KILLS: u64 = 10;
    let seed = std::env::var("TENURE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut dice = Dice(seed);
    // This many crashes would put a worker into quarantine, which is another story.
    let mut stage = Stage::with(&["--quarantine-crashes", "1000"]);
    let start =
        |stage: &Stage, index: usize| stage.worker(&format!("w{index}"), &["--slots", "2", "--lease", "5s"]);
    let mut workers: Vec<Process> = (0..3).map(|index| start(&stage, index)).collect();
    let (truth, alive) = (stage.path("truth"), stage.path("alive"));
    std::fs::create_dir(&alive).unwrap();
    // An attempt that finds the one before it still running says so.
    let script = format!(
        "mine={alive}/$TENURE_TASK_ID
         if [ -e $mine ] && [ -r /proc/$(cat $mine)/stat ] && ! grep -q ') Z ' /proc/$(cat $mine)/stat; then echo overlap $TENURE_TASK_ID >> {truth}; fi
         echo $$ > $mine; echo begin $TENURE_TASK_ID $TENURE_ATTEMPT >> {truth}
         sleep 0.$(($$ % 4 + 1)); echo end $TENURE_TASK_ID $TENURE_ATTEMPT >> {truth}; rm $mine",
        alive = alive.display(),
        truth = truth.display()
    );
    let tasks: Vec<_> = (0..TASKS).map(|_| stage.submit(shell(&script).crash_budget(100))).collect();
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(dice.roll(400)));
        match dice.roll(4) as usize {
            3 => stage.restart_broker(Duration::from_millis(dice.roll(300))),
            index => {
                workers[index].kill();
                workers[index] = start(&stage, index);
            }
        }
    }
    let begun = Instant::now();
    for task in &tasks {
        assert_eq!(stage.wait(*task).state.as_str(), "completed", "seed {seed}");
    }
    eprintln!("seed {seed}: all completed {:?} after the last kill", begun.elapsed());
    let truth = text(&truth);
    let mut begins: HashMap<&str, u32> = HashMap::new();
    let mut ends: HashMap<&str, u32> = HashMap::new();
    for line in truth.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["begin", task, _] => *begins.entry(task).or_default() += 1,
            ["end", task, _] => *ends.entry(task).or_default() += 1,
            _ => panic!("seed {seed}: {line}"),
        }
    }
    for task in &tasks {
        let (name, info) = (task.to_string(), stage.show(*task));
        assert!(ends.contains_key(name.as_str()), "seed {seed}: task {task} never ended");
        let begun = begins[name.as_str()];
        assert!(
            begun <= 1 + u32::from(info.crashes),
            "seed {seed}: task {task} began {begun} times with {} crashes",
            info.crashes
        );
    }
}
