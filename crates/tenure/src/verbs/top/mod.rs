//! `tenure top`: a live view of the broker.

mod frame;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tenure_client::{Client, Counts, Query, QueueInfo, StateName, TaskInfo, WorkerInfo};

use super::labels::Labels;
use crate::exit::{Failure, OK, Outcome};
use crate::output::times::now;
use crate::output::{Format, Screen, json};
use crate::units::parse_duration;

/// How many held tasks are fetched for one look.
const TASKS_SHOWN_MAX: usize = 100;
/// The size of the one frame that is printed where there is no terminal.
const PRINTED_LINES_MAX: u16 = 300;
const PRINTED_COLUMNS: u16 = 110;
/// How often the keyboard is looked at.
const KEYS_EVERY: Duration = Duration::from_millis(50);

/// Show queues, workers and running tasks live; q quits
#[derive(Args, Debug)]
#[command(after_help = "\
Without a terminal, one frame is printed.

Examples:
  tenure top
  tenure top --every 5s
  tenure top | cat                  one frame")]
pub(crate) struct Top {
    /// Refresh interval
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
    /// Print one frame and exit
    #[arg(long)]
    once: bool,
}

/// Everything one frame shows.
#[derive(Debug)]
pub(crate) struct TopSample {
    pub(crate) now: u64,
    pub(crate) broker: String,
    pub(crate) counts: Counts,
    pub(crate) queues: Vec<QueueInfo>,
    pub(crate) workers: Vec<WorkerInfo>,
    pub(crate) held: Vec<TaskInfo>,
    pub(crate) labels: Labels,
    /// Ended tasks per second since the look before.
    pub(crate) rate: Option<f64>,
}

impl Top {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let first = snapshot(client, None).await?;
        if screen.format != Format::Table {
            screen.one(String::new, || json(&first))?;
            return Ok(OK);
        }
        if self.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            print(&first, screen)?;
            return Ok(OK);
        }
        let mut terminal =
            ratatui::try_init().map_err(|error| Failure::system(format!("terminal error: {error}")))?;
        let outcome = self.live(client, first, &mut terminal).await;
        ratatui::restore();
        outcome
    }

    async fn live(
        &self,
        client: &Client,
        mut shown: TopSample,
        terminal: &mut ratatui::DefaultTerminal,
    ) -> Outcome {
        let every = self.every.max(Duration::from_millis(100));
        let mut next = tokio::time::Instant::now() + every;
        loop {
            terminal.draw(|frame| frame::draw(frame, &shown))?;
            while tokio::time::Instant::now() < next {
                if wants_to_quit()? {
                    return Ok(OK);
                }
                tokio::time::sleep(KEYS_EVERY).await;
            }
            next += every;
            shown = snapshot(client, Some(&mut shown)).await?;
        }
    }
}

/// Takes what has been typed. A key press is rare, so looking now and then is enough.
fn wants_to_quit() -> Result<bool, Failure> {
    while event::poll(Duration::ZERO)? {
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_interrupt =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_interrupt || matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

async fn snapshot(client: &Client, mut before: Option<&mut TopSample>) -> Result<TopSample, Failure> {
    let counts = client.counts().await?;
    let mut queues = client.queues().await?;
    queues.sort_by_key(|queue| {
        let counts = &queue.counts;
        std::cmp::Reverse(
            counts.ready
                + counts.assigned
                + counts.running
                + counts.suspended
                + counts.waiting
                + counts.delayed
                + counts.paused,
        )
    });
    let mut workers = client.workers().await?;
    workers.retain(|worker| worker.presence.as_str() != "gone");
    let states = [StateName::Running, StateName::Assigned, StateName::Suspended];
    let query = Query::default().states(states).page(TASKS_SHOWN_MAX as u32);
    let mut listing = client.list(query);
    let mut held = Vec::new();
    while held.len() < TASKS_SHOWN_MAX
        && let Some(task) = listing.next().await
    {
        held.push(task?);
    }
    let mut labels = before.as_mut().map(|before| std::mem::take(&mut before.labels)).unwrap_or_default();
    labels.learn(client, &held).await;
    let now = now();
    let rate = before.filter(|before| now > before.now).map(|before| {
        let seconds = (now - before.now) as f64 / 1_000.0;
        ended(&counts).saturating_sub(ended(&before.counts)) as f64 / seconds
    });
    let broker = client.welcome().software.as_deref().unwrap_or("tenure").to_owned();
    Ok(TopSample { now, broker, counts, queues, workers, held, labels, rate })
}

fn ended(counts: &Counts) -> u64 {
    counts.by_state.completed + counts.by_state.failed + counts.by_state.cancelled
}

/// One frame as plain text.
fn print(look: &TopSample, screen: &Screen) -> Result<(), Failure> {
    let columns = u16::try_from(screen.width).unwrap_or(PRINTED_COLUMNS).min(PRINTED_COLUMNS);
    let text = frame_text(look, columns, frame::height(look, columns).min(PRINTED_LINES_MAX))?;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn frame_text(look: &TopSample, columns: u16, lines: u16) -> Result<String, Failure> {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines))
        .map_err(|error| Failure::internal(error.to_string()))?;
    let drawn = terminal
        .draw(|frame| frame::draw(frame, look))
        .map_err(|error| Failure::internal(error.to_string()))?;
    let mut text = String::new();
    for line in 0..lines {
        let row: String =
            (0..columns).filter_map(|column| Some(drawn.buffer.cell((column, line))?.symbol())).collect();
        text += row.trim_end();
        text.push('\n');
    }
    Ok(format!("{}\n", text.trim_end()))
}

fn json(look: &TopSample) -> serde_json::Value {
    serde_json::json!({
        "broker": look.broker,
        "counts": json::counts(&look.counts),
        "queues": look.queues.iter().map(json::queue).collect::<Vec<_>>(),
        "workers": look.workers.iter().map(json::worker).collect::<Vec<_>>(),
        "held": look.held.iter().map(json::task).collect::<Vec<_>>(),
    })
}
