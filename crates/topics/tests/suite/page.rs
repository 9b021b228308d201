//! The page about topics says what the code does: its limits and its refusals are read and compared.

use std::collections::BTreeSet;

use tenure_topics::{
    GAPS_MAX, IN_FLIGHT_MESSAGES_MAX, MESSAGE_OVERHEAD_BYTES, NAME_BYTES_MAX, NAME_LEVELS_MAX, PAGE_MAX,
    REQUESTS_MAX, SEQUENCE_BLOCK, SUBSCRIPTION_ID_BYTES_MAX, Settings, TEXT_BYTES_MAX,
    UNCONFIRMED_RANGES_MAX, UNREAD_BYTES_MAX,
};

const PAGE: &str = include_str!("../../../../spec/topics.md");

#[test]
fn the_limits_on_the_page_are_the_defaults() {
    let settings = Settings::default();
    let millis = |duration: std::time::Duration| format!("{} ms", duration.as_millis());
    let mut expected: Vec<(&str, String)> = vec![
        ("`ring-messages`", settings.ring_messages.to_string()),
        ("`ring-bytes`", settings.ring_bytes.to_string()),
        ("`queue-messages`", settings.queue_messages.to_string()),
        ("`queue-bytes`", settings.queue_bytes.to_string()),
        ("`policy`", settings.policy.as_str().to_owned()),
        ("`block-timeout`", millis(settings.block_timeout)),
        ("`waiting-messages`", settings.waiting_messages.to_string()),
        ("`default-ttl`", settings.default_ttl.map_or("none".to_owned(), millis)),
        ("`reap-interval`", millis(settings.reap_interval)),
        ("`paused-ttl`", millis(settings.paused_ttl)),
        ("`missed-topics`", settings.missed_topics.to_string()),
        ("`payload-bytes`", settings.payload_bytes.to_string()),
        ("`retained-bytes`", settings.retained_bytes.to_string()),
        ("`topics`", settings.topics.to_string()),
        ("`subscriptions`", settings.subscriptions.to_string()),
        ("`filters`", settings.filters.to_string()),
        ("`filters-in-all`", settings.filters_in_all.to_string()),
    ];
    for fixed in [
        NAME_BYTES_MAX,
        NAME_LEVELS_MAX,
        SUBSCRIPTION_ID_BYTES_MAX,
        TEXT_BYTES_MAX,
        IN_FLIGHT_MESSAGES_MAX,
        GAPS_MAX,
        UNREAD_BYTES_MAX as usize,
        UNCONFIRMED_RANGES_MAX,
        REQUESTS_MAX,
        PAGE_MAX,
    ] {
        expected.push(("fixed", fixed.to_string()));
    }
    let rows = rows_of("## Limits");
    let found: Vec<(&str, String)> = rows.iter().map(|row| (row[0], row[1].to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn numbers_in_the_text_are_those_of_the_code() {
    assert!(PAGE.contains(&format!("at most {SEQUENCE_BLOCK} numbers")));
    assert!(PAGE.contains(&format!("the first {GAPS_MAX} ranges")));
    assert!((200..300).contains(&MESSAGE_OVERHEAD_BYTES), "about 250, not {MESSAGE_OVERHEAD_BYTES}");
}

#[test]
fn every_refusal_is_on_the_page_and_no_other() {
    let code = include_str!("../../src/refusal.rs");
    let in_code: BTreeSet<&str> =
        code.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(in_code.len() > 20);
    let rows = rows_of("## Refusals");
    let on_page: BTreeSet<&str> =
        rows.iter().flat_map(|row| row[0].split(", ")).map(|code| code.trim_matches('`')).collect();
    assert_eq!(on_page, in_code);
}

/// The cells of the table under a heading, without the two lines at its top.
fn rows_of(heading: &str) -> Vec<Vec<&'static str>> {
    let section = PAGE.split(heading).last().expect("the heading is on the page");
    let lines =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}
