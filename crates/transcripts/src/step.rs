//! One line of a conversation: who speaks, and what happens.

use std::time::Duration;

use crate::TranscriptError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub line: usize,
    pub speaker: TranscriptSpeaker,
    /// Which peer's connection this is about: `C` unless the line names another.
    pub peer: String,
    pub act: TranscriptAct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptSpeaker {
    Peer,
    Broker,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptAct {
    Says(String),
    Closes,
    /// Time passes.
    Waits(Duration),
}

impl Step {
    pub(crate) fn read(line: usize, text: &str) -> Result<Step, TranscriptError> {
        let unknown = || TranscriptError::Speaker { line, found: text.chars().take(20).collect() };
        let (who, said) = text.split_once(':').ok_or_else(unknown)?;
        let said = said.trim();
        if who == "T" {
            let act = TranscriptAct::Waits(time(line, said)?);
            return Ok(Step { line, speaker: TranscriptSpeaker::Peer, peer: "C".to_owned(), act });
        }
        let (speaker, peer) = speaker(who).ok_or_else(unknown)?;
        let act =
            if said == "<close>" { TranscriptAct::Closes } else { TranscriptAct::Says(said.to_owned()) };
        Ok(Step { line, speaker, peer, act })
    }
}

/// Who speaks, and about which peer's connection: `C`, `C2` and `W` are peers by their own name, `S`, `S2` and `S W` is
/// the broker that speaks to `C`, `C2` and `W`.
fn speaker(who: &str) -> Option<(TranscriptSpeaker, String)> {
    let (word, name) = who.split_once(' ').unwrap_or((who, ""));
    let (letter, number) = word.split_at_checked(1)?;
    let is_good = letter.chars().all(|letter| letter.is_ascii_uppercase())
        && number.chars().all(|digit| digit.is_ascii_digit())
        && name.chars().all(char::is_alphanumeric);
    let speaker = if letter == "S" { TranscriptSpeaker::Broker } else { TranscriptSpeaker::Peer };
    let peer = match (speaker, name) {
        (TranscriptSpeaker::Broker, "") => format!("C{number}"),
        (TranscriptSpeaker::Peer, "") => word.to_owned(),
        (_, name) => name.to_owned(),
    };
    is_good.then_some((speaker, peer))
}

fn time(line: usize, text: &str) -> Result<Duration, TranscriptError> {
    let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| TranscriptError::Time { line, found: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_and_what_is_said_to_it_have_the_same_name() {
        for (peer_says, broker_says, name) in [
            ("C: 1", "S: 1", "C"),
            ("C2: 1", "S2: 1", "C2"),
            ("W: 1", "S W: 1", "W"),
            ("W2: 1", "S W2: 1", "W2"),
            ("C worker: 1", "S worker: 1", "worker"),
        ] {
            let step =
                |speaker| Step { line: 3, speaker, peer: name.into(), act: TranscriptAct::Says("1".into()) };
            assert_eq!(Step::read(3, peer_says), Ok(step(TranscriptSpeaker::Peer)));
            assert_eq!(Step::read(3, broker_says), Ok(step(TranscriptSpeaker::Broker)));
        }
    }

    #[test]
    fn connections_end_and_time_passes() {
        assert_eq!(Step::read(1, "W2: <close>").unwrap().act, TranscriptAct::Closes);
        assert_eq!(Step::read(1, "T: 1.5s").unwrap().act, TranscriptAct::Waits(Duration::from_millis(1500)));
        assert_eq!(Step::read(1, "S: :1").unwrap().act, TranscriptAct::Says(":1".into()));
    }
}
