//! The transcripts of `spec/http.md`: on a plain socket, and with curl itself where it is installed.

mod support;

use std::process::Stdio;

use serde_json::Value;
use support::{Bindings, Broker, Pattern};
use tenure_transcripts::{Step, Transcript, TranscriptAct, TranscriptSpeaker, read_page};

const PAGE: &str = include_str!("../../../spec/http.md");

fn conversations() -> Vec<Transcript> {
    let found = read_page(PAGE).expect("the page is well written");
    assert!(found.len() >= 5, "the page has {} transcripts", found.len());
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_transcript_holds_on_a_plain_socket() {
    for transcript in conversations() {
        let broker = Broker::start().await;
        let mut bindings = Bindings::default();
        for (asked, expected) in pairs(&transcript) {
            let request = CurlLine::parse(&bindings.fill(&asked));
            let mut client = broker.client().await;
            let fields: Vec<(&str, &str)> =
                request.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            let answer = client.ask(&request.method, &request.path, &fields, request.body.as_bytes()).await;
            check(&transcript, &mut bindings, &asked, &expected, answer.status, &answer.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_transcript_holds_with_curl() {
    if tokio::process::Command::new("curl").arg("--version").output().await.is_err() {
        eprintln!("curl is not installed, so the examples run on a plain socket only");
        return;
    }
    for transcript in conversations() {
        let broker = Broker::start().await;
        let mut bindings = Bindings::default();
        for (asked, expected) in pairs(&transcript) {
            let line = bindings.fill(&asked).replace("localhost:7173", &broker.address.to_string());
            let line = line.replacen("curl", "curl -s --noproxy '*' -w '\\n%{http_code}'", 1);
            let mut shell = tokio::process::Command::new("sh");
            shell.arg("-c").arg(&line).stdin(Stdio::null()).kill_on_drop(true);
            let output = shell.output().await.expect("a shell");
            let said = String::from_utf8(output.stdout).expect("text");
            let (body, status) =
                said.rsplit_once('\n').unwrap_or_else(|| panic!("no status: {said:?} of {line}"));
            check(&transcript, &mut bindings, &asked, &expected, status.parse().expect("a status"), body);
        }
    }
}

/// Each line of the client with the answer to it.
fn pairs(transcript: &Transcript) -> Vec<(String, String)> {
    let says = |step: &Step, speaker| {
        assert_eq!(step.speaker, speaker, "line {}", step.line);
        match &step.act {
            TranscriptAct::Says(text) => text.clone(),
            other => panic!("line {}: {other:?}", step.line),
        }
    };
    let mut steps = transcript.steps.iter();
    std::iter::from_fn(|| {
        let asked = says(steps.next()?, TranscriptSpeaker::Peer);
        Some((asked, says(steps.next().expect("an answer"), TranscriptSpeaker::Broker)))
    })
    .collect()
}

fn check(
    transcript: &Transcript,
    bindings: &mut Bindings,
    asked: &str,
    expected: &str,
    status: u16,
    body: &str,
) {
    let title = &transcript.title;
    let (wanted, pattern) = expected.split_once(' ').unwrap_or((expected, ""));
    assert_eq!(wanted, status.to_string(), "{title}: {asked}\n{body}");
    if pattern.is_empty() {
        assert_eq!(body, "", "{title}: {asked}");
        return;
    }
    // What is not JSON is compared as a text.
    let value: Value = serde_json::from_str(body).unwrap_or_else(|_| body.into());
    assert!(
        bindings.fits(&Pattern::parse(pattern), &value),
        "{title}: {asked}\nwanted {pattern}\nfound  {value}"
    );
}

/// The few words of curl that the page uses.
#[derive(Debug, Default)]
struct CurlLine {
    method: String,
    path: String,
    fields: Vec<(String, String)>,
    body: String,
}

impl CurlLine {
    fn parse(line: &str) -> CurlLine {
        let mut words = words(line).into_iter();
        assert_eq!(words.next().as_deref(), Some("curl"), "{line}");
        let (mut curl, mut method) = (CurlLine::default(), None);
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} has a value: {line}"));
            match &*word {
                "-X" => method = Some(value()),
                "-H" => {
                    let field = value();
                    let (name, value) = field.split_once(':').expect("a header field");
                    curl.fields.push((name.to_owned(), value.trim().to_owned()));
                }
                "--json" => {
                    curl.body = value();
                    curl.fields.push(("content-type".to_owned(), "application/json".to_owned()));
                    method.get_or_insert("POST".to_owned());
                }
                "--data-binary" => {
                    curl.body = value();
                    method.get_or_insert("POST".to_owned());
                }
                url => {
                    let path = url.strip_prefix("localhost:7173");
                    curl.path = path.unwrap_or_else(|| panic!("{url} is no address: {line}")).to_owned();
                }
            }
        }
        curl.method = method.unwrap_or_else(|| "GET".to_owned());
        curl
    }
}

/// Splits a line as a shell does, with single quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_word) = (Vec::new(), String::new(), false, false);
    for letter in line.chars() {
        match letter {
            '\'' => (is_quoted, is_word) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            other => {
                word.push(other);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}
