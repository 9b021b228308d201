//! All doors are open: one broker, many protocols.

use std::net::TcpStream;

use tenure_door_resp::testing::Reply;

use crate::peers::zmtp::Wire;
use crate::peers::{ALL_DOORS, Resp, address};
use crate::support::{Broker, eventually};

#[test]
fn all_doors_are_open_and_redis_clients_see_the_same_broker() {
    let broker = Broker::start_with(&ALL_DOORS);
    for door in ["native", "xmessage", "resp", "mdp", "grpc", "http"] {
        TcpStream::connect(address(&broker, door)).unwrap_or_else(|error| panic!("{door}: {error}"));
    }
    for address in broker.doors["pingpong"].as_str().unwrap().split(',') {
        TcpStream::connect(address).unwrap();
    }
    let pong = Resp::connect(address(&broker, "resp")).ask("PING");
    assert_eq!(pong, Some(Reply::Simple("PONG".into())));
    broker.signal("-TERM");
    let (code, log) = broker.ended();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_zeromq_peer_that_speaks_another_protocol_is_named_in_the_log_once() {
    let broker = Broker::start_with(&["--mdp", "127.0.0.1:0"]);
    let mdp = address(&broker, "mdp").parse().unwrap();
    for _ in 0..2 {
        let mut peer = Wire::dealer(mdp);
        for _ in 0..3 {
            peer.send(&["", "MDPX09", "echo", "x"]);
        }
        // The answer shows that everything before it was read.
        peer.send(&["", "MDPC01", "mmi.service", "echo"]);
        assert_eq!(peer.texts()[3], "404");
    }
    let told = || broker.log.so_far().matches("messages without a Majordomo header are dropped").count();
    eventually("both peers are named", || told() == 2);
    assert!(broker.log.so_far().contains("MDPX09"), "{}", broker.log.so_far());
}
