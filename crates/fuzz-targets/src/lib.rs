//! One function for each decoder: for any bytes, it must not panic, hang, or break what it promises.
//!
//! `fuzz/` runs them under libFuzzer. The tests of this crate run them on stable Rust with every file of
//! `fuzz/corpus`, and with mutations of each. The configuration is not here: operators write it, and its loader is part
//! of the binary, whose own tests run `fuzz/corpus/config`.

#![warn(clippy::too_many_lines)]

mod journal;
mod plans;

/// A name, which is also that of the corpus, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target. `fuzz/fuzz_targets` has a file for each.
pub const TARGETS: [Target; 8] = [
    ("native", tenure_wire::fuzz),
    ("xmessage", tenure_door_msgpack::xmessage::codec::fuzz),
    ("resp", tenure_door_resp::testing::fuzz),
    ("zmtp", tenure_door_zmq::codec::fuzz),
    ("forward", tenure_door_kit::forward::fuzz),
    ("journal", journal::journal),
    ("snapshot", journal::snapshot),
    ("plans", plans::plans),
];

/// Runs one target by its name.
///
/// # Panics
/// If there is no such target, or if the decoder breaks a promise, which is what a fuzzer looks for.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    target(bytes);
}
