//! A bar on the terminal while many tasks are waited for.

use std::cell::Cell;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

const TEMPLATE: &str = "{bar:30} {human_pos}/{human_len}  {rate}  {eta} left{msg}";
/// How often the bar is drawn while nothing ends, so that its time goes on.
const TICK: Duration = Duration::from_millis(500);

/// How many of the tasks have ended, how fast, and how long the others will take.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    failed: Cell<u64>,
}

impl Progress {
    /// A bar on stderr, if that is a terminal.
    pub(crate) fn new(tasks: usize) -> Progress {
        if std::io::stderr().is_terminal() {
            Progress::on(tasks, ProgressDrawTarget::stderr())
        } else {
            Progress::on(tasks, ProgressDrawTarget::hidden())
        }
    }

    fn on(tasks: usize, target: ProgressDrawTarget) -> Progress {
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("rate", |state: &ProgressState, text: &mut dyn Write| {
            // A line that cannot be written is drawn again.
            let _ = write!(text, "{}", rate(state.per_sec()));
        });
        let bar = ProgressBar::with_draw_target(Some(tasks as u64), target).with_style(style);
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress { bar, failed: Cell::new(0) }
    }

    /// Prints something beside the bar.
    pub(crate) fn suspend_and_print<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    pub(crate) fn ended(&self, well: bool) {
        self.bar.inc(1);
        if !well {
            self.failed.set(self.failed.get() + 1);
            self.bar.set_message(format!(", {} did not complete", self.failed.get()));
        }
    }

    /// How many have ended, and how many of them did not complete.
    pub(crate) fn at(&self, ended: u64, badly: u64) {
        self.bar.set_position(ended);
        if badly > 0 && self.failed.replace(badly) != badly {
            self.bar.set_message(format!(", {badly} did not complete"));
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How many a second, with as many digits as say something.
fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}/s") } else { format!("{per_second:.0}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_few_digits() {
        assert_eq!(
            [0.0, 0.25, 9.9169, 10.9169, 1234.5].map(rate),
            ["0.0/s", "0.2/s", "9.9/s", "11/s", "1234/s"]
        );
    }
}
