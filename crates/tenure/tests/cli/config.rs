//! The configuration: an error names the setting, `show` prints the origin of each value, and never keys.

use crate::support::{Broker, NATIVE_ONLY, program, run};

const KEY: &str = "00112233445566778899aabbccddeeff";

fn check(text: &str) -> crate::support::Said {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    std::fs::write(&file, text).unwrap();
    run(program(&["config", "check", "--config", file.to_str().unwrap()]))
}

#[test]
fn a_valid_configuration_is_reported() {
    assert!(check("sync = \"50ms\"\nended_kept = 5\n").ok().contains("is valid"));
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
fn a_flag_with_an_impossible_value_is_reported_by_its_name() {
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

/// What `serve` refuses, `config check` tells, with the same words and the same exit code.
#[test]
fn config_check_reports_what_serve_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("file"), "x").unwrap();
    let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/../door-grpc/tests/tls");
    let (certificate, other_key) = (format!("{tls}/certificate.pem"), format!("{tls}/other_key.pem"));
    let grpc = "127.0.0.1:0";
    for (flags, hint) in [
        (vec!["--native", "0.0.0.0:0"], "add keys, or listen on 127.0.0.1"),
        (vec!["--native", "off"], "all doors are off"),
        (vec!["--native", "no-such-host.invalid:7171"], "cannot be resolved"),
        (vec!["--native", "127.0.0.1:7999", "--resp", "127.0.0.1:7999"], "is the address of native already"),
        (
            vec!["--grpc", grpc, "--grpc-tls-cert", "/nowhere.pem", "--grpc-tls-key", "/nowhere.pem"],
            "/nowhere.pem",
        ),
        (
            vec!["--grpc", grpc, "--grpc-tls-cert", &certificate, "--grpc-tls-key", &other_key],
            "other_key.pem",
        ),
        (vec!["--native-unix", &path("file")], "is not a socket"),
        (vec!["--native-unix", &path("none/socket")], "does not exist"),
        (vec!["--data-dir", &path("file")], "not a directory"),
        (vec!["--data-dir", &path("file/below")], "is not a directory"),
    ] {
        let data = path("data");
        let mut all = flags.clone();
        if !flags.contains(&"--data-dir") {
            all.extend(["--data-dir", &data]);
        }
        let told = |verb: &[&str]| {
            let mut command = program(verb);
            command.envs(NATIVE_ONLY).args(&all);
            run(command)
        };
        let served = told(&["serve"]);
        let checked = told(&["config", "check"]);
        assert!(checked.err.contains(hint), "{flags:?}: {checked:?}");
        assert_eq!((served.code, &served.err), (checked.code, &checked.err), "{flags:?}");
        assert!([64, 71].contains(&checked.code), "{flags:?}: {checked:?}");
    }
    assert!(!dir.path().join("data").exists(), "a check changes nothing");
    let mut command = program(&["config", "check", "-o", "json", "--data-dir", &path("data")]);
    command.envs(NATIVE_ONLY).args(["--native", "0.0.0.0:0", "--native-unix", &path("file")]);
    let said = run(command);
    assert_eq!(said.code, 64, "{said:?}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap()["problems"].as_array().unwrap().len(),
        2,
        "{said:?}"
    );
}

#[test]
fn a_data_directory_in_use_is_reported_unless_the_broker_is_to_go_on() {
    let broker = Broker::start();
    let data = broker.dir.to_str().unwrap();
    let check = |more: &[&str]| {
        let mut command = program(&["config", "check", "--data-dir", data]);
        command.envs(NATIVE_ONLY).args(more);
        run(command)
    };
    check(&[]).fails(71, "is in use by process");
    check(&["--running"]).ok();
}
