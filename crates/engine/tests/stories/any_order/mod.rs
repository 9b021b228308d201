//! Anything, in any order: clients and workers of two namespaces do what they like, connections close, time passes, the
//! broker restarts, and after every step all promises are checked against a model that knows only the records.

mod act;
mod mirror;
mod promises;
mod world;

use proptest::prelude::*;
use proptest::test_runner::Config;

use act::{Act, acts};
use world::World;

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

proptest! {
    #![proptest_config(Config { cases: cases(), max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_happens_in_whatever_order_every_promise_is_kept(
        aging in any::<bool>(),
        acts in prop::collection::vec(acts(), 1..150),
    ) {
        let first = live_through(aging, &acts);
        // The same input gives the same output: no clock, no randomness, no order of a hash table.
        prop_assert_eq!(first, live_through(aging, &acts));
    }
}

/// Everything that was said.
fn live_through(aging: bool, acts: &[Act]) -> Vec<String> {
    let mut world = World::new(aging);
    for act in acts {
        world.live(act);
    }
    world.end()
}
