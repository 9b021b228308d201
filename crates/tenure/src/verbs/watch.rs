//! `tenure watch`: prints events as they happen.

use clap::Args;
use tenure_client::{Client, EventKind, Watch as Filter};

use super::follow::{next, told};
use super::which::resolve;
use crate::exit::{Failure, OK, Outcome};
use crate::output::{Screen, remark};

/// Follow events, live or from an earlier number
#[derive(Args, Debug)]
#[command(after_help = "\
Every event has a number. To resume, pass --from with the number after the last event you saw.
The broker reports events that it no longer keeps as a gap.

Examples:
  tenure watch                                       everything
  tenure watch 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f  one task, until it ends
  tenure watch --queue images --kind failed,crashed
  tenure watch --from 1 -o jsonl                     all that is kept, then live")]
pub(crate) struct Watch {
    /// Only this task, until it ends
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
    /// Stop after this many events
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
}

impl Watch {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        let mut filter = Filter::default();
        if let Some(task) = &self.task {
            filter = filter.task(resolve(client, task).await?);
        }
        if let Some(queue) = &self.queue {
            filter = filter.queue(queue.as_str());
        }
        if let Some(submitter) = &self.submitter {
            filter = filter.submitter(submitter.as_str());
        }
        if let Some(worker) = &self.worker {
            filter = filter.worker(worker.as_str());
        }
        if let Some(from) = self.from {
            filter = filter.from(from);
        }
        filter = filter.kinds(self.kinds.iter().map(|kind| known(kind)).collect::<Result<Vec<_>, _>>()?);
        let mut watcher = client.watch(filter).await?;
        if let Some(from) = self.from {
            tell_if_ahead(client, from).await?;
        }
        let mut seen = 0;
        while let Some(watched) = next(client, &mut watcher).await {
            let Some(event) = told(watched?, screen, true)? else { continue };
            seen += 1;
            let is_over = self.task.is_some() && event.is_end();
            if is_over || self.count.is_some_and(|count| seen >= count) {
                break;
            }
        }
        Ok(OK)
    }
}

/// Numbers continue from the newest one. A watch from a later number stays silent for long: after a restored backup,
/// for instance.
async fn tell_if_ahead(client: &Client, from: u64) -> Result<(), Failure> {
    let newest = client.counts().await?.last_event;
    if from > newest + 1 {
        remark(format!(
            "the newest event is {newest}: nothing is told before event {from}; --from {} does not wait",
            newest + 1
        ));
    }
    Ok(())
}

fn known(kind: &str) -> Result<EventKind, Failure> {
    match EventKind::from(kind) {
        EventKind::Other(_) => {
            let known: Vec<&str> = EventKind::KNOWN.iter().map(EventKind::as_str).collect();
            Err(Failure::usage(format!("`{kind}` is no kind of event; known are {}", known.join(", "))))
        }
        known => Ok(known),
    }
}
