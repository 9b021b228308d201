//! Plans and actions over a long time: deleted, stored again, and half forgotten.

use crate::support::world::World;
use serde_json::Value;

fn submit(world: &mut World, plan: &str, command: &str) -> Vec<String> {
    let json = format!(r#"{{"plan_id":"{plan}","tasks":[{{"task_number":1,"command":"{command}"}}]}}"#);
    world.ask(1, &format!("PLAN.SUBMIT '{json}'"))
}

/// The JSON object of a bulk answer.
fn json(lines: &[String]) -> Value {
    let text = lines.last().expect("an answer").strip_prefix("$ ").expect("a bulk string");
    serde_json::from_str(text).expect("JSON")
}

/// Makes a broker that remembers few forget what ended before.
fn forget(world: &mut World, jobs: usize) {
    for number in 0..jobs {
        let id = world.ask(9, r#"JOB.SUBMIT '{"body":"x","queue":"aside"}'"#)[0][2..].to_owned();
        assert_eq!(world.ask(9, &format!("JOB.CANCEL {id}")), ["+OK job cancelled"], "{number}");
    }
}

#[test]
fn a_plan_that_was_stored_again_outlives_the_memory_of_the_one_before() {
    let mut world = World::forgetful(3);
    for command in ["one", "two", "three"] {
        assert_eq!(submit(&mut world, "q", command), ["$ q"]);
        forget(&mut world, 4);
        let mut world_again = world.restart();
        let plan = json(&world_again.ask(1, "PLAN.GET q"));
        assert_eq!(plan["tasks"][0]["command"], command);
        assert_eq!(world_again.ask(1, "PLAN.LIST")[0], "*1");
        assert_eq!(world_again.ask(1, "KEYS plan:*"), ["*1", "$ plan:q"]);
        assert_eq!(world_again.ask(1, "EXISTS plan:q"), [":1"]);
        assert_eq!(submit(&mut world_again, "q", "another"), ["-ERR Plan already exists: q"]);
        let action = world_again.ask(1, r#"ACTION.SUBMIT '{"plan_id":"q","inputs":[1]}'"#);
        let job = json(&action)["job_ids"][0].as_str().expect("a job").to_owned();
        assert_eq!(world_again.ask(1, "PLAN.DELETE q"), ["-ERR Cannot delete plan with active jobs"]);
        world_again.ask(1, &format!("JOB.CANCEL {job}"));
        assert_eq!(world_again.ask(1, "PLAN.DELETE q"), [":1"]);
        assert_eq!(world_again.ask(1, "PLAN.DELETE q"), [":0"]);
        assert_eq!(world_again.ask(1, "PLAN.GET q"), ["-ERR Plan not found: q"]);
        assert_eq!(world_again.ask(1, "PLAN.LIST"), ["*0"]);
        assert_eq!(world_again.ask(1, "KEYS plan:*"), ["*0"]);
        world = world_again;
    }
}

#[test]
fn a_plan_may_be_stored_and_deleted_as_often_as_one_likes() {
    let mut world = World::new(false);
    for round in 0..1100 {
        assert_eq!(submit(&mut world, "p", "sort"), ["$ p"], "{round}");
        assert_eq!(world.ask(1, "PLAN.DELETE p"), [":1"], "{round}");
    }
    assert_eq!(submit(&mut world, "p", "sort"), ["$ p"]);
    assert_eq!(world.ask(1, "PLAN.LIST")[0], "*1");
    assert_eq!(world.ask(1, "QUEUE.STATS")[2], ":0", "a plan is no job that waits");
}

#[test]
fn an_action_knows_how_many_jobs_it_had_and_which_are_forgotten() {
    let mut world = World::forgetful(3);
    submit(&mut world, "p", "sort");
    let worker = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"]}"#;
    world.ask(1, &format!("WORKER.REGISTER '{worker}'"));
    // The second round takes up the name of the first.
    for round in ["first", "second"] {
        let action = world.ask(1, r#"ACTION.SUBMIT '{"action_id":"a","plan_id":"p","inputs":[1,2,3,4,5]}'"#);
        let jobs = json(&action)["job_ids"].as_array().expect("jobs").clone();
        for (index, job) in jobs.iter().enumerate() {
            let job = job.as_str().expect("an id");
            assert_eq!(json(&world.ask(1, "BRPOP queue:ready 1"))["job_id"], job);
            let end = if index == 0 { "failed" } else { "completed" };
            assert_eq!(world.ask(1, &format!(r#"JOB.UPDATE {job} '{{"status":"{end}"}}'"#)), ["+OK"]);
            let now = json(&world.ask(1, "ACTION.STATUS a"));
            assert_eq!(now["total_jobs"], 5, "{round} {now}");
            assert_eq!(now["forgotten"].as_u64(), Some((index + 1).saturating_sub(3) as u64), "{now}");
            assert_eq!(now["failed"], u64::from(index < 3), "{now}");
            assert_eq!(now["status"], if index < 4 { "running" } else { "ended" }, "{now}");
            assert_eq!((&now["action_id"], &now["plan_id"]), (&"a".into(), &"p".into()));
        }
        assert_eq!(world.ask(1, "ACTION.LIST completed"), ["$ []"], "that state is not known");
        assert_eq!(json(&world.ask(1, "ACTION.LIST")).as_array().map(Vec::len), Some(1));
        assert!(world.ask(1, "GET action:a")[0].contains(r#""status":"ended""#));
        forget(&mut world, 2);
        assert_eq!(json(&world.ask(1, "ACTION.GET a"))["forgotten"], 4);
        forget(&mut world, 1);
        assert_eq!(world.ask(1, "ACTION.GET a"), ["-ERR Action not found: a"]);
        for look in ["ACTION.STATUS a", "GET action:a"] {
            assert_eq!(world.ask(1, look), ["$-1"], "with its jobs the action is forgotten");
        }
        assert_eq!(world.ask(1, "ACTION.LIST"), ["$ []"]);
    }
}

#[test]
fn an_action_is_accepted_as_a_whole_or_not_at_all() {
    let mut world = World::new(false);
    submit(&mut world, "p", "sort");
    let tags: Vec<String> = (0..40).map(|number| format!("{number}")).collect();
    let tags = serde_json::to_string(&tags).expect("JSON");
    let too_many = format!(r#"{{"action_id":"a","plan_id":"p","inputs":[1,2],"tags":{tags}}}"#);
    assert!(world.ask(1, &format!("ACTION.SUBMIT '{too_many}'"))[0].starts_with("-ERR"));
    assert_eq!(world.ask(1, "ACTION.STATUS a"), ["$-1"]);
    let good = r#"ACTION.SUBMIT '{"action_id":"a","plan_id":"p","inputs":[1,2]}'"#;
    assert_eq!(json(&world.ask(1, good))["jobs_created"], 2, "its name is not lost");
}

#[test]
fn commands_about_jobs_do_not_reach_plans_and_actions() {
    let mut world = World::new(false);
    submit(&mut world, "p", "sort");
    world.ask(1, r#"ACTION.SUBMIT '{"action_id":"a","plan_id":"p","inputs":[1]}'"#);
    let mut ids = world.task_ids();
    let job = world.ask(1, "JOB.LIST a")[1][2..].to_owned();
    ids.retain(|id| *id != job);
    assert_eq!(ids.len(), 3, "a place, a recipe and an action");
    for kept in ids.iter().map(String::as_str).chain(["plan:p", "action:a"]) {
        for verb in ["CANCEL", "PAUSE", "RESUME", "RETRY"] {
            let answer = world.ask(1, &format!("JOB.{verb} {kept}"));
            assert_eq!(answer, [format!("-ERR Job not found: {kept}")]);
        }
        assert_eq!(world.ask(1, &format!("JOB.GET {kept}")), [format!("-ERR Job not found: {kept}")]);
        assert_eq!(world.ask(1, &format!("EXISTS job:{kept}")), [":0"]);
        for queue in ["queue:resp.plans", "queue:resp.actions", "queue:ready"] {
            world.ask(1, &format!("LREM {queue} 1 {kept}"));
        }
        let child = world.ask(1, &format!(r#"JOB.SUBMIT '{{"body":"x","parent":"{kept}"}}'"#));
        assert_eq!(child, [format!("-ERR Parent job not found: {kept}")]);
        let named = format!(r#"{{"job_id":"{kept}","body":"x"}}"#);
        if kept.contains(':') {
            let refused = ["-ERR Invalid job: job_id begins with plan: or action:"];
            assert_eq!(world.ask(1, &format!("JOB.SUBMIT '{named}'")), refused);
            assert_eq!(world.ask(1, &format!("LPUSH queue:ready a '{named}'")), refused);
        }
    }
    assert_eq!(world.ask(1, "PLAN.LIST")[0], "*1");
    assert_eq!(json(&world.ask(1, "ACTION.STATUS a"))["pending"], 1);
    assert_eq!(world.ask(1, "LLEN queue:ready"), [":1"], "nothing else was pushed");
}

#[test]
fn a_push_of_which_one_is_refused_says_what_became_of_the_others() {
    let mut world = World::new(false);
    world.ask(1, r#"LPUSH queue:a '{"job_id":"pt"}'"#);
    let differs = "-ERR Job ID already exists: pt, and it was submitted with other parameters";
    let other = r#"'{"job_id":"pt","x":1}'"#;
    assert_eq!(world.ask(1, &format!("LPUSH queue:a {other}")), [differs]);
    assert_eq!(
        world.ask(1, &format!("LPUSH queue:a x {other} y")),
        [format!("{differs}; body 2 of 3 was refused, the others were pushed")]
    );
    let two = world.ask(1, &format!("LPUSH queue:a {other} z {other}"));
    assert_eq!(two, [format!("{differs}; 2 of 3 bodies were refused, 1 first, the others were pushed")]);
    let none = world.ask(1, &format!("LPUSH queue:a {other} {other}"));
    assert_eq!(none, [format!("{differs}; none of 2 bodies was pushed")]);
    assert_eq!(world.ask(1, "LLEN queue:a"), [":4"]);
}

#[test]
fn what_the_broker_keeps_for_itself_is_said() {
    let mut world = World::new(false);
    for (words, queue) in [
        ("LPUSH queue:processing x", "queue:processing"),
        ("LPUSH queue:scheduled x", "queue:scheduled"),
        ("LPUSH queue:resp.plans x", "queue:resp.plans"),
        ("BRPOP queue:resp.actions 1", "queue:resp.actions"),
        (r#"JOB.SUBMIT '{"body":"x","queue":"resp.plans"}'"#, "queue:resp.plans"),
        ("QUEUE.PEEK scheduled", "queue:scheduled"),
        ("QUEUE.PEEK resp.plans", "queue:resp.plans"),
        ("QUEUE.STATS processing", "queue:processing"),
    ] {
        assert_eq!(world.ask(1, words), [format!("-WRONGTYPE '{queue}' is kept for the broker")], "{words}");
    }
}

#[test]
fn a_word_that_is_neither_a_status_nor_an_id_is_not_taken_for_an_empty_list() {
    let mut world = World::new(false);
    let statuses =
        "the statuses are pending, scheduled, running, paused, completed, failed, dead and cancelled";
    let action = format!("-ERR Invalid status: nothing, and there is no action of that id; {statuses}");
    let plan = format!("-ERR Invalid status: nothing, and there is no plan of that id; {statuses}");
    assert_eq!(world.ask(1, "JOB.LIST nothing"), [action]);
    assert_eq!(world.ask(1, "JOBS.SEARCH nothing"), [&*plan]);
    assert_eq!(world.ask(1, "JOBS.LIST failed nothing"), [&*plan]);
    assert_eq!(
        world.ask(1, "JOBS.SEARCH PLAN nothing ACTION nothing"),
        ["*0"],
        "here the word says what it is"
    );
    submit(&mut world, "p", "sort");
    assert_eq!(world.ask(1, "JOBS.SEARCH p"), ["*0"]);
    let job = world.ask(1, r#"JOB.SUBMIT '{"plan_id":"p"}'"#)[0][2..].to_owned();
    assert_eq!(world.ask(1, "JOBS.SEARCH p"), ["*1".to_owned(), format!("$ {job}")]);
    world.ask(1, &format!("JOB.CANCEL {job}"));
    world.ask(1, "PLAN.DELETE p");
    assert_eq!(world.ask(1, "JOBS.SEARCH p")[0], "*1", "a job may outlive its plan");
}

#[test]
fn a_job_may_bring_steps_along_that_are_not_stored() {
    let mut world = World::new(false);
    let worker = r#"{"worker_id":"w","hostname":"h","agw_version":"1","capabilities":["sort"]}"#;
    world.ask(1, &format!("WORKER.REGISTER '{worker}'"));
    for job in [
        r#"{"job_id":"one","tasks":[{"task_number":1,"command":"sort"}],"input":7}"#,
        r#"{"job_id":"two","plan":{"tasks":[{"task_number":1,"command":"sort"}]},"input":7}"#,
    ] {
        let id = world.ask(1, &format!("JOB.SUBMIT '{job}'"))[0].clone();
        assert!(["$ one", "$ two"].contains(&&*id), "{id}");
        let pulled = json(&world.ask(1, "BRPOP queue:ready 1"));
        assert_eq!(pulled["tasks"][0]["command"], "sort", "{pulled}");
        assert_eq!((&pulled["input"], pulled.get("plan_id")), (&7.into(), None), "{pulled}");
        assert_eq!(world.ask(1, &format!(r#"JOB.UPDATE {} '{{"status":"completed"}}'"#, &id[2..])), ["+OK"]);
    }
    assert_eq!(world.ask(1, "PLAN.LIST"), ["*0"]);
    world.ask(1, r#"JOB.SUBMIT '{"tasks":[{"task_number":1,"command":"uniq"}]}'"#);
    assert_eq!(world.ask(1, "BRPOP queue:ready 1"), [""; 0], "its commands are what it needs");
}

#[test]
fn of_two_that_store_a_plan_at_the_same_moment_one_learns_that_it_exists() {
    let mut world = World::new(false);
    let plan = |command: &str| {
        format!(r#"PLAN.SUBMIT '{{"plan_id":"p","tasks":[{{"task_number":1,"command":"{command}"}}]}}'"#)
    };
    for round in 0..3 {
        let mut answers = world.ask_at_once([1, 2], [&plan("one"), &plan("two")]);
        let stored = if answers[0] == ["$ p"] { "one" } else { "two" };
        answers.sort();
        assert_eq!(answers, [["$ p"], ["-ERR Plan already exists: p"]], "{round}");
        assert_eq!(json(&world.ask(1, "PLAN.GET p"))["tasks"][0]["command"], stored, "{round}");
        assert_eq!(world.ask(1, "PLAN.LIST")[0], "*1", "{round}");
        assert_eq!(world.ask(1, "KEYS plan:*"), ["*1", "$ plan:p"], "{round}");
        assert_eq!(world.ask(1, "PLAN.DELETE p"), [":1"]);
    }
}

#[test]
fn two_actions_of_one_id_at_the_same_moment_do_not_mix() {
    let mut world = World::forgetful(3);
    submit(&mut world, "p", "sort");
    let action = |input: &str| {
        format!(r#"ACTION.SUBMIT '{{"action_id":"a","plan_id":"p","inputs":["{input}","{input}"]}}'"#)
    };
    for round in 0..3 {
        let answers = world.ask_at_once([1, 2], [&action("one"), &action("two")]);
        let accepted = answers.iter().filter(|answer| answer[0].starts_with('$')).count();
        assert!(accepted <= 1, "{round} {answers:?}");
        assert!(accepted == 1 || round > 0, "{answers:?}");
        assert_eq!(world.ask(1, "JOBS.SEARCH pending").len() - 1, accepted * 2, "{round} {answers:?}");
        for job in world.ask(1, "JOBS.SEARCH pending").iter().skip(1) {
            world.ask(1, &format!("JOB.CANCEL {}", &job[2..]));
        }
        forget(&mut world, 4);
        assert_eq!(world.ask(1, "ACTION.STATUS a"), ["$-1"]);
    }
}
