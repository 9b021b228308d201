//! The CBOR of the `_PL` dialect: key tables, parameters for workers, notices, lines for monitors.

use std::time::Duration;

use bytes::Bytes;
use tenure_door_zmq::body;
use tenure_door_zmq::mdp::{
    KeyTable, MdpCall, MdpDialect, MdpError, MdpStats, Mmi, MmiWorkerHealth, Notice, NoticeJob, NoticeKind,
    PARAMS_BYTES_MAX, PendingCall, ReturnPath, RunningCall, SlotStyle, WorkerThread, expand, for_worker,
    text_parameter,
};

fn bytes(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// `{1: "Gain", 2: "Field", -1: "Plate"}`
fn table() -> KeyTable {
    KeyTable::parse(&bytes(b"\xa3\x01\x64Gain\x02\x65Field\x20\x65Plate")).expect("a good table")
}

#[test]
fn integer_keys_get_their_names_at_every_depth() {
    // {1: 2.5, "kept": {2: [1, {-1: h'00'}]}, 9: "dropped", 2: {9: 1}}
    let sent = b"\xa4\x01\xf9\x41\x00\x64kept\xa1\x02\x82\x01\xa1\x20\x41\x00\x09\x67dropped\x02\xa1\x09\x01";
    let expected = b"\xa3\x64Gain\xf9\x41\x00\x64kept\xa1\x65Field\x82\x01\xa1\x65Plate\x41\x00\x65Field\xa0";
    assert_eq!(expand(&bytes(sent), &table()), Ok(bytes(expected)));
}

#[test]
fn maps_and_arrays_of_open_length_are_closed_and_values_are_copied_as_they_came() {
    // {_ 1: [_ {_ 2: 0} ], "t": 0("x")}
    let sent = b"\xbf\x01\x9f\xbf\x02\x18\x00\xff\xff\x61t\xc0\x61x\xff";
    let expected = b"\xa2\x64Gain\x81\xa1\x65Field\x18\x00\x61t\xc0\x61x";
    assert_eq!(expand(&bytes(sent), &table()), Ok(bytes(expected)));
}

#[test]
fn parameters_that_are_not_exactly_one_map_are_refused() {
    let deep = [[0xa1, 0x61, b'x'].repeat(65), vec![0]].concat();
    let deep_arrays = [b"\xa1\x61x".to_vec(), vec![0x9f; 100_000]].concat();
    let cases: [&[u8]; 9] = [
        b"",
        b"\x01",
        b"\x80",
        b"\xa1\x01",
        b"\xa0\x00",
        b"\xbf\x01\x02",
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
        &deep,
        &deep_arrays,
    ];
    for sent in cases {
        assert_eq!(expand(&bytes(sent), &table()), Err(MdpError::Cbor), "{:x?}", &sent[..sent.len().min(12)]);
    }
    let long = [b"\xa1\x61x\x5a\x00\x40\x00\x00".to_vec(), vec![0; PARAMS_BYTES_MAX]].concat();
    assert_eq!(expand(&bytes(&long), &table()), Err(MdpError::Cbor));
}

#[test]
fn a_table_keeps_what_is_usable_and_refuses_what_is_no_map() {
    // {1: "Gain", "x": "y", 2: 3}
    let odd = KeyTable::parse(&bytes(b"\xa3\x01\x64Gain\x61x\x61y\x02\x03")).expect("a map");
    assert_eq!(expand(&bytes(b"\xa2\x01\x01\x02\x02"), &odd), Ok(bytes(b"\xa1\x64Gain\x01")));
    assert_eq!(KeyTable::parse(&bytes(b"\x01")), Err(MdpError::Cbor));
    assert_eq!(KeyTable::parse(&bytes(b"")), Err(MdpError::Cbor));
}

const CALL: MdpCall<'static> = MdpCall { thread: 2, client: "lab", job: "task-id", attempt: 3 };

#[test]
fn a_worker_gets_thread_client_attempt_and_job_added() {
    let sent = for_worker(&bytes(b"\xa1\x64Gain\x01"), &CALL);
    let expected =
        [&b"\xa5\x64Gain\x01"[..], b"\x68ThreadID\x02\x66Client\x63lab\x67Attempt\x03\x65JobID\x67task-id"]
            .concat();
    assert_eq!(sent, expected);
}

#[test]
fn the_clients_own_job_id_stays_and_a_forged_thread_does_not() {
    // {_ "JobID": "mine", "ThreadID": 99, "Client": "other"}
    let sent = for_worker(&bytes(b"\xbf\x65JobID\x64mine\x68ThreadID\x18\x63\x66Client\x65other\xff"), &CALL);
    let expected = b"\xa4\x65JobID\x64mine\x68ThreadID\x02\x66Client\x63lab\x67Attempt\x03";
    assert_eq!(sent, &expected[..]);
}

#[test]
fn a_body_of_another_door_reaches_a_plugin_worker_under_a_name() {
    let added = b"\x68ThreadID\x02\x66Client\x63lab\x67Attempt\x03\x65JobID\x67task-id";
    let one = for_worker(&bytes(b"hello"), &CALL);
    assert_eq!(one, [&b"\xa5\x64Body\x45hello"[..], added].concat());
    let packed = body::pack(&[bytes(b"a"), bytes(b"")]);
    assert_eq!(for_worker(&packed, &CALL), [&b"\xa5\x64Body\x82\x41a\x40"[..], added].concat());
}

#[test]
fn a_text_parameter_can_be_looked_up() {
    let body = bytes(b"\xa2\x65JobID\x64mine\x61n\x01");
    assert_eq!(text_parameter(&body, "JobID"), Some("mine".into()));
    assert_eq!(text_parameter(&body, "n"), None);
    assert_eq!(text_parameter(&body, "CommitName"), None);
    assert_eq!(text_parameter(&bytes(b"hello"), "JobID"), None);
}

fn crash(job_id: &str, event: u64) -> Notice {
    Notice {
        kind: NoticeKind::WorkerCrashed,
        service: "S".into(),
        message: "m".into(),
        at: Duration::from_millis(1_700_000_000_000),
        event,
        job: Some(NoticeJob {
            job_id: job_id.into(),
            task: "t".into(),
            worker: Some("w".into()),
            attempt: 1,
            reason: "r".into(),
            next: "requeued",
        }),
    }
}

const WHEN: &[u8] = b"\x69timestamp\x78\x182023-11-14T22:13:20.000Z";

fn crash_fields(job_id: &[u8], event: u8) -> Vec<u8> {
    [
        &b"\x67service\x61S\x67message\x61m"[..],
        WHEN,
        b"\x65event",
        &[event],
        b"\x66job_id\x61",
        job_id,
        b"\x64task\x61t\x66worker\x61w\x67attempt\x01\x66reason\x61r\x64next\x68requeued",
    ]
    .concat()
}

#[test]
fn a_crash_notice_is_a_map_with_error_first() {
    let path = ReturnPath { dialect: MdpDialect::Pl, route: vec![] };
    let frames = path.notice(SlotStyle::Empty, &[crash("j", 5)]);
    let map = [&b"\xab\x65error\x6eWORKER_CRASHED"[..], &crash_fields(b"j", 5)].concat();
    assert_eq!(frames, [bytes(b""), bytes(b"MDPC01_PL"), bytes(b""), bytes(&map)]);
}

#[test]
fn a_notice_without_a_job_names_service_message_and_time() {
    let notice = Notice { kind: NoticeKind::NoWorkers, job: None, ..crash("", 7) };
    let path = ReturnPath { dialect: MdpDialect::V1, route: vec![bytes(b"id")] };
    let frames = path.notice(SlotStyle::Command, &[notice]);
    let map = [&b"\xa5\x65error\x6aNO_WORKERS\x67service\x61S\x67message\x61m"[..], WHEN, b"\x65event\x07"]
        .concat();
    assert_eq!(frames, [bytes(b"id"), bytes(b""), bytes(b"MDPC01"), bytes(&[9]), bytes(&map)]);
}

#[test]
fn to_mdp_0_2_a_notice_is_a_partial_reply() {
    let path = ReturnPath { dialect: MdpDialect::V2, route: vec![] };
    let frames = path.notice(SlotStyle::Command, &[crash("j", 5)]);
    assert_eq!(frames[..3], [bytes(b"MDPC02"), bytes(&[2]), bytes(&[8])]);
    let other = path.notice(SlotStyle::Command, &[Notice { kind: NoticeKind::JobFailed, ..crash("j", 5) }]);
    assert_eq!(other[2], bytes(b""), "only two kinds have a command byte");
}

#[test]
fn many_crashes_are_one_notice_that_an_unknowing_client_still_understands() {
    let path = ReturnPath { dialect: MdpDialect::Pl, route: vec![] };
    let frames = path.notice(SlotStyle::Empty, &[crash("j", 5), crash("k", 6)]);
    let map = [
        &b"\xad\x65error\x6eWORKER_CRASHED"[..],
        &crash_fields(b"j", 5),
        b"\x65count\x02\x64jobs\x82\xaa",
        &crash_fields(b"j", 5),
        b"\xaa",
        &crash_fields(b"k", 6),
    ]
    .concat();
    assert_eq!(frames[3], map);
}

#[test]
fn monitors_get_lines_they_can_split() {
    let identity = "@01".to_owned();
    let (path, client) = ("Tools/Count".to_owned(), "a|b#c".to_owned());
    let pending = PendingCall {
        path: path.clone(),
        client: client.clone(),
        project: "p".into(),
        calls: 7,
        priority: -1,
    };
    assert_eq!(pending.line(), "Pending: Tools/Count|a_b_c|p|7|-1");
    let running = RunningCall { path, client, project: String::new(), worker: "w".into(), priority: 0 };
    assert_eq!(running.line(), "Running: Tools/Count|a_b_c||w|0");
    let slot = WorkerThread { thread: 3, identity: identity.clone(), name: "node".into() };
    assert_eq!(slot.worker_line(), "Workers: 3|@01|node");
    assert_eq!(slot.waiting_line(), "Waiting: 3|@01|node");
    let services = [("Tools/Count", "v1"), ("B", "")];
    assert_eq!(Mmi::services_line(&identity, "node", services.into_iter()), "@01|node#Tools/Count|v1#B|");
    let stats = MdpStats { total_memory: Some(64e9), total_cpu: Some(12.5), ..MdpStats::default() };
    let health = MmiWorkerHealth { identity, name: "node".into(), threads: 4, stats, crashes: 1, score: 80 };
    assert_eq!(
        health.line(),
        "@01|node|NumberThreads:4#TotalPhysicalMemory:64000000000#PhysicalMemoryUsed:0\
         #PhenoLinkMemoryUsage:0#TotalWorkerCPULoad:12.5#PhenoLinkWorkerCPULoad:0#Crashes:1#HealthScore:80"
    );
}
