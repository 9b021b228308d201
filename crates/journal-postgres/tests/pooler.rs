//! A connection pooler between the broker and the database: PgBouncer, where it is installed.

use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_journal_postgres::testing::{PostgresCluster, free_port, programs};
use tenure_journal_postgres::{PostgresJournal, PostgresSettings};

const LEASE: Duration = Duration::from_secs(5);
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// PgBouncer in front of the first server of a cluster.
struct Pooler {
    process: Child,
    port: u16,
    _scratch: TempDir,
}

impl Pooler {
    fn start(program: &Path, cluster: &PostgresCluster, mode: &str) -> Pooler {
        let scratch = tempfile::tempdir().expect("a directory");
        let url = cluster.url_of(&[0]);
        let server = url.split_once('@').and_then(|(_, rest)| rest.split_once('/')).expect("a host").0;
        let (host, server_port) = server.split_once(':').expect("a port");
        let port = free_port();
        let settings = format!(
            "[databases]\nwork = host={host} port={server_port} dbname=work user=tenure\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             default_pool_size = 20\nignore_startup_parameters = extra_float_digits,options\n"
        );
        let file = scratch.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let mut command = Command::new(program);
        command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root.
            command.uid(65534);
            let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(scratch.path(), readable).expect("a directory of ours");
        }
        let process = command.spawn().expect("it starts");
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(since.elapsed() < STARTS_WITHIN, "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Pooler { process, port, _scratch: scratch }
    }

    fn journal(&self) -> PostgresJournal {
        let address = format!("postgres://tenure@127.0.0.1:{}/work", self.port).parse().expect("a URL");
        PostgresJournal::new(PostgresSettings {
            address,
            group: "g1".into(),
            member: "b1".into(),
            lease: LEASE,
        })
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pgbouncer() -> Option<PathBuf> {
    let found =
        ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(PathBuf::from).into_iter().find(|at| at.exists());
    if found.is_none() {
        println!("skipped: pgbouncer is not installed");
    }
    found
}

#[test]
fn a_pooler_that_mixes_sessions_is_refused_with_what_to_do_and_one_that_keeps_them_is_not() {
    let (Some(programs), Some(program)) = (programs(), pgbouncer()) else { return };
    let cluster = PostgresCluster::start(programs, 0);
    let address = cluster.url().parse().expect("a URL");
    let settings = PostgresSettings { address, group: "g1".into(), member: "b1".into(), lease: LEASE };
    PostgresJournal::new(settings).create().expect("a group");
    let mixing = Pooler::start(&program, &cluster, "transaction");
    let refused = mixing.journal().check().expect_err("it breaks sessions").to_string();
    assert!(refused.contains("use its session mode"), "{refused}");
    let keeping = Pooler::start(&program, &cluster, "session");
    keeping.journal().check().expect("each connection is a session of its own");
}
