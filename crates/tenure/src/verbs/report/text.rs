//! The report for people, in lines.

use super::Findings;
use crate::output::Screen;
use crate::output::label::short;
use crate::output::paint::{Color, escape_line};
use crate::output::table::{Cell, Column, Table, cut};
use crate::output::times::{date_and_clock, relative};
use crate::units::{counted, show_duration};

pub(super) fn render(findings: &Findings, screen: &Screen) -> String {
    let mut text = summary(findings, screen);
    if !findings.failures.is_empty() {
        text += &title("failures by message", screen);
        text += &failures(findings).render(screen.width, screen.paint);
    }
    if !findings.slowest.is_empty() {
        text += &title("slowest attempts", screen);
        text += &slowest(findings).render(screen.width, screen.paint);
    }
    if !findings.workers.is_empty() {
        text += &title("machine use", screen);
        text += &machine_use(findings).render(screen.width, screen.paint);
    }
    text
}

fn title(text: &str, screen: &Screen) -> String {
    format!("\n{}\n", screen.paint.apply(Color::Bold, text.to_owned()))
}

fn summary(findings: &Findings, screen: &Screen) -> String {
    let Findings { tally, .. } = findings;
    let minute = |millis: u64| date_and_clock(millis).chars().take(16).collect::<String>();
    let mut text = format!("{} to {} (UTC)\n", minute(findings.since), minute(findings.until));
    if let Some(from) = findings.kept_from {
        text += &format!(
            "the broker keeps no events from before {} ({})\n",
            minute(from),
            relative(from, screen.now)
        );
    }
    text += &format!("\n{} submitted", counted(tally.submitted, "task", "tasks"));
    let ends = [
        (tally.completed, "completed", Color::Green),
        (tally.failed, "failed", Color::Red),
        (tally.cancelled, "cancelled", Color::Yellow),
        (tally.expired, "expired", Color::Yellow),
    ];
    for (count, word, color) in ends.into_iter().filter(|(count, ..)| *count > 0) {
        text += &format!(", {}", screen.paint.apply(color, format!("{count} {word}")));
    }
    text += "\n";
    if tally.retried + tally.crashed > 0 {
        let retried = counted(tally.retried, "failure was retried", "failures were retried");
        text += &format!("{retried}, {}\n", counted(tally.crashed, "attempt crashed", "attempts crashed"));
    }
    if let Some(durations) = tally.durations() {
        text += &format!(
            "{} took {} together\nhalf of them took up to {}, 90 % up to {}, the longest {}\n",
            counted(durations.count as u64, "attempt", "attempts"),
            show_duration(durations.sum),
            show_duration(durations.p50),
            show_duration(durations.p90),
            show_duration(durations.max),
        );
    }
    text
}

fn failures(findings: &Findings) -> Table {
    let columns = [
        Column::Number("COUNT"),
        Column::Flexible("MESSAGE"),
        Column::Fixed("LAST"),
        Column::Flexible("NAME OR COMMAND"),
    ];
    let mut table = Table::new(columns, "");
    for failure in &findings.failures {
        table.row([
            failure.group.count.to_string().into(),
            failure.message.as_str().into(),
            short(failure.group.example).into(),
            failure.label.as_str().into(),
        ]);
    }
    table
}

fn slowest(findings: &Findings) -> Table {
    let columns = [
        Column::Number("TOOK"),
        Column::Fixed("TASK"),
        Column::Flexible("NAME OR COMMAND"),
        Column::Flexible("WORKER"),
    ];
    let mut table = Table::new(columns, "");
    for slow in &findings.slowest {
        table.row([
            show_duration(slow.run.took).into(),
            short(slow.run.task).into(),
            slow.label.as_str().into(),
            slow.run.worker.as_str().into(),
        ]);
    }
    table
}

fn machine_use(findings: &Findings) -> Table {
    let columns = [
        Column::Flexible("WORKER"),
        Column::Number("ATTEMPTS"),
        Column::Number("BUSY"),
        Column::Number("USED"),
    ];
    let mut table = Table::new(columns, "");
    for used in &findings.workers {
        let share = used.share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
        table.row([
            Cell::from(cut(&escape_line(&used.worker), 60)),
            used.attempts.to_string().into(),
            show_duration(used.busy).into(),
            share.into(),
        ]);
    }
    table
}
