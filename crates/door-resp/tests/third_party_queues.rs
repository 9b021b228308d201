//! Celery and RQ against the real binary: they run their tasks unchanged, and a broker that is killed loses none.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How long one program may take, on a machine that has other things to do.
const TIMEOUT: Duration = Duration::from_secs(240);

struct Broker {
    binary: OsString,
    data: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl Broker {
    async fn start(binary: OsString) -> Broker {
        let data = tempfile::tempdir().expect("a directory");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|one| one.local_addr())
            .expect("a port")
            .port();
        let process = run(&binary, data.path(), port).await;
        Broker { binary, data, port, process }
    }

    /// `kill -9`, and another process on the same directory and port.
    async fn kill_and_restart(&mut self) {
        self.process.kill().await.expect("it is killed");
        self.process = run(&self.binary, self.data.path(), self.port).await;
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

async fn run(binary: &OsString, data: &Path, port: u16) -> Child {
    let mut command = Command::new(binary);
    command.arg("serve").arg("--data-dir").arg(data).args(["--resp", &format!("127.0.0.1:{port}")]);
    for door in ["--native", "--xmessage", "--mdp", "--pingpong", "--grpc", "--http"] {
        command.args([door, "off"]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let process = command.spawn().expect("the broker starts");
    let is_up = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, is_up).await.expect("the broker listens");
    process
}

/// Python with the packages, and the broker's binary; without them the test says so and is skipped.
fn programs(name: &str) -> Option<(OsString, OsString)> {
    let found = std::env::var_os("TENURE_THIRD_PARTY_PYTHON").zip(std::env::var_os("TENURE_BINARY"));
    if found.is_none() {
        eprintln!("TENURE_BINARY or TENURE_THIRD_PARTY_PYTHON is not set, so {name} is not asked");
    }
    found
}

fn python(python: &OsString, broker: &Broker, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.args(arguments).current_dir(folder()).env("TENURE_URL", broker.url()).env("PYTHONPATH", folder());
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A worker that goes with the test.
fn worker(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the worker starts")
}

/// What a client prints, line by line: the ids of its tasks.
async fn submitted(mut command: Command) -> Vec<String> {
    let mut client = command.stdout(Stdio::piped()).spawn().expect("the client starts");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let mut ids = Vec::new();
    while let Some(id) = lines.next_line().await.expect("it can be read") {
        ids.push(id);
    }
    ids
}

async fn succeeds(mut command: Command) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output =
        tokio::time::timeout(TIMEOUT, command.output()).await.expect("it ends in time").expect("it ran");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/third_party")
}

const CELERY_WORKER: [&str; 8] =
    ["-m", "celery", "-A", "celery_app", "worker", "--concurrency=2", "--pool=threads", "--loglevel=ERROR"];

#[tokio::test]
async fn celery_runs_tasks_groups_chains_chords_and_retries() {
    let Some((interpreter, binary)) = programs("Celery") else { return };
    let broker = Broker::start(binary).await;
    let _worker = worker(python(&interpreter, &broker, &CELERY_WORKER));
    succeeds(python(&interpreter, &broker, &["celery_app.py", "everything"])).await;
}

/// With the pool that Celery takes by default: a process for each task, which ends with its parent.
#[tokio::test]
async fn celery_runs_everything_in_its_default_pool_of_processes() {
    let Some((interpreter, binary)) = programs("Celery") else { return };
    let broker = Broker::start(binary).await;
    let arguments =
        CELERY_WORKER.map(|argument| if argument == "--pool=threads" { "--pool=prefork" } else { argument });
    let mut worker = worker(python(&interpreter, &broker, &arguments));
    succeeds(python(&interpreter, &broker, &["celery_app.py", "everything"])).await;
    let id = worker.id().expect("it runs").to_string();
    succeeds({
        let mut command = Command::new("kill");
        command.args(["-TERM", &id]);
        command
    })
    .await;
    tokio::time::timeout(TIMEOUT, worker.wait()).await.expect("it ends in time").expect("it has run");
}

#[tokio::test]
async fn a_broker_that_is_killed_loses_no_task_of_celery() {
    let Some((interpreter, binary)) = programs("Celery") else { return };
    let mut broker = Broker::start(binary).await;
    let ids = submitted(python(&interpreter, &broker, &["celery_app.py", "submit", "30"])).await;
    assert_eq!(ids.len(), 30);
    // The broker is killed when all tasks are acknowledged and none has run, and once more when all have results.
    broker.kill_and_restart().await;
    let _worker = worker(python(&interpreter, &broker, &CELERY_WORKER));
    let mut first = vec!["celery_app.py", "collect"];
    first.extend(ids[..5].iter().map(String::as_str));
    succeeds(python(&interpreter, &broker, &first)).await;
    let mut all = vec!["celery_app.py", "collect"];
    all.extend(ids.iter().map(String::as_str));
    succeeds(python(&interpreter, &broker, &all)).await;
    broker.kill_and_restart().await;
    succeeds(python(&interpreter, &broker, &all)).await;
}

#[tokio::test]
async fn a_broker_that_is_killed_while_a_celery_worker_is_busy_loses_nothing() {
    let Some((interpreter, binary)) = programs("Celery") else { return };
    let mut broker = Broker::start(binary).await;
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().to_str().expect("a path in UTF-8").to_owned();
    let _worker = worker(python(&interpreter, &broker, &CELERY_WORKER));
    let submit = python(&interpreter, &broker, &["celery_app.py", "submit-busy", "4", &path]);
    let ids = submitted(submit).await;
    assert_eq!(ids.len(), 4);
    // The worker has two threads: two tasks are busy, two wait, when the broker is killed.
    let busy = async {
        while !(0..2).all(|number| folder.path().join(format!("started-{number}")).exists()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, busy).await.expect("two tasks run");
    broker.kill_and_restart().await;
    std::fs::write(folder.path().join("go"), "").expect("the tasks are let go");
    let mut collect = vec!["celery_app.py", "collect"];
    collect.extend(ids.iter().map(String::as_str));
    succeeds(python(&interpreter, &broker, &collect)).await;
}

#[tokio::test]
async fn rq_runs_jobs_with_results_retries_dependencies_and_times() {
    let Some((interpreter, binary)) = programs("RQ") else { return };
    let broker = Broker::start(binary).await;
    let arguments = ["-m", "rq.cli", "worker", "--url", &broker.url(), "--with-scheduler"];
    let _worker = worker(python(&interpreter, &broker, &arguments));
    succeeds(python(&interpreter, &broker, &["rq_jobs.py"])).await;
}
