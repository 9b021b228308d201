//! What a job prints, as a stream: XREAD, XRANGE and XLEN of `logs:<job>`.

use std::time::Duration;

use tenure_hub::words::TaskId;
use tenure_hub::{KeptPiece, OutputStream, PrintedPage, Request, Response};

use super::lookup::{AfterFind, LookupResult, find};
use super::refusals::refusal;
use super::render::time;
use crate::codec::{Reply, Version};
use crate::command::{LogsCommand, LogsRead, ReadFrom};
use crate::flow::{CommandFlow, FlowStep, Input};

/// How soon a blocked reader looks again.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// The state of a command that reads pages.
#[derive(Debug)]
pub(crate) struct LogFlow {
    command: LogsCommand,
    version: Version,
    task: Option<TaskId>,
    /// The job has ended, so it prints no more.
    has_ended: bool,
    after: u64,
    /// Only what comes after the present end is wanted, and the end is not known yet.
    skips: bool,
    pieces: usize,
    entries: Vec<Reply>,
    /// How long a blocked reader still waits; `None` for no limit.
    left: Option<Duration>,
}

pub(super) fn start(command: LogsCommand, version: Version) -> FlowStep {
    let (after, skips, left) = match &command.read {
        LogsRead::From { from: ReadFrom::After(number), block, .. } => (*number, false, block.flatten()),
        LogsRead::From { from: ReadFrom::Now, block, .. } => (0, true, block.flatten()),
        LogsRead::Range { from, .. } => (from.saturating_sub(1), false, None),
        LogsRead::Count => (0, false, None),
    };
    let flow = LogFlow {
        command,
        version,
        task: None,
        has_ended: false,
        after,
        skips,
        pieces: 0,
        entries: Vec::new(),
        left,
    };
    Box::new(flow).find_job()
}

impl LogFlow {
    /// Whether the job has ended is read first, so that nothing is printed between the two.
    fn find_job(self: Box<Self>) -> FlowStep {
        let job = self.command.job.clone();
        find(&job, AfterFind::Logs(self))
    }

    pub(super) fn found(mut self: Box<Self>, found: LookupResult) -> FlowStep {
        match found {
            Ok(task) => {
                (self.task, self.has_ended) = (Some(task.id), task.state.name().has_ended());
                self.ask()
            }
            Err(_) => FlowStep::error(format!("ERR Job not found: {}", self.command.job)),
        }
    }

    fn ask(self: Box<Self>) -> FlowStep {
        let Some(task) = self.task else { return self.find_job() };
        FlowStep::Ask(Request::Logs { task, after: self.after }, CommandFlow::Log(self))
    }

    pub(crate) fn resume(self: Box<Self>, input: Input) -> FlowStep {
        match input {
            Input::Later => self.find_job(),
            input => match input.answer() {
                Ok(Response::Logs(page)) => self.take(&page),
                Ok(_) => FlowStep::error("ERR unexpected answer"),
                Err(reason) => FlowStep::Reply(refusal(&reason)),
            },
        }
    }

    fn take(mut self: Box<Self>, page: &PrintedPage) -> FlowStep {
        self.pieces += page.pieces.len();
        self.after = page.next;
        let (to, count) = match self.command.read {
            LogsRead::From { count, .. } => (u64::MAX, count),
            LogsRead::Range { to, count, .. } => (to, count),
            LogsRead::Count => (u64::MAX, 0),
        };
        let is_past = page.pieces.last().is_some_and(|kept| kept.number > to);
        if !self.skips {
            let room = count - self.entries.len();
            let fitting = page.pieces.iter().filter(|kept| kept.number <= to);
            self.entries.extend(fitting.take(room).map(entry));
        }
        let has_enough = count > 0 && self.entries.len() >= count;
        if page.more && !is_past && !has_enough {
            return self.ask();
        }
        self.skips = false;
        self.finish()
    }

    fn finish(mut self: Box<Self>) -> FlowStep {
        let blocks = match &self.command.read {
            LogsRead::Count => return FlowStep::Reply(Reply::count(self.pieces)),
            LogsRead::Range { .. } => return FlowStep::Reply(Reply::Array(self.entries)),
            LogsRead::From { block, .. } => block.is_some(),
        };
        if !self.entries.is_empty() {
            let (key, entries) = (Reply::Bulk(self.command.key), Reply::Array(self.entries));
            return FlowStep::Reply(match self.version {
                Version::Resp3 => Reply::Map(vec![(key, entries)]),
                Version::Resp2 => Reply::array([Reply::array([key, entries])]),
            });
        }
        let wait = self.left.map_or(LOOK_AFTER, |left| left.min(LOOK_AFTER));
        if !blocks || self.has_ended || wait.is_zero() {
            return FlowStep::Reply(Reply::NullArray);
        }
        self.left = self.left.map(|left| left - wait);
        FlowStep::Later(wait, CommandFlow::Log(self))
    }
}

/// A piece as an entry of a stream: its number, and its fields.
fn entry(kept: &KeptPiece) -> Reply {
    let stream = match kept.piece.stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    };
    let text = |text: String| Reply::bulk(text);
    let at = time(kept.at).as_str().unwrap_or_default().to_owned();
    let fields = [
        (Reply::word("stream"), Reply::word(stream)),
        (Reply::word("attempt"), text(kept.attempt.to_string())),
        (Reply::word("at"), text(at)),
        (Reply::word("offset"), text(kept.piece.offset.to_string())),
        (Reply::word("bytes"), Reply::Bulk(kept.piece.bytes.clone())),
    ];
    let fields = fields.into_iter().flat_map(|(name, value)| [name, value]);
    Reply::array([text(format!("{}-0", kept.number)), Reply::array(fields)])
}
