//! Old and new peers understand each other: what is not known is passed over, what is missing takes its default, and
//! what cannot be done without is asked for by name.

use bytes::{Bytes, BytesMut};
use tenure_wire::error::ValueFault;
use tenure_wire::notation::{Bindings, Pattern};
use tenure_wire::request::{OneTaskWhy, Submit};
use tenure_wire::task::Terms;
use tenure_wire::words::{OnLost, StateName};
use tenure_wire::{
    DecodeError, FromBroker, Notice, Reply, Request, TaskId, ToBroker, decode_from_broker, decode_to_broker,
};

/// A frame, from how people write it.
fn frame(text: &str) -> Bytes {
    let mut out = BytesMut::new();
    Pattern::parse(text).unwrap().build(&Bindings::new()).unwrap().write(&mut out);
    out.freeze()
}

fn asked(text: &str) -> Result<Request, DecodeError> {
    decode_to_broker(&frame(text)).map(|message| message.request)
}

fn refused(text: &str) -> String {
    asked(text).unwrap_err().to_string()
}

const ID: &str = r#"x"000102030405060708090a0b0c0d0e0f""#;

#[test]
fn fields_from_the_future_are_passed_over() {
    let request = asked(&format!(
        r#"[3, "cancel", {{"urgency": {{"deep": [1, [2, {{}}]]}}, "task": {ID}, "reason": "enough", "by": b"me"}}]"#
    ));
    let task = TaskId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(request, Ok(Request::Cancel(OneTaskWhy { task, reason: Some("enough".into()) })));
}

#[test]
fn former_names_are_still_read() {
    for kind in ["save-checkpoint", "put-aside"] {
        let request =
            asked(&format!(r#"[3, "{kind}", {{"task": {ID}, "attempt": 1, "checkpoint": b"row 1"}}]"#));
        let Ok(request @ Request::SaveCheckpoint(_)) = request else { panic!("{kind}: {request:?}") };
        assert_eq!(request.kind(), "save-checkpoint", "only the new name is written");
    }
    for field in ["pause", "aside"] {
        let text = format!(
            r#"[3, "tasks", {{"tasks": [{{"id": {ID}, "state": "paused", "terms": {{"queue": "q"}},
                "submitted_at": 1, "{field}": {{"since": 7, "why": "asked"}}}}]}}]"#
        );
        let Ok(FromBroker::Reply { reply: Reply::Tasks(tasks), .. }) = decode_from_broker(&frame(&text))
        else {
            panic!("{field}: {:?}", decode_from_broker(&frame(&text)))
        };
        assert_eq!(tasks.tasks[0].pause.as_ref().map(|pause| pause.since.0), Some(7), "{field}");
    }
}

#[test]
fn fields_that_an_old_peer_does_not_send_take_their_defaults() {
    let Ok(Request::Submit(Submit { terms, tasks })) =
        asked(r#"[3, "submit", {"terms": [{"queue": "q"}], "tasks": [[]]}]"#)
    else {
        panic!("a short submission is one too")
    };
    assert_eq!(terms, [Terms::new("q")]);
    assert_eq!((terms[0].on_lost.clone(), terms[0].crash_budget), (OnLost::Requeue, 3));
    assert_eq!(tasks[0].id, None, "the broker chooses");
    assert!(tasks[0].body.is_empty());
}

#[test]
fn rows_from_the_future_are_longer_and_rows_from_the_past_shorter() {
    let Ok(Request::Complete(complete)) =
        asked(&format!(r#"[3, "complete", {{"done": [[{ID}, 2], [{ID}, 3, b"r", {{"cost": 5}}, null]]}}]"#))
    else {
        panic!("both are completions")
    };
    assert_eq!((complete.done[0].attempt, complete.done[0].result.len()), (2, 0));
    assert_eq!((complete.done[1].attempt, &complete.done[1].result[..]), (3, &b"r"[..]));
}

#[test]
fn nil_is_the_same_as_not_there() {
    let nil = asked(&format!(r#"[3, "cancel", {{"task": {ID}, "reason": null}}]"#));
    let left_out = asked(&format!(r#"[3, "cancel", {{"task": {ID}}}]"#));
    assert_eq!(nil, left_out);
    assert!(refused(r#"[3, "cancel", {"task": null}]"#).contains("`task` is missing"));
}

#[test]
fn an_unknown_request_keeps_its_name_and_number_so_that_it_can_be_refused() {
    let message = decode_to_broker(&frame(r#"[9, "levitate", {"height": 3}]"#)).unwrap();
    assert_eq!(message, ToBroker { number: 9, request: Request::Unknown { kind: "levitate".into() } });
}

#[test]
fn an_unknown_notice_or_reply_keeps_its_name_so_that_it_can_be_ignored() {
    let notice = decode_from_broker(&frame(r#"[0, "weather", {"rain": true}]"#));
    assert_eq!(notice, Ok(FromBroker::Notice(Notice::Unknown { kind: "weather".into() })));
    let reply = decode_from_broker(&frame(r#"[4, "perhaps", {}]"#));
    assert_eq!(reply, Ok(FromBroker::Reply { number: 4, reply: Reply::Unknown { kind: "perhaps".into() } }));
}

#[test]
fn the_refusal_of_a_request_that_wanted_no_answer_is_a_reply_and_not_a_notice() {
    let refused =
        decode_from_broker(&frame(r#"[0, "refused", {"code": "stale-attempt", "message": "over"}]"#));
    assert!(matches!(refused, Ok(FromBroker::Reply { number: 0, reply: Reply::Refused(_) })));
}

#[test]
fn a_new_word_is_kept_as_it_came() {
    let Ok(Request::List(query)) = asked(r#"[3, "list", {"states": ["ready", "hibernating"]}]"#) else {
        panic!("a list")
    };
    assert_eq!(query.states, [StateName::Ready, StateName::Other("hibernating".into())]);
    assert_eq!(query.limit, 100);
}

#[test]
fn an_envelope_may_be_shorter_or_longer() {
    assert_eq!(asked(r#"[3, "queues"]"#), Ok(Request::Queues));
    assert_eq!(asked(r#"[3, "queues", {"page": 2}, {"trace": "00-ab"}, 5]"#), Ok(Request::Queues));
    let short = asked(r#"[3, "cancel"]"#).unwrap_err();
    assert_eq!((short.number, short.problem.at(), short.problem.what()), (3, "task", &ValueFault::Missing));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(
        refused(r#"[3, "submit", {"terms": [{"queue": 7}]}]"#),
        "submit: `terms[0].queue` should be text, not a number"
    );
    assert_eq!(
        refused(r#"[3, "submit", {"tasks": [[], [null, b"x", "q"]]}]"#),
        "submit: `tasks[1].terms` should be a number, not text"
    );
    assert_eq!(
        refused(r#"[3, "start", {"held": [[x"00", 1]]}]"#),
        "start: `held[0].task` is not a task id: 16 bytes, or a UUID as text"
    );
    assert_eq!(
        refused(&format!(r#"[3, "start", {{"held": [[{ID}, 4294967296]]}}]"#)),
        "start: `held[0].attempt` is a number out of range"
    );
    assert_eq!(refused(r#"[3, "cancel", []]"#), "cancel: it should be a map, not a list");
    assert_eq!(refused(r#"{"hello": 1}"#), "the frame is not a message: it should be a list, not a map");
    assert_eq!(
        refused(r#"["x", "hello"]"#),
        "the frame is not a message: `number` should be a number, not text"
    );
    assert_eq!(refused(r#"[1]"#), "the frame is not a message: it is missing");
    assert_eq!(asked(r#"[8, "cancel", []]"#).unwrap_err().number, 8, "so that the refusal finds its request");
}

#[test]
fn ids_and_bodies_may_be_typed_by_hand_as_text() {
    let Ok(Request::Submit(submit)) = asked(
        r#"[3, "submit", {"terms": [{"queue": "q"}], "tasks": [["0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d", "a body"]]}]"#,
    ) else {
        panic!("a submission")
    };
    assert_eq!(submit.tasks[0].id.unwrap().to_string(), "0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d");
    assert_eq!(&submit.tasks[0].body[..], b"a body");
}
