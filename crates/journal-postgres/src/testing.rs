//! Servers for tests: a primary with standbys, on loopback, in a temporary directory. They run as an unprivileged
//! user if the tests run as root, because the server refuses to run as root.

mod answer_proxy;
mod certificate;
mod faulty_host;
mod patroni;
mod ports;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use answer_proxy::AnswerProxy;
use certificate::TestCertificate;
pub use faulty_host::{FaultyAnswer, FaultyHost};
pub use patroni::{PATRONI_VARIABLE, PatroniCluster, patroni_programs};
pub use ports::free_port;

/// The variable that names the directory of PostgreSQL's programs. Without it these tests do nothing.
pub const VARIABLE: &str = "TENURE_TEST_POSTGRES";

/// The password for a secured cluster.
pub const PASSWORD: &str = "correct-horse";

/// How long a server may take to start, stop or be promoted on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directory of the programs. `None`: the caller says that it skips, and returns.
pub fn programs() -> Option<PathBuf> {
    let found = std::env::var_os(VARIABLE).map(PathBuf::from);
    if found.is_none() {
        eprintln!(
            "skipped: set {VARIABLE} to the directory of PostgreSQL's programs (`cargo xtask test` does)"
        );
    }
    found
}

/// A primary and its standbys.
#[derive(Debug)]
pub struct PostgresCluster {
    programs: PathBuf,
    dir: TempDir,
    user: Option<(u32, u32)>,
    /// All servers, running or not.
    pub servers: Vec<PostgresServer>,
    /// The index of the primary.
    pub primary: usize,
    /// Clients need TLS and the password.
    certificate: Option<TestCertificate>,
}

/// One PostgreSQL server of the test.
#[derive(Debug)]
pub struct PostgresServer {
    /// Its port on 127.0.0.1.
    pub port: u16,
    dir: PathBuf,
    process: Option<Child>,
}

impl PostgresCluster {
    /// Starts a primary with this many synchronous standbys; a commit waits for any one of them.
    pub fn start(programs: PathBuf, standbys: usize) -> PostgresCluster {
        PostgresCluster::begin(programs, standbys, None)
    }

    /// The same, and clients must use TLS and [`PASSWORD`].
    pub fn start_secured(programs: PathBuf, standbys: usize) -> PostgresCluster {
        PostgresCluster::begin(programs, standbys, Some(TestCertificate::new()))
    }

    /// No servers: those of the test are elsewhere.
    pub fn elsewhere() -> PostgresCluster {
        let dir = tempfile::tempdir().expect("a directory");
        let (programs, servers) = (PathBuf::new(), Vec::new());
        PostgresCluster { programs, dir, user: None, servers, primary: 0, certificate: None }
    }

    fn begin(programs: PathBuf, standbys: usize, certificate: Option<TestCertificate>) -> PostgresCluster {
        let dir = tempfile::Builder::new().prefix("tenure-postgres-").tempdir().expect("a directory");
        let user = unprivileged();
        if let Some((user, group)) = user {
            chown(dir.path(), Some(user), Some(group)).expect("the directory changes its owner");
        }
        let mut cluster =
            PostgresCluster { programs, dir, user, servers: Vec::new(), primary: 0, certificate };
        let data = cluster.dir.path().join("p0");
        cluster.program("initdb", &["-A", "trust", "-U", "tenure", "--no-sync", "-E", "UTF8", "-D"], &data);
        let port = free_port();
        let socket_dir = cluster.dir.path().display();
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{socket_dir}'\nmax_connections = 60\n\
             shared_buffers = 32MB\nwal_level = replica\nmax_wal_senders = 8\nwal_keep_size = 256MB\nhot_standby = on\n\
             wal_receiver_status_interval = 1s\nwal_retrieve_retry_interval = 200ms\nautovacuum_naptime = 10s\n"
        );
        append(&data.join("postgresql.conf"), &settings);
        append(&data.join("pg_hba.conf"), "host replication tenure 127.0.0.1/32 trust\n");
        cluster.servers.push(PostgresServer { port, dir: data, process: None });
        if let Some(certificate) = &cluster.certificate {
            certificate.install(&cluster.servers[0].dir, user);
        }
        cluster.start_server(0);
        cluster.sql(0, "create database work");
        if cluster.certificate.is_some() {
            cluster.sql(0, &format!("alter role tenure password '{PASSWORD}'"));
            let access =
                "hostssl all all 127.0.0.1/32 scram-sha-256\nhost replication tenure 127.0.0.1/32 trust\n";
            fs::write(cluster.servers[0].dir.join("pg_hba.conf"), access).expect("a file of the server");
            cluster.sql(0, "select pg_reload_conf()");
        }
        for _ in 0..standbys {
            cluster.add_standby();
        }
        if standbys > 0 {
            // Only now: without standbys every commit would wait.
            for index in 0..cluster.servers.len() {
                let names = "synchronous_standby_names = 'ANY 1 (p0, p1, p2)'\n";
                append(&cluster.servers[index].dir.join("postgresql.conf"), names);
                cluster.sql(index, "select pg_reload_conf()");
            }
            let waiting = "select count(*) from pg_stat_replication where sync_state = 'quorum'";
            cluster.wait(0, waiting, &standbys.to_string());
        }
        cluster
    }

    /// Starts one more standby from a copy of the primary.
    pub fn add_standby(&mut self) -> usize {
        let index = self.servers.len();
        let data = self.dir.path().join(format!("p{index}"));
        self.servers.push(PostgresServer { port: free_port(), dir: data, process: None });
        self.copy_from_primary(index);
        self.start_server(index);
        index
    }

    /// Replaces what a stopped server has by a copy of the primary, and starts it as a standby.
    pub fn rebuild(&mut self, index: usize) {
        self.kill(index);
        fs::remove_dir_all(&self.servers[index].dir).expect("the old files go");
        self.copy_from_primary(index);
        self.start_server(index);
    }

    fn copy_from_primary(&self, index: usize) {
        let data = &self.servers[index].dir;
        let port = self.servers[self.primary].port.to_string();
        let options =
            ["-h", "127.0.0.1", "-p", &port, "-U", "tenure", "-c", "fast", "-X", "stream", "--no-sync", "-D"];
        self.program("pg_basebackup", &options, data);
        self.follow_primary_file(index);
        fs::write(data.join("standby.signal"), "").expect("a file in the copy");
    }

    fn follow_primary_file(&self, index: usize) {
        append(
            &self.servers[index].dir.join("postgresql.auto.conf"),
            &format!("primary_conninfo = '{}'\n", self.conninfo(index)),
        );
    }

    fn conninfo(&self, index: usize) -> String {
        let port = self.servers[self.primary].port;
        format!("host=127.0.0.1 port={port} user=tenure application_name=p{index}")
    }

    /// Starts a server that is not running, and waits until it answers.
    pub fn start_server(&mut self, index: usize) {
        let server = &self.servers[index];
        let log = fs::OpenOptions::new().create(true).append(true).open(server.dir.with_extension("log"));
        let log = log.expect("a log file");
        let mut command = self.command("postgres");
        command.arg("-D").arg(&server.dir).args(["-p", &server.port.to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log file")).stderr(log);
        let process = command.spawn().expect("the server starts");
        self.servers[index].process = Some(process);
        self.wait(index, "select 1", "1");
    }

    /// The URL of all servers, for `--journal`.
    pub fn url(&self) -> String {
        self.url_of(&(0..self.servers.len()).collect::<Vec<_>>())
    }

    /// The URL of some of the servers.
    pub fn url_of(&self, indexes: &[usize]) -> String {
        let hosts: Vec<String> =
            indexes.iter().map(|index| format!("127.0.0.1:{}", self.servers[*index].port)).collect();
        format!("postgres://tenure@{}/work", hosts.join(","))
    }

    /// The URL for a secured cluster, which trusts these authorities: a PEM file.
    pub fn secured_url(&self, user: &str, password: &str, authorities: &Path) -> String {
        let address = self.url().replace("tenure@", &format!("{user}:{password}@"));
        format!("{address}?sslmode=verify-full&sslrootcert={}", authorities.display())
    }

    /// The authority of the servers' certificate.
    pub fn authority(&self) -> &Path {
        self.certificate.as_ref().expect("the cluster is secured").authority()
    }

    /// Kills a server and all its processes at once, as a power failure would.
    pub fn kill(&mut self, index: usize) {
        let Some(mut process) = self.servers[index].process.take() else { return };
        let children = children_of(process.id());
        let _ = process.kill();
        for child in children {
            signal(child, Signal::KILL);
        }
        let _ = process.wait();
    }

    /// Stops or continues a server and all its processes.
    pub fn freeze(&self, index: usize, is_frozen: bool) {
        let Some(process) = &self.servers[index].process else { return };
        let sent = if is_frozen { Signal::STOP } else { Signal::CONT };
        signal(process.id(), sent);
        for child in children_of(process.id()) {
            signal(child, sent);
        }
    }

    /// Kills the primary, promotes the standby that has received most, and lets the others follow it.
    pub fn fail_over(&mut self) {
        self.kill(self.primary);
        let standbys: Vec<usize> =
            (0..self.servers.len()).filter(|index| self.servers[*index].process.is_some()).collect();
        // What the primary has sent may still be on its way. A server that gets more than the one that is promoted could
        // not follow it.
        for index in &standbys {
            let receiving = "select count(*) from pg_stat_wal_receiver where status = 'streaming'";
            self.wait(*index, receiving, "0");
        }
        let received = |index: &usize| {
            let lsn = self.sql(*index, "select pg_last_wal_receive_lsn() - '0/0'");
            lsn.trim().parse::<u64>().unwrap_or(0)
        };
        let next = standbys.iter().copied().max_by_key(received).expect("a standby runs");
        self.promote(next);
        for index in standbys.into_iter().filter(|index| *index != next) {
            self.follow(index);
        }
    }

    /// Makes a standby the primary.
    pub fn promote(&mut self, index: usize) {
        self.program("pg_ctl", &["promote", "-w", "-D"], &self.servers[index].dir.clone());
        self.primary = index;
        self.wait(index, "select pg_is_in_recovery()", "f");
    }

    /// Lets a running standby follow the present primary.
    pub fn follow(&self, index: usize) {
        let conninfo = self.conninfo(index);
        self.sql(index, &format!("alter system set primary_conninfo = '{conninfo}'"));
        self.sql(index, "select pg_reload_conf()");
    }

    /// Runs a statement and returns what it prints. Fails the test if the statement fails.
    pub fn sql(&self, index: usize, statement: &str) -> String {
        let database = if statement.starts_with("create database") { "postgres" } else { "work" };
        self.sql_in(index, database, statement).unwrap_or_else(|said| panic!("{statement}: {said}"))
    }

    fn sql_in(&self, index: usize, database: &str, statement: &str) -> Result<String, String> {
        let port = self.servers[index].port.to_string();
        let mut command = self.command("psql");
        command.args([
            "-h",
            "127.0.0.1",
            "-U",
            "tenure",
            "-p",
            &port,
            "-d",
            database,
            "-AtqX",
            "-c",
            statement,
        ]);
        // A test must not hang because a commit waits for a standby.
        command.env("PGPASSWORD", PASSWORD);
        command.env("PGCONNECT_TIMEOUT", "5").env("PGOPTIONS", "-c statement_timeout=60s");
        let output = command.stdin(Stdio::null()).output().expect("psql runs");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// The end of what a server has logged.
    pub fn log(&self, index: usize) -> String {
        let log = fs::read_to_string(self.servers[index].dir.with_extension("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Waits until a statement answers this.
    pub fn wait(&self, index: usize, statement: &str, expected: &str) {
        let since = Instant::now();
        loop {
            let database = if statement == "select 1" { "postgres" } else { "work" };
            let said = self.sql_in(index, database, statement);
            if said.as_ref().is_ok_and(|said| said.trim() == expected) {
                return;
            }
            let log = fs::read_to_string(self.servers[index].dir.with_extension("log")).unwrap_or_default();
            assert!(since.elapsed() < PATIENCE, "{statement} says {said:?}, not {expected}; log:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn program(&self, name: &str, options: &[&str], data: &Path) {
        let output = self.command(name).args(options).arg(data).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.dir.path()).env("LC_ALL", "C").env_remove("PGPASSFILE");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group).env("HOME", self.dir.path());
        }
        command
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        for index in 0..self.servers.len() {
            self.kill(index);
        }
    }
}

/// The user and group for the servers, if this process is root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("the list of users");
    let of = |name: &str| {
        let line = passwd.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    Some(of("postgres").or_else(|| of("daemon")).expect("an unprivileged user"))
}

fn append(file: &Path, text: &str) {
    use std::io::Write as _;
    let mut file = fs::OpenOptions::new().append(true).create(true).open(file).expect("a file of the server");
    file.write_all(text.as_bytes()).expect("a file of the server");
}

/// The processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|process| parent_of(*process) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may contain spaces.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn signal(process: u32, sent: Signal) {
    if let Some(pid) = Pid::from_raw(process.cast_signed()) {
        let _ = kill_process(pid, sent);
    }
}
