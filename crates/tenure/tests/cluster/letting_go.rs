//! A leader lets go of its data directory, whatever its peers do: until then it can neither copy nor lead.

use std::io::Write as _;
use std::net::TcpStream;

use bytes::Bytes;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use crate::load::raw_codec::Raw;
use crate::redis::Redis;
use crate::stage::{Stage, TestMember};
use crate::support::eventually;

#[test]
fn a_leader_that_steps_down_stands_by_although_its_peers_hold_on() {
    let Some(mut stage) = Stage::start(0, 0) else { return };
    let door = format!("127.0.0.1:{}", tenure_journal_postgres::testing::free_port());
    stage.members.push(TestMember::new("b1", stage.scratch.path().join("b1")));
    stage.start_member(0, &["--http", &door]);
    let leader = stage.leader();
    stage.members.push(TestMember::new("b2", stage.scratch.path().join("b2")));
    stage.start_member(1, &[]);
    eventually("the other stands by", || stage.log(1).contains("following"));

    // One worker has gone, one stays.
    let mut workers: Vec<Redis> = ["gone", "stays"]
        .into_iter()
        .map(|worker| {
            let mut redis = Redis::connect(stage.members[leader].resp_port).expect("a door");
            redis.ask(&format!("PING {worker}")).expect("an answer");
            assert_eq!(redis.ask("RPOP queue:q").expect("an answer"), "$-1");
            redis
        })
        .collect();
    workers.remove(0);
    let http = |request: &str| {
        let mut stream = TcpStream::connect(&door).expect("a door");
        let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        stream
            .write_all(format!("{head}Content-Length: 17\r\n\r\n{{\"queues\":[\"q\"] }}").as_bytes())
            .expect("it is read");
        stream
    };
    let kept = [http("PUT /v1/work/w3"), http("GET /v1/events"), http("GET /events")];
    // A client that watches the health, and does not read.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let watched = runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", stage.grpc_ports()[leader]))
            .expect("an address");
        let mut client = tonic::client::Grpc::new(endpoint.connect().await.expect("a door"));
        client.ready().await.expect("a connection");
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
        client
            .server_streaming(tonic::Request::new(Bytes::new()), path, Raw)
            .await
            .expect("an answer")
            .into_inner()
    });

    stage.cluster(&["step-down"]).ok();
    eventually("the old leader stands by", || {
        let log = stage.log(leader);
        log.find("stepped down").is_some_and(|at| log[at..].contains("following"))
    });
    drop((workers, kept, watched));
}
