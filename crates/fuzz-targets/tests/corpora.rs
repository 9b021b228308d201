//! The stored corpora run as plain tests, with a few hundred mutations of each file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tenure_fuzz_targets::TARGETS;

/// How often each file is changed. A mutation costs microseconds; a fuzzer does the rest.
const MUTATIONS: u64 = 200;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("the corpus is there").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn every_file_of_every_corpus_is_read_or_refused() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!(files.len() >= 3, "the corpus of {name} is too small");
        for (path, bytes) in files {
            println!("{}", path.display());
            target(&bytes);
        }
    }
}

#[test]
fn so_are_mutations_of_them() {
    for (name, target) in TARGETS {
        for (path, bytes) in corpus(name) {
            println!("{}", path.display());
            for seed in 0..MUTATIONS {
                target(&mutated(&bytes, seed));
            }
        }
    }
}

/// A few bytes changed, removed or doubled, by a generator that gives the same in every run.
fn mutated(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut bytes = bytes.to_vec();
    for _ in 0..=random(3) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random(bytes.len());
        match random(4) {
            0 => bytes[at] = random(256) as u8,
            1 => bytes[at] ^= 1 << random(8),
            2 => bytes.truncate(at),
            _ => {
                let end = (at + 1 + random(16)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

#[test]
fn the_fuzz_crate_has_a_program_and_a_corpus_for_every_target_and_no_others() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let listed = |folder: &str, ending: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(fuzz().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.map(|name| name.trim_end_matches(ending).to_owned()).collect()
    };
    assert_eq!(listed("fuzz_targets", ".rs"), targets);
    let mut corpora = listed("corpus", "");
    assert!(corpora.remove("config"), "the binary's tests read it");
    assert_eq!(corpora, targets);
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for name in &targets {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name} is not in the manifest"
        );
    }
}
