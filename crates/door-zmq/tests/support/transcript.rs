//! Conversations of the specification pages, read so that tests can hold them. The notation is explained in
//! `spec/mdp.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use tenure_transcripts::{TranscriptAct as Said, TranscriptSpeaker};

use super::cbor::Item;

/// One conversation.
pub(crate) struct Transcript {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) act: Act,
}

/// What happens in one line. Peers are named `C`, `W`, `C2` and so on.
pub(crate) enum Act {
    Says { peer: String, frames: Vec<Frame> },
    Hears { peer: String, frames: Vec<Frame> },
    Closes { peer: String },
}

/// A frame as it is written down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Frame {
    Exactly(Bytes),
    Map(Item),
    Any,
    Named(String),
}

/// What the names stand for.
pub(crate) type Bindings = BTreeMap<String, Bytes>;

/// All transcripts of a page under `spec/`.
pub(crate) fn read(page: &str) -> Vec<Transcript> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let read = |transcript: tenure_transcripts::Transcript| {
        let steps = transcript.steps.into_iter().map(|step| Step { line: step.line, act: act(step) });
        Transcript { steps: steps.collect(), title: transcript.title }
    };
    let transcripts = tenure_transcripts::read_page(&text).expect("the page is well written");
    transcripts.into_iter().map(read).collect()
}

fn act(step: tenure_transcripts::Step) -> Act {
    let tenure_transcripts::Step { line, speaker, peer, act } = step;
    match (speaker, act) {
        (TranscriptSpeaker::Peer, Said::Says(text)) => Act::Says { peer, frames: frames(&text) },
        (TranscriptSpeaker::Broker, Said::Says(text)) => Act::Hears { peer, frames: frames(&text) },
        (TranscriptSpeaker::Peer, Said::Closes) => Act::Closes { peer },
        (TranscriptSpeaker::Broker, Said::Closes) | (_, Said::Waits(_)) => {
            panic!("line {line}: these pages let no time pass, and the broker closes nothing")
        }
    }
}

impl Frame {
    /// The bytes to send.
    pub(crate) fn build(&self, bindings: &Bindings) -> Bytes {
        match self {
            Frame::Exactly(bytes) => bytes.clone(),
            Frame::Map(map) => map.encode(),
            Frame::Named(name) => bindings.get(name).unwrap_or_else(|| panic!("${name} is unknown")).clone(),
            Frame::Any => panic!("`*` can only be heard"),
        }
    }

    /// Whether these bytes are what was written down. Remembers what a new name stands for.
    pub(crate) fn matches(&self, bytes: &Bytes, bindings: &mut Bindings) -> bool {
        match self {
            Frame::Exactly(expected) => expected == bytes,
            Frame::Map(expected) => Item::decode(bytes).is_some_and(|found| expected.covers(&found)),
            Frame::Any => true,
            Frame::Named(name) => bindings.entry(name.clone()).or_insert_with(|| bytes.clone()) == bytes,
        }
    }
}

fn frames(text: &str) -> Vec<Frame> {
    let mut rest = text.trim_start();
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (frame, later) = frame(rest);
        frames.push(frame);
        rest = later.trim_start();
    }
    frames
}

fn frame(text: &str) -> (Frame, &str) {
    if text.starts_with('"') {
        let (string, rest) = super::cbor::string(text);
        return (Frame::Exactly(string.into()), rest);
    }
    if text.starts_with('{') {
        let (map, rest) = Item::read(text);
        return (Frame::Map(map), rest);
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let frame = match word {
        "*" => Frame::Any,
        _ if word.starts_with('$') => Frame::Named(word[1..].to_owned()),
        _ => Frame::Exactly(hex(word.trim_start_matches("x\"").trim_end_matches('"')).into()),
    };
    (frame, rest)
}

fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|_| panic!("{digits:?} is no frame"))
}
