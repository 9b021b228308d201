//! Reads the transcripts of `spec/resp.md`; the page itself says how they are written.

use std::time::Duration;

use bytes::BytesMut;
use tenure_door_resp::testing::{Decoder, Reply, RespLimits, Version, encode, read_reply};
use tenure_transcripts::{TranscriptAct as Said, TranscriptSpeaker};

#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) title: String,
    pub(crate) with_keys: bool,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Step {
    /// In the page, for error messages.
    pub(crate) line: usize,
    pub(crate) act: Act,
}

#[derive(Debug)]
pub(crate) enum Act {
    /// A client types a command.
    Say {
        client: usize,
        words: String,
    },
    /// A client sends bytes.
    Send {
        client: usize,
        bytes: Vec<u8>,
    },
    /// The broker answers; one line of it.
    Answer {
        client: usize,
        pattern: String,
    },
    /// The broker closes the connection.
    Closed {
        client: usize,
    },
    /// The client closes it.
    Close {
        client: usize,
    },
    Pass(Duration),
}

/// Every transcript of the page.
pub(crate) fn read() -> Vec<Transcript> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/resp.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let read = |transcript: tenure_transcripts::Transcript| {
        let with_keys = transcript.title.ends_with("with keys");
        let steps = transcript.steps.into_iter();
        let steps = steps.map(|step| Step { line: step.line, act: act(&step) }).collect();
        Transcript { title: transcript.title, with_keys, steps }
    };
    let transcripts = tenure_transcripts::read_page(&page).expect("the page is well written");
    transcripts.into_iter().map(read).collect()
}

fn act(step: &tenure_transcripts::Step) -> Act {
    let client = client(&step.peer).unwrap_or_else(|| panic!("spec/resp.md:{}: no such peer", step.line));
    match (step.speaker, &step.act) {
        (TranscriptSpeaker::Peer, Said::Says(words)) => {
            match words.strip_prefix("<bytes ").and_then(|rest| rest.strip_suffix('>')) {
                Some(bytes) => Act::Send { client, bytes: unescaped(bytes) },
                None => Act::Say { client, words: words.clone() },
            }
        }
        (TranscriptSpeaker::Broker, Said::Says(pattern)) => Act::Answer { client, pattern: pattern.clone() },
        (TranscriptSpeaker::Peer, Said::Closes) => Act::Close { client },
        (TranscriptSpeaker::Broker, Said::Closes) => Act::Closed { client },
        (_, Said::Waits(time)) => Act::Pass(*time),
    }
}

/// Clients are numbered: `C` is the first, `C2` the second.
fn client(peer: &str) -> Option<usize> {
    match peer.strip_prefix('C')? {
        "" => Some(1),
        number => number.parse().ok(),
    }
}

fn unescaped(text: &str) -> Vec<u8> {
    text.replace("\\r", "\r").replace("\\n", "\n").into_bytes()
}

/// What a client types, as it travels.
pub(crate) fn as_array(words: &str) -> Vec<u8> {
    let mut decoder = Decoder::new(RespLimits::trusted());
    decoder.feed(words.as_bytes());
    decoder.feed(b"\r\n");
    let request = decoder.next_request().expect("good quoting").expect("a command");
    let mut bytes = BytesMut::new();
    encode(&Reply::array(request.iter().map(|word| Reply::bulk(word.to_vec()))), Version::Resp2, &mut bytes);
    bytes.to_vec()
}

/// The first whole reply as lines of the page's notation, and its length; none if it is not complete.
pub(crate) fn lines(wire: &[u8]) -> Option<(Vec<String>, usize)> {
    let (_, length) = read_reply(wire).expect("the broker's own reply")?;
    let mut lines = Vec::new();
    let mut rest = &wire[..length];
    while !rest.is_empty() {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a whole line");
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 2..];
        let bulk: Option<usize> = line.strip_prefix(['$', '=', '!']).and_then(|count| count.parse().ok());
        match bulk {
            None => lines.push(line),
            Some(count) => {
                let text = String::from_utf8_lossy(&rest[..count]).replace('\n', "\\n").replace('\r', "\\r");
                lines.push(format!("{} {text}", &line[..1]));
                rest = &rest[count + 2..];
            }
        }
    }
    Some((lines, length))
}

#[test]
fn replies_are_shown_line_by_line() {
    let wire = b"*3\r\n$5\r\nhello\r\n:1\r\n$-1\r\n+OK\r\n";
    let (lines, length) = lines(wire).expect("a reply");
    assert_eq!(lines, ["*3", "$ hello", ":1", "$-1"]);
    assert_eq!(&wire[length..], b"+OK\r\n");
}
