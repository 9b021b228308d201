//! Many tasks at once: one JSON object per line.

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use tenure_client::{Client, OnLost, Quantity, Refusal, StateName, TaskId, Timestamp};

use super::options::{Broken, Options, after, task_id};
use super::references::References;
use super::shell::{Shell, SubmitterEnvironment};
use crate::config::nearest;
use crate::exit::{Failure, OK};
use crate::output::paint::escape_line;
use crate::output::times::parse_future;
use crate::output::{ItemList, Screen, json, remark};
use crate::units::parse_duration;
use crate::verbs::connect::code_of;
use crate::verbs::input::BYTES_MAX;
use crate::verbs::select::counted;
use tenure_client::Submission;

/// Tasks that go to the broker in one request.
const CHUNK: usize = 1_000;
/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 2 * BYTES_MAX;
const FIELDS: [&str; 36] = [
    "body",
    "command",
    "env",
    "cwd",
    "stdin",
    "stdout",
    "stderr",
    "timeout",
    "queue",
    "name",
    "id",
    "priority",
    "needs",
    "tags",
    "slots",
    "cpus",
    "mem",
    "gpus",
    "resources",
    "share",
    "parent",
    "after",
    "after_broken",
    "traceparent",
    "tracestate",
    "hold",
    "not_before",
    "expires",
    "on_lost",
    "crash_budget",
    "retries",
    "backoff",
    "backoff_max",
    "accept_timeout",
    "run_limit",
    "cancel_timeout",
];

/// Fields of which a shell task is made.
const SHELL_FIELDS: [&str; 7] = ["command", "env", "cwd", "stdin", "stdout", "stderr", "timeout"];

/// The defaults for every line.
#[derive(Debug)]
pub(crate) struct Defaults<'a> {
    pub(crate) options: &'a Options,
    pub(crate) shell: &'a Shell,
    pub(crate) around: SubmitterEnvironment,
}

pub(crate) struct Submitted {
    pub(crate) tasks: Vec<TaskId>,
    pub(crate) code: u8,
}

/// Reads, checks and submits in chunks. A line that cannot be understood stops it before its chunk is sent.
pub(crate) async fn submit(
    client: &Client,
    file: &Path,
    defaults: &Defaults<'_>,
    screen: &Screen,
    told: &mut ItemList<'_>,
) -> Result<Submitted, Failure> {
    let mut lines = open(file)?;
    let mut references = References::new(client);
    let progress = progress();
    let mut all = Submitted { tasks: Vec::new(), code: OK };
    let (mut refused, mut cancelled) = (0, 0);
    let mut number = 0;
    loop {
        let mut chunk = Vec::new();
        let filled = fill(&mut *lines, file, defaults, &mut references, screen.now, &mut number, &mut chunk);
        let is_last = filled.await.inspect_err(|_| {
            progress.finish_and_clear();
            if !all.tasks.is_empty() {
                remark(format!("submitted {} of the lines before", counted(all.tasks.len())));
            }
        })?;
        let count = chunk.len();
        let (numbers, chunk): (Vec<usize>, Vec<Submission>) = chunk.into_iter().unzip();
        for (number, result) in numbers.into_iter().zip(client.submit_many(chunk).await?) {
            match result {
                Ok(accepted) => {
                    all.tasks.push(accepted.task);
                    cancelled += usize::from(!accepted.known && accepted.state == StateName::Cancelled);
                    told.next(|| accepted.task.to_string(), || json::accepted(&accepted))?;
                }
                Err(refusal) => {
                    refused += 1;
                    all.code = code_of(&refusal.code);
                    report_refusal(&refusal, file, number, screen, told)?;
                }
            }
        }
        progress.inc(count as u64);
        if is_last {
            break;
        }
    }
    progress.finish_and_clear();
    if cancelled > 0 && screen.is_table() {
        let are = if cancelled == 1 { "is" } else { "are" };
        let why = "because of how a task of `after` has ended";
        remark(format!("{} {are} cancelled already, {why}", counted(cancelled)));
    }
    if refused > 0 {
        remark(format!("{} submitted, {refused} refused", counted(all.tasks.len())));
    }
    Ok(all)
}

fn report_refusal(
    refusal: &Refusal,
    file: &Path,
    line: usize,
    screen: &Screen,
    told: &mut ItemList<'_>,
) -> Result<(), Failure> {
    if screen.is_table() {
        remark(format!("{}:{line}: refused: {}", file.display(), escape_line(&refusal.to_string())));
        return Ok(());
    }
    let value =
        || json!({ "refused": { "line": line, "code": refusal.code.as_str(), "message": refusal.message } });
    Ok(told.next(String::new, value)?)
}

fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() || std::io::stdout().is_terminal() {
        // The ids that scroll by show the progress themselves.
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} tasks submitted, {per_sec}");
    let bar =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let open = std::fs::File::open(file);
    let open = open.map_err(|error| Failure::input(format!("{} cannot be read: {error}", file.display())))?;
    Ok(Box::new(BufReader::new(open)))
}

/// Reads up to a chunk of tasks. Returns whether these were the last.
async fn fill(
    lines: &mut dyn BufRead,
    file: &Path,
    defaults: &Defaults<'_>,
    references: &mut References<'_>,
    now: u64,
    number: &mut usize,
    chunk: &mut Vec<(usize, Submission)>,
) -> Result<bool, Failure> {
    let mut line = Vec::new();
    while chunk.len() < CHUNK {
        line.clear();
        let wrong = |number: usize, why: &str| Failure::input(format!("{}:{number}: {why}", file.display()));
        let mut limited = std::io::Read::take(&mut *lines, LINE_BYTES_MAX);
        let read =
            limited.read_until(b'\n', &mut line).map_err(|error| wrong(*number + 1, &error.to_string()))?;
        if read == 0 {
            return Ok(true);
        }
        *number += 1;
        if read as u64 == LINE_BYTES_MAX {
            return Err(wrong(*number, "the line is too long"));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_slice(&line)
            .map_err(|error| wrong(*number, &format!("is not JSON: {error}")))?;
        let Value::Object(fields) = value else { return Err(wrong(*number, "is not a JSON object")) };
        let mut fields = renamed(fields);
        references.in_fields(&mut fields).await.map_err(|failure| wrong(*number, &failure.message))?;
        chunk.push((*number, task(&fields, defaults, now).map_err(|why| wrong(*number, &why))?));
    }
    Ok(false)
}

/// One line's task: what it does not say comes from the command line.
pub(crate) fn task(
    fields: &Map<String, Value>,
    defaults: &Defaults<'_>,
    now: u64,
) -> Result<Submission, String> {
    let Defaults { options, shell, around } = defaults;
    let queue = match fields.get("queue") {
        None => options.queue.as_str(),
        Some(queue) => queue.as_str().ok_or("queue: is not a text")?,
    };
    let mut task = options.submission_to(queue, now).map_err(|failure| failure.message)?;
    if fields.contains_key("command") {
        if fields.contains_key("body") {
            return Err("body: a task has a body or a command, not both".to_owned());
        }
        let form = shell.form_of(fields, around)?;
        task = task.body(form.to_bytes().map_err(|failure| failure.message)?);
    } else if let Some(field) = SHELL_FIELDS.iter().find(|field| fields.contains_key(**field)) {
        return Err(format!("{field}: is for a command; add \"command\", or put it into the body"));
    }
    for (name, value) in fields {
        task = set(task, &Field { name, value, now }, fields)?;
    }
    Ok(task)
}

fn set(task: Submission, field: &Field<'_>, fields: &Map<String, Value>) -> Result<Submission, String> {
    let value = field.value;
    Ok(match field.name {
        // A text is taken as it is; anything else as its JSON.
        "body" => match value {
            Value::String(text) => task.body(text.clone()),
            other => task.body(other.to_string()),
        },
        "queue" => task,
        name if SHELL_FIELDS.contains(&name) => task,
        "name" => task.name(field.text()?),
        "id" => task.id(field.id()?),
        "parent" => task.parent(field.id()?),
        "traceparent" => task.traceparent(field.text()?),
        "tracestate" => task.tracestate(field.text()?),
        "after" => {
            let one = || {
                value.as_str().map(|text| vec![text]).ok_or_else(|| field.wrong("a task or a list of tasks"))
            };
            let tasks = if value.is_array() { field.names() } else { one() }?;
            tasks.into_iter().fold(task, |task, text| task.after(after(text)))
        }
        "after_broken" => {
            let policy =
                Broken::from_str(field.text()?, false).map_err(|_| field.wrong("cancel, run or hold"))?;
            task.on_broken(policy.policy())
        }
        "priority" => {
            let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
            task.priority(number.ok_or_else(|| field.wrong("a whole number"))?)
        }
        "needs" => task.needs(field.names()?),
        "tags" => task.tags(field.names()?),
        "slots" => {
            let slots = value.as_u64().and_then(|slots| u32::try_from(slots).ok());
            task.slots(slots.ok_or_else(|| field.wrong("a count"))?)
        }
        "cpus" | "mem" | "gpus" => task.resource(field.name, quantity(field.name, value)?),
        "resources" => {
            let resources = value.as_object().ok_or_else(|| field.wrong("an object of quantities"))?;
            let mut task = task;
            for (name, value) in resources {
                task = task.resource(name.as_str(), quantity(name, value)?);
            }
            task
        }
        "share" => task.share(field.text()?),
        "hold" => task.hold(value.as_bool().ok_or_else(|| field.wrong("true or false"))?),
        "not_before" => task.not_before(field.time()?),
        "expires" => task.expires_at(field.time()?),
        "on_lost" => match OnLost::from(field.text()?) {
            OnLost::Other(_) => return Err(field.wrong("requeue, pause or fail")),
            policy => task.on_lost(policy),
        },
        "crash_budget" => task.crash_budget(field.count()?),
        "retries" => task.retries(field.count()?),
        "backoff" => task.backoff(field.span()?, longest(fields)?),
        "backoff_max" if fields.contains_key("backoff") => task,
        "backoff_max" => task.backoff(Duration::from_secs(1), field.span()?),
        "accept_timeout" => task.accept_timeout(field.span()?),
        "run_limit" => task.run_limit(field.span()?),
        "cancel_timeout" if value == "off" => task.cancel_timeout(Duration::ZERO),
        "cancel_timeout" => task.cancel_timeout(field.span()?),
        name @ ("array" | "each_line" | "array_limit") => {
            let hint = "a line is one task; submit an array with --array or --each-line";
            return Err(format!("{name}: {hint}"));
        }
        name => return Err(nearest::unknown("field", name, FIELDS)),
    })
}

/// A field of a line, read as what the task needs.
struct Field<'a> {
    name: &'a str,
    value: &'a Value,
    now: u64,
}

impl<'a> Field<'a> {
    fn wrong(&self, what: &str) -> String {
        format!("{}: is not {what}", self.name)
    }

    fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    fn count(&self) -> Result<u16, String> {
        let number = self.value.as_u64().and_then(|number| u16::try_from(number).ok());
        number.ok_or_else(|| self.wrong("a count from 0 to 65535"))
    }

    fn names(&self) -> Result<Vec<&'a str>, String> {
        let list = match self.value {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        list.iter().map(|name| name.as_str().ok_or_else(|| self.wrong("a list of texts"))).collect()
    }

    fn span(&self) -> Result<Duration, String> {
        parse_duration(self.text()?).map_err(|why| format!("{}: {why}", self.name))
    }

    fn time(&self) -> Result<Timestamp, String> {
        parse_future(self.text()?, self.now).map(Timestamp).map_err(|why| format!("{}: {why}", self.name))
    }

    fn id(&self) -> Result<TaskId, String> {
        task_id(self.name, self.text()?).map_err(|failure| failure.message)
    }
}

/// The fields under the names of this file: flags are written with dashes, and some in the singular.
pub(crate) fn renamed(fields: Map<String, Value>) -> Map<String, Value> {
    let rename = |(field, value): (String, Value)| {
        let field = match field.replace('-', "_").as_str() {
            "need" => "needs".to_owned(),
            "tag" => "tags".to_owned(),
            "resource" => "resources".to_owned(),
            other => other.to_owned(),
        };
        (field, value)
    };
    fields.into_iter().map(rename).collect()
}

/// A number, or a text with a unit.
fn quantity(name: &str, value: &Value) -> Result<Quantity, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(format!("{name}: is neither a number nor a text")),
    };
    Quantity::parse(&text).map_err(|why| format!("{name}: {why}"))
}

fn longest(fields: &Map<String, Value>) -> Result<Duration, String> {
    match fields.get("backoff_max") {
        None => Ok(Duration::from_secs(300)),
        Some(value) => parse_duration(value.as_str().ok_or("backoff_max: is not a text")?),
    }
}
