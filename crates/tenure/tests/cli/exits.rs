//! Exit codes: a failed task, a refusal and a broker that is not there are never the same number.

use std::net::TcpListener;

use crate::support::{Broker, program, run};

#[test]
fn a_broker_that_is_not_there_is_69_with_what_to_do() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = run(program(&["--broker", &free, "--connect-timeout", "300ms", "list"]));
    let err = said.fails(69, "tenure serve");
    assert!(err.contains(&free) && err.contains("--broker"), "{err}");
}

#[test]
fn what_is_typed_wrong_is_64() {
    run(program(&["levitate"])).fails(64, "levitate");
    run(program(&["list", "--limit", "many"])).fails(64, "many");
    run(program(&[])).fails(64, "Usage");
    run(program(&["--broker", "::::", "list"])).fails(64, "::::");
    run(program(&["wait", "x", "--timeout", "soon"])).fails(64, "30s");
}

#[test]
fn help_and_version_are_answers() {
    let help = run(program(&["--help"])).ok();
    assert!(help.contains("Exit codes") && help.contains("69"), "{help}");
    assert!(run(program(&["--version"])).ok().contains(env!("CARGO_PKG_VERSION")));
    for verb in [
        "serve",
        "submit",
        "list",
        "show",
        "explain",
        "watch",
        "wait",
        "logs",
        "cancel",
        "kill",
        "pause",
        "resume",
        "play",
        "retry",
        "release",
        "move",
        "queues",
        "workers",
        "drain",
        "limits",
        "shares",
        "stats",
        "top",
        "backup",
        "restore",
        "journal",
        "doctor",
        "open",
        "config",
        "completions",
    ] {
        let help = run(program(&[verb, "--help"])).ok();
        assert!(help.contains("Examples:"), "{verb} teaches nothing: {help}");
    }
}

#[test]
fn a_refusal_is_76_and_tells_its_code() {
    let broker = Broker::start();
    broker.tenure(&["cancel", "0190b5a2-77f0-7cc3-98b4-dc0c0c07398f"]).fails(76, "unknown-task");
}

#[test]
fn what_is_not_known_is_found_with_a_list() {
    let broker = Broker::start();
    for (args, hint) in [
        (&["show", "name:nothing"][..], "tenure list"),
        (&["drain", "nothing"], "tenure workers --all"),
        (&["schedules", "show", "nothing"], "tenure schedules"),
        (&["hooks", "undelivered", "nothing"], "tenure hooks"),
    ] {
        broker.tenure(args).fails(76, hint);
    }
}

#[test]
fn a_full_broker_says_try_later() {
    let broker = Broker::start_with(&["--tasks-max", "1"]);
    broker.submit(&["-q", "q", "x"]);
    broker.tenure(&["submit", "-q", "q", "x"]).fails(75, "full");
}

#[test]
fn an_expired_task_differs_from_a_failed_one() {
    let broker = Broker::start();
    let task = broker.submit(&["-q", "absent", "--expires", "2s", "x"]);
    assert_eq!(broker.tenure(&["wait", &task, "--timeout", "30s"]).code, 82);
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(program(&["completions", shell])).ok().contains("tenure"), "{shell}");
    }
}

#[test]
fn the_address_for_a_browser_is_that_of_the_http_door() {
    let print = |flags: &[&str]| run(program(&[&["open", "--print"], flags].concat()));
    assert_eq!(print(&["--http", "127.0.0.1:8080"]).ok(), "http://127.0.0.1:8080/\n");
    assert_eq!(print(&["--http", "0.0.0.0:8080", "-o", "json"]).json()["url"], "http://127.0.0.1:8080/");
    print(&["--http", "off"]).fails(64, "--http");
}
