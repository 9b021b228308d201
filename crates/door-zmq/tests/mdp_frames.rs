//! Majordomo, frame by frame: what peers send is understood, what they get has the bytes they expect.

use bytes::Bytes;
use tenure_door_zmq::mdp::{
    self, ClientRequest, FromPeer, MdpDialect, MdpError, MdpStats, Mmi, Notify, ReturnPath, ToWorker,
    WorkerMessage,
};

fn frames<B: AsRef<[u8]>>(parts: &[B]) -> Vec<Bytes> {
    parts.iter().map(|part| Bytes::copy_from_slice(part.as_ref())).collect()
}

fn parse(parts: &[&[u8]]) -> Result<FromPeer, MdpError> {
    mdp::parse(frames(parts))
}

fn worker(parts: &[&[u8]]) -> WorkerMessage {
    match parse(parts) {
        Ok(FromPeer::Worker { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

fn request(dialect: MdpDialect, route: &[&str], service: &str, body: &[&str]) -> FromPeer {
    FromPeer::Client(ClientRequest {
        path: ReturnPath { dialect, route: frames(route) },
        service: service.into(),
        body: frames(body),
    })
}

#[test]
fn a_request_is_understood_in_every_dialect() {
    assert_eq!(
        parse(&[b"", b"MDPC01", b"echo", b"a", b""]),
        Ok(request(MdpDialect::V1, &[], "echo", &["a", ""]))
    );
    assert_eq!(parse(&[b"MDPC02", &[1], b"echo", b"a"]), Ok(request(MdpDialect::V2, &[], "echo", &["a"])));
    assert_eq!(
        parse(&[b"", b"MDPC01_PL", b"Tools/Count", &[0xa0], &[0xa0]]),
        Ok(FromPeer::Client(ClientRequest {
            path: ReturnPath { dialect: MdpDialect::Pl, route: vec![] },
            service: "Tools/Count".into(),
            body: frames(&[[0xa0], [0xa0]]),
        }))
    );
}

#[test]
fn a_client_behind_a_proxy_keeps_its_route_and_gets_it_back() {
    let asked = parse(&[b"proxy", b"id", b"", b"MDPC01", b"echo", b"a"]);
    assert_eq!(asked, Ok(request(MdpDialect::V1, &["proxy", "id"], "echo", &["a"])));
    let path = ReturnPath { dialect: MdpDialect::V1, route: frames(&["proxy", "id"]) };
    let reply = path.reply("echo", &frames(&["A"]));
    assert_eq!(reply, frames(&["proxy", "id", "", "MDPC01", "echo", "A"]));
}

#[test]
fn a_reply_has_the_form_of_the_clients_dialect() {
    let path = |dialect| ReturnPath { dialect, route: vec![] };
    let body = frames(&["one", "two"]);
    assert_eq!(path(MdpDialect::V1).reply("echo", &body), frames(&["", "MDPC01", "echo", "one", "two"]));
    assert_eq!(path(MdpDialect::V2).reply("echo", &body), frames(&["MDPC02", "\x03", "echo", "one", "two"]));
    assert_eq!(path(MdpDialect::Pl).reply("echo", &body), frames(&["", "MDPC01_PL", "", "one", "two"]));
    let partial = path(MdpDialect::V2).partial("echo", &body);
    assert_eq!(partial, Some(frames(&["MDPC02", "\x02", "echo", "one", "two"])));
    assert_eq!(path(MdpDialect::V1).partial("echo", &body), None);
    assert_eq!(path(MdpDialect::Pl).partial("echo", &body), None);
}

#[test]
fn the_broker_answers_for_itself_with_the_name_that_was_asked() {
    let path = |dialect| ReturnPath { dialect, route: vec![] };
    let code = frames(&["200"]);
    for (dialect, reply) in [
        (MdpDialect::V1, frames(&["", "MDPC01", "mmi.service", "200"])),
        (MdpDialect::V2, frames(&["MDPC02", "\x03", "mmi.service", "200"])),
        (MdpDialect::Pl, frames(&["", "MDPC01_PL", "mmi.service", "200"])),
    ] {
        assert_eq!(path(dialect).mmi_reply("mmi.service", &code), reply);
    }
}

#[test]
fn the_words_of_a_simple_worker_are_understood_in_both_versions() {
    let ready = WorkerMessage::Ready { service: "echo".into() };
    assert_eq!(worker(&[b"", b"MDPW01", &[1], b"echo"]), ready);
    assert_eq!(worker(&[b"MDPW02", &[1], b"echo"]), ready);

    let reply = WorkerMessage::Reply { address: "addr".into(), body: frames(&["r", ""]) };
    assert_eq!(worker(&[b"", b"MDPW01", &[3], b"addr", b"", b"r", b""]), reply);
    assert_eq!(worker(&[b"MDPW02", &[4], b"addr", b"", b"r", b""]), reply);

    let partial = WorkerMessage::Partial { address: "addr".into(), body: frames(&["r"]) };
    assert_eq!(worker(&[b"MDPW02", &[3], b"addr", b"", b"r"]), partial);

    let heartbeat = WorkerMessage::Heartbeat { stats: MdpStats::default() };
    assert_eq!(worker(&[b"", b"MDPW01", &[4]]), heartbeat);
    assert_eq!(worker(&[b"MDPW02", &[5]]), heartbeat);

    assert_eq!(worker(&[b"", b"MDPW01", &[5]]), WorkerMessage::Disconnect);
    assert_eq!(worker(&[b"MDPW02", &[6]]), WorkerMessage::Disconnect);
}

#[test]
fn the_words_of_a_plugin_worker_are_understood() {
    assert_eq!(worker(&[b"", b"MDPW01_PL", &[1], b"processes"]), WorkerMessage::Joining);
    assert_eq!(
        worker(&[b"", b"MDPW01_PL", &[1], b"client-7", b"3"]),
        WorkerMessage::Finished { client: "client-7".into(), thread: 3, result: vec![] }
    );
    assert_eq!(
        worker(&[b"", b"MDPW01_PL", &[1], b"client-7", b"3", b"result"]),
        WorkerMessage::Finished { client: "client-7".into(), thread: 3, result: frames(&["result"]) }
    );
    assert_eq!(
        worker(&[b"", b"MDPW01_PL", &[3], b"client-7", b"", b"answer"]),
        WorkerMessage::Reply { address: "client-7".into(), body: frames(&["answer"]) }
    );
    assert_eq!(worker(&[b"", b"MDPW01_PL", &[5]]), WorkerMessage::Disconnect);
}

#[test]
fn a_heartbeat_with_figures_carries_them_and_one_with_rubbish_is_still_a_heartbeat() {
    let all: [&[u8]; 9] =
        [b"", b"MDPW01_PL", &[4], b"2", b"64000000000", b"1.6e+10", b"4096", b"12.5", b"0.25"];
    let stats = MdpStats {
        free_threads: Some(2),
        total_memory: Some(64e9),
        used_memory: Some(16e9),
        process_memory: Some(4096.0),
        total_cpu: Some(12.5),
        process_cpu: Some(0.25),
    };
    assert_eq!(worker(&all), WorkerMessage::Heartbeat { stats });
    assert_eq!(worker(&all[..3]), WorkerMessage::Heartbeat { stats: MdpStats::default() });
    let odd = worker(&[b"", b"MDPW01_PL", &[4], b"many", b"nan", b"\xff", b"inf", b"7"]);
    assert_eq!(
        odd,
        WorkerMessage::Heartbeat { stats: MdpStats { total_cpu: Some(7.0), ..MdpStats::default() } }
    );
}

#[test]
fn a_plugin_worker_registers_threads_a_name_and_its_plugins() {
    let count = br#"{"Path":"Tools/Count","PluginVersion":"v1 2023-09-18","Depth":[1,-2,0.5,null,true]}"#;
    let message = worker(&[b"", b"MDPW01_PL", &[6], b"4", b"node-3", count, b"{}", b"no json", b""]);
    let WorkerMessage::Processes(registration) = message else { panic!("{message:?}") };
    assert_eq!((registration.threads, &registration.name[..]), (4, "node-3"));
    assert_eq!(registration.skipped, 2);
    let [plugin] = &registration.plugins[..] else { panic!("{registration:?}") };
    assert_eq!((&plugin.path[..], &plugin.version[..]), ("Tools/Count", "v1 2023-09-18"));
    let expected = [
        &b"\xa3\x65Depth\x85\x01\x21\xfb\x3f\xe0\0\0\0\0\0\0\xf6\xf5"[..],
        b"\x64Path\x6bTools/Count\x6dPluginVersion\x6dv1 2023-09-18",
    ]
    .concat();
    assert_eq!(plugin.record(), expected);
}

#[test]
fn an_older_plugin_worker_registers_without_a_name() {
    let message = worker(&[b"", b"MDPW01_PL", &[6], b"1", br#"{"Path":"Tools/Count"}"#]);
    let WorkerMessage::Processes(registration) = message else { panic!("{message:?}") };
    assert_eq!(registration.name, "");
    assert_eq!(registration.plugins[0].path, "Tools/Count");
    assert_eq!(registration.plugins[0].version, "");
}

#[test]
fn a_plugin_cannot_take_a_name_of_the_broker() {
    let message = worker(&[b"", b"MDPW01_PL", &[6], b"1", b"n", br#"{"Path":"mmi.service"}"#]);
    let WorkerMessage::Processes(registration) = message else { panic!("{message:?}") };
    assert_eq!((registration.plugins.len(), registration.skipped), (0, 1));
}

#[test]
fn a_worker_hears_every_word_in_its_own_dialect() {
    let job = ToWorker::Request { address: "addr".into(), body: frames(&["x", "y"]) };
    assert_eq!(job.frames(MdpDialect::V1), Some(frames(&["", "MDPW01", "\x02", "addr", "", "x", "y"])));
    assert_eq!(job.frames(MdpDialect::V2), Some(frames(&["MDPW02", "\x02", "addr", "", "x", "y"])));
    assert_eq!(job.frames(MdpDialect::Pl), None);

    let call = ToWorker::Call { service: "Tools/Count".into(), parameters: "\x01".into() };
    assert_eq!(call.frames(MdpDialect::Pl), Some(frames(&["", "MDPW01_PL", "\x02", "Tools/Count", "\x01"])));
    assert_eq!(call.frames(MdpDialect::V1), None);

    for (word, v1, v2, pl) in
        [(ToWorker::Heartbeat, "\x04", "\x05", "\x04"), (ToWorker::Disconnect, "\x05", "\x06", "\x05")]
    {
        assert_eq!(word.frames(MdpDialect::V1), Some(frames(&["", "MDPW01", v1])));
        assert_eq!(word.frames(MdpDialect::V2), Some(frames(&["MDPW02", v2])));
        assert_eq!(word.frames(MdpDialect::Pl), Some(frames(&["", "MDPW01_PL", pl])));
    }
    assert_eq!(ToWorker::TellProcesses.frames(MdpDialect::Pl), Some(frames(&["", "MDPW01_PL", "\x06"])));
    assert_eq!(ToWorker::TellProcesses.frames(MdpDialect::V2), None);
    let finished = ToWorker::Finished { commit: "plate-7".into() };
    assert_eq!(finished.frames(MdpDialect::Pl), Some(frames(&["", "MDPW01_PL", "\x07", "plate-7"])));
}

#[test]
fn what_is_not_majordomo_is_refused_by_name() {
    let long = [b's'; 256];
    let cases: &[(&[&[u8]], MdpError)] = &[
        (&[], MdpError::Empty),
        (&[b""], MdpError::UnknownHeader),
        (&[b"hello"], MdpError::UnknownHeader),
        (&[b"", b"MDPC03", b"echo", b"x"], MdpError::UnknownHeader),
        (&[b"MDPC01", b"echo", b"x"], MdpError::UnknownHeader),
        (&[b"route", b"", b"MDPW01", &[1], b"echo"], MdpError::UnknownHeader),
        (&[b"1", b"2", b"3", b"4", b"5", b"", b"MDPC01", b"echo", b"x"], MdpError::UnknownHeader),
        (&[b"", b"MDPC01"], MdpError::FrameCount),
        (&[b"", b"MDPC01", b"echo"], MdpError::FrameCount),
        (&[b"", b"MDPC01", b"", b"x"], MdpError::ServiceName),
        (&[b"", b"MDPC01", b"a\nb", b"x"], MdpError::ServiceName),
        (&[b"", b"MDPC01", b"\xff", b"x"], MdpError::ServiceName),
        (&[b"", b"MDPC01", &long, b"x"], MdpError::ServiceName),
        (&[b"MDPC02"], MdpError::FrameCount),
        (&[b"MDPC02", &[2], b"echo", b"x"], MdpError::NotForBroker),
        (&[b"MDPC02", &[3], b"echo", b"x"], MdpError::NotForBroker),
        (&[b"MDPC02", &[4], b"echo", b"x"], MdpError::UnknownCommand),
        (&[b"MDPC02", b"echo", b"x"], MdpError::UnknownCommand),
        (&[b"", b"MDPW01"], MdpError::FrameCount),
        (&[b"", b"MDPW01", b""], MdpError::UnknownCommand),
        (&[b"", b"MDPW01", &[1, 1], b"echo"], MdpError::UnknownCommand),
        (&[b"", b"MDPW01", &[0]], MdpError::UnknownCommand),
        (&[b"", b"MDPW01", &[6]], MdpError::UnknownCommand),
        (&[b"", b"MDPW01", b"1", b"echo"], MdpError::UnknownCommand),
        (&[b"", b"MDPW01", &[1]], MdpError::FrameCount),
        (&[b"", b"MDPW01", &[1], b"echo", b"more"], MdpError::FrameCount),
        (&[b"", b"MDPW01", &[2], b"a", b"", b"x"], MdpError::NotForBroker),
        (&[b"", b"MDPW01", &[3], b"a"], MdpError::FrameCount),
        (&[b"", b"MDPW01", &[3], b"a", b"x", b"y"], MdpError::Envelope),
        (&[b"", b"MDPW01", &[3], b"", b"", b"y"], MdpError::Envelope),
        (&[b"", b"MDPW01", &[4], b"extra"], MdpError::FrameCount),
        (&[b"", b"MDPW01", &[5], b"extra"], MdpError::FrameCount),
        (&[b"MDPW02", &[7]], MdpError::UnknownCommand),
        (&[b"", b"MDPW01_PL", &[1]], MdpError::FrameCount),
        (&[b"", b"MDPW01_PL", &[1], b"echo"], MdpError::FrameCount),
        (&[b"", b"MDPW01_PL", &[1], b"client", b"three"], MdpError::Number),
        (&[b"", b"MDPW01_PL", &[1], b"client", b"-1"], MdpError::Number),
        (&[b"", b"MDPW01_PL", &[6]], MdpError::FrameCount),
        (&[b"", b"MDPW01_PL", &[6], b"many"], MdpError::Number),
        (&[b"", b"MDPW01_PL", &[6], b"0"], MdpError::Registration),
        (&[b"", b"MDPW01_PL", &[6], b"4097"], MdpError::Registration),
        (&[b"", b"MDPW01_PL", &[6], b"1", &long], MdpError::Registration),
        (&[b"", b"MDPW01_PL", &[7], b"commit"], MdpError::NotForBroker),
        (&[b"", b"MDPW01_PL", &[8]], MdpError::UnknownCommand),
    ];
    for (parts, error) in cases {
        assert_eq!(parse(parts), Err(*error), "{parts:?}");
    }
}

#[test]
fn questions_to_the_broker_are_distinguished() {
    let ask = |service: &str, body: &[&str]| Mmi::parse(service, &frames(body));
    assert_eq!(ask("mmi.service", &["echo"]), Mmi::Service { name: "echo".into() });
    assert_eq!(ask("mmi.service", &[]), Mmi::Malformed);
    assert_eq!(ask("mmi.list", &[]), Mmi::List { name: None });
    assert_eq!(ask("mmi.list", &[""]), Mmi::List { name: None });
    assert_eq!(ask("mmi.list", &["Tools/Count"]), Mmi::List { name: Some("Tools/Count".into()) });
    assert_eq!(ask("mmi.status", &[]), Mmi::Status);
    assert_eq!(ask("mmi.cancel", &[]), Mmi::Cancel { client: None });
    assert_eq!(ask("mmi.cancel", &["lab"]), Mmi::Cancel { client: Some("lab".into()) });
    assert_eq!(ask("mmi.list_services", &[]), Mmi::ListServices);
    assert_eq!(ask("mmi.workers", &[""]), Mmi::Workers);
    assert_eq!(ask("mmi.health", &[]), Mmi::Health);
    assert_eq!(ask("mmi.notify", &["on"]), Mmi::Notify(Notify::On { after: None }));
    assert_eq!(ask("mmi.notify", &["on", "41"]), Mmi::Notify(Notify::On { after: Some(41) }));
    assert_eq!(ask("mmi.notify", &["off"]), Mmi::Notify(Notify::Off));
    assert_eq!(ask("mmi.notify", &["41"]), Mmi::Notify(Notify::After(41)));
    assert_eq!(ask("mmi.notify", &[]), Mmi::Malformed);
    assert_eq!(ask("mmi.notify", &["on", "x"]), Mmi::Malformed);
    assert_eq!(ask("mmi.notify", &["perhaps"]), Mmi::Malformed);
    assert_eq!(ask("mmi.weather", &[]), Mmi::Unknown);
}
