//! Checks the machine: ports, open files, clock.

use std::net::{TcpListener, ToSocketAddrs};

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::config::Doors;
use crate::output::times::rfc3339;

/// With fewer files, a few hundred workers are too many.
const OPEN_FILES_LOW: u64 = 4_096;
/// Before this the program was not written.
const YEAR_2026_MILLIS: u64 = 1_767_225_600_000;

/// Whether the doors' addresses could be opened. While a broker runs here, they are its own.
pub(crate) fn ports(doors: &Doors, is_running: bool) -> Vec<Finding> {
    let mut addresses: Vec<(&'static str, &str)> = Vec::new();
    let single = [
        ("native", &doors.native),
        ("xmessage", &doors.xmessage),
        ("resp", &doors.resp),
        ("mdp", &doors.mdp),
        ("grpc", &doors.grpc),
        ("http", &doors.http),
    ];
    addresses.extend(single.into_iter().filter_map(|(door, address)| Some((door, address.as_deref()?))));
    if let Some((clients, workers)) = &doors.pingpong {
        addresses.extend([("pingpong", clients.as_str()), ("pingpong", workers.as_str())]);
    }
    let mut taken = Vec::new();
    let mut findings = Vec::new();
    for (door, address) in &addresses {
        let Some(socket) = address.to_socket_addrs().ok().and_then(|mut all| all.next()) else {
            findings.push(Finding::bad(
                "ports",
                format!("{door}: {address} is not known"),
                "write an address of this machine",
            ));
            continue;
        };
        if TcpListener::bind(socket).is_err() {
            taken.push(format!("{door} {address}"));
        }
    }
    if taken.is_empty() {
        findings.push(Finding::good("ports", format!("{} free", addresses.len())));
    } else if is_running {
        findings.push(Finding::good("ports", format!("in use by the running broker: {}", taken.join(", "))));
    } else {
        let advice = "stop what uses them (ss -ltnp), or choose others with the doors' flags";
        findings.push(Finding::bad("ports", format!("taken: {}", taken.join(", ")), advice));
    }
    findings
}

/// Every connection is an open file.
pub(crate) fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    match limit.current {
        Some(current) if current < OPEN_FILES_LOW => {
            let most = limit.maximum.map_or("unlimited".to_owned(), |most| most.to_string());
            let advice = format!("raise it: ulimit -n {most}, or LimitNOFILE= of the service");
            Finding::fair("open files", format!("at most {current} connections are possible"), advice)
        }
        Some(current) => Finding::good("open files", format!("at most {current}")),
        None => Finding::good("open files", "no limit"),
    }
}

pub(crate) fn clock(now: u64) -> Finding {
    if now < YEAR_2026_MILLIS {
        return Finding::bad(
            "clock",
            format!("it says {}", rfc3339(now)),
            "set it: leases and delays go by it",
        );
    }
    Finding::good("clock", rfc3339(now))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_clock_from_before_the_program_is_wrong() {
        assert_eq!(clock(0).verdict, Verdict::Bad);
        assert_eq!(clock(YEAR_2026_MILLIS + 1).verdict, Verdict::Good);
    }

    #[test]
    fn a_taken_port_is_named_with_its_door() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = other.local_addr().unwrap().to_string();
        let doors = Doors {
            native: Some(address.clone()),
            native_unix: None,
            xmessage: None,
            resp: None,
            mdp: None,
            pingpong: None,
            grpc: None,
            http: None,
        };
        let findings = ports(&doors, false);
        assert_eq!(findings[0].verdict, Verdict::Bad);
        assert!(findings[0].says.contains(&format!("native {address}")), "{}", findings[0].says);
        assert_eq!(ports(&doors, true)[0].verdict, Verdict::Good);
    }
}
