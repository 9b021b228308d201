//! Arrays on the command line: submitted, shown, limited, waited for and cancelled as one.

use crate::support::{Broker, eventually};

#[test]
fn an_array_is_one_row_of_a_list_and_its_tasks_are_found_by_their_index() {
    let broker = Broker::start();
    let said =
        broker.tenure(&["submit", "-q", "q", "--array", "10-20:5", "--name", "sums", "-o", "json", "x"]);
    let said = said.json();
    assert_eq!((said["size"].as_u64(), said["known"].as_bool()), (Some(3), Some(false)), "{said}");
    let array = said["array"].as_str().unwrap();
    let plain = broker.submit(&["-q", "q", "y"]);
    let rows = broker.tenure(&["list", "-o", "json"]).json();
    let ids: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [array, plain.as_str()]);
    assert_eq!(rows[0]["counts"]["ready"], 3);
    let elements = broker.tenure(&["list", "--elements", "--where", &format!("array={array}"), "-o", "json"]);
    let elements = elements.json();
    let indexes: Vec<u64> =
        elements.as_array().unwrap().iter().map(|task| task["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [10, 15, 20]);
    let element = broker.tenure(&["show", "name:sums[15]", "-o", "json"]).json();
    assert_eq!((&element["array"], &element["id"]), (&array.into(), &elements[1]["id"]));
    broker.tenure(&["show", "name:sums[16]"]).fails(76, "no element");
    let text = broker.tenure(&["show", "name:sums"]).ok();
    assert!(text.contains("10-20:5 (3 tasks)"), "{text}");
    assert!(broker.tenure(&["list"]).ok().contains("0 of 3 ended"));
    // The same name again is the same array.
    let again = broker
        .tenure(&["submit", "-q", "q", "--array", "10-20:5", "--name", "sums", "-o", "json", "x"])
        .json();
    assert_eq!((again["array"].as_str(), again["known"].as_bool()), (Some(array), Some(true)));
    broker.tenure(&["submit", "-q", "q", "--array", "1-2", "--name", "sums", "x"]).fails(76, "sums");
}

#[test]
fn an_array_is_limited_explained_cancelled_and_retried_as_one() {
    let broker = Broker::start();
    broker.tenure(&["submit", "-q", "q", "--array", "1-4", "--array-limit", "0", "--name", "a", "wait"]).ok();
    let after = broker.submit(&["-q", "q", "--after", "a", "z"]);
    let _worker = broker.worker("w", "q");
    eventually("the limit holds it up", || {
        broker.tenure(&["explain", "name:a"]).ok().contains("at its limit")
    });
    assert_eq!(broker.tenure(&["arrays", "-o", "json"]).json()[0]["limit"], 0);
    broker.tenure(&["cancel", "name:a"]).ok();
    assert_eq!(broker.state(&after), "cancelled");
    let array = broker.tenure(&["show", "name:a", "-o", "json"]).json();
    assert_eq!(
        (array["state"].as_str(), array["counts"]["cancelled"].as_u64()),
        (Some("cancelled"), Some(4))
    );
    broker.tenure(&["wait", "name:a"]).fails_with_out(130, "");
    broker.tenure(&["retry", "name:a"]).ok();
    broker.tenure(&["arrays", "limit", "name:a", "2"]).ok();
    eventually("two are held", || {
        let array = broker.tenure(&["show", "name:a", "-o", "json"]).json();
        array["counts"]["assigned"].as_u64().unwrap() + array["counts"]["running"].as_u64().unwrap() == 2
    });
}

#[test]
fn each_line_is_an_item_and_a_wrong_range_is_explained() {
    let broker = Broker::start();
    let file = broker.dir.join("items.txt");
    std::fs::write(&file, "one\ntwo words\n\n").unwrap();
    let file = file.to_str().unwrap();
    let said =
        broker.tenure(&["submit", "--each-line", file, "--cwd", "/tmp", "-o", "json", "--", "echo", "<{}>"]);
    let array = said.json()["array"].as_str().unwrap().to_owned();
    let body = broker.tenure(&["show", "--body", &format!("{array}[2]")]).ok();
    assert_eq!(body, r#"{"command":["echo","<two words>"],"env":{"TENURE_ITEM":"two words"},"cwd":"/tmp"}"#);
    let said = broker.tenure_fed(&["submit", "-q", "q", "--each-line", "-", "-o", "json"], b"a\nb\n");
    let array = said.json()["array"].as_str().unwrap().to_owned();
    assert_eq!(broker.tenure(&["show", "--body", &format!("{array}[1]")]).ok(), "a");
    broker.tenure(&["submit", "--array", "9-1", "x"]).fails(64, "below the first");
    broker.tenure(&["submit", "--array-limit", "2", "x"]).fails(64, "--array");
    broker.tenure(&["submit", "--each-line", "/nowhere", "x"]).fails(65, "/nowhere");
    broker.tenure(&["submit", "--array", "1-2"]).fails(64, "nothing to submit");
    broker.tenure(&["logs", &array]).fails(65, "is an array");
}

#[test]
fn a_schedule_of_arrays_is_refused() {
    let broker = Broker::start();
    for array in [["--array", "1-4"], ["--each-line", "/etc/hosts"], ["--array-limit", "2"]] {
        let mut args = vec!["submit", "--schedule", "every 1h", "--name", "n"];
        args.extend(array);
        args.push("x");
        broker.tenure(&args).fails(64, "cannot be used with");
    }
    assert_eq!(broker.tenure(&["schedules", "-o", "json"]).json().as_array().unwrap().len(), 0);
}

#[test]
fn a_watch_of_an_array_ends_with_the_array() {
    let broker = Broker::start();
    let said = broker.tenure(&["submit", "-q", "q", "--array", "1-3", "--hold", "-o", "json", "x"]);
    let array = said.json()["array"].as_str().unwrap().to_owned();
    let watch = ["watch", &array, "--from", "1", "-o", "jsonl"];
    let (_worker, watched) = std::thread::scope(|scope| {
        let watched = scope.spawn(|| broker.tenure(&watch));
        let worker = broker.worker("w", "q");
        broker.tenure(&["release", &array]).ok();
        (worker, watched.join().unwrap())
    });
    let events = watched.lines();
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "completed").count(), 3, "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"array-ended"));
}

/// Lines whose bodies take three arrays.
fn long_lines(broker: &Broker) -> String {
    let file = broker.dir.join("lines.txt");
    let lines: String = (0..40).map(|number| format!("{number:02}{}\n", "x".repeat(900_000))).collect();
    std::fs::write(&file, lines).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn more_lines_than_fit_into_one_array_are_submitted_as_several() {
    let broker = Broker::start();
    let file = long_lines(&broker);
    let submit = ["submit", "-q", "q", "--each-line", &file];
    let with = |more: &[&'static str]| broker.tenure(&[&submit[..], more].concat());
    // What is for one array is refused before anything is submitted.
    with(&["--array-limit", "2"]).fails(65, "3 arrays");
    with(&["--id", "0190b5a2-77f0-7cc3-98b4-dc0c0c07398f"]).fails(65, "3 arrays");
    assert_eq!(broker.tenure(&["arrays", "-o", "json"]).json().as_array().unwrap().len(), 0);

    let said = with(&["--hold"]);
    assert!(said.err.contains("40 lines, in 3 arrays"), "{said:?}");
    let ids: Vec<String> = said.ok().lines().map(str::to_owned).collect();
    let arrays = broker.tenure(&["arrays", "-o", "json"]).json();
    let arrays = arrays.as_array().unwrap();
    // Newest first.
    let listed: Vec<&str> = arrays.iter().rev().map(|array| array["id"].as_str().unwrap()).collect();
    assert_eq!(ids, listed);
    let number = |array: &serde_json::Value, field: &str| array[field].as_u64().unwrap();
    assert_eq!(arrays.iter().map(|array| number(array, "size")).sum::<u64>(), 40);
    // The indexes are the numbers of the lines, through all arrays.
    let mut next = 1;
    for array in arrays.iter().rev() {
        assert_eq!(number(array, "first"), next);
        next += number(array, "size");
    }
    let body = broker.tenure(&["show", "--body", &format!("{}[40]", ids[2])]).ok();
    assert!(body.starts_with("39x") && body.len() == 900_002);
}

#[test]
fn the_arrays_of_one_file_have_names_and_are_waited_for_together() {
    let broker = Broker::start();
    let _worker = broker.worker("w", "q");
    let file = long_lines(&broker);
    let submit = |format: &str| {
        broker.tenure(&["submit", "-q", "q", "--each-line", &file, "--name", "n", "--wait", "-o", format])
    };
    let ended = submit("json").json();
    let names: Vec<&str> =
        ended.as_array().unwrap().iter().map(|array| array["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3);
    assert!(ended.as_array().unwrap().iter().all(|array| array["state"] == "completed"), "{ended}");
    for name in ["n-part1", "n-part2", "n-part3"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // A dependency on a part would be an unnoticed mistake: the name alone is unknown.
    broker.tenure(&["wait", "name:n"]).fails(76, "n");
    // The same file again is the same tasks.
    let again = submit("jsonl");
    let known: Vec<bool> = again.lines().iter().filter_map(|line| line["known"].as_bool()).collect();
    assert_eq!(known, [true, true, true], "{again:?}");
    assert_eq!(broker.tenure(&["arrays", "-o", "json"]).json().as_array().unwrap().len(), 3);
    // Another file under this name is refused, and says which parts were accepted before.
    let lines: String = (0..40).map(|number| format!("{number:02}{}\n", "y".repeat(900_000))).collect();
    std::fs::write(&file, lines).unwrap();
    submit("table").fails(76, "n-part1");
}

#[test]
fn an_array_is_found_by_its_name() {
    let broker = Broker::start();
    let worker = broker.worker("w", "q");
    broker.tenure(&["submit", "-q", "q", "--array", "1-3", "--name", "sweep", "--wait", "x"]).ok();
    drop(worker);
    broker.tenure(&["submit", "-q", "q", "--array", "1-2", "--name", "swarm", "x"]).ok();
    let single = broker.submit(&["-q", "q", "--name", "swan", "x"]);
    let id = |name: &str| {
        broker.tenure(&["show", name, "-o", "json"]).json()["id"].as_str().expect("an id").to_owned()
    };
    let (sweep, swarm) = (id("name:sweep"), id("name:swarm"));
    let ids = |args: &[&str]| -> Vec<String> {
        let rows = broker.tenure(&[&["list", "-o", "json"], args].concat()).json();
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--where", "name=sweep"]), [sweep.as_str()], "also where it has ended");
    assert_eq!(ids(&["--where", "name=sw*"]).len(), 3);
    assert_eq!(ids(&["--where", "name=sw*", "--state", "ready"]), [swarm.as_str(), &single]);
    assert_eq!(ids(&["--where", "name=sw*", "--where", "queue=other"]).len(), 0);
    assert_eq!(ids(&["--where", "name=sw*", "--where", "before=1h"]).len(), 0);
    assert_eq!(ids(&["--where", "name=sweep", "--elements"]).len(), 3);
    assert_eq!(ids(&["--where", "name=sweep", "--where", "exit-code=0"]).len(), 3, "its tasks have one");
    assert_eq!(ids(&["--where", "array=name:sweep"]).len(), 3, "also where it has ended");
    let elements = broker.tenure(&["list", "--elements", "--where", "name=swarm"]).ok();
    assert!(elements.contains("swarm[1]") && elements.contains("swarm[2]"), "{elements}");
}

#[test]
fn an_array_is_one_row_unless_its_tasks_differ_in_what_is_asked_for() {
    let broker = Broker::start();
    let submitted = ["submit", "-q", "q", "--tag", "t", "--array", "1-3", "-o", "json", "x"];
    let array = broker.tenure(&submitted).json()["array"].as_str().expect("an id").to_owned();
    let ids = |wanted: &str| -> Vec<String> {
        let rows = broker.tenure(&["list", "-o", "json", "--where", wanted]).json();
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let submitter = broker.tenure(&["arrays", "-o", "json"]).json()[0]["submitter"].clone();
    let submitter = format!("submitter={}", submitter.as_str().expect("a name"));
    for wanted in ["queue=q", "state=ready", "since=1h", &submitter] {
        assert_eq!(ids(wanted), [array.as_str()], "{wanted}");
    }
    for wanted in ["queue=other", "state=failed", "before=1h", "submitter=bob"] {
        assert_eq!(ids(wanted).len(), 0, "{wanted}");
    }
    assert_eq!(ids("tag=t").len(), 3, "an array has no tags of its own");
    assert_eq!(ids(&format!("array={array}")).len(), 3);
}

#[test]
fn an_array_that_is_found_by_its_name_is_acted_on_as_one() {
    let broker = Broker::start();
    broker.tenure(&["submit", "-q", "q", "--array", "1-3", "--name", "sweep", "x"]).ok();
    broker.tenure(&["submit", "-q", "q", "--array", "1-2", "--name", "swarm", "--hold", "x"]).ok();
    let act = |args: &[&str]| broker.tenure(&[args, &["--yes", "-o", "json"]].concat()).json();
    let would = act(&["cancel", "--where", "name=swa*", "--dry-run"]);
    let swarm = broker.tenure(&["show", "name:swarm", "-o", "json"]).json();
    assert_eq!(would["tasks"].as_array().unwrap().as_slice(), [swarm["id"].clone()]);
    let text = broker.tenure(&["cancel", "--where", "name=swa*", "--dry-run"]).ok();
    assert!(text.contains("would cancel 1 array\n") && text.contains("swarm"), "{text}");
    // Who names states means the tasks in these states.
    let would = act(&["cancel", "--where", "name=sw*", "--where", "state=ready", "--dry-run"]);
    assert_eq!(would["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(act(&["release", "--where", "name=*", "--dry-run"])["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(act(&["cancel", "--where", "name=sw*"])["done"], 2);
    for name in ["name:sweep", "name:swarm"] {
        let array = broker.tenure(&["show", name, "-o", "json"]).json();
        assert_eq!(array["state"], "cancelled");
    }
    assert_eq!(act(&["cancel", "--where", "name=sw*"])["done"], 0, "nothing is left to cancel");
    assert_eq!(act(&["retry", "--where", "name=sweep"])["done"], 1);
}

#[test]
fn a_watch_names_arrays_and_their_tasks() {
    let broker = Broker::start();
    broker.tenure(&["submit", "-q", "q", "--array", "1-2", "--name", "sweep", "x"]).ok();
    broker.tenure(&["submit", "-q", "q", "--after", "sweep", "--name", "reduce", "x"]).ok();
    let _worker = broker.worker("w", "q");
    broker.tenure(&["wait", "name:reduce"]).ok();
    broker.tenure(&["submit", "-q", "q", "--array", "1-2", "--wait", "x"]).ok();
    let watched = broker.tenure(&["watch", "--since", "1h", "--until", "now"]).ok();
    let ends: Vec<&str> = watched.lines().filter(|line| line.contains("array ended")).collect();
    let named = broker.tenure(&["show", "name:sweep", "-o", "json"]).json();
    let id = named["id"].as_str().unwrap();
    assert!(ends[0].contains(&id[id.len() - 8..]) && ends[0].contains("sweep"), "{watched}");
    assert!(ends[1].contains("array of 2"), "{watched}");
    assert!(watched.contains("reduce  what it waited for has ended"), "{watched}");
    for index in [1, 2] {
        let started =
            watched.lines().find(|line| line.contains(&format!("sweep[{index}]  attempt 1 started")));
        assert!(started.is_some(), "{watched}");
    }
}
