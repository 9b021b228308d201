//! Three servers of PostgreSQL under Patroni, on loopback: it fails over by itself, as in a data centre.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{children_of, free_port, signal, unprivileged};

/// The variable that names the Python of an environment with Patroni. Without it these tests do nothing.
pub const PATRONI_VARIABLE: &str = "TENURE_TEST_PATRONI";

/// How long Patroni may take for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const SERVERS: usize = 3;

/// The servers, and the etcd that knows who leads.
#[derive(Debug)]
pub struct PatroniCluster {
    programs: PathBuf,
    python: PathBuf,
    dir: TempDir,
    user: Option<(u32, u32)>,
    etcd: Option<Child>,
    nodes: Vec<PatroniNode>,
}

#[derive(Debug)]
struct PatroniNode {
    /// The port of PostgreSQL, and that of Patroni's own interface.
    port: u16,
    rest_port: u16,
    process: Option<Child>,
}

/// The Python with Patroni, and the directory of PostgreSQL's programs. `None`: the caller says that it skips.
pub fn patroni_programs() -> Option<(PathBuf, PathBuf)> {
    let found = std::env::var_os(PATRONI_VARIABLE).map(PathBuf::from);
    if found.is_none() {
        eprintln!(
            "skipped: set {PATRONI_VARIABLE} to a Python with Patroni (`cargo xtask test patroni` does)"
        );
    }
    Some((found?, super::programs()?))
}

impl PatroniCluster {
    /// Starts all servers with Patroni's own defaults and a synchronous standby, and creates the database `work`.
    pub fn start((python, programs): (PathBuf, PathBuf)) -> PatroniCluster {
        let dir = tempfile::Builder::new().prefix("tenure-patroni-").tempdir().expect("a directory");
        let user = unprivileged();
        if let Some((user, group)) = user {
            chown(dir.path(), Some(user), Some(group)).expect("the directory changes its owner");
        }
        let mut cluster = PatroniCluster { programs, python, dir, user, etcd: None, nodes: Vec::new() };
        let etcd_port = cluster.start_etcd();
        for index in 0..SERVERS {
            let (port, rest_port) = (free_port(), free_port());
            let config = cluster.config(index, etcd_port, port, rest_port);
            fs::write(cluster.config_file(index), config).expect("a configuration");
            cluster.nodes.push(PatroniNode { port, rest_port, process: None });
        }
        // One begins, so that the others copy it.
        for index in 0..SERVERS {
            cluster.start_node(index);
            cluster.await_all("a primary", |cluster| cluster.primary().is_some());
        }
        let primary = cluster.primary().expect("a primary");
        let mut command = cluster.command(&cluster.programs.join("psql"));
        command.args([
            "-h",
            "127.0.0.1",
            "-U",
            "tenure",
            "-d",
            "postgres",
            "-c",
            "create database work",
            "-p",
        ]);
        let created = command.arg(cluster.nodes[primary].port.to_string()).output().expect("psql runs");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        cluster.await_healthy();
        cluster
    }

    fn start_etcd(&mut self) -> u16 {
        let [client, peer] = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = self.command(Path::new("etcd"));
        command.args(["--name", "e0", "--data-dir"]).arg(self.dir.path().join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("e0={peer}")]);
        self.etcd = Some(self.spawn(command, "etcd"));
        client.rsplit(':').next().and_then(|port| port.parse().ok()).expect("its port")
    }

    fn config(&self, index: usize, etcd_port: u16, port: u16, rest_port: u16) -> String {
        let (dir, programs) = (self.dir.path().display(), self.programs.display());
        format!(
            "scope: tenure\nname: p{index}\n\
             restapi: {{listen: '127.0.0.1:{rest_port}', connect_address: '127.0.0.1:{rest_port}'}}\n\
             etcd3: {{host: '127.0.0.1:{etcd_port}'}}\n\
             bootstrap:\n  dcs:\n    synchronous_mode: true\n    synchronous_mode_strict: true\n    \
             postgresql:\n      use_pg_rewind: true\n      parameters:\n        max_connections: 60\n        \
             shared_buffers: 32MB\n        wal_log_hints: 'on'\n  initdb: [encoding: UTF8, auth: trust, no-sync]\n\
             postgresql:\n  listen: '127.0.0.1:{port}'\n  connect_address: '127.0.0.1:{port}'\n  \
             data_dir: '{dir}/p{index}'\n  bin_dir: '{programs}'\n  pgpass: '{dir}/pgpass{index}'\n  \
             authentication:\n    superuser: {{username: tenure, password: none}}\n    \
             replication: {{username: tenure, password: none}}\n    rewind: {{username: tenure, password: none}}\n  \
             pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication tenure 127.0.0.1/32 trust']\n  \
             parameters: {{unix_socket_directories: '{dir}'}}\n"
        )
    }

    fn config_file(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("p{index}.yml"))
    }

    /// The URL of all servers, for `--journal`.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("postgres://tenure@{}/work", hosts.join(","))
    }

    /// Which server is the primary, as its Patroni says.
    pub fn primary(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|index| self.says(*index, "GET /primary", ""))
    }

    /// Waits until there is a primary with a synchronous standby, and the third server follows as well.
    pub fn await_healthy(&self) {
        self.await_all("two standbys, one of them synchronous", |cluster| {
            let count = |what: &str| (0..SERVERS).filter(|index| cluster.says(*index, what, "")).count();
            count("GET /primary") == 1 && count("GET /replica") == 2 && count("GET /sync") == 1
        });
    }

    /// Waits until there is a primary of which this is true.
    pub fn await_primary(&self, is_wanted: impl Fn(usize) -> bool) {
        self.await_all("a primary", |cluster| cluster.primary().is_some_and(&is_wanted));
    }

    /// Kills PostgreSQL, and not its Patroni.
    pub fn kill_postgres(&self, index: usize) {
        let file = self.dir.path().join(format!("p{index}")).join("postmaster.pid");
        let text = fs::read_to_string(file).unwrap_or_default();
        let Some(process) = text.lines().next().and_then(|line| line.parse().ok()) else { return };
        let children = children_of(process);
        for process in [process].into_iter().chain(children) {
            signal(process, Signal::KILL);
        }
    }

    /// Kills everything on the machine of a server.
    pub fn kill_machine(&mut self, index: usize) {
        if let Some(mut patroni) = self.nodes[index].process.take() {
            let _ = patroni.kill();
            let _ = patroni.wait();
        }
        self.kill_postgres(index);
    }

    /// Starts Patroni, and it PostgreSQL.
    pub fn start_node(&mut self, index: usize) {
        let mut command = self.command(&self.python);
        command.args(["-m", "patroni"]).arg(self.config_file(index));
        self.nodes[index].process = Some(self.spawn(command, &format!("p{index}")));
    }

    /// Asks Patroni to let its synchronous standby take over.
    pub fn switch_over(&self, index: usize) {
        let body = format!("{{\"leader\": \"p{index}\"}}");
        self.await_all("the switchover", |cluster| cluster.says(index, "POST /switchover", &body));
    }

    /// Whether the interface of a Patroni answers that something is so.
    fn says(&self, index: usize, request: &str, body: &str) -> bool {
        let port = self.nodes[index].rest_port;
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let length = body.len();
            write!(
                stream,
                "{request} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            )?;
            let mut said = String::new();
            stream.read_to_string(&mut said)?;
            Ok(said)
        };
        ask().is_ok_and(|said| said.split(' ').nth(1) == Some("200"))
    }

    fn await_all(&self, what: &str, is_so: impl Fn(&PatroniCluster) -> bool) {
        let since = Instant::now();
        while !is_so(self) {
            let logs: Vec<String> = (0..self.nodes.len())
                .map(|index| {
                    fs::read_to_string(self.dir.path().join(format!("p{index}.log"))).unwrap_or_default()
                })
                .collect();
            assert!(
                since.elapsed() < PATIENCE,
                "{what}: not after {PATIENCE:?}; logs:\n{}",
                logs.join("\n---\n")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("LC_ALL", "C").env_remove("PGPASSFILE").stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group).env("HOME", self.dir.path());
        }
        command
    }

    fn spawn(&self, mut command: Command, name: &str) -> Child {
        let log = self.dir.path().join(format!("{name}.log"));
        let log = fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        command.stdout(log.try_clone().expect("a log file")).stderr(log);
        command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"))
    }
}

impl Drop for PatroniCluster {
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill_machine(index);
        }
        if let Some(mut etcd) = self.etcd.take() {
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
    }
}
