//! All doors are open: one broker, many protocols.

use std::net::TcpStream;

use tenure_door_resp::testing::Reply;

use crate::peers::{ALL_DOORS, Resp, address};
use crate::support::Broker;

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
