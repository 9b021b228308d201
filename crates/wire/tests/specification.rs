//! The page that people read and the types that programs use say the same.

use bytes::{Bytes, BytesMut};
use tenure_transcripts::{Step, Transcript, TranscriptAct, TranscriptSpeaker, read_page};
use tenure_wire::event::EventKind;
use tenure_wire::notation::{Bindings, NotationMessage, Pattern};
use tenure_wire::refusal::Code;
use tenure_wire::value::Value;
use tenure_wire::why::WhyCode;
use tenure_wire::{Notice, Reply, Request, decode_to_broker};

const PAGE: &str = include_str!("../../../spec/native.md");

fn transcripts() -> Vec<Transcript> {
    read_page(PAGE).unwrap()
}

/// The frame of this line, if it is one.
fn frame(step: &Step) -> Option<Pattern> {
    let TranscriptAct::Says(text) = &step.act else { return None };
    match NotationMessage::parse(text).unwrap_or_else(|error| panic!("line {}: {error}", step.line)) {
        NotationMessage::Frame(pattern) => Some(pattern),
        NotationMessage::Raw(_) => None,
    }
}

/// Number and kind of a message as written, if it is one.
fn envelope(step: &Step) -> Option<(Pattern, String)> {
    let Pattern::List { entries, .. } = frame(step)? else { return None };
    let Pattern::Exactly(Value::Text(kind)) = entries.get(1)? else { return None };
    Some((entries[0].clone(), kind.clone()))
}

#[test]
fn everything_that_peers_say_on_the_page_is_a_request() {
    // Names stand for ids or for numbers; one text that is both an id and no number would not do for all of them.
    let mut checked = 0;
    for transcript in transcripts() {
        for step in &transcript.steps {
            let (TranscriptSpeaker::Peer, Some(pattern)) = (step.speaker, frame(step)) else { continue };
            let mut bindings = Bindings::new();
            for name in
                ["one", "two", "three", "task", "scan", "report", "clean", "good", "first", "parent", "child"]
            {
                bindings.insert(name.to_owned(), Value::Bytes(Bytes::from_static(&[7; 16])));
            }
            bindings.insert("reply".to_owned(), Value::Text("_reply.7".into()));
            for name in ["call", "other", "seq", "from"] {
                bindings.insert(name.to_owned(), Value::Int(7));
            }
            let mut frame = BytesMut::new();
            pattern.build(&bindings).unwrap().write(&mut frame);
            let on_purpose = transcript.title.starts_with("unknown and malformed");
            match decode_to_broker(&frame.freeze()) {
                Ok(message) => {
                    let known = !matches!(message.request, Request::Unknown { .. });
                    assert!(known || on_purpose, "line {}: {:?}", step.line, message.request);
                }
                Err(error) => assert!(on_purpose, "line {}: {error}", step.line),
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn everything_that_the_broker_says_on_the_page_is_a_reply_or_a_notice() {
    for transcript in transcripts() {
        for step in transcript.steps.iter().filter(|step| step.speaker == TranscriptSpeaker::Broker) {
            let Some((number, kind)) = envelope(step) else {
                assert_eq!(step.act, TranscriptAct::Closes, "line {}", step.line);
                continue;
            };
            let is_notice = number == Pattern::Exactly(Value::Int(0)) && kind != "refused";
            let known = if is_notice { Notice::KNOWN } else { Reply::KNOWN };
            assert!(known.contains(&kind.as_str()), "line {}: {kind}", step.line);
        }
    }
}

#[test]
fn every_kind_every_code_and_every_event_has_its_place_on_the_page() {
    let mut names: Vec<&str> = [Request::KNOWN, Reply::KNOWN, Notice::KNOWN].concat();
    names.extend(Code::KNOWN.iter().map(Code::as_str));
    names.extend(WhyCode::KNOWN.iter().map(WhyCode::as_str));
    names.extend(EventKind::KNOWN.iter().map(EventKind::as_str));
    let missing: Vec<&str> = names.into_iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
