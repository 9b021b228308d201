//! The guide lists every act that the audit log can name.

use std::collections::BTreeSet;

/// Acts that the broker writes itself, without a request of a peer.
const OWN: [&str; 5] = ["connect", "end-session", "start", "stop", "reload"];

#[test]
fn the_page_lists_the_acts_of_the_code() {
    let here = env!("CARGO_MANIFEST_DIR");
    let code = std::fs::read_to_string(format!("{here}/src/audit/act.rs")).expect("the code");
    let page =
        std::fs::read_to_string(format!("{here}/../../docs/guide/configuration.md")).expect("the page");
    let row = page.lines().find(|line| line.starts_with("| `act` |")).expect("the row of the acts");
    let row = row.replace("`audit_level = \"all\"`", "");
    let words = row.split('`').skip(1).step_by(2).filter(|word| *word != "act");
    let listed: BTreeSet<&str> = words.collect();
    let mut written: BTreeSet<&str> = OWN.into_iter().collect();
    for beginning in ["act(\"", "report(\""] {
        let names = code.split(beginning).skip(1).filter_map(|rest| rest.split('"').next());
        written.extend(names);
    }
    assert_eq!(listed, written);
}
