//! One frame of the live view: numbers on top, then queues, workers and the tasks they hold.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};
use tenure_client::{QueueInfo, TaskInfo, WorkerInfo};

use super::TopSample;
use crate::output::label::short;
use crate::output::paint::escape_line;
use crate::output::times::relative;
use crate::units::{counted, show_duration};
use crate::verbs::labels::Labels;
use crate::verbs::list::note;
use crate::verbs::stats::by_state;

pub(crate) fn draw(frame: &mut Frame<'_>, look: &TopSample) {
    let area = frame.area();
    let needed = height(look, area.width);
    // What does not fit is cut evenly, so that no part hides the others.
    let most = if needed <= area.height { u16::MAX } else { area.height / 3 };
    let [head, queues, workers, tasks, foot] = Layout::vertical([
        Constraint::Length(header_height(look, area.width)),
        Constraint::Length(rows(look.queues.len()).min(most)),
        Constraint::Length(rows(look.workers.len()).min(most)),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(look, area.width), head);
    draw_queues(frame, queues, &look.queues, look.now);
    draw_workers(frame, workers, &look.workers, look.now);
    draw_tasks(frame, tasks, &look.held, &look.labels, look.now);
    frame.render_widget(Paragraph::new("q quits").style(Style::new().add_modifier(Modifier::DIM)), foot);
}

/// The lines that a whole frame needs.
pub(crate) fn height(look: &TopSample, columns: u16) -> u16 {
    let parts = [rows(look.queues.len()), rows(look.workers.len()), rows(look.held.len())];
    parts.into_iter().fold(header_height(look, columns) + 1, u16::saturating_add)
}

/// The title, the counts, and an empty line.
fn header_height(look: &TopSample, columns: u16) -> u16 {
    2 + u16::try_from(states(look, columns).len()).unwrap_or(u16::MAX - 3)
}

fn rows(count: usize) -> u16 {
    u16::try_from(count.max(1)).unwrap_or(u16::MAX).saturating_add(3)
}

fn header(look: &TopSample, columns: u16) -> Paragraph<'static> {
    let rate = look.rate.map(|rate| format!(", {rate:.1} tasks/s")).unwrap_or_default();
    let title = format!(
        "{}   {} live, {} lost{rate}",
        look.broker,
        counted(look.counts.live_workers, "worker", "workers"),
        look.counts.lost_workers
    );
    let mut lines = vec![Line::from(title).style(Style::new().add_modifier(Modifier::BOLD))];
    lines.extend(states(look, columns));
    Paragraph::new(lines)
}

/// How many tasks are in each state, in as many lines as it takes.
fn states(look: &TopSample, columns: u16) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    for (state, count) in by_state(&look.counts.by_state) {
        let style =
            if count == 0 { Style::new().add_modifier(Modifier::DIM) } else { Style::new().fg(color(state)) };
        let shown = Span::styled(format!("{state} {count}"), style);
        let used = lines.last().map_or(0, Line::width);
        if used > 0 && used + shown.width() > usize::from(columns) {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut() {
            line.push_span(shown);
            line.push_span("  ");
        }
    }
    lines
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, queues: &[QueueInfo], now: u64) {
    let rows = queues.iter().map(|queue| {
        let counts = &queue.counts;
        let note = match (queue.paused, queue.live_workers) {
            (true, _) => "paused",
            (false, 0) if counts.ready > 0 => "no worker",
            _ => "",
        };
        let row = Row::new([
            escape_line(&queue.queue).into_owned(),
            queue.live_workers.to_string(),
            counts.ready.to_string(),
            counts.waiting.to_string(),
            counts.delayed.to_string(),
            (counts.assigned + counts.running).to_string(),
            counts.paused.to_string(),
            counts.failed.to_string(),
            queue.oldest_ready.map(|at| relative(at.0, now)).unwrap_or_default(),
            note.to_owned(),
        ]);
        if note.is_empty() { row } else { row.style(Style::new().fg(Color::Yellow)) }
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(10),
        Constraint::Fill(1),
    ];
    let titles =
        ["queue", "workers", "ready", "waiting", "delayed", "held", "paused", "failed", "next since", ""];
    frame.render_widget(table("queues", rows.collect(), &widths, &titles), area);
}

fn draw_workers(frame: &mut Frame<'_>, area: Rect, workers: &[WorkerInfo], now: u64) {
    let rows = workers.iter().map(|worker| {
        let note = if worker.quarantined_until.is_some_and(|until| until.0 > now) {
            "quarantined"
        } else if worker.draining {
            "draining"
        } else {
            ""
        };
        let is_lost = worker.presence.as_str() == "lost";
        let row = Row::new([
            escape_line(&worker.worker).into_owned(),
            worker.presence.as_str().to_owned(),
            format!("{}/{}", worker.slots_used, worker.slots),
            relative(worker.last_seen.0, now),
            worker.crashes.to_string(),
            worker.door.as_deref().unwrap_or_default().to_owned(),
            escape_line(&worker.queues.join(",")).into_owned(),
            note.to_owned(),
        ]);
        if is_lost { row.style(Style::new().fg(Color::Red)) } else { row }
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Fill(2),
        Constraint::Length(11),
    ];
    let titles = ["worker", "presence", "holds", "seen", "crashes", "door", "queues", ""];
    frame.render_widget(table("workers", rows.collect(), &widths, &titles), area);
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, held: &[TaskInfo], labels: &Labels, now: u64) {
    let rows = held.iter().map(|task| {
        let holding = task.holding.as_ref();
        let since = holding.map(|holding| holding.started_at.unwrap_or(holding.since));
        let ran = since
            .map(|since| show_duration(std::time::Duration::from_secs(now.saturating_sub(since.0) / 1_000)));
        Row::new([
            short(task.id),
            escape_line(labels.get(task.id)).into_owned(),
            task.state.as_str().to_owned(),
            escape_line(&task.terms.queue).into_owned(),
            holding.map(|holding| escape_line(&holding.worker).into_owned()).unwrap_or_default(),
            task.attempt.to_string(),
            ran.unwrap_or_default(),
            escape_line(&note(task, now)).into_owned(),
        ])
        .style(Style::new().fg(color(task.state.as_str())))
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Fill(3),
        Constraint::Length(8),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(3),
        Constraint::Length(7),
        Constraint::Fill(2),
    ];
    let titles = ["task", "name or command", "state", "queue", "worker", "try", "for", "note"];
    frame.render_widget(table("held tasks", rows.collect(), &widths, &titles), area);
}

fn table<'a>(title: &'a str, rows: Vec<Row<'a>>, widths: &[Constraint], titles: &[&'a str]) -> Table<'a> {
    let head = Row::new(titles.to_vec()).style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(rows, widths.to_vec()).header(head).block(Block::new().borders(Borders::TOP).title(title))
}

fn color(state: &str) -> Color {
    match state {
        "running" | "completed" => Color::Green,
        "assigned" => Color::Cyan,
        "ready" => Color::Blue,
        "paused" | "cancelled" => Color::Yellow,
        "failed" => Color::Red,
        _ => Color::Gray,
    }
}
