//! READY / PING / PONG, frame by frame.

use bytes::Bytes;
use tenure_door_zmq::pingpong::{
    FromWorker, PingPongError, Work, can_be_sent, job, parse_client, parse_worker, pong, result,
};

fn frames(parts: &[&str]) -> Vec<Bytes> {
    parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect()
}

#[test]
fn a_worker_says_ready_or_ping_and_everything_else_is_a_result() {
    assert_eq!(parse_worker(frames(&["", "READY"])), Ok(FromWorker::Ready));
    assert_eq!(parse_worker(frames(&["", "PING"])), Ok(FromWorker::Ping));
    for body in [&["done"][..], &["PONG"], &["READY", "2"], &["ready"], &[""], &["PING "]] {
        let message = [&[""][..], body].concat();
        assert_eq!(
            parse_worker(frames(&message)),
            Ok(FromWorker::Result { address: None, body: frames(body) })
        );
    }
}

#[test]
fn the_older_form_of_a_result_means_the_same() {
    let address = Some(Bytes::from_static(b"client"));
    let done = Ok(FromWorker::Result { address: address.clone(), body: frames(&["done"]) });
    assert_eq!(parse_worker(frames(&["", "JOB COMPLETE", "client", "", "done"])), done);
    let nothing = Ok(FromWorker::Result { address, body: Vec::new() });
    assert_eq!(parse_worker(frames(&["", "JOB COMPLETE", "client", ""])), nothing);
    // Not quite the older form, so a result of several frames.
    for body in [&["JOB COMPLETE"][..], &["JOB COMPLETE", "client"], &["JOB COMPLETE", "c", "x", "done"]] {
        let message = [&[""][..], body].concat();
        assert_eq!(
            parse_worker(frames(&message)),
            Ok(FromWorker::Result { address: None, body: frames(body) })
        );
    }
}

#[test]
fn work_is_what_follows_the_empty_frame_and_the_result_goes_back_the_same_way() {
    assert_eq!(parse_client(frames(&["", "work"])), Ok(Work { route: vec![], body: frames(&["work"]) }));
    let routed = parse_client(frames(&["id", "", "work", ""])).expect("good work");
    assert_eq!(routed, Work { route: frames(&["id"]), body: frames(&["work", ""]) });
    assert_eq!(result(&routed.route, &frames(&["done"])), frames(&["id", "", "done"]));
    assert_eq!(job(&routed.body), frames(&["", "work", ""]));
    assert_eq!(pong(), frames(&["", "PONG"]));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert_eq!(parse_worker(vec![]), Err(PingPongError::NoDelimiter));
    assert_eq!(parse_worker(frames(&["READY"])), Err(PingPongError::NoDelimiter));
    assert_eq!(parse_worker(frames(&[""])), Err(PingPongError::NoBody));
    assert_eq!(parse_client(vec![]), Err(PingPongError::NoDelimiter));
    assert_eq!(parse_client(frames(&["work"])), Err(PingPongError::NoDelimiter));
    assert_eq!(parse_client(frames(&["1", "2", "3", "4", "5", "", "work"])), Err(PingPongError::NoDelimiter));
    assert_eq!(parse_client(frames(&[""])), Err(PingPongError::NoBody));
    assert_eq!(parse_client(frames(&["", "PONG"])), Err(PingPongError::ControlWord));
}

#[test]
fn work_that_a_worker_would_take_for_pong_cannot_be_sent() {
    assert!(!can_be_sent(&frames(&["PONG"])));
    assert!(can_be_sent(&frames(&["PONG", ""])));
    assert!(can_be_sent(&frames(&["READY"])));
}
