//! Three brokers on one database.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tenure_journal_postgres::testing::{PostgresCluster, free_port, programs};

use crate::redis::Redis;
use crate::support::{Log, NATIVE_ONLY, Said, TIMEOUT, program, program_at, run};

pub(crate) struct Stage {
    pub(crate) postgres: PostgresCluster,
    pub(crate) members: Vec<TestMember>,
    url: String,
    /// The database has no standby, and the members are allowed to use it.
    is_single: bool,
    pub(crate) scratch: TempDir,
}

/// One broker of the group.
pub(crate) struct TestMember {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    pub(crate) resp_port: u16,
    grpc_port: u16,
    /// Another build of the program.
    pub(crate) program: Option<PathBuf>,
    process: Option<(Child, Log)>,
}

impl TestMember {
    pub(crate) fn new(name: &str, dir: PathBuf) -> TestMember {
        let (port, resp_port, grpc_port) = (free_port(), free_port(), free_port());
        TestMember {
            name: name.to_owned(),
            group: "g1".to_owned(),
            dir,
            port,
            resp_port,
            grpc_port,
            program: None,
            process: None,
        }
    }
}

impl Stage {
    /// `None` without PostgreSQL.
    pub(crate) fn start(standbys: usize, members: usize) -> Option<Stage> {
        let postgres = PostgresCluster::start(programs()?, standbys);
        let url = postgres.url();
        Some(Stage::on(postgres, url, members))
    }

    /// The same on servers that run, which the members find by this URL.
    pub(crate) fn on(postgres: PostgresCluster, url: String, members: usize) -> Stage {
        let scratch = tempfile::tempdir().expect("a directory");
        let is_single = postgres.servers.len() == 1;
        let mut stage = Stage { postgres, members: Vec::new(), url, is_single, scratch };
        stage.cluster(&["init"]).ok();
        for number in 1..=members {
            let name = format!("b{number}");
            let dir = stage.scratch.path().join(&name);
            stage.members.push(TestMember::new(&name, dir));
            stage.start_member(number - 1, &[]);
        }
        if members > 0 {
            stage.leader();
        }
        stage
    }

    pub(crate) fn start_member(&mut self, index: usize, args: &[&str]) {
        let member = &mut self.members[index];
        let args_of_all = ["serve", "--restart-grace", "20s"];
        let mut command = match &member.program {
            Some(older) => program_at(older, &args_of_all),
            None => program(&args_of_all),
        };
        command
            .envs(NATIVE_ONLY)
            .env("TENURE_JOURNAL", &self.url)
            .env("TENURE_JOURNAL_LEASE", "2s")
            .env("TENURE_NAME", &member.name)
            .env("TENURE_GROUP", &member.group);
        if self.is_single {
            command.env("TENURE_JOURNAL_SINGLE", "on");
        }
        command.env("TENURE_NATIVE", format!("127.0.0.1:{}", member.port)).env("TENURE_LOG", "info");
        command
            .env("TENURE_RESP", format!("127.0.0.1:{}", member.resp_port))
            .env("TENURE_GRPC", format!("127.0.0.1:{}", member.grpc_port))
            .env("TENURE_DURABLE_TOPICS", "audit.>")
            .env("TENURE_DURABLE_MESSAGES", "1000000");
        command.arg("--data-dir").arg(&member.dir).args(args).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Log::of(child.stderr.take().expect("its log"));
        member.process = Some((child, log));
    }

    /// The addresses of all members, as a client names them.
    pub(crate) fn addresses(&self) -> String {
        let all: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        all.join(",")
    }

    /// Runs the program as a client of the group.
    pub(crate) fn client(&self, args: &[&str]) -> Said {
        let mut command = program(args);
        command.args(["--broker", &self.addresses()]);
        run(command)
    }

    /// One Redis command at the door of a member, and its reply.
    pub(crate) fn redis(&self, index: usize, command: &str) -> String {
        let asked = Redis::connect(self.members[index].resp_port).and_then(|mut redis| redis.ask(command));
        asked.unwrap_or_else(|error| panic!("{command}: {error}; {}", self.logs()))
    }

    pub(crate) fn native_ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    pub(crate) fn resp_ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.resp_port).collect()
    }

    pub(crate) fn grpc_ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.grpc_port).collect()
    }

    pub(crate) fn cluster(&self, args: &[&str]) -> Said {
        run(self.cluster_command("g1", args))
    }

    pub(crate) fn cluster_command(&self, group: &str, args: &[&str]) -> Command {
        let mut command = program(&["cluster"]);
        command.args(args).args(["--group", group]).env("TENURE_JOURNAL", &self.url);
        // What a program leaves behind when it is killed goes with the story.
        command.env("TMPDIR", self.scratch.path());
        command
    }

    pub(crate) fn status(&self) -> Option<Value> {
        self.status_of("g1")
    }

    fn status_of(&self, group: &str) -> Option<Value> {
        let said = run(self.cluster_command(group, &["status", "-o", "json"]));
        serde_json::from_str(&said.out).ok()
    }

    /// Waits until a member leads, and returns its index.
    pub(crate) fn leader(&self) -> usize {
        self.leader_other_than(None)
    }

    /// Waits until another member leads than the one that is gone. A higher epoch alone says nothing: a leader begins
    /// one on each new connection.
    pub(crate) fn leader_other_than(&self, gone: Option<usize>) -> usize {
        self.leader_of("g1", gone)
    }

    pub(crate) fn leader_of(&self, group: &str, gone: Option<usize>) -> usize {
        let since = Instant::now();
        loop {
            if let Some(status) = self.status_of(group)
                && let Some(name) = status["leader"].as_str()
                && let Some(index) = self.members.iter().position(|member| member.name == name)
                && gone != Some(index)
                && self.serves(index)
            {
                return index;
            }
            assert!(since.elapsed() < TIMEOUT, "no member leads; logs:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether a member has taken over and serves. The group names it before that, while its doors still forward.
    fn serves(&self, index: usize) -> bool {
        let log = self.log(index);
        log.rfind("this member leads") > log.rfind("stands by")
            && TcpStream::connect(("127.0.0.1", self.members[index].port)).is_ok()
    }

    /// The state of the group, as soon as the database gives it.
    pub(crate) fn awaited_status(&self) -> Value {
        let since = Instant::now();
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            assert!(since.elapsed() < TIMEOUT, "the database gives no status; logs:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the group knows of a member, if it has joined.
    pub(crate) fn member_status(&self, name: &str) -> Option<Value> {
        let status = self.awaited_status();
        let members = status["members"].as_array().expect("members");
        members.iter().find(|member| member["name"] == name).cloned()
    }

    pub(crate) fn kill(&mut self, index: usize) {
        if let Some((mut child, _)) = self.members[index].process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, index: usize, sent: Signal) {
        if let Some((child, _)) = &self.members[index].process {
            let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
            let _ = kill_process(pid, sent);
        }
    }

    /// Asks to stop, and returns the code.
    pub(crate) fn stop(&mut self, index: usize) -> i32 {
        self.signal(index, Signal::TERM);
        self.ended(index).0
    }

    /// Waits until a member has ended, and returns its code and its log.
    pub(crate) fn ended(&mut self, index: usize) -> (i32, String) {
        let (mut child, mut log) = self.members[index].process.take().expect("it runs");
        let since = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("it can be asked") {
                return (status.code().unwrap_or(-1), log.whole());
            }
            if since.elapsed() > TIMEOUT {
                let _ = child.kill();
                panic!("it does not end:\n{}", log.so_far());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn is_running(&mut self, index: usize) -> bool {
        match &mut self.members[index].process {
            Some((child, _)) => child.try_wait().is_ok_and(|ended| ended.is_none()),
            None => false,
        }
    }

    /// The memory of a member that is in use, as the system says it.
    pub(crate) fn memory_of(&self, index: usize) -> String {
        let Some((child, _)) = &self.members[index].process else { return String::new() };
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The CPU time of a member in ticks of the system, in user and in system mode.
    pub(crate) fn cpu_ticks_of(&self, index: usize) -> Option<u64> {
        let (child, _) = self.members[index].process.as_ref()?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
        // The name of the program comes before them, in parentheses.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    }

    pub(crate) fn log(&self, index: usize) -> String {
        self.members[index].process.as_ref().map(|(_, log)| log.so_far()).unwrap_or_default()
    }

    pub(crate) fn logs(&self) -> String {
        let of = |index: usize| format!("--- {}\n{}", self.members[index].name, self.log(index));
        (0..self.members.len()).map(of).collect::<Vec<_>>().join("\n")
    }
}

/// Whether a member whose directory was emptied has a journal again, and the group knows it. The row of its last
/// process says nothing about the new copy.
pub(crate) fn has_copied(stage: &Stage, index: usize) -> bool {
    let TestMember { name, dir, .. } = &stage.members[index];
    let has_journal = std::fs::read_dir(dir).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("journal-"))
    });
    let position = stage.member_status(name).and_then(|member| member["position"].as_u64());
    has_journal && position > Some(0)
}

impl Drop for Stage {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            self.kill(index);
        }
    }
}

/// The whole answer of an HTTP door, with its status line; empty if there is none. Each header ends with a line break.
pub(crate) fn http(door: &str, path: &str, headers: &str) -> String {
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(door)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().unwrap_or_default()
}
