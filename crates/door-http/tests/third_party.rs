//! The dashboard in a browser that others wrote. `cargo xtask third-party` installs it and says where it is; without it
//! the test says so and is skipped.

use std::env::{temp_dir, var_os};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long the browser may take.
const TIMEOUT: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_watches_a_worker_die_resumes_its_task_and_cancels_it() {
    let folder = Folder(temp_dir().join(format!("tenure-dashboard-{}", std::process::id())));
    browse("browser.js", &folder).await;
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

/// Runs a script in the browser against a broker of its own. Returns whether there is a browser.
async fn browse(script: &str, folder: &Folder) -> bool {
    let told = ["TENURE_THIRD_PARTY_NODE_PATH", "TENURE_THIRD_PARTY_BROWSER", "TENURE_BINARY"].map(var_os);
    let [Some(node_path), Some(browser), Some(binary)] = told else {
        eprintln!(
            "TENURE_THIRD_PARTY_NODE_PATH, TENURE_THIRD_PARTY_BROWSER or TENURE_BINARY is not set, so nobody looks"
        );
        return false;
    };
    let mut serve = Command::new(&binary);
    serve.arg("serve").arg("--data-dir").arg(folder.0.join("data")).args(["--print-addresses", "json"]);
    serve.args(["--native", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
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
