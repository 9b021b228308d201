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
