//! `tenure watch`: prints events as they happen.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use tenure_client::wire::request::Watch as Request;
use tenure_client::{Client, Event, EventKind, Watch as Filter, Watched};

use super::follow::{next, tell_gap};
use super::history::{self, Past};
use super::labels::Labels;
use super::which::{find_array, resolve};
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::events;
use crate::output::label::short;
use crate::output::paint::escape_line;
use crate::output::table::cut;
use crate::output::times::{now, parse_future, parse_past};
use crate::output::{Screen, json, remark};

/// How much of a task's name or command each line has, and on a narrow terminal.
const LABEL_WIDTH: usize = 24;
const LABEL_WIDTH_NARROW: usize = 14;
const NARROW: usize = 100;

/// Follow events, live or from an earlier number
#[derive(Args, Debug)]
#[command(after_help = "\
Every event has a number. To resume, pass --from with the number after the last event you saw.
The broker reports events that it no longer keeps as a gap.

Examples:
  tenure watch                                       everything
  tenure watch 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f  one task, until it ends
  tenure watch --queue images --kind failed,crashed
  tenure watch --from 1 -o jsonl                     all that is kept, then live
  tenure watch --since yesterday --until now --kind failed")]
pub(crate) struct Watch {
    /// Only this task or array, until it ends
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Only events of this queue and its tasks
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// Only tasks of this submitter
    #[arg(long, value_name = "NAME")]
    submitter: Option<String>,
    /// Only events of this worker
    #[arg(short, long, value_name = "NAME")]
    worker: Option<String>,
    /// Only events of these kinds
    #[arg(short, long = "kind", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Start with the event of this number instead of now
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// Start with the events since this time: 1h, yesterday, 23:30, 2026-01-31
    #[arg(long, value_name = "TIME", conflicts_with = "from")]
    since: Option<String>,
    /// Stop at this time; `now` stops when everything until now is printed
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Stop after this many events
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
}

impl Watch {
    pub(crate) async fn run(&self, client: &Client, global: &Global, screen: &Screen) -> Outcome {
        let until = self.until.as_deref().map(|text| self.end_of(text, screen.now)).transpose()?;
        let mut watch = self.request(client).await?;
        let last = match watch.task {
            None => Last::None,
            Some(id) if find_array(client, id).await?.is_some() => Last::EndOfArray,
            Some(_) => Last::EndOfTask,
        };
        if let Some(since) = &self.since {
            let since = parse_past(since, screen.now).map_err(Failure::usage)?;
            watch.from = Some(history::number_at(global, client, since).await?);
        }
        let mut printer = EventPrinter {
            screen,
            client,
            labels: Labels::default(),
            with_dates: self.since.is_some(),
            count: self.count,
            until,
            last,
            seen: 0,
        };
        if until.is_some_and(|until| until <= now()) {
            return self.past(global, watch, &mut printer).await;
        }
        let mut watcher = client.watch(filter(watch)).await?;
        if let Some(from) = self.from {
            warn_if_ahead(client, from).await?;
        }
        let over = async {
            match until {
                Some(until) => tokio::time::sleep(Duration::from_millis(until.saturating_sub(now()))).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            let watched = tokio::select! {
                biased;
                watched = next(client, &mut watcher) => watched,
                () = &mut over => return Ok(OK),
            };
            match watched.transpose()? {
                None => return Ok(OK),
                Some(Watched::Gap { from, to }) => tell_gap(from, to, screen)?,
                Some(Watched::Event(event)) => {
                    if printer.print(&event).await?.is_break() {
                        return Ok(OK);
                    }
                }
            }
        }
    }

    /// Tells what has been, and no more.
    async fn past(&self, global: &Global, mut watch: Request, printer: &mut EventPrinter<'_>) -> Outcome {
        watch.from.get_or_insert(1);
        let is_dated = self.since.is_some();
        let see = async |past| match past {
            Past::Event(event) => printer.print(&event).await,
            // A time was asked for, not a number.
            Past::Gap { .. } if is_dated => Ok(ControlFlow::Continue(())),
            Past::Gap { from, to } => tell_gap(from, to, printer.screen).map(ControlFlow::Continue),
        };
        history::read(global, watch, see).await?;
        Ok(OK)
    }

    /// A span is before now where a watch looks back, and after now where it looks ahead.
    fn end_of(&self, text: &str, now: u64) -> Result<u64, Failure> {
        let looks_back = self.since.is_some() && !text.starts_with('+');
        let parsed = if looks_back { parse_past(text, now) } else { parse_future(text, now) };
        parsed.map_err(Failure::usage)
    }

    async fn request(&self, client: &Client) -> Result<Request, Failure> {
        let task = match &self.task {
            Some(task) => Some(resolve(client, task).await?),
            None => None,
        };
        let name = |text: &Option<String>| text.as_deref().map(Into::into);
        Ok(Request {
            task,
            queue: name(&self.queue),
            submitter: name(&self.submitter),
            worker: name(&self.worker),
            kinds: self.kinds.iter().map(|kind| known(kind)).collect::<Result<_, _>>()?,
            from: self.from,
        })
    }
}

/// The same watch, for the client.
fn filter(watch: Request) -> Filter {
    let mut filter = Filter::default().kinds(watch.kinds);
    if let Some(task) = watch.task {
        filter = filter.task(task);
    }
    if let Some(queue) = watch.queue {
        filter = filter.queue(queue);
    }
    if let Some(submitter) = watch.submitter {
        filter = filter.submitter(submitter);
    }
    if let Some(worker) = watch.worker {
        filter = filter.worker(worker);
    }
    match watch.from {
        Some(from) => filter.from(from),
        None => filter,
    }
}

/// The event with which a watch stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    None,
    EndOfTask,
    /// Its elements end before it.
    EndOfArray,
}

impl Last {
    fn is(self, event: &Event) -> bool {
        match self {
            Last::None => false,
            Last::EndOfTask => event.is_end(),
            Last::EndOfArray => event.kind == EventKind::ArrayEnded,
        }
    }
}

/// Prints events, and knows when it is enough.
struct EventPrinter<'a> {
    screen: &'a Screen,
    client: &'a Client,
    labels: Labels,
    with_dates: bool,
    count: Option<u64>,
    until: Option<u64>,
    last: Last,
    seen: u64,
}

impl EventPrinter<'_> {
    async fn print(&mut self, event: &Event) -> Result<ControlFlow<()>, Failure> {
        if self.until.is_some_and(|until| event.at.0 > until) {
            return Ok(ControlFlow::Break(()));
        }
        // An event about an array as a whole has no task.
        let array = || event.more.as_ref().and_then(|more| more.array);
        let called = match event.task.or_else(array) {
            Some(task) if self.screen.is_table() => {
                let label = self.labels.find(self.client, task).await;
                let width = if self.screen.width < NARROW { LABEL_WIDTH_NARROW } else { LABEL_WIDTH };
                Some(format!("{} {}", short(task), cut(&escape_line(label), width)).trim_end().to_owned())
            }
            _ => None,
        };
        let line = || events::line_of_many(event, called.as_deref(), self.with_dates, self.screen);
        self.screen.next(line, || json::event(event))?;
        self.seen += 1;
        let is_over = self.last.is(event) || self.count.is_some_and(|count| self.seen >= count);
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Numbers continue from the newest one. A watch from a later number stays silent for long: after a restored backup,
/// for instance.
async fn warn_if_ahead(client: &Client, from: u64) -> Result<(), Failure> {
    let newest = client.counts().await?.last_event;
    if from > newest + 1 {
        remark(format!(
            "the newest event is {newest}: nothing is shown before event {from}; --from {} shows new events at once",
            newest + 1
        ));
    }
    Ok(())
}

fn known(kind: &str) -> Result<EventKind, Failure> {
    match EventKind::from(kind) {
        EventKind::Other(_) => {
            let known: Vec<&str> = EventKind::KNOWN.iter().map(EventKind::as_str).collect();
            Err(Failure::usage(format!(
                "`{kind}` is not a known kind of event; the known kinds are {}",
                known.join(", ")
            )))
        }
        known => Ok(known),
    }
}
