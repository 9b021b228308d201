//! The table of transitions: every verb in every state, what comes of it or which refusal it meets, and that nothing
//! happens that the table does not allow.

use std::collections::BTreeSet;
use std::time::Duration;

use tenure_engine::command::{AttemptFailure, Completion, Move};
use tenure_engine::state::Wanted;
use tenure_engine::terms::OnLost;
use tenure_engine::{
    After, AfterTask, Blob, Command, Condition, Held, NewTask, OnBroken, Peer, StateName, TaskId, WaitOn,
};

use crate::broker::{Broker, assert_same, failure};

/// A task in some state, and every peer that has to do with it.
struct Scene {
    broker: Broker,
    ann: Peer,
    worker: Peer,
    task: TaskId,
    /// A task that is held back, to wait for.
    other: Option<TaskId>,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Scene {
    fn new(change: impl FnOnce(NewTask) -> NewTask) -> Scene {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let worker = broker.worker("w", &["q"], 1);
        let task = change(NewTask { retries: 1, ..broker.new_task("q") });
        let task = broker.submit_task(&ann, task);
        broker.hush();
        Scene { broker, ann, worker, task, other: None }
    }

    /// The same task, with the queue paused from the start so that no worker gets it.
    fn waiting(change: impl FnOnce(NewTask) -> NewTask) -> Scene {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        broker.does(&ann, Command::PauseQueue { queue: "q".into() });
        let worker = broker.worker("w", &["q"], 1);
        let task = change(NewTask { retries: 1, ..broker.new_task("q") });
        let task = broker.submit_task(&ann, task);
        broker.hush();
        Scene { broker, ann, worker, task, other: None }
    }

    /// The same task, after one that is held back.
    fn after_another(change: impl FnOnce(NewTask) -> NewTask) -> Scene {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let worker = broker.worker("w", &["q"], 1);
        let first = NewTask { hold: true, ..broker.new_task("q") };
        let first = broker.submit_task(&ann, first);
        let after = vec![After { task: AfterTask::Id(first), condition: Condition::Completed }];
        let task = change(NewTask { retries: 1, after, ..broker.new_task("q") });
        let task = broker.submit_task(&ann, task);
        broker.hush();
        Scene { broker, ann, worker, task, other: None }
    }

    fn begun(mut self) -> Scene {
        self.broker.start(&self.worker, self.task);
        self
    }

    fn suspended(mut self) -> Scene {
        self = self.begun().with_other();
        self.try_verb("suspend");
        self
    }

    fn with_other(mut self) -> Scene {
        let other = NewTask { hold: true, ..self.broker.new_task("q") };
        self.other = Some(self.broker.submit_task(&self.ann, other));
        self
    }

    fn ended(mut self, state: &str) -> Scene {
        match state {
            "completed" => self.broker.complete(&self.worker, self.task),
            "failed" => {
                let last = AttemptFailure { is_final: true, ..failure(self.broker.held(self.task), 7) };
                self.broker.does(&self.worker, Command::Fail(last));
            }
            _ => {
                self.broker.cancel(&self.ann, self.task);
                let confirm = self.confirm(Wanted::Cancel);
                self.broker.does(&self.worker, confirm);
            }
        }
        self
    }

    fn in_state(state: &str) -> Scene {
        let mut scene = match state {
            "created" => Scene::new(|task| NewTask { hold: true, ..task }),
            "delayed" => Scene::new(|task| NewTask { not_before: Some(Broker::new().now + HOUR), ..task }),
            "ready" => Scene::waiting(|task| task),
            "waiting" => Scene::after_another(|task| task),
            "assigned" => Scene::new(|task| task),
            "running" | "cancelling" | "pausing" => Scene::new(|task| task).begun(),
            "suspended" => Scene::new(|task| task).suspended(),
            "paused" => Scene::waiting(|task| task),
            ended => Scene::new(|task| task).begun().ended(ended),
        };
        match state {
            "cancelling" => scene.broker.cancel(&scene.ann, scene.task),
            "pausing" | "paused" => scene.broker.pause(&scene.ann, scene.task),
            _ => {}
        }
        if scene.other.is_none() {
            scene = scene.with_other();
        }
        // What becomes ready stays ready, to be seen.
        scene.broker.does(&scene.ann, Command::PauseQueue { queue: "q".into() });
        scene.broker.hush();
        scene
    }

    fn held(&self) -> Held {
        self.broker.held(self.task)
    }

    fn confirm(&self, wanted: Wanted) -> Command {
        Command::Confirm { held: self.held(), wanted, result: Blob::EMPTY }
    }

    /// Tries a verb and says what came of it: the new state, or the code of the refusal.
    fn try_verb(&mut self, verb: &str) -> String {
        let (task, held) = (self.task, self.held());
        let (who, command) = match verb {
            "release" => (&self.ann, Command::Release { task }),
            "cancel" => (&self.ann, Command::Cancel { task, reason: None }),
            "pause" => (&self.ann, Command::Pause { task, reason: None, terminate: false }),
            "resume" => (&self.ann, Command::Resume { task }),
            "retry" => (&self.ann, Command::Retry { task }),
            "move" => (&self.ann, Command::Move { task, to: Move { priority: Some(5), ..Move::default() } }),
            "start" => (&self.worker, Command::Start(vec![held])),
            "progress" => (&self.worker, Command::Progress { held, percent: None, note: None }),
            "checkpoint" => (&self.worker, Command::Checkpoint { held, checkpoint: Blob::new(9, 9) }),
            "complete" => (&self.worker, Command::Complete(vec![Completion { held, result: Blob::EMPTY }])),
            "fail" => (&self.worker, Command::Fail(failure(held, 7))),
            "crash" => (&self.worker, Command::Fail(AttemptFailure { crashed: true, ..failure(held, 7) })),
            "suspend" => {
                let on = WaitOn::Tasks(self.other.into_iter().collect());
                (&self.worker, Command::Suspend { held, on })
            }
            "give-back" => (&self.worker, Command::GiveBack { held, reason: None }),
            "ok-cancel" => (&self.worker, self.confirm(Wanted::Cancel)),
            "ok-pause" => (&self.worker, self.confirm(Wanted::Pause)),
            other => panic!("{other} is not a verb"),
        };
        let who = who.clone();
        let before = self.broker.snapshot();
        let outcome = match self.broker.tries(&who, command) {
            Err(refusal) => Err(refusal),
            Ok(tenure_engine::Reply::Held(mut each)) => each.remove(0).map_err(|refusal| refusal.clone()),
            Ok(_) => Ok(()),
        };
        match outcome {
            Ok(()) => {
                self.broker.hush();
                self.broker.state(task).to_string()
            }
            Err(refusal) => {
                self.broker.hears_nothing();
                assert_same(&before, &self.broker.snapshot(), verb);
                refusal.code().to_owned()
            }
        }
    }
}

/// `wrong` is the refusal wrong-state, `stale` is stale-attempt.
const TABLE: &str = "
state      release cancel    pause   resume retry move    start   progress checkpoint complete  fail      crash     give-back ok-cancel ok-pause suspend
created    ready   cancelled paused  wrong  wrong created stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
waiting    wrong   cancelled paused  wrong  wrong waiting stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
delayed    wrong   cancelled paused  wrong  wrong delayed stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
ready      wrong   cancelled paused  wrong  wrong ready   stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
assigned   wrong   cancelled paused  wrong  wrong wrong   running running  running    completed delayed   ready     ready     wrong     wrong    suspended
running    wrong   running   running wrong  wrong wrong   running running  running    completed delayed   ready     ready     wrong     wrong    suspended
cancelling wrong   running   running wrong  wrong wrong   running running  running    completed cancelled cancelled cancelled cancelled cancelled suspended
pausing    wrong   running   running wrong  wrong wrong   running running  running    completed paused    paused    paused    wrong     paused   suspended
suspended  wrong suspended suspended wrong wrong wrong suspended suspended suspended completed delayed waiting waiting wrong wrong suspended
paused     wrong   cancelled wrong   ready  wrong paused  stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
completed  wrong   wrong     wrong   wrong  ready wrong   stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
failed     wrong   wrong     wrong   wrong  ready wrong   stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
cancelled  wrong   wrong     wrong   wrong  ready wrong   stale   stale    stale      stale     stale     stale     stale     stale     stale    stale
";

#[test]
fn every_verb_in_every_state_does_what_the_table_says_or_is_refused_by_name() {
    let mut rows = TABLE.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let head = rows.next().expect("a table has a head");
    for row in rows {
        for (verb, expected) in head.iter().zip(&row).skip(1) {
            let outcome = Scene::in_state(row[0]).try_verb(verb);
            let outcome = match outcome.as_str() {
                "wrong-state" => "wrong",
                "stale-attempt" => "stale",
                outcome => outcome,
            };
            assert_eq!(outcome, *expected, "{verb} when {}", row[0]);
        }
    }
}

#[test]
fn every_transition_that_is_allowed_happens_and_no_other() {
    let mut seen = BTreeSet::new();
    // By a client's verb.
    for row in TABLE.trim().lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()) {
        for verb in TABLE.trim().lines().next().expect("a head").split_whitespace().skip(1) {
            let scene = Scene::in_state(row[0]);
            watch(&mut seen, scene, |scene| drop(scene.try_verb(verb)));
        }
    }
    // By the passing of time and the loss of workers.
    for on_lost in [OnLost::Requeue, OnLost::Pause, OnLost::Fail] {
        for state in ["assigned", "running"] {
            let mut scene = Scene::new(|task| NewTask { on_lost, ..task });
            if state == "running" {
                scene = scene.begun();
            }
            watch(&mut seen, scene, |scene| {
                let crash = AttemptFailure { crashed: true, ..failure(scene.held(), 7) };
                scene.broker.does(&scene.worker.clone(), Command::Fail(crash));
            });
        }
    }
    let soon = Broker::new().now + HOUR;
    let expiring = |task| NewTask { expires_at: Some(soon), ..task };
    let in_an_hour = |scene: &mut Scene| scene.broker.wait(HOUR);
    watch(&mut seen, Scene::in_state("delayed"), in_an_hour);
    watch(&mut seen, Scene::in_state("ready"), |scene| {
        scene.broker.does(&scene.ann.clone(), Command::ResumeQueue { queue: "q".into() });
    });
    watch(&mut seen, Scene::in_state("assigned"), in_an_hour);
    watch(&mut seen, Scene::waiting(|task| NewTask { hold: true, ..expiring(task) }), in_an_hour);
    watch(
        &mut seen,
        Scene::waiting(|task| NewTask { not_before: Some(soon + HOUR), ..expiring(task) }),
        in_an_hour,
    );
    watch(&mut seen, Scene::waiting(expiring), in_an_hour);
    let mut enter_paused = Scene::waiting(expiring);
    enter_paused.broker.pause(&enter_paused.ann, enter_paused.task);
    watch(&mut seen, enter_paused, in_an_hour);
    watch(&mut seen, Scene::new(|task| NewTask { retries: 0, ..task }), |scene| drop(scene.try_verb("fail")));
    watch(&mut seen, Scene::new(|task| NewTask { retries: 0, ..task }).begun(), |scene| {
        drop(scene.try_verb("fail"));
    });
    let later = |task| NewTask { not_before: Some(soon), ..task };
    watch(&mut seen, Scene::waiting(|task| NewTask { hold: true, ..later(task) }), |scene| {
        drop(scene.try_verb("release"));
    });
    let mut enter_paused = Scene::waiting(later);
    enter_paused.broker.pause(&enter_paused.ann, enter_paused.task);
    watch(&mut seen, enter_paused, |scene| drop(scene.try_verb("resume")));

    // By the end of another task, or because it has not ended.
    let first = TaskId::from_u128(1);
    let by_the_first = |scene: &mut Scene| {
        scene.broker.does(&scene.ann.clone(), Command::Cancel { task: first, reason: None });
    };
    let run = |task| NewTask { on_broken: OnBroken::Run, ..task };
    watch(&mut seen, Scene::after_another(run), by_the_first);
    watch(&mut seen, Scene::after_another(|task| later(run(task))), by_the_first);
    watch(&mut seen, Scene::after_another(expiring), in_an_hour);
    watch(&mut seen, Scene::after_another(|task| NewTask { hold: true, ..task }), |scene| {
        drop(scene.try_verb("release"));
    });
    let mut enter_paused = Scene::after_another(|task| task);
    enter_paused.broker.pause(&enter_paused.ann, enter_paused.task);
    watch(&mut seen, enter_paused, |scene| drop(scene.try_verb("resume")));
    for ended in ["completed", "failed", "cancelled"] {
        let mut scene = Scene::after_another(run);
        by_the_first(&mut scene);
        let mut scene = scene.begun().ended(ended);
        scene.broker.does(&scene.ann.clone(), Command::PauseQueue { queue: "q".into() });
        scene.broker.does(&scene.ann.clone(), Command::Retry { task: first });
        watch(&mut seen, scene, |scene| drop(scene.try_verb("retry")));
    }

    // By the end of what a suspended attempt waits for, or without it.
    let by_the_other = |scene: &mut Scene| {
        let task = scene.other.expect("it waits for another");
        scene.broker.does(&scene.ann.clone(), Command::Cancel { task, reason: None });
    };
    watch(&mut seen, Scene::in_state("suspended"), by_the_other);
    watch(&mut seen, Scene::in_state("suspended"), |scene| {
        // Its slot is taken meanwhile, so it cannot continue.
        scene.broker.does(&scene.ann.clone(), Command::ResumeQueue { queue: "q".into() });
        let next = scene.broker.submit(&scene.ann.clone(), "q");
        scene.broker.start(&scene.worker.clone(), next);
        by_the_other(scene);
        drop(scene.try_verb("give-back"));
    });
    watch(&mut seen, Scene::in_state("suspended"), |scene| {
        for verb in ["pause", "ok-pause"] {
            drop(scene.try_verb(verb));
        }
    });
    watch(&mut seen, Scene::in_state("suspended"), |scene| {
        for verb in ["cancel", "ok-cancel"] {
            drop(scene.try_verb(verb));
        }
    });
    watch(&mut seen, Scene::new(|task| NewTask { retries: 0, ..task }).suspended(), |scene| {
        drop(scene.try_verb("fail"));
    });

    let allowed: BTreeSet<(StateName, StateName)> = StateName::ALL
        .into_iter()
        .flat_map(|from| StateName::ALL.map(|to| (from, to)))
        .filter(|(from, to)| from.may_become(*to))
        .collect();
    assert_eq!(seen, allowed);
}

/// Notes every change of the task's state, as its records tell it.
fn watch(seen: &mut BTreeSet<(StateName, StateName)>, mut scene: Scene, act: impl FnOnce(&mut Scene)) {
    let before = scene.broker.journal.records.len();
    let mut state = scene.broker.state(scene.task);
    act(&mut scene);
    for (_, kept) in &scene.broker.journal.records[before..] {
        if let crate::broker::Kept::Task(task, ..) = kept
            && task.id == scene.task
        {
            let next = task.state.name();
            if next != state {
                seen.insert((state, next));
            }
            state = next;
        }
    }
    scene.broker.hush();
}
