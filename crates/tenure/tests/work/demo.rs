//! The demonstration keeps its promises, here too.

use crate::support::{program, run};

#[test]
fn the_demonstration_kills_a_worker_and_the_broker_and_keeps_every_promise() {
    let said = run(program(&["demo", "--fast"]));
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    assert_eq!(said.out.matches("✓ kept").count(), 6, "{}", said.out);
    assert!(said.out.contains("is killed without warning") && !said.out.contains("BROKEN"), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "no drawing where there is no terminal");
}
