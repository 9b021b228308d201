//! Clients that others wrote, with their defaults. `cargo xtask third-party` installs them and says where they are; a
//! test that is not told about its client says so and is skipped.

mod support;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use support::broker::Broker;
use tenure_door_kit::{DoorSettings, Tls};
use tenure_door_resp::Settings;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// How long a client may take.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_feels_at_home() {
    let Some(python) = told("TENURE_THIRD_PARTY_PYTHON", "redis-py") else { return };
    let broker = Broker::start().await;
    let mut command = Command::new(python);
    command.arg(script("redis_py.py")).arg(broker.address.port().to_string());
    succeeds(command, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ioredis_feels_at_home() {
    node("ioredis", "ioredis.js").await;
}

#[tokio::test]
async fn bullmq_is_refused_at_once_and_says_why() {
    node("BullMQ", "bullmq.js").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_redis_feels_at_home() {
    node("node-redis", "node_redis.js").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_submits_runs_and_looks() {
    let Some(broker) = with_redis_cli().await else { return };
    let port = broker.address.port();
    let said = cli(port, &["LPUSH", "queue:images", "cat.png"], "").await;
    assert_eq!(said, "1\n");
    let said = cli(port, &["--raw"], "BRPOP queue:images 5\n").await;
    assert!(said.contains(r#""body":"cat.png""#), "{said}");
    let said = cli(port, &["--raw", "JOBS.SEARCH", "pending"], "").await;
    let job = said.trim().to_owned();
    assert_eq!(job.len(), 36, "the claim of a connection that is gone is given back: {said:?}");
    // One process per command: a process that pings under a worker's id is the worker.
    let script = format!(
        "PING cli-1\nBRPOPLPUSH queue:images queue:processing 5\nGET job:{job}:status\nSET job:{job}:status completed\n\
         LREM queue:processing 1 {job}\nGET job:{job}:status\n"
    );
    let said = cli(port, &["--raw"], &script).await;
    assert_eq!(said.lines().collect::<Vec<_>>(), ["cli-1", &job, "running", "OK", "1", "completed"]);
    let said = cli(port, &["-3", "--raw", "HELLO"], "").await;
    assert!(said.contains("tenure"), "{said}");
    let said = cli(port, &["INFO"], "").await;
    assert!(said.contains("jobs_completed:1"), "{said}");
    let said = cli(port, &["FLUSHALL"], "").await;
    assert!(said.contains("unknown command 'FLUSHALL': stored keys"), "{said}");
}

/// The certificate is checked, a broker with another one is refused, and without TLS no client is heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_comes_in_over_tls() {
    if !has_redis_cli().await {
        return;
    }
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../door-grpc/tests/tls");
    let (certificate, key) = (tests.join("certificate.pem"), tests.join("key.pem"));
    let read = |file: &PathBuf| std::fs::read(file).expect("it is there");
    let tls = Some(Tls::new(&read(&certificate), &read(&key), None).expect("they go together"));
    let door = DoorSettings { tls, ..DoorSettings::default() };
    let broker = Broker::told(Settings { door, ..Settings::default() }).await;
    let port = broker.address.port();
    let authority = certificate.to_str().expect("a plain path");
    let tls = ["--tls", "--cacert", authority];
    let said = cli(port, &[&tls[..], &["LPUSH", "queue:images", "cat.png"]].concat(), "").await;
    assert_eq!(said, "1\n");
    // More than one record of TLS in both directions, and a pop that waits in the middle of a stream.
    let large = "x".repeat(200_000);
    let script =
        format!("RPOP queue:images\nBRPOP queue:large 1\nLPUSH queue:large {large}\nBRPOP queue:large 5\n");
    let said = cli(port, &[&tls[..], &["--raw"]].concat(), &script).await;
    assert!(said.contains(r#""body":"cat.png""#) && said.contains(&large), "{} bytes", said.len());
    let foreign = fails(port, &["--tls", "PING"]).await;
    assert!(foreign.contains("certificate verify failed"), "{foreign}");
    let clear = fails(port, &["PING"]).await;
    assert!(!clear.contains("PONG"), "{clear}");
}

/// What redis-cli complains about.
async fn fails(port: u16, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port.to_string()]).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = output.expect("the client ends in time").expect("it ran");
    let said = [output.stdout, output.stderr].concat();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&said));
    String::from_utf8_lossy(&said).into_owned()
}

async fn has_redis_cli() -> bool {
    let is_there = Command::new("redis-cli").arg("--version").output().await.is_ok();
    if !is_there {
        eprintln!("redis-cli is not installed, so it is not asked");
    }
    is_there
}

async fn with_redis_cli() -> Option<Broker> {
    if has_redis_cli().await { Some(Broker::start().await) } else { None }
}

async fn cli(port: u16, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port.to_string()]).args(arguments);
    succeeds(command, input).await
}

async fn node(name: &str, file: &str) {
    let Some(modules) = told("TENURE_THIRD_PARTY_NODE_PATH", name) else { return };
    let broker = Broker::start().await;
    let mut command = Command::new("node");
    command.arg(script(file)).arg(broker.address.port().to_string()).env("NODE_PATH", modules);
    succeeds(command, "").await;
}

async fn succeeds(mut command: Command, input: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut client = command.spawn().expect("the client starts");
    let mut stdin = client.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = tokio::time::timeout(TIMEOUT, client.wait_with_output()).await;
    let output = output.expect("the client ends in time").expect("it ran");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    said.into_owned()
}

fn told(variable: &str, client: &str) -> Option<OsString> {
    let value = std::env::var_os(variable);
    if value.is_none() {
        eprintln!("{variable} is not set, so {client} is not asked");
    }
    value
}

fn script(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/third_party").join(file)
}
