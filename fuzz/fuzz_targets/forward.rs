//! `cargo +nightly fuzz run forward`; see crates/fuzz-targets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tenure_fuzz_targets::run("forward", bytes));
