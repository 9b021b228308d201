//! Counts the results in the output of `cargo test` while it runs.

/// How many failed tests are remembered by name; more would bury the line that tells how to repeat them.
const NAMES_MAX: usize = 12;

/// The sum over all test programs of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    /// Tests that said so, and one for every program that began and never came to its result.
    pub(crate) failed: u64,
    pub(crate) failed_names: Vec<String>,
    /// A program has said how many tests it runs, and not yet what came of them.
    running: bool,
}

impl Tally {
    /// Takes in one line of the output. Lines that say nothing about tests change nothing.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count_before(counts, " passed");
            self.failed += count_before(counts, " failed");
            self.running = false;
        } else if is_start(line) {
            self.end();
            self.running = true;
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            // A test that should panic is listed as `name - should panic`, a document test as `file - item (line 3)`.
            let name = name.split(" - ").next().unwrap_or(name).to_owned();
            if self.failed_names.len() < NAMES_MAX && !self.failed_names.contains(&name) {
                self.failed_names.push(name);
            }
        }
    }

    /// The output has ended, at least that of the last program: if its result is missing, it died.
    pub(crate) fn end(&mut self) {
        if self.running {
            self.failed += 1;
            self.running = false;
        }
    }
}

/// `running 1 test`, `running 12 tests`
fn is_start(line: &str) -> bool {
    let count = line
        .strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or(rest.strip_suffix(" test")));
    count.is_some_and(|count| count.parse::<u64>().is_ok())
}

/// The number that stands right before `word` in `ok. 5 passed; 0 failed; …`.
fn count_before(counts: &str, word: &str) -> u64 {
    let Some(end) = counts.find(word) else { return 0 };
    let start = counts[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    counts[start..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        for line in output.lines() {
            tally.read(line);
        }
        tally.end();
        tally
    }

    #[test]
    fn the_results_of_several_test_programs_are_summed() {
        let tally = tally(
            "running 2 tests\n\
             test a::one ... ok\n\
             test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             \n\
             test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.20s\n",
        );
        assert_eq!(tally, Tally { passed: 42, ..Tally::default() });
    }

    #[test]
    fn failed_tests_are_counted_and_named_once() {
        let tally = tally(
            "test lease::it_ends ... FAILED\n\
             test odd::input - should panic ... FAILED\n\
             test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test lease::it_ends ... FAILED\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((tally.passed, tally.failed), (7, 3));
        assert_eq!(tally.failed_names, ["lease::it_ends", "odd::input"]);
    }

    #[test]
    fn a_test_program_that_dies_counts_as_one_failure() {
        let tally = tally(
            "running 3 tests\n\
             test a ... ok\n\
             running 1 test\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             running 1 test\n",
        );
        assert_eq!((tally.passed, tally.failed), (1, 2));
    }

    #[test]
    fn chatter_of_tests_counts_for_nothing() {
        assert_eq!(
            tally("running late tests\n5 passed the gate\ntest result of the day\ntest result: \n"),
            Tally::default()
        );
    }

    #[test]
    fn the_kept_names_are_limited() {
        let output: String = (0..100).map(|n| format!("test t{n} ... FAILED\n")).collect();
        assert_eq!(tally(&output).failed_names.len(), NAMES_MAX);
    }
}
