//! Conversations written down in a specification page, so that tests can hold them.
//!
//! A fenced block marked `transcript` holds one conversation. A line begins with who speaks:
//!
//! | line | meaning |
//! |---|---|
//! | `C: …` | the peer says this |
//! | `S: …` | the broker says this to the peer `C` |
//! | `C2: …`, `W: …`, `C worker: …` | another peer says this, on a connection of its own |
//! | `S2: …`, `S W: …`, `S worker: …` | the broker says this to that peer |
//! | `C: <close>`, `S: <close>` | the peer, or the broker, closes the connection |
//! | `T: 1.5s` | time passes |
//!
//! An indented line goes on with the one before, and `#` begins a remark. What is said is text here: each door knows
//! how its protocol writes it.

#![warn(clippy::too_many_lines)]

mod block;
mod step;

use thiserror::Error;

pub use block::{TranscriptBlock, blocks};
pub use step::{Step, TranscriptAct, TranscriptSpeaker};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// What stands behind the word `transcript`.
    pub title: String,
    /// The line of the page where it begins.
    pub line: usize,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranscriptError {
    #[error("line {line}: a line begins with who speaks, like `C:` or `S:`, not with {found:?}")]
    Speaker { line: usize, found: String },
    #[error("line {line}: {found:?} is no time; write it like `1.5s`")]
    Time { line: usize, found: String },
    #[error("line {line}: the block has no end")]
    Unfinished { line: usize },
}

/// All conversations of a page, in their order.
pub fn read_page(page: &str) -> Result<Vec<Transcript>, TranscriptError> {
    let read = |block: TranscriptBlock| {
        let steps = block.sentences().into_iter().map(|(line, text)| Step::read(line, &text));
        Ok(Transcript { steps: steps.collect::<Result<_, _>>()?, title: block.title, line: block.line })
    };
    blocks(page)?.into_iter().map(read).collect()
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
S: [1, \"welcome\"]
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
        assert_eq!(transcript.steps[0].act, TranscriptAct::Says(r#"[1, "hello", {"version": 1}]"#.into()));
        assert_eq!((transcript.steps[1].speaker, transcript.steps[1].line), (TranscriptSpeaker::Broker, 7));
        assert_eq!(transcript.steps[2].peer, "worker");
        assert_eq!(transcript.steps[3].act, TranscriptAct::Closes);
    }

    #[test]
    fn a_broken_block_is_refused_with_its_line() {
        let unfinished = read_page("```transcript\nC: 1\n").unwrap_err();
        assert_eq!(unfinished, TranscriptError::Unfinished { line: 1 });
        let speaker = read_page("```transcript\nmumbled\n```").unwrap_err();
        assert!(speaker.to_string().starts_with("line 2: a line begins with"), "{speaker}");
        let time = read_page("```transcript\nT: soon\n```").unwrap_err();
        assert!(time.to_string().starts_with("line 2: \"soon\" is no time"), "{time}");
    }
}
