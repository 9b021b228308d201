//! Conversations on stage: the same transcript, once with the pure session, once over a socket.
#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod over_socket;
pub(crate) mod peer;
pub(crate) mod play;
pub(crate) mod pure;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::BytesMut;
use tenure_transcripts::{Transcript, TranscriptAct, TranscriptSpeaker};
use tenure_wire::notation::{Bindings, NotationMessage, Pattern};
use tenure_wire::value::Value;

/// Where a conversation takes place.
pub(crate) trait Stage {
    /// A peer says these bytes. It connects if it has not.
    fn say(&mut self, peer: &str, bytes: &[u8]);

    /// A peer goes away.
    fn close(&mut self, peer: &str);

    /// Lets what was said be heard, where that takes time.
    fn settle(&mut self) {}

    /// Whatever has come for a peer since the last time; waits for it where there is something to wait for.
    fn hear(&mut self, peer: &str, wait_for: WaitFor) -> Heard;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Something must come.
    Long,
    /// Nothing should come.
    Short,
}

#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) frames: Vec<Value>,
    pub(crate) closed: bool,
}

/// What has arrived for one peer and not been expected yet.
#[derive(Default)]
struct Inbox {
    frames: Vec<Value>,
    closed: bool,
}

/// How often the stage is asked for more before something counts as missing.
const TIMEOUT: usize = 3;

/// Plays all transcripts of a page, each on a stage of its own, and tells of all that went wrong.
pub(crate) fn play_all<S: Stage>(transcripts: &[Transcript], stage: impl Fn() -> S) {
    let mut wrong = Vec::new();
    for transcript in transcripts {
        let played = catch_unwind(AssertUnwindSafe(|| play(transcript, &mut stage())));
        wrong.extend(played.err().map(|problem| match problem.downcast::<String>() {
            Ok(text) => *text,
            Err(_) => transcript.title.clone(),
        }));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), transcripts.len(), wrong.join("\n"));
}

/// Plays a transcript and stops with a message that names the line where it goes wrong.
pub(crate) fn play(transcript: &Transcript, stage: &mut dyn Stage) {
    let mut bindings = Bindings::new();
    let mut inboxes: BTreeMap<&str, Inbox> = BTreeMap::new();
    let mut spoke_last = None;
    for step in &transcript.steps {
        // Two peers, two connections: only the broker's answer says that the first was heard before the second.
        let speaks = (step.speaker == TranscriptSpeaker::Peer).then_some(&step.peer);
        if speaks.is_some() && spoke_last.is_some() && speaks != spoke_last {
            stage.settle();
        }
        spoke_last = speaks;
        let place = format!("line {} ({})", step.line, transcript.title);
        let inbox = inboxes.entry(&step.peer).or_default();
        let said = match &step.act {
            TranscriptAct::Says(text) => {
                Some(NotationMessage::parse(text).unwrap_or_else(|error| panic!("{place}: {error}")))
            }
            TranscriptAct::Closes => None,
            TranscriptAct::Waits(_) => panic!("{place}: these pages let no time pass"),
        };
        match (step.speaker, said) {
            (TranscriptSpeaker::Peer, Some(NotationMessage::Frame(pattern))) => {
                let value = pattern.build(&bindings).unwrap_or_else(|error| panic!("{place}: {error}"));
                stage.say(&step.peer, &framed(&value));
            }
            (TranscriptSpeaker::Peer, Some(NotationMessage::Raw(bytes))) => stage.say(&step.peer, &bytes),
            (TranscriptSpeaker::Peer, None) => stage.close(&step.peer),
            (TranscriptSpeaker::Broker, Some(NotationMessage::Frame(pattern))) => {
                for pattern in one_by_one(&pattern) {
                    expect(&pattern, inbox, stage, &step.peer, &mut bindings, &place);
                }
            }
            (TranscriptSpeaker::Broker, None) => {
                for _ in 0..TIMEOUT {
                    listen(inbox, stage, &step.peer, WaitFor::Long);
                }
                assert!(inbox.closed, "{place}: the connection should end");
            }
            (TranscriptSpeaker::Broker, Some(NotationMessage::Raw(_))) => {
                panic!("{place}: the broker speaks in frames")
            }
        }
    }
    for (peer, inbox) in &mut inboxes {
        listen(inbox, stage, peer, WaitFor::Short);
        let left: Vec<String> = inbox.frames.iter().map(ToString::to_string).collect();
        assert!(left.is_empty(), "{}: the page does not expect {left:#?}", transcript.title);
    }
}

/// Finds the frame that is expected. Replies and notices may overtake each other, so it need not be the first.
fn expect(
    pattern: &Pattern,
    inbox: &mut Inbox,
    stage: &mut dyn Stage,
    peer: &str,
    bindings: &mut Bindings,
    place: &str,
) {
    for _ in 0..TIMEOUT {
        for index in 0..inbox.frames.len() {
            let mut tried = bindings.clone();
            if pattern.match_and_bind(&inbox.frames[index], &mut tried).is_ok() {
                inbox.frames.remove(index);
                *bindings = tried;
                return;
            }
        }
        listen(inbox, stage, peer, WaitFor::Long);
    }
    let problems: Vec<String> = inbox
        .frames
        .iter()
        .map(|frame| {
            format!("{frame}\n    {}", pattern.match_and_bind(frame, &mut bindings.clone()).unwrap_err())
        })
        .collect();
    panic!(
        "{place}: not heard{}; instead:\n  {}",
        if inbox.closed { ", closed" } else { "" },
        problems.join("\n  ")
    );
}

fn listen(inbox: &mut Inbox, stage: &mut dyn Stage, peer: &str, wait_for: WaitFor) {
    if inbox.closed {
        return;
    }
    let heard = stage.hear(peer, wait_for);
    inbox.frames.extend(heard.frames.into_iter().flat_map(apart));
    inbox.closed |= heard.closed;
}

fn framed(value: &Value) -> BytesMut {
    let mut body = BytesMut::new();
    value.write(&mut body);
    let mut out = BytesMut::from(&(body.len() as u32).to_be_bytes()[..]);
    out.extend_from_slice(&body);
    out
}

/// Events and work come in as few frames as it happens to be; here each entry is a frame of its own.
fn apart(frame: Value) -> Vec<Value> {
    let Some((list, fields)) = bulk(&frame) else { return vec![frame] };
    let Value::Map(entries) = &fields else { return vec![frame] };
    let Some((_, Value::List(many))) = entries.iter().find(|(key, _)| *key == Value::Text(list.into()))
    else {
        return vec![frame];
    };
    let Value::List(envelope) = &frame else { return vec![frame] };
    let one = |entry: &Value| {
        let entries = entries.iter().map(|(key, value)| {
            let is_list = *key == Value::Text(list.into());
            (key.clone(), if is_list { Value::List(vec![entry.clone()]) } else { value.clone() })
        });
        Value::List(vec![envelope[0].clone(), envelope[1].clone(), Value::Map(entries.collect())])
    };
    many.iter().map(one).collect()
}

fn bulk(frame: &Value) -> Option<(&'static str, Value)> {
    let Value::List(envelope) = frame else { return None };
    match envelope.as_slice() {
        [Value::Int(0), Value::Text(kind), fields] if kind == "events" => Some(("events", fields.clone())),
        [Value::Int(0), Value::Text(kind), fields] if kind == "assign" => Some(("tasks", fields.clone())),
        _ => None,
    }
}

/// The same for what is expected.
fn one_by_one(pattern: &Pattern) -> Vec<Pattern> {
    let Pattern::List { entries: envelope, and_more } = pattern else { return vec![pattern.clone()] };
    let list = match envelope.get(1) {
        Some(Pattern::Exactly(Value::Text(kind))) if kind == "events" => "events",
        Some(Pattern::Exactly(Value::Text(kind))) if kind == "assign" => "tasks",
        _ => return vec![pattern.clone()],
    };
    let Some(Pattern::Map { entries: fields, and_more: more_fields }) = envelope.get(2) else {
        return vec![pattern.clone()];
    };
    let Some((_, Pattern::List { entries: many, .. })) = fields.iter().find(|(key, _)| key == list) else {
        return vec![pattern.clone()];
    };
    let one = |entry: &Pattern| {
        let fields = fields.iter().map(|(key, value)| {
            let only = Pattern::List { entries: vec![entry.clone()], and_more: false };
            (key.clone(), if key == list { only } else { value.clone() })
        });
        let fields = Pattern::Map { entries: fields.collect(), and_more: *more_fields };
        let envelope = vec![envelope[0].clone(), envelope[1].clone(), fields];
        Pattern::List { entries: envelope, and_more: *and_more }
    };
    many.iter().map(one).collect()
}
