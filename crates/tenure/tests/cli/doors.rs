//! The other doors stand too: one broker, many languages.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::Broker;

#[test]
fn all_doors_are_open_and_redis_clients_see_the_same_broker() {
    let broker = Broker::start_with(&[
        "--xmessage",
        "127.0.0.1:0",
        "--resp",
        "127.0.0.1:0",
        "--mdp",
        "127.0.0.1:0",
        "--pingpong",
        "127.0.0.1:0,127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
    ]);
    for door in ["native", "xmessage", "resp", "mdp", "grpc"] {
        TcpStream::connect(broker.doors[door].as_str().unwrap())
            .unwrap_or_else(|error| panic!("{door}: {error}"));
    }
    for address in broker.doors["pingpong"].as_str().unwrap().split(',') {
        TcpStream::connect(address).unwrap();
    }
    let mut redis = TcpStream::connect(broker.doors["resp"].as_str().unwrap()).unwrap();
    redis.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    redis.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    broker.signal("-TERM");
    let (code, log) = broker.ended();
    assert_eq!(code, Some(0), "{log}");
}
