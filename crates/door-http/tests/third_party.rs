//! What others wrote, against this door: a browser for the dashboard, schemathesis for the description of the API, and
//! promtool for the metrics and the alert rules. `cargo xtask third-party` installs them and says where they are; a test
//! whose program is missing says so and is skipped.

mod support;

use std::env::{temp_dir, var_os};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use support::Broker;
use tenure_door_http::Settings;
use tenure_hub::Keys;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long the browser may take.
const TIMEOUT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_watches_a_worker_die_resumes_its_task_and_cancels_it() {
    let folder = Folder(temp_dir().join(format!("tenure-dashboard-{}", std::process::id())));
    browse("browser.js", &folder).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_log_in_look_and_act_with_their_keys_and_other_sites_do_not() {
    let folder = Folder(temp_dir().join(format!("tenure-login-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let keys = [
        ("looker", "00112233445566778899aabbccddeeff", "may = [\"read\"]"),
        ("ada", "ffeeddccbbaa99887766554433221100", ""),
        ("submitter", "0123456789abcdef0123456789abcdef", "may = [\"submit\", \"read\"]"),
        ("node", "fedcba9876543210fedcba9876543210", "may = [\"work\"]"),
        ("guest", "00ff00ff00ff00ff00ff00ff00ff00ff", "namespace = \"guests\""),
    ];
    let entries = keys.map(|(name, key, more)| format!("[[keys]]\nname = {name:?}\nkey = {key:?}\n{more}\n"));
    std::fs::write(folder.0.join("tenure.toml"), entries.concat()).expect("it is written");
    browse_with("login.js", &folder, &keys.map(|(_, key, _)| key)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tab_shows_and_changes_the_namespace_that_it_names() {
    let folder = Folder(temp_dir().join(format!("tenure-namespaces-{}", std::process::id())));
    browse("namespaces.js", &folder).await;
}

/// Takes the pictures of the documentation. `TENURE_PICTURE` names the file for that of the README.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_picture_of_the_dashboard_is_taken() {
    let folder = Folder(temp_dir().join(format!("tenure-picture-{}", std::process::id())));
    if !browse("picture.js", &folder).await {
        return;
    }
    let picture = std::fs::read(folder.0.join("dashboard.png")).expect("it was taken");
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{} bytes", picture.len());
    if let Some(file) = var_os("TENURE_PICTURE") {
        std::fs::write(file, picture).expect("it is written");
    }
}

/// Thousands of requests that follow from the description are answered as it says, and none of them breaks the broker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_answers_as_it_is_described() {
    let Some(python) = var_os("TENURE_THIRD_PARTY_PYTHON") else {
        eprintln!("TENURE_THIRD_PARTY_PYTHON is not set, so schemathesis is not asked");
        return;
    };
    // No request waits long.
    let settings = Settings { wait_max: Duration::from_millis(20), ..Settings::default() };
    let broker = Broker::with(settings, Keys::default()).await;
    let mut client = broker.client().await;
    let known = [
        ("POST", "/v1/tasks", json!({ "queue": "images", "name": "scan", "body": "x" })),
        ("POST", "/v1/tasks", json!({ "queue": "images", "after": ["name:scan"] })),
        ("POST", "/v1/arrays", json!({ "task": { "queue": "images", "name": "sweep" }, "size": 3 })),
        ("PUT", "/v1/work/w1", json!({ "queues": ["images"] })),
        ("PUT", "/v1/schedules/nightly", json!({ "when": "0 2 * * *", "task": { "queue": "images" } })),
    ];
    for (method, path, body) in known {
        let fields = [("content-type", "application/json")];
        let answer = client.ask(method, path, &fields, body.to_string().as_bytes()).await;
        assert!(answer.status < 300, "{answer:?}");
    }
    let folder = Folder(temp_dir().join(format!("tenure-schemathesis-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/third_party/schemathesis.toml");
    let mut schemathesis = Command::new(python);
    schemathesis.args(["-B", "-m", "schemathesis.cli", "--config-file", config, "run"]);
    schemathesis.arg(format!("http://{}/openapi.json", broker.address)).current_dir(&folder.0);
    schemathesis.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, schemathesis.output()).await;
    let output = output.expect("in time").expect("schemathesis starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" passed"), "{said}");
    assert_eq!(client.get("/readyz").await.status, 200);
}

/// The alert rules are valid, fire when they should, and use figures that the broker has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promtool_accepts_the_metrics_and_the_alert_rules() {
    let Some(promtool) = var_os("TENURE_THIRD_PARTY_PROMTOOL") else {
        eprintln!("TENURE_THIRD_PARTY_PROMTOOL is not set, so promtool is not asked");
        return;
    };
    let monitoring = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring");
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/third_party/alerts_test.yml");
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    client.post("/v1/tasks", &json!({ "queue": "images" })).await;
    let metrics = client.get("/metrics").await.text();
    let run = async |arguments: &[&std::ffi::OsStr], input: &str| {
        let mut command = Command::new(&promtool);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("promtool starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        tokio::io::AsyncWriteExt::write_all(&mut stdin, input.as_bytes()).await.expect("it reads");
        drop(stdin);
        let output = child.wait_with_output().await.expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    };
    run(&["check".as_ref(), "rules".as_ref(), monitoring.join("alerts.yml").as_os_str()], "").await;
    run(&["test".as_ref(), "rules".as_ref(), tests.as_os_str()], "").await;
    run(&["check".as_ref(), "metrics".as_ref()], &metrics).await;
}

/// The tests of the alert rules leave out no alert: each fires once at least, and each does not at another time.
#[test]
fn every_alert_is_tested_when_it_fires_and_when_it_does_not() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).expect("the file");
    let (rules, tests) =
        (read("../../docs/monitoring/alerts.yml"), read("tests/third_party/alerts_test.yml"));
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 11, "{alerts:?}");
    for alert in alerts {
        let name = format!("- alertname: {alert}\n");
        let silent =
            tests.split(&name).skip(1).map(|test| test.lines().nth(1) == Some("        exp_alerts: []"));
        let (silent, firing): (Vec<bool>, Vec<bool>) = silent.partition(|is_silent| *is_silent);
        assert!(!silent.is_empty() && !firing.is_empty(), "{alert}: {silent:?} {firing:?}");
    }
}

/// The rules and the Grafana dashboard use figures that the broker has, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_and_dashboards_use_figures_that_exist() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    client.post("/v1/tasks", &json!({ "queue": "images" })).await;
    let metrics = client.get("/metrics").await.text();
    let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let families: std::collections::BTreeSet<&str> = families.collect();
    let monitoring = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring");
    let mut used = 0;
    for file in ["alerts.yml", "grafana.json"] {
        let text = std::fs::read_to_string(monitoring.join(file)).expect("the file");
        for name in text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
            if !name.starts_with("tenure_") {
                continue;
            }
            let family = ["_bucket", "_count", "_sum"]
                .iter()
                .find_map(|part| name.strip_suffix(part).filter(|family| families.contains(family)));
            let is_known = families.contains(name) || family.is_some() || OF_OTHERS.contains(&name);
            assert!(is_known, "{file} uses {name}, which the broker does not have");
            used += 1;
        }
    }
    assert!(used > 20, "{used} names");
}

/// Figures that appear with the part of the broker they are about.
const OF_OTHERS: [&str; 1] = ["tenure_hook_undelivered"];

/// Runs a script in the browser against a broker of its own. Returns whether there is a browser.
async fn browse(script: &str, folder: &Folder) -> bool {
    browse_with(script, folder, &[]).await
}

/// The same with more arguments for the script. A `tenure.toml` in the folder configures the broker.
async fn browse_with(script: &str, folder: &Folder, more: &[&str]) -> bool {
    let told = ["TENURE_THIRD_PARTY_NODE_PATH", "TENURE_THIRD_PARTY_BROWSER", "TENURE_BINARY"].map(var_os);
    let [Some(node_path), Some(browser), Some(binary)] = told else {
        eprintln!(
            "TENURE_THIRD_PARTY_NODE_PATH, TENURE_THIRD_PARTY_BROWSER or TENURE_BINARY is not set: skipped"
        );
        return false;
    };
    let mut serve = Command::new(&binary);
    serve.arg("serve").arg("--data-dir").arg(folder.0.join("data")).args(["--print-addresses", "json"]);
    serve.args(["--native", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let config = folder.0.join("tenure.toml");
    if config.exists() {
        serve.arg("--config").arg(config);
    }
    for other in ["--resp", "--grpc", "--mdp", "--pingpong", "--xmessage"] {
        serve.args([other, "off"]);
    }
    serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut broker = serve.spawn().expect("the broker starts");
    let doors = addresses(&mut broker).await;

    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/third_party").join(script);
    let mut node = Command::new("node");
    node.arg(script).arg(format!("http://{}", doors["http"].as_str().expect("an address")));
    node.arg(doors["native"].as_str().expect("an address")).arg(binary).arg(browser).arg(&folder.0);
    node.args(more);
    node.env("NODE_PATH", node_path).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, node.output()).await.expect("in time").expect("node starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    broker.kill().await.expect("the broker ends");
    true
}

/// Where the broker listens, once it is ready.
async fn addresses(broker: &mut Child) -> Value {
    let mut lines = BufReader::new(broker.stdout.take().expect("it is a pipe")).lines();
    let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await.expect("in time").expect("a line");
    let said: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
    said["doors"].clone()
}

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
