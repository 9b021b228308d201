//! Streams that break other brokers, or once broke this one, kept as plain tests. A fuzzer starts from them too.
//!
//! A file is hexadecimal. Its comments tell the story, how the connection ends (`open`, or the name of the error), and
//! the choice byte with which [`tenure_door_zmq::codec::fuzz`] runs it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use tenure_door_zmq::codec::{PeerAdmission, ZmtpEvent, ZmtpLimits, ZmtpPeer, fuzz};

#[test]
fn every_stream_of_the_corpus_ends_as_it_says() {
    for sample in samples() {
        assert_eq!(sample.run(), sample.ends, "{}", sample.name);
        fuzz(&[&[sample.choice][..], &sample.stream].concat());
    }
    assert!(samples().len() >= 30, "only {} streams", samples().len());
}

#[test]
fn every_beginning_of_every_stream_is_survived() {
    for sample in samples() {
        for end in 0..sample.stream.len() {
            fuzz(&[&[sample.choice][..], &sample.stream[..end]].concat());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn streams_with_any_few_bytes_changed_are_survived(
        which in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        choice in any::<u8>(),
    ) {
        let samples = samples();
        let mut stream = which.get(samples).stream.clone();
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        fuzz(&[&[choice][..], &stream].concat());
    }
}

struct Sample {
    name: String,
    ends: String,
    choice: u8,
    stream: Vec<u8>,
}

impl Sample {
    fn read(path: &Path) -> Sample {
        let text = std::fs::read_to_string(path).expect("a stream can be read");
        let named = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {name}: ")));
            line.unwrap_or_else(|| panic!("a line `# {name}: …`")).to_owned()
        };
        let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        let stream = (0..digits.len() / 2).map(|i| hex(&digits[2 * i..2 * i + 2])).collect();
        let name = path.display().to_string();
        Sample { name, ends: named("ends"), choice: hex(&named("choice")), stream }
    }

    fn run(&self) -> String {
        let admission = if self.choice & 1 == 0 { PeerAdmission::Anyone } else { PeerAdmission::Credentials };
        let limits = ZmtpLimits { frame_bytes: 1 << 10, frames: 32, message_bytes: 2 << 10 };
        let mut out = BytesMut::new();
        let mut peer = ZmtpPeer::new(admission, limits, &mut out);
        peer.input().extend_from_slice(&self.stream);
        loop {
            match peer.next_event(&mut out) {
                Ok(Some(ZmtpEvent::Credentials { .. })) => peer.admit(&mut out),
                Ok(Some(_)) => {}
                Ok(None) => return "open".to_owned(),
                Err(error) => return error.kind().to_owned(),
            }
        }
    }
}

/// All streams, read once.
fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let entries = std::fs::read_dir(folder()).expect("the corpus is there");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("the corpus can be listed").path()).collect();
        paths.sort();
        paths.iter().map(|path| Sample::read(path)).collect()
    })
}

fn hex(digits: &str) -> u8 {
    u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}
