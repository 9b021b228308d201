//! The attempts of a task as a picture: one line each, from the time at which the task began to wait for it.

use maud::{Markup, html};
use tenure_hub::words::Timestamp;

use super::attempts::AttemptSpan;
use super::format::{clock, escaped, span};

/// How many attempts are drawn: the last ones.
const SHOWN_MAX: usize = 30;
/// The width of the drawing in its own units.
const WIDTH: f64 = 1000.0;
/// An attempt that took no time is still visible.
const VISIBLE_MIN: f64 = 4.0;

pub(super) fn draw(attempts: &[AttemptSpan], now: Timestamp) -> Markup {
    let hidden = attempts.len().saturating_sub(SHOWN_MAX);
    let shown = &attempts[hidden..];
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else {
        return html! { p.empty { "No worker has had it yet." } };
    };
    let axis = TimeAxis { from: first.waited_from, to: last.ended_at.unwrap_or(now) };
    html! {
        @if hidden > 0 { p.muted { (hidden) " earlier attempts are not drawn." } }
        ol.timeline {
            @for attempt in shown {
                @let over = attempt.ended_at.unwrap_or(now).since(attempt.assigned_at);
                li {
                    span.who {
                        strong { (attempt.number) } " "
                        a href={ "/workers/" (escaped(&attempt.worker)) } { (attempt.worker) }
                    }
                    (axis.line(attempt, now))
                    span.outcome data-outcome=(attempt.outcome) { (attempt.outcome) " " small { (span(over)) } }
                }
            }
        }
        div.axis {
            (clock(axis.from)) span.muted { (span(axis.to.since(axis.from))) } (clock(axis.to))
        }
        ul.legend {
            li { span.swatch data-part="waiting" {} "waiting" }
            li { span.swatch data-part="attempt" {} "attempt" }
            li { span.swatch data-part="missing" {} "worker lost" }
            li { span.swatch data-part="checkpoint" {} "checkpoint" }
        }
    }
}

/// The time that the drawing covers.
#[derive(Clone, Copy, Debug)]
struct TimeAxis {
    from: Timestamp,
    to: Timestamp,
}

impl TimeAxis {
    fn x(self, at: Timestamp) -> f64 {
        let whole = self.to.since(self.from).as_secs_f64();
        if whole <= 0.0 {
            return 0.0;
        }
        (at.since(self.from).as_secs_f64() / whole * WIDTH).clamp(0.0, WIDTH)
    }

    /// Where a part begins and how wide it is.
    fn part(self, from: Timestamp, to: Timestamp) -> (f64, f64) {
        let width = (self.x(to) - self.x(from)).max(VISIBLE_MIN);
        (self.x(from).min(WIDTH - width), width)
    }

    fn line(self, attempt: &AttemptSpan, now: Timestamp) -> Markup {
        let end = attempt.ended_at.unwrap_or(now);
        let (waits_at, waits) = self.part(attempt.waited_from, attempt.assigned_at);
        let (runs_at, runs) = self.part(attempt.assigned_at, end);
        let label = format!(
            "Attempt {} on {}: {} after {}",
            attempt.number,
            attempt.worker,
            attempt.outcome,
            span(end.since(attempt.assigned_at))
        );
        html! {
            svg role="img" aria-label=(label) viewBox="0 0 1000 20" preserveAspectRatio="none" {
                title { (label) }
                rect.waiting x=(number(waits_at)) width=(number(waits)) y="8" height="4" {}
                rect.attempt data-outcome=(attempt.outcome) x=(number(runs_at)) width=(number(runs)) y="3" height="14" {}
                @for (from, until) in &attempt.missing {
                    @let (x, width) = self.part(*from, until.unwrap_or(end));
                    rect.missing x=(number(x)) width=(number(width)) y="3" height="14" {}
                }
                @for at in &attempt.checkpoints {
                    rect.checkpoint x=(number(self.x(*at).min(WIDTH - 3.0))) width="3" y="0" height="20" {}
                }
            }
        }
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: u32, from: u64, to: Option<u64>) -> AttemptSpan {
        AttemptSpan {
            number,
            worker: "<w>".into(),
            waited_from: Timestamp(from),
            assigned_at: Timestamp(from + 500),
            started_at: None,
            ended_at: to.map(Timestamp),
            outcome: if to.is_some() { "crashed" } else { "running" },
            missing: vec![(Timestamp(from + 600), None)],
            checkpoints: vec![Timestamp(from + 700)],
        }
    }

    #[test]
    fn each_attempt_has_a_line_within_the_drawing() {
        let html = draw(&[attempt(1, 0, Some(1000)), attempt(2, 1000, None)], Timestamp(2000)).into_string();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.contains("&lt;w&gt;") && !html.contains("<w>"));
        assert!(html.contains("data-outcome=\"running\" x=\"750.0\" width=\"250.0\""), "{html}");
        let instant = AttemptSpan { ended_at: Some(Timestamp(0)), ..attempt(1, 0, None) };
        let html = draw(&[instant], Timestamp(0)).into_string();
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        let many: Vec<_> = (0..40).map(|number| attempt(number, 0, Some(1000))).collect();
        assert!(draw(&many, Timestamp(0)).into_string().contains("10 earlier attempts"));
        assert!(draw(&[], Timestamp(0)).into_string().contains("No worker has had it yet"));
    }
}
