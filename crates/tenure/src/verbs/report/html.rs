//! The report as one page: no script, no other file, no network.

use super::{Findings, plot};
use crate::output::label::short;
use crate::output::times::date_and_clock;
use crate::units::{counted, show_duration};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222}\
    h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}\
    td,th{text-align:left;padding:.2em .6em .2em 0;border-bottom:1px solid #ddd;vertical-align:top}\
    .n{text-align:right;white-space:nowrap}code{font-size:.9em;overflow-wrap:anywhere}svg text{font-size:11px;fill:#555}\
    svg{max-width:100%}";

pub(super) fn page(findings: &Findings) -> String {
    let minute = |millis: u64| date_and_clock(millis).chars().take(16).collect::<String>();
    let (since, until) = (minute(findings.since), minute(findings.until));
    let mut body = format!("<h1>Tasks from {since} to {until} (UTC)</h1>");
    if let Some(from) = findings.kept_from {
        body += &format!("<p>The broker keeps no events from before {}.</p>", minute(from));
    }
    body += &summary(findings, (&since, &until));
    body += &section(
        "Failures by message",
        &["count", "message", "last task", "name or command"],
        &failures(findings),
    );
    body += &section("Slowest attempts", &["took", "task", "name or command", "worker"], &slowest(findings));
    body += &section("Machine use", &["worker", "attempts", "busy", "of its slots"], &machine_use(findings));
    format!(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' \
         content='width=device-width'><title>Tenure report</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

/// The counts, the ends over time, and the durations.
fn summary(findings: &Findings, span: (&str, &str)) -> String {
    let Findings { tally, .. } = findings;
    let counts = [
        tally.submitted,
        tally.completed,
        tally.failed,
        tally.cancelled,
        tally.expired,
        tally.retried,
        tally.crashed,
    ];
    let mut body = table(
        &["submitted", "completed", "failed", "cancelled", "expired", "retried", "crashed"],
        &[counts.map(|count| number(&count.to_string())).to_vec()],
    );
    let key = ["completed", "failed", "cancelled or expired"].iter().zip(plot::COLORS);
    let key: Vec<String> =
        key.map(|(word, color)| format!("<span style='color:{color}'>■</span> {word}")).collect();
    body += &format!("<h2>Ends over time</h2>{}<p>{}</p>", plot::over_time(tally, span), key.join(" "));
    if let Some(durations) = tally.durations() {
        body += &format!(
            "<h2>Durations of attempts</h2>{}<p>{}, {} together; half of them up to {}, 90 % up to {}, the longest {}.</p>",
            plot::histogram(&tally.histogram()),
            counted(durations.count as u64, "attempt", "attempts"),
            show_duration(durations.sum),
            show_duration(durations.p50),
            show_duration(durations.p90),
            show_duration(durations.max)
        );
    }
    body
}

fn failures(findings: &Findings) -> Vec<Vec<String>> {
    let rows = findings.failures.iter().map(|failure| {
        vec![
            number(&failure.group.count.to_string()),
            code(&failure.message),
            code(&short(failure.group.example)),
            cell(&failure.label),
        ]
    });
    rows.collect()
}

fn slowest(findings: &Findings) -> Vec<Vec<String>> {
    let rows = findings.slowest.iter().map(|slow| {
        vec![
            number(&show_duration(slow.run.took)),
            code(&short(slow.run.task)),
            cell(&slow.label),
            cell(&slow.run.worker),
        ]
    });
    rows.collect()
}

fn machine_use(findings: &Findings) -> Vec<Vec<String>> {
    let rows = findings.workers.iter().map(|used| {
        let share = used.share.map(|share| format!("<td>{} {:.0} %</td>", plot::share(share), share * 100.0));
        vec![
            cell(&used.worker),
            number(&used.attempts.to_string()),
            number(&show_duration(used.busy)),
            share.unwrap_or_else(|| cell("")),
        ]
    });
    rows.collect()
}

fn section(title: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("<h2>{title}</h2>{}", table(head, rows))
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = head.iter().map(|word| format!("<th>{word}</th>")).collect();
    let rows: String = rows.iter().map(|cells| format!("<tr>{}</tr>", cells.concat())).collect();
    format!("<table><tr>{head}</tr>{rows}</table>")
}

fn cell(text: &str) -> String {
    format!("<td>{}</td>", escaped(text))
}

fn number(text: &str) -> String {
    format!("<td class='n'>{}</td>", escaped(text))
}

fn code(text: &str) -> String {
    format!("<td><code>{}</code></td>", escaped(text))
}

/// Text of others, which must not become a part of the page's structure.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_change_the_page() {
        assert_eq!(cell("<script>'\"&\x1b"), "<td>&lt;script&gt;&#39;&quot;&amp; </td>");
    }
}
