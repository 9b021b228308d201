//! Reads the transcripts of `spec/resp.md`; the page itself says how they are written.

use std::time::Duration;

use bytes::BytesMut;
use tenure_door_resp::testing::{Decoder, Limits, Reply, Version, encode, read_reply};

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
    let mut transcripts: Vec<Transcript> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        if let Some(title) = line.strip_prefix("```transcript ") {
            inside = true;
            let with_keys = title.ends_with("with keys");
            transcripts.push(Transcript { title: title.to_owned(), with_keys, steps: Vec::new() });
        } else if line.starts_with("```") {
            inside = false;
        } else if inside {
            let act = act(line).unwrap_or_else(|| panic!("spec/resp.md:{}: what is {line:?}?", number + 1));
            transcripts.last_mut().expect("one was begun").steps.push(Step { line: number + 1, act });
        }
    }
    transcripts
}

fn act(line: &str) -> Option<Act> {
    if let Some(time) = line.strip_prefix("T: ") {
        let seconds = time.strip_suffix('s')?.parse().ok()?;
        return Some(Act::Pass(Duration::from_secs_f64(seconds)));
    }
    let (who, rest) = line.split_at(line.find([':', ' '])?);
    let kind = who.chars().next()?;
    let client = if who.len() == 1 { 1 } else { who[1..].parse().ok()? };
    match (kind, rest) {
        ('X', ":") => Some(Act::Close { client }),
        ('S', " close") => Some(Act::Closed { client }),
        ('S', rest) => Some(Act::Answer { client, pattern: rest.strip_prefix(": ")?.to_owned() }),
        ('C', rest) => match rest.strip_prefix(" bytes: ") {
            Some(bytes) => Some(Act::Send { client, bytes: unescaped(bytes) }),
            None => Some(Act::Say { client, words: rest.strip_prefix(": ")?.to_owned() }),
        },
        _ => None,
    }
}

fn unescaped(text: &str) -> Vec<u8> {
    text.replace("\\r", "\r").replace("\\n", "\n").into_bytes()
}

/// What a client types, as it travels.
pub(crate) fn as_array(words: &str) -> Vec<u8> {
    let mut decoder = Decoder::new(Limits::friend());
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
