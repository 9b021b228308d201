//! The page's transcripts use the grammar as it is: every command is understood, or refused in the words the page says.

use std::collections::BTreeSet;

use crate::support::pattern::Bindings;
use crate::support::transcript::{Act, Step, read};
use tenure_door_resp::testing::{Decoder, RespLimits, command_names, understand};

#[test]
fn every_line_a_client_types_is_understood_or_refused_as_the_page_says() {
    for transcript in read() {
        for (index, step) in transcript.steps.iter().enumerate() {
            let Act::Say { client, words } = &step.act else { continue };
            let Err(error) = parse(&without_holes(words)) else { continue };
            let answer = next_answer(&transcript.steps[index + 1..], *client);
            let fits = Bindings::default().fits(answer, &format!("-{error}"));
            assert!(fits, "spec/resp.md:{}: {words} is answered with {error}, not with {answer}", step.line);
        }
    }
}

#[test]
fn every_command_is_on_the_page() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/resp.md"));
    let page = page.expect("the page is there").to_ascii_lowercase();
    let words: BTreeSet<&str> = page
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .map(|word| word.trim_matches('.'))
        .collect();
    let missing: Vec<&str> = command_names().filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
}

/// What a hole stands for is known only when the transcript runs; here any id will do.
fn without_holes(words: &str) -> String {
    let mut whole = String::new();
    let mut rest = words;
    while let Some((before, hole)) = rest.split_once('<') {
        let (_, after) = hole.split_once('>').expect("a hole is closed");
        whole.push_str(before);
        whole.push('1');
        rest = after;
    }
    whole + rest
}

fn parse(words: &str) -> Result<(), String> {
    let mut decoder = Decoder::new(RespLimits::trusted());
    decoder.feed(words.as_bytes());
    decoder.feed(b"\r\n");
    let request = decoder.next_request().expect("framing").expect("a command");
    understand(&request)
}

fn next_answer(steps: &[Step], to: usize) -> &str {
    let answer = steps.iter().find_map(|step| match &step.act {
        Act::Answer { client, pattern } if *client == to => Some(pattern.as_str()),
        _ => None,
    });
    answer.unwrap_or("nothing")
}
