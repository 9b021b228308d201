//! `spec/errors.md` has a chapter for each refusal of the engine and of the hub, and no other.

use std::collections::BTreeSet;

use tenure_hub::HubRefusal;
use tenure_hub::words::Refusal;

/// One of each that is the hub's own. The match below does not compile when one is missing from it.
fn refusals() -> Vec<HubRefusal> {
    vec![
        HubRefusal::DiskFull,
        HubRefusal::Draining,
        HubRefusal::Trimmed { oldest: 5 },
        HubRefusal::Unreadable { what: "body" },
        HubRefusal::NoListener { address: "a".into() },
        HubRefusal::UnknownHook { hook: "h".into() },
        HubRefusal::JournalAway,
        HubRefusal::Deposed { holder: "b2".into() },
        HubRefusal::Elsewhere { namespace: "lab".into(), group: "g2".into(), addresses: Vec::new() },
    ]
}

fn number_of_refusal(refusal: &HubRefusal) -> Option<usize> {
    match refusal {
        HubRefusal::Engine(_) => None,
        HubRefusal::DiskFull => Some(0),
        HubRefusal::Draining => Some(1),
        HubRefusal::Trimmed { .. } => Some(2),
        HubRefusal::Unreadable { .. } => Some(3),
        HubRefusal::NoListener { .. } => Some(4),
        HubRefusal::UnknownHook { .. } => Some(5),
        HubRefusal::JournalAway => Some(6),
        HubRefusal::Deposed { .. } => Some(7),
        HubRefusal::Elsewhere { .. } => Some(8),
    }
}

#[test]
fn every_refusal_of_the_hub_and_the_engine_has_its_chapter_and_no_other_code_has_one() {
    for (number, refusal) in refusals().iter().enumerate() {
        assert_eq!(number_of_refusal(refusal), Some(number), "one of each, in order");
        assert!(!refusal.to_string().is_empty());
    }
    let own = refusals();
    let codes: Vec<&str> = own.iter().map(HubRefusal::code).chain(Refusal::CODES).collect();
    let sorted: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(sorted.len(), codes.len(), "no code is used twice");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/errors.md");
    let page = std::fs::read_to_string(path).unwrap();
    let chapters: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
    assert_eq!(chapters, sorted);
}

#[test]
fn a_refusal_of_the_engine_keeps_its_code_and_its_sentence() {
    let refusal = Refusal::BadValue { what: "slots", why: "is zero" };
    let through_the_hub = HubRefusal::from(refusal.clone());
    assert_eq!(through_the_hub.code(), refusal.code());
    assert_eq!(through_the_hub.to_string(), refusal.to_string());
}
