//! pyzmq, which is libzmq, against the codec: a ROUTER of a few lines that echoes whatever it hears.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tenure_door_zmq::codec::{PeerAdmission, ZmtpEvent, ZmtpLimits, ZmtpPeer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn a_req_socket_gets_its_answers() {
    tell("req", PeerAdmission::Anyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_req_socket_that_correlates_gets_its_answers() {
    tell("correlated", PeerAdmission::Anyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dealer_gets_every_message_back_as_it_was() {
    tell("dealer", PeerAdmission::Anyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn right_credentials_get_in() {
    tell("plain", PeerAdmission::Credentials).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_welcome_where_none_are_wanted() {
    tell("plain", PeerAdmission::Anyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_refused_so_that_libzmq_knows() {
    tell("plain_wrong", PeerAdmission::Credentials).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_heartbeats_of_libzmq_are_answered() {
    tell("heartbeats", PeerAdmission::Anyone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn libzmq_answers_pings_while_the_program_is_busy() {
    tell("busy", PeerAdmission::Anyone).await;
}

/// Runs one story of `clients/codec.py` against an echoing ROUTER.
async fn tell(story: &'static str, admission: PeerAdmission) {
    let Some(python) = std::env::var_os("TENURE_THIRD_PARTY_PYTHON") else {
        eprintln!("TENURE_THIRD_PARTY_PYTHON is not set, so pyzmq is not asked");
        return;
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("its number");
    let router = tokio::spawn(route(listener, admission));
    let output =
        tokio::task::spawn_blocking(move || run(&python.into(), story, address)).await.expect("it ran");
    router.abort();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim() == "ok", "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(python: &PathBuf, story: &str, address: SocketAddr) -> Output {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/third_party/codec.py");
    let mut child = Command::new(python)
        .arg(script)
        .args([&address.port().to_string(), story])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().expect("Python can be asked").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("Python can be ended");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("what Python said")
}

async fn route(listener: TcpListener, admission: PeerAdmission) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(echo(stream, admission));
    }
}

/// One connection: credentials are `alice` and `secret`, every message goes back, a ping goes out every 100 ms.
async fn echo(mut stream: TcpStream, admission: PeerAdmission) {
    let mut out = BytesMut::new();
    let mut peer = ZmtpPeer::new(admission, ZmtpLimits::default(), &mut out);
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let mut pongs = 0;
    loop {
        let mut over = false;
        loop {
            match peer.next_event(&mut out) {
                Ok(Some(ZmtpEvent::Message(frames))) if frames[0] == "how many pongs?" => {
                    peer.send(&[Bytes::from(pongs.to_string())], &mut out);
                }
                Ok(Some(ZmtpEvent::Message(frames))) => peer.send(&frames, &mut out),
                Ok(Some(ZmtpEvent::Credentials { username, password })) => {
                    if username == "alice" && password.0 == "secret" {
                        peer.admit(&mut out);
                    } else {
                        peer.refuse(&mut out);
                    }
                }
                Ok(Some(ZmtpEvent::Pong)) => pongs += 1,
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    over = true;
                    break;
                }
            }
        }
        if stream.write_all_buf(&mut out).await.is_err() || over {
            return;
        }
        tokio::select! {
            read = stream.read_buf(peer.input()) => if !matches!(read, Ok(1..)) { return },
            _ = ticks.tick() => { peer.ping(Duration::ZERO, &mut out); }
        }
    }
}
