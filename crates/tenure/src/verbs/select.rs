//! Which tasks a verb acts on: ids, or every task that matches `--where`.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use clap::Args;
use futures::stream::{self, StreamExt};
use serde_json::json;
use tenure_client::{Client, Error, Query, StateName, TaskId, TaskInfo, Timestamp};

use super::connect::code_of;
use super::labels::Labels;
use super::selected_arrays::OfArray;
use super::which::resolve;
use crate::config::nearest;
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::confirm::confirm;
use crate::output::label::{SHORT_DIGITS, short, with_short_ids};
use crate::output::paint::escape_line;
use crate::output::table::cut;
use crate::output::times::parse_past;
use crate::units;
use tenure_hub::keyspace::glob;

/// How many tasks one act may select.
const SELECTED_MAX: usize = 1_000_000;
/// How many requests are under way at once.
const UNDER_WAY: usize = 256;
const KEYS: [&str; 12] = [
    "state",
    "queue",
    "tag",
    "worker",
    "parent",
    "array",
    "submitter",
    "before",
    "after",
    "since",
    "name",
    "exit-code",
];

/// What the broker is asked for, and what is left out of its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) query: Query,
    pub(crate) states: Vec<StateName>,
    /// A pattern: `*` stands for any characters.
    name: Option<String>,
    /// What is asked of arrays.
    pub(super) of_array: OfArray,
    /// The arrays whose elements are found by the array's name.
    pub(super) arrays: HashSet<TaskId>,
    exit_code: Option<i32>,
    /// Of suspended tasks, only those that are paused in place are meant.
    only_paused: bool,
    /// It says when the tasks were submitted.
    has_times: bool,
    /// It says of which array they are.
    has_array: bool,
}

impl Selection {
    /// Whether a task of the broker's answer is meant.
    pub(crate) fn takes(&self, task: &TaskInfo) -> bool {
        let is_element = task.array.is_some_and(|array| self.arrays.contains(&array));
        (is_element || self.has_name(task.name.as_deref())) && self.takes_element(task)
    }

    /// Whether an element of an array that is meant is meant itself.
    pub(crate) fn takes_element(&self, task: &TaskInfo) -> bool {
        let has_code = |code: i32| task.end.as_ref().is_some_and(|end| end.exit_code == code);
        let is_other = self.only_paused && task.state == StateName::Suspended && task.pause.is_none();
        !is_other && self.exit_code.is_none_or(has_code)
    }

    /// Whether tasks are selected by their name.
    pub(super) fn is_by_name(&self) -> bool {
        self.name.is_some()
    }

    /// Whether a name is meant.
    pub(super) fn has_name(&self, name: Option<&str>) -> bool {
        let name = name.unwrap_or_default();
        self.name.as_ref().is_none_or(|pattern| glob(pattern.as_bytes(), name.as_bytes()))
    }

    /// The same, of one state only.
    pub(crate) fn of_state(&self, state: StateName) -> Selection {
        Selection { query: self.query.clone().states([state]), ..self.clone() }
    }

    /// The same, of these states where it names none.
    fn of_states(self, states: Vec<StateName>) -> Selection {
        Selection { query: self.query.states(states.iter().cloned()), states, ..self }
    }

    /// Whether it means tasks of any state, unless it names some: by what they are called, of which array they are, how
    /// they ended or when they were submitted.
    pub(crate) fn is_of_all(&self) -> bool {
        self.exit_code.is_some() || self.name.is_some() || self.has_array || self.has_times
    }
}

/// Tasks by id or by what they have in common.
#[derive(Args, Clone, Debug)]
pub(crate) struct Targets {
    /// Task ids (their last digits are enough) or name:NAME
    #[arg(value_name = "TASK", required_unless_present = "wanted", conflicts_with = "wanted")]
    tasks: Vec<String>,
    /// Select every task that matches: state=failed, name=sim/*, queue=x, tag=x, worker=x, exit-code=4, parent=ID,
    /// array=ID, submitter=x, since=yesterday, before=1h. A task must match all; several states mean any of them
    #[arg(id = "wanted", long = "where", value_name = "KEY=VALUE")]
    wanted: Vec<String>,
    /// Show what would be done, change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl Targets {
    /// Calls `act` for each task and reports the outcome.
    pub(crate) async fn each(
        &self,
        client: &Client,
        screen: &Screen,
        verb: Verb,
        act: impl AsyncFn(TaskId) -> Result<(), Error>,
    ) -> Outcome {
        let Selected { tasks, arrays } = self.select(client, screen, verb).await?;
        if self.dry_run {
            return preview(client, &tasks, &arrays, screen, verb).await;
        }
        if !self.wanted.is_empty() && !self.yes && !tasks.is_empty() {
            let question = format!("{} {}", verb.plain, Count::of(&tasks, &arrays));
            if !confirm(&question)? {
                return Err(Failure::usage("nothing was done"));
            }
        }
        let act = &act;
        let mut results = stream::iter(tasks.iter().copied())
            .map(|task| async move {
                match act(task).await {
                    Ok(()) if verb.asked.is_some() => (task, Ok(still_runs(client, task).await)),
                    result => (task, result.map(|()| false)),
                }
            })
            .buffered(UNDER_WAY);
        let mut tally = Tally { done: Count::default(), asked: Count::default(), refused: Vec::new() };
        while let Some((task, result)) = results.next().await {
            match result {
                Ok(false) => tally.done.add(task, &arrays),
                Ok(true) => tally.asked.add(task, &arrays),
                Err(Error::Refused(refusal)) => tally.refused.push((task, refusal)),
                // Without the broker there is no point in going on.
                Err(error) => return Err(error.into()),
            }
        }
        let called = match tasks.as_slice() {
            [task] if screen.is_table() => called(client, *task, screen).await,
            _ => String::new(),
        };
        tally.report(&tasks, &called, screen, verb)
    }

    async fn select(&self, client: &Client, screen: &Screen, verb: Verb) -> Result<Selected, Failure> {
        let mut tasks = Vec::new();
        if self.wanted.is_empty() {
            for text in &self.tasks {
                tasks.push(resolve(client, text).await?);
            }
            return Ok(Selected { tasks, arrays: HashSet::new() });
        }
        let mut selection = parse(&with_whole_ids(client, &self.wanted).await?, screen.now)?;
        let mut arrays = HashSet::new();
        if selection.states.is_empty() {
            // Without a word about states, only those where the verb makes sense.
            let states: Vec<StateName> = verb.states.iter().map(|state| StateName::from(*state)).collect();
            selection = selection.of_states(states);
            if selection.takes_arrays() {
                selection.query = selection.query.without_elements();
                tasks = selection.whole_arrays(client, |task| verb.fits(task)).await?;
                arrays.extend(tasks.iter().copied());
            }
        }
        if arrays.is_empty() {
            selection.learn_arrays(client).await?;
        }
        let mut listing = client.list(selection.query.clone().page(1_000));
        while let Some(task) = listing.next().await {
            let task = task?;
            if selection.takes(&task) && verb.fits(&task) {
                tasks.push(task.id);
            }
            if tasks.len() > SELECTED_MAX {
                return Err(Failure::usage(format!(
                    "more than {SELECTED_MAX} tasks match: narrow it down with --where"
                )));
            }
        }
        Ok(Selected { tasks, arrays })
    }
}

/// What a verb acts on: tasks, and arrays as wholes.
struct Selected {
    tasks: Vec<TaskId>,
    /// Those of them that are arrays and were found by their name.
    arrays: HashSet<TaskId>,
}

/// How many tasks and arrays.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    tasks: usize,
    arrays: usize,
}

impl Count {
    fn of(tasks: &[TaskId], arrays: &HashSet<TaskId>) -> Count {
        let mut count = Count::default();
        tasks.iter().for_each(|task| count.add(*task, arrays));
        count
    }

    fn add(&mut self, task: TaskId, arrays: &HashSet<TaskId>) {
        if arrays.contains(&task) {
            self.arrays += 1;
        } else {
            self.tasks += 1;
        }
    }

    fn total(self) -> usize {
        self.tasks + self.arrays
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrays = units::counted(self.arrays as u64, "array", "arrays");
        match self {
            Count { arrays: 0, tasks } => f.write_str(&counted(*tasks)),
            Count { tasks: 0, .. } => f.write_str(&arrays),
            Count { tasks, .. } => write!(f, "{} and {arrays}", counted(*tasks)),
        }
    }
}

/// How a verb is spoken of, and which states it makes sense in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    pub(crate) plain: &'static str,
    pub(crate) done: &'static str,
    /// What has become of a task that runs, if the verb is only a wish until its worker has confirmed.
    pub(crate) asked: Option<&'static str>,
    pub(crate) states: &'static [&'static str],
    /// Of suspended tasks, it is for those that are paused in place, or for those that are not. `None`: for all.
    pub(crate) wants_paused: Option<bool>,
}

impl Verb {
    /// Whether it makes sense for a suspended task, which may be paused in place. In every other state the broker says so.
    fn fits(&self, task: &TaskInfo) -> bool {
        task.state != StateName::Suspended
            || self.wants_paused.is_none_or(|wanted| task.pause.is_some() == wanted)
    }
}

/// Whether a worker still has the task. If that is unknown, there is nothing more to report.
async fn still_runs(client: &Client, task: TaskId) -> bool {
    match client.show(task).await {
        Ok(task) => task.holding.is_some() && task.pause.is_none(),
        // Of an array, some elements may still run.
        Err(_) => client.array(task).await.is_ok_and(|array| array.counts.running > 0),
    }
}

struct Tally {
    done: Count,
    /// What runs and has been asked.
    asked: Count,
    refused: Vec<(TaskId, Box<tenure_client::Refusal>)>,
}

impl Tally {
    fn report(self, tasks: &[TaskId], called: &str, screen: &Screen, verb: Verb) -> Outcome {
        let Tally { done, asked, refused } = self;
        // One task that is refused is an error like any other.
        if let ([_], [(_, refusal)]) = (tasks, refused.as_slice()) {
            return Err(Failure::from(&**refusal));
        }
        let wish = verb.asked.unwrap_or(verb.done);
        let text = || {
            let mut text = match tasks {
                [] => "no task matches".to_owned(),
                [_] => format!("{} {called}", if asked.total() > 0 { wish } else { verb.done }),
                _ if asked.total() > 0 => {
                    format!("{} {done}, {wish} {asked} still running", verb.done)
                }
                _ => format!("{} {done}", verb.done),
            };
            const SHOWN_MAX: usize = 20;
            for (task, refusal) in refused.iter().take(SHOWN_MAX) {
                let refusal = with_short_ids(&refusal.to_string());
                text += &format!("\nrefused {}: {}", short(*task), escape_line(&refusal));
            }
            if refused.len() > SHOWN_MAX {
                text += &format!("\nrefused {} more", refused.len() - SHOWN_MAX);
            }
            text
        };
        let value = || {
            let refused: Vec<_> = refused
                .iter()
                .map(|(task, refusal)| json!({ "task": task.to_string(), "code": refusal.code.as_str(), "message": refusal.message }))
                .collect();
            let mut value = json!({ "verb": verb.plain, "done": done.total(), "refused": refused });
            if verb.asked.is_some() {
                value["asked"] = json!(asked.total());
            }
            value
        };
        screen.one(text, value)?;
        Ok(refused.first().map_or(OK, |(_, refusal)| code_of(&refusal.code)))
    }
}

/// How people recognise a task: its short id, and its name or command as far as it fits.
async fn called(client: &Client, task: TaskId, screen: &Screen) -> String {
    /// What stands before it in a line.
    const VERB_WIDTH: usize = 16;
    let mut labels = Labels::default();
    let label = labels.find(client, task).await;
    let room = screen.width.saturating_sub(VERB_WIDTH + SHORT_DIGITS + 1);
    format!("{} {}", short(task), cut(&escape_line(label), room)).trim_end().to_owned()
}

async fn preview(
    client: &Client,
    tasks: &[TaskId],
    arrays: &HashSet<TaskId>,
    screen: &Screen,
    verb: Verb,
) -> Outcome {
    const SHOWN_MAX: usize = 50;
    let mut lines = Vec::new();
    if screen.is_table() {
        for task in tasks.iter().take(SHOWN_MAX) {
            lines.push(called(client, *task, screen).await);
        }
    }
    let text = || {
        let mut text = format!("would {} {}", verb.plain, Count::of(tasks, arrays));
        for line in &lines {
            text += &format!("\n  {line}");
        }
        if tasks.len() > SHOWN_MAX {
            text += &format!("\n  and {} more", tasks.len() - SHOWN_MAX);
        }
        text
    };
    let ids = || tasks.iter().map(ToString::to_string).collect::<Vec<_>>();
    screen.one(text, || json!({ "verb": verb.plain, "dry_run": true, "tasks": ids() }))?;
    Ok(OK)
}

/// The pairs with whole ids in the place of short ones and names.
pub(crate) async fn with_whole_ids(client: &Client, pairs: &[String]) -> Result<Vec<String>, Failure> {
    let mut whole = Vec::with_capacity(pairs.len());
    for pair in pairs {
        whole.push(match pair.split_once('=') {
            Some((key @ ("parent" | "array"), value)) => format!("{key}={}", resolve(client, value).await?),
            _ => pair.clone(),
        });
    }
    Ok(whole)
}

/// Reads `KEY=VALUE` pairs. Says also which states were named.
pub(crate) fn parse(pairs: &[String], now: u64) -> Result<Selection, Failure> {
    let mut query = Query::default();
    let mut states = Vec::new();
    let (mut name, mut exit_code) = (None, None);
    let mut seen = BTreeSet::new();
    let mut has_times = false;
    let mut of_array = OfArray::default();
    let has_array = pairs.iter().any(|pair| pair.starts_with("array="));
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`{pair}` is not KEY=VALUE: write such as state=failed or queue=images"))
        })?;
        let several_count_as_either = matches!(key, "state" | "states");
        let key = match key {
            "exit_code" | "exit" => "exit-code",
            key => key,
        };
        let counts_as = if key == "since" { "after" } else { key };
        if !several_count_as_either && KEYS.contains(&key) && !seen.insert(counts_as) {
            // The broker filters by one of each. If only one of two counted, the command would act on tasks that the
            // user did not mean.
            return Err(Failure::usage(format!(
                "`{key}` is given twice: tasks are selected by one {key} at a time"
            )));
        }
        let time = || parse_past(value, now).map(Timestamp).map_err(Failure::usage);
        has_times |= matches!(key, "before" | "after" | "since");
        of_array.ask(key, value, time)?;
        query = match key {
            "state" | "states" => {
                for state in value.split(',') {
                    states.push(state_name(state)?);
                }
                query
            }
            "queue" => query.queue(value),
            "tag" => query.tag(value),
            "worker" => query.worker(value),
            "submitter" => query.submitter(value),
            "parent" => query.parent(
                value
                    .parse()
                    .map_err(|_| Failure::usage(format!("`{value}` is not a task's id: write all of it")))?,
            ),
            "array" => {
                query.array(value.parse().map_err(|_| {
                    Failure::usage(format!("`{value}` is not an array's id: write all of it"))
                })?)
            }
            "before" => query.submitted_before(time()?),
            "after" | "since" => query.submitted_after(time()?),
            "name" => {
                name = Some(value.to_owned());
                query
            }
            "exit-code" => {
                let code =
                    value.parse().map_err(|_| Failure::usage(format!("`{value}` is not an exit code")))?;
                exit_code = Some(code);
                query
            }
            _ => return Err(Failure::usage(nearest::unknown("selection key", key, KEYS))),
        };
    }
    // A command that is paused in place is suspended. People who look for what is paused mean it, too.
    let only_paused = states.contains(&StateName::Paused) && !states.contains(&StateName::Suspended);
    if only_paused {
        states.push(StateName::Suspended);
    }
    let query = query.states(states.iter().cloned());
    let arrays = HashSet::new();
    Ok(Selection { query, states, name, of_array, arrays, exit_code, only_paused, has_times, has_array })
}

pub(crate) fn state_name(text: &str) -> Result<StateName, Failure> {
    const STATES: [&str; 11] = [
        "created",
        "waiting",
        "delayed",
        "ready",
        "assigned",
        "running",
        "suspended",
        "paused",
        "completed",
        "failed",
        "cancelled",
    ];
    match STATES.contains(&text) {
        true => Ok(StateName::from(text)),
        false => Err(Failure::usage(nearest::unknown("state", text, STATES))),
    }
}

pub(crate) fn counted(tasks: usize) -> String {
    units::counted(tasks as u64, "task", "tasks")
}

/// Tasks that have not ended.
pub(crate) const UNENDED: &[&str] =
    &["created", "waiting", "delayed", "ready", "assigned", "running", "suspended", "paused"];

/// The worker that has to do with a task, if one has.
pub(crate) fn worker_of(task: &TaskInfo) -> Option<&str> {
    let holder = task.holding.as_ref().map(|holding| &*holding.worker);
    holder.or_else(|| task.end.as_ref().and_then(|end| end.worker.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pair: &str) -> String {
        parse(&[pair.to_owned()], 0).err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn two_of_a_kind_are_refused_instead_of_one_of_them_forgotten() {
        const NOW: u64 = 1_800_000_000_000;
        for key in KEYS.into_iter().filter(|key| *key != "state") {
            let value = match key {
                "before" | "after" | "since" => "1h",
                "exit-code" => "4",
                "parent" | "array" => "0190b5a2-77f0-7cc3-98b4-dc0c0c07398f",
                _ => "x",
            };
            let pairs = [format!("{key}={value}"), "state=ready".to_owned(), format!("{key}={value}")];
            assert!(parse(&pairs[..2], NOW).is_ok());
            let refused = parse(&pairs, NOW).err().map(|failure| failure.message).unwrap_or_default();
            assert!(refused.contains("given twice"), "{key}: {refused}");
        }
        let states = ["state=ready", "state=failed"].map(str::to_owned);
        assert!(parse(&states, NOW).is_ok(), "several states count as either");
    }

    #[test]
    fn what_to_select_by_is_checked_before_anything_is_asked() {
        assert!(refusal("state").contains("KEY=VALUE"));
        assert!(refusal("sate=failed").contains("did you mean `state`"));
        assert!(refusal("state=faild").contains("did you mean `failed`"));
        assert!(refusal("parent=xyz").contains("id"));
        assert!(refusal("before=soon").contains("point in time"));
        assert!(refusal("exit-code=x").contains("exit code"));
        let pairs = ["state=failed,cancelled", "queue=x", "after=0s"].map(str::to_owned);
        assert!(parse(&pairs, 5).is_ok_and(|selection| !selection.states.is_empty()));
    }
}
