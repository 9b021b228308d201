//! Starting, stopping and reloading a broker.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use crate::support::{Broker, eventually, program, run, serve};

#[test]
fn the_welcome_fits_on_a_screen_and_says_how_to_begin() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready.json");
    let mut command = program(&["serve", "--data-dir"]);
    command.arg(dir.path().join("data")).envs(crate::support::NATIVE_ONLY).arg("--ready-file").arg(&ready);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    eventually("the ready file is there", || ready.exists());
    let line: serde_json::Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
    let address = line["doors"]["native"].as_str().unwrap();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() <= 24, "{text}");
    for part in [
        env!("CARGO_PKG_VERSION"),
        address,
        "always: what is acknowledged is on disk",
        "0 tasks",
        "echo hello",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn sigterm_drains_and_what_was_acknowledged_is_there_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(dir.path(), &[]);
    let task = broker.submit(&["--queue", "q", "a body"]);
    broker.signal("-TERM");
    let (code, log) = broker.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("draining") && log.contains("the broker has stopped"), "{log}");
    let broker = Broker::start_in(dir.path(), &[]);
    assert_eq!(broker.tenure(&["show", "--body", &task]).ok(), "a body");
}

#[test]
fn a_second_signal_stops_at_once_and_still_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(dir.path(), &[]);
    let task = broker.submit(&["-q", "q", "x"]);
    for _ in 0..20 {
        broker.signal("-INT");
    }
    let (code, log) = broker.ended();
    // The first may have been enough.
    assert!(matches!(code, Some(0 | 130)), "{code:?} {log}");
    let broker = Broker::start_in(dir.path(), &[]);
    assert_eq!(broker.state(&task), "ready");
}

#[test]
fn kill_minus_nine_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(dir.path(), &[]);
    let task = broker.submit(&["--queue", "q", "a body"]);
    broker.signal("-KILL");
    broker.ended();
    let broker = Broker::start_in(dir.path(), &[]);
    assert_eq!(broker.state(&task), "ready");
}

#[test]
fn waiting_outlives_a_restart_of_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start_in(dir.path(), &[]);
    let address = broker.address.clone();
    let task = broker.submit(&["-q", "q", "x"]);
    let mut waiting = broker.command(&["wait", &task, "--connect-timeout", "200ms"]);
    waiting.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    let mut err = BufReader::new(waiting.stderr.take().unwrap());
    // It must be waiting before the broker goes.
    eventually("it is connected", || sessions(&broker) >= 2);
    broker.signal("-KILL");
    broker.ended();
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    assert!(line.contains("connection to the broker lost"), "{line}");
    let broker = Broker::start_in(dir.path(), &["--native", &address]);
    let _worker = broker.worker("w1", "q");
    let output = waiting.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"did x"[..]));
}

/// How many peers are connected, this one with them.
fn sessions(broker: &Broker) -> u64 {
    let figures = broker.tenure(&["stats", "-o", "json"]).json()["figures"].clone();
    let sessions = figures.as_object().unwrap().iter().find(|(name, _)| name.ends_with("sessions"));
    sessions.unwrap().1.as_f64().unwrap() as u64
}

#[test]
fn a_directory_in_use_is_reported_with_the_process_that_has_it() {
    let broker = Broker::start();
    let pid = broker.child.id().to_string();
    let said = run(serve(&broker.dir, &[]));
    let err = said.fails(71, "is in use by process");
    assert!(err.contains(&pid) && err.contains("--data-dir"), "{err}");
}

#[test]
fn a_taken_port_is_reported_with_the_flag_that_helps() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    run(serve(dir.path(), &["--native", &address])).fails(71, "--native");
    // What failed to start holds nothing.
    drop(other);
    drop(Broker::start_in(dir.path(), &[]));
}

#[test]
fn without_keys_only_loopback_is_served() {
    let dir = tempfile::tempdir().unwrap();
    run(serve(dir.path(), &["--native", "0.0.0.0:0"])).fails(64, "add keys, or listen on 127.0.0.1");
    run(serve(dir.path(), &["--native", "off"])).fails(64, "all doors are off");
}

#[test]
fn a_unix_socket_serves_and_goes_with_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("tenure.sock");
    let broker = Broker::start_with(&["--native-unix", socket.to_str().unwrap()]);
    let address = format!("unix:{}", socket.display());
    assert_eq!(broker.doors["native_unix"], address.as_str());
    run(program(&["--broker", &address, "stats"])).ok();
    broker.signal("-TERM");
    assert_eq!(broker.ended().0, Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_hang_up_reloads_keys_and_settings_and_tells_what_needs_a_restart() {
    const OLD: &str = "00112233445566778899aabbccddeeff";
    const NEW: &str = "ffeeddccbbaa99887766554433221100";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tenure.toml");
    let write = |key: &str, kept: u32, size: &str| {
        let text = format!(
            "ended_kept = {kept}\nsegment_size = \"{size}\"\n[[keys]]\nname = \"ada\"\nkey = \"{key}\"\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write(OLD, 10, "64MB");
    let broker = Broker::start_in(dir.path(), &[]);
    let with = |key: &str| {
        let mut command = broker.command(&["stats"]);
        command.env("TENURE_KEY", key);
        run(command)
    };
    with(OLD).ok();
    with(NEW).fails(77, "TENURE_KEY");
    broker.tenure(&["stats"]).fails(77, "TENURE_KEY");
    write(NEW, 20, "32MB");
    broker.signal("-HUP");
    eventually("the new key opens", || with(NEW).code == 0);
    with(OLD).fails(77, "TENURE_KEY");
    std::fs::write(&file, "ended_kepd = 1\n").unwrap();
    broker.signal("-HUP");
    std::fs::write(&file, "ended_kept = 1\n").unwrap();
    broker.signal("-HUP");
    with(OLD).fails(77, "TENURE_KEY");
    broker.signal("-TERM");
    let (code, log) = broker.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("ended_kept") && log.contains("needs a restart") && log.contains("segment_size"),
        "{log}"
    );
    for secret in [OLD, NEW] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a_broker_that_is_just_going_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let task = Broker::start_in(dir.path(), &[]).submit(&["-q", "q", "x"]);
    // As of a process that was killed and has not let go yet.
    let going = std::fs::File::open(dir.path().join("lock")).unwrap();
    going.lock().unwrap();
    let gone = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(going);
    });
    let broker = Broker::start_in(dir.path(), &[]);
    gone.join().unwrap();
    assert_eq!(broker.state(&task), "ready");
}

/// One request on a connection of its own. Returns the answer as it came, or nothing if there is no broker.
fn ask(address: &str, request: &str) -> Option<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_broker_that_reads_its_journal_says_that_it_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let broker = Broker::start_in(dir.path(), &["--http", &address]);
    // Enough that their recovery takes a while.
    let tasks = vec!["{}"; 1_000].join(",");
    let body = format!("{{\"tasks\":[{tasks}]}}");
    let request = format!(
        "POST /v1/tasks/batch HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..30 {
        let answer = ask(&address, &request).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    broker.signal("-KILL");
    broker.ended();

    let mut child = serve(dir.path(), &["--http", &address]).spawn().unwrap();
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        ask(&address, &request).unwrap_or_default()
    };
    let mut recovering = 0;
    eventually("the broker is ready", || {
        for _ in 0..10 {
            let ready = get("/readyz");
            if ready.starts_with("HTTP/1.1 200") {
                return true;
            }
            if ready.contains("\"recovering\"") {
                recovering += 1;
                assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
                let health = get("/healthz");
                assert!(health.is_empty() || health.starts_with("HTTP/1.1 200"), "{health}");
            }
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        false
    });
    assert!(get("/v1/counts").contains("\"ready\":30000"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(recovering > 0, "it was never said that the broker recovers");
}
