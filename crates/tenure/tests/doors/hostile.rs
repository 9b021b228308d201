//! A broker that may have one gigabyte of memory and few descriptors, with peers that mean no good at every door. It
//! lives, and a client that behaves well hardly notices.

mod attacks;
mod meter;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::peers::ALL_DOORS;
use crate::support::{Broker, serve};
use attacks::Attack;
use meter::Meter;

/// What the broker may have.
const ADDRESS_SPACE_KIB: u64 = 1 << 20;
const DESCRIPTORS: u64 = 2_048;

/// How long a round of a well-behaved client may take during an attack.
const P99_MAX: Duration = Duration::from_millis(200);
/// A binary without optimization gets more, and on a busy machine this many times what it takes without an attack.
const P99_MAX_UNOPTIMIZED: Duration = Duration::from_secs(1);
const BUSY: u32 = 8;

/// One key that may do everything, one that may read, one that may nothing.
const ALL: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const READS: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const NOTHING: &str = "cccccccccccccccccccccccccccccccc";

#[test]
fn a_small_broker_outlives_hostile_peers_and_serves_the_others() {
    // Thousands of untrusted clients are sockets of this process.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it can be raised");
    let directory = tempfile::tempdir().unwrap();
    let mut broker = small_broker(directory.path());
    let mut meter = Meter::start(&broker.address, ALL);
    meter.fill();
    let quiet = meter.p99().expect("the broker works");
    println!("{:45} p99 {quiet:?}, {}", "without an attack", memory(&broker));
    let mut slow = Vec::new();
    for Attack { name, begin } in attacks::all() {
        let attack = begin(&broker);
        let p99 = meter.p99().unwrap_or_else(|error| {
            let ended = broker.child.try_wait().unwrap();
            panic!("{name}: {error}; the broker ended: {ended:?}\n{}", broker.log.so_far())
        });
        drop(attack);
        println!("{name:45} p99 {p99:?}, {}", memory(&broker));
        let ended = broker.child.try_wait().unwrap();
        assert!(ended.is_none(), "{name}: the broker ended with {ended:?}\n{}", broker.log.so_far());
        if p99 > allowed(quiet) {
            slow.push(format!("{name}: p99 {p99:?}, without an attack {quiet:?}"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
    let mut submit = broker.command(&["submit", "--connect-timeout", "30s", "--", "true"]);
    submit.env("TENURE_KEY", ALL);
    crate::support::run(submit).ok();
}

fn allowed(quiet: Duration) -> Duration {
    if cfg!(debug_assertions) { P99_MAX_UNOPTIMIZED.max(BUSY * quiet) } else { P99_MAX }
}

fn small_broker(directory: &Path) -> Broker {
    let keys = format!(
        "[[keys]]\nname = \"all\"\nkey = \"{ALL}\"\n\
         [[keys]]\nname = \"reads\"\nkey = \"{READS}\"\nmay = [\"read\"]\n\
         [[keys]]\nname = \"nothing\"\nkey = \"{NOTHING}\"\nmay = []\n"
    );
    std::fs::write(directory.join("tenure.toml"), keys).unwrap();
    let whole = serve(directory, &ALL_DOORS);
    let limits = format!("ulimit -v {ADDRESS_SPACE_KIB} && ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits]).arg(whole.get_program()).args(whole.get_args());
    for (name, value) in whole.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Broker::start_from(command, directory)
}

/// How much memory the broker has now, and had at most.
fn memory(broker: &Broker) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.child.id())).unwrap_or_default();
    let figures = ["VmRSS", "VmHWM", "VmSize", "VmPeak", "Threads"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let figure = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0_u64);
        if name == "Threads" { format!("{figure} threads") } else { format!("{name} {} MiB", figure >> 10) }
    });
    figures.join(", ")
}
