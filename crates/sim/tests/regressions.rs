//! Seeds that once broke a promise, and a handful of plain ones, on every test run.

use tenure_sim::{Mutation, run};

/// Each of these found a mistake. They stay.
const FOUND: [u64; 8] = [
    1_752_857_665_741_354,
    1_752_857_834_660_996,
    1_752_857_912_968_777,
    1_752_858_080_462_551,
    1_752_858_265_619_456,
    1_752_858_455_863_261,
    1_752_858_628_371_462,
    1_752_908_992_157_767,
];

#[test]
fn seeds_that_once_broke_a_promise_keep_it() {
    for seed in FOUND {
        let outcome = run(seed, Mutation::None);
        assert!(outcome.broken.is_empty(), "seed {seed}: {:?}", outcome.broken);
    }
}

#[test]
fn a_hundred_worlds_keep_every_promise() {
    for seed in 0..100 {
        let outcome = run(seed, Mutation::None);
        assert!(
            outcome.broken.is_empty(),
            "seed {seed}: {:?}; replay: cargo xtask sim --seed {seed}",
            outcome.broken
        );
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in [3, 1_000_003] {
        let (first, second) = (run(seed, Mutation::None), run(seed, Mutation::None));
        assert_eq!(
            (first.tasks, first.happenings, first.restarts, first.messages, first.deliveries),
            (second.tasks, second.happenings, second.restarts, second.messages, second.deliveries),
            "seed {seed}"
        );
    }
}
