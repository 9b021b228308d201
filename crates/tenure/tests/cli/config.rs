//! The configuration: what is wrong is told by name, what holds is shown with its origin, and keys never are.

use crate::support::{program, run};

const KEY: &str = "00112233445566778899aabbccddeeff";

fn check(text: &str) -> crate::support::Said {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    std::fs::write(&file, text).unwrap();
    run(program(&["config", "check", "--config", file.to_str().unwrap()]))
}

#[test]
fn a_right_configuration_is_told_so() {
    assert!(check("sync = \"50ms\"\nended_kept = 5\n").ok().contains("is right"));
}

#[test]
fn wrong_keys_and_values_are_all_told_at_once() {
    let said = check("snyc = \"os\"\nended_kept = 0\nrestart_grace = \"soon\"\nresp = \"6380\"\n");
    let err = said.fails(64, "did you mean `sync`");
    for part in ["ended_kept", "restart_grace", "resp", "HOST:PORT"] {
        assert!(err.contains(part), "{part} is not in {err}");
    }
}

#[test]
fn a_file_that_is_named_must_be_there() {
    run(program(&["config", "check", "--config", "/nowhere/tenure.toml"])).fails(64, "/nowhere/tenure.toml");
}

#[test]
fn a_flag_with_an_impossible_value_is_told_by_its_name() {
    run(program(&["config", "check", "--sync", "never"])).fails(64, "--sync");
    let mut command = program(&["config", "check"]);
    command.env("TENURE_SYNC", "never");
    run(command).fails(64, "TENURE_SYNC");
}

#[test]
fn show_tells_every_value_and_where_it_was_said_but_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "events_kept = 7\n[[keys]]\nname = \"lab\"\nkey = \"{KEY}\"\nmay = [\"submit\"]\n[workers]\nw9 = \"{KEY}00\"\n"
    );
    std::fs::write(dir.path().join("tenure.toml"), text).unwrap();
    let shown = |format: &str| {
        let mut command = program(&["config", "show", "-o", format, "--ended-kept", "9", "--data-dir"]);
        command.arg(dir.path()).env("TENURE_AGING", "5m");
        run(command)
    };
    let json = shown("json").json();
    let of = |key: &str| {
        let setting =
            json["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap();
        (setting["value"].as_str().unwrap().to_owned(), setting["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("ended_kept"), ("9".into(), "--ended-kept".into()));
    assert_eq!(of("aging"), ("5m".into(), "TENURE_AGING".into()));
    assert_eq!(of("sync"), ("always".into(), "default".into()));
    assert!(of("events_kept").1.ends_with("tenure.toml"));
    assert_eq!(json["keys"][0], "lab may submit");
    let table = shown("table").ok();
    assert!(
        table.contains("ended_kept") && table.contains("lab may submit") && table.contains("w9"),
        "{table}"
    );
    assert!(!table.contains(KEY) && !json.to_string().contains(KEY));
}
