//! Conversations written down in a specification page, so that tests can hold them.
//!
//! A fenced block marked `transcript` holds one conversation. A line is what one side says, in [`crate::notation`]:
//! `C:` the peer, `S:` the broker; `C worker:` and `S worker:` when there are several peers, each with a connection of
//! its own. `<close>` ends a connection, `<raw …>` stands for bytes that are no proper frame, an indented line goes on
//! with the one before, and `#` begins a remark.

use bytes::Bytes;
use thiserror::Error;

use crate::notation::{NotationError, Pattern};
use crate::value::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// What stands behind the word `transcript`.
    pub title: String,
    /// The line of the page where it begins.
    pub line: usize,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub line: usize,
    pub speaker: Speaker,
    /// Which peer's connection this is about; empty if there is only one.
    pub peer: String,
    pub act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    Peer,
    Broker,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    Says(Pattern),
    SaysRaw(Bytes),
    Closes,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranscriptError {
    #[error("line {line}: {problem}")]
    Notation { line: usize, problem: NotationError },
    #[error("line {line}: a line begins with `C:` or `S:`, not with {found:?}")]
    Speaker { line: usize, found: String },
    #[error("line {line}: the block has no end")]
    Unfinished { line: usize },
}

/// All conversations of a page, in their order.
pub fn read_page(page: &str) -> Result<Vec<Transcript>, TranscriptError> {
    let mut transcripts = Vec::new();
    let mut lines = page.lines().enumerate().map(|(index, text)| (index + 1, text));
    while let Some((line, text)) = lines.next() {
        let Some(title) = text.strip_prefix("```transcript") else { continue };
        let mut said: Vec<(usize, String)> = Vec::new();
        loop {
            let Some((number, text)) = lines.next() else { return Err(TranscriptError::Unfinished { line }) };
            if text.starts_with("```") {
                break;
            }
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            match said.last_mut() {
                Some((_, before)) if text.starts_with(char::is_whitespace) => {
                    before.push(' ');
                    before.push_str(text.trim());
                }
                _ => said.push((number, text.to_owned())),
            }
        }
        let steps = said.iter().map(|(line, text)| step(*line, text)).collect::<Result<_, _>>()?;
        transcripts.push(Transcript { title: title.trim().to_owned(), line, steps });
    }
    Ok(transcripts)
}

fn step(line: usize, text: &str) -> Result<Step, TranscriptError> {
    let unknown = || TranscriptError::Speaker { line, found: text.chars().take(20).collect() };
    let (who, said) = text.split_once(':').ok_or_else(unknown)?;
    let (letter, peer) = who.split_once(' ').unwrap_or((who, ""));
    let speaker = match letter {
        "C" => Speaker::Peer,
        "S" => Speaker::Broker,
        _ => return Err(unknown()),
    };
    let act = act(said.trim()).map_err(|problem| TranscriptError::Notation { line, problem })?;
    Ok(Step { line, speaker, peer: peer.trim().to_owned(), act })
}

fn act(said: &str) -> Result<Act, NotationError> {
    if said == "<close>" {
        return Ok(Act::Closes);
    }
    if let Some(digits) = said.strip_prefix("<raw ").and_then(|rest| rest.strip_suffix('>')) {
        return match Pattern::parse(&format!("x\"{digits}\""))? {
            Pattern::Exactly(Value::Bytes(bytes)) => Ok(Act::SaysRaw(bytes)),
            _ => Err(NotationError::Syntax { at: 0, expected: "hexadecimal digits" }),
        };
    }
    Pattern::parse(said).map(Act::Says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_its_conversations() {
        let page = "\
Text.

```transcript two peers
# A remark.
C: [1, \"hello\",
   {\"version\": 1}]
S: [1, \"welcome\", {…}]
C worker: <raw ff 00>
S worker: <close>
```

```rust
C: not this
```
";
        let transcripts = read_page(page).unwrap();
        assert_eq!(transcripts.len(), 1);
        let transcript = &transcripts[0];
        assert_eq!((transcript.title.as_str(), transcript.line, transcript.steps.len()), ("two peers", 3, 4));
        assert_eq!(
            transcript.steps[0].act,
            Act::Says(Pattern::parse(r#"[1, "hello", {"version": 1}]"#).unwrap())
        );
        assert_eq!((transcript.steps[1].speaker, transcript.steps[1].line), (Speaker::Broker, 7));
        assert_eq!(transcript.steps[2].peer, "worker");
        assert_eq!(transcript.steps[2].act, Act::SaysRaw(Bytes::from_static(&[0xff, 0])));
        assert_eq!(transcript.steps[3].act, Act::Closes);
    }

    #[test]
    fn a_broken_block_is_refused_with_its_line() {
        let unfinished = read_page("```transcript\nC: 1\n").unwrap_err();
        assert_eq!(unfinished, TranscriptError::Unfinished { line: 1 });
        let speaker = read_page("```transcript\nX: 1\n```").unwrap_err();
        assert!(speaker.to_string().starts_with("line 2: a line begins with `C:`"), "{speaker}");
        let notation = read_page("```transcript\nC: [\n```").unwrap_err();
        assert!(notation.to_string().starts_with("line 2: at 1"), "{notation}");
    }
}
