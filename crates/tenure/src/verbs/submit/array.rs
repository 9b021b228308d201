//! Many tasks as one array: a range of indexes, or the lines of a file.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tenure_client::{
    ARRAY_BODIES_BYTES_MAX, ARRAY_BODY_OVERHEAD, ArrayAccepted, ArraySubmission, Client, TaskId,
};

use super::lines::open;
use super::notify;
use super::options::Options;
use super::shell::{Form, Shell, SubmitterEnvironment};
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::escape_line;
use crate::output::{Format, ItemList, Screen, json, remark};
use crate::units::counted;
use crate::verbs::{arrays, follow, wait};
use tenure_client::Submission;

/// The broker's limit of the size of an array, so that a wrong range is noticed here.
const SIZE_MAX: u64 = 1_000_000;
/// How many lines one command submits, all of which it holds in memory.
const LINES_MAX: usize = 10_000_000;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Array")]
pub(crate) struct ArrayOptions {
    /// Submit one task for each index: 1-400, or 0-10:2 for every second. $TENURE_INDEX is the index
    #[arg(long, value_name = "FIRST-LAST[:STEP]", conflicts_with_all = ["each_line", "jsonl"])]
    array: Option<Range>,
    /// Submit one task for each line of a file; $TENURE_ITEM is the line, and so is {} in the command; - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    each_line: Option<PathBuf>,
    /// Run at most this many tasks of the array at once [default: no limit]
    #[arg(long, value_name = "COUNT")]
    array_limit: Option<u32>,
}

/// The indexes of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    step: u32,
    size: u32,
}

impl std::str::FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let wrong = || "is not FIRST-LAST or FIRST-LAST:STEP, such as 1-400 or 0-10:2".to_owned();
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (range, step) = match text.split_once(':') {
            Some((range, step)) => (range, number(step)?),
            None => (text, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        if step == 0 {
            return Err("the step is 0: all indexes would be the same".to_owned());
        }
        let distance = last.checked_sub(first).ok_or("the last index is below the first")?;
        let size = u64::from(distance / step) + 1;
        if size > SIZE_MAX {
            return Err(format!("has {size} indexes: an array has at most {SIZE_MAX}"));
        }
        Ok(Range { first, step, size: size as u32 })
    }
}

impl ArrayOptions {
    /// Whether the tasks become an array.
    pub(crate) fn is_given(&self) -> Result<bool, Failure> {
        let is_given = self.array.is_some() || self.each_line.is_some();
        if self.array_limit.is_some() && !is_given {
            return Err(Failure::usage("--array-limit is for an array: add --array or --each-line"));
        }
        Ok(is_given)
    }

    /// The arrays of a task: one, unless the bodies of the lines do not fit into one frame. `body` is what the command
    /// line gives besides a command.
    pub(crate) fn submissions(
        &self,
        task: Submission,
        options: &Options,
        shell: &Shell,
        body: impl FnOnce() -> Result<Option<Bytes>, Failure>,
    ) -> Result<Arrays, Failure> {
        match (&self.array, &self.each_line) {
            (Some(range), _) => {
                let body = body()?
                    .ok_or_else(|| Failure::usage("nothing to submit: give a body, or -- and a command"))?;
                let array = ArraySubmission::new(task.body(body), range.size).first(range.first);
                Ok(Arrays::One(Box::new(self.limited(array.step(range.step)))))
            }
            (None, Some(file)) => {
                let lines = Lines::new(read(file)?, shell)?;
                match lines.parts()?.as_slice() {
                    // Lines are counted from 1, as in editors.
                    [all] => {
                        let array = ArraySubmission::of_items(task, lines.bodies(all)?).first(1);
                        Ok(Arrays::One(Box::new(self.limited(array))))
                    }
                    parts => self.several(task, options, file, lines, parts),
                }
            }
            (None, None) => Err(Failure::usage("an array needs --array or --each-line")),
        }
    }

    fn limited(&self, array: ArraySubmission) -> ArraySubmission {
        match self.array_limit {
            Some(limit) => array.limit(limit),
            None => array,
        }
    }

    fn several(
        &self,
        task: Submission,
        options: &Options,
        file: &Path,
        lines: Lines,
        parts: &[LineRange],
    ) -> Result<Arrays, Failure> {
        let for_one = match self.array_limit {
            Some(_) => {
                Some("--array-limit is for one array: give the tasks a tag and limit it with `tenure limits`")
            }
            None if options.id()?.is_some() => Some("--id is for one array: use --name"),
            None => None,
        };
        if let Some(why) = for_one {
            return Err(Failure::input(format!(
                "the {} lines of {} take {} arrays; {why}",
                lines.items.len(),
                file.display(),
                parts.len()
            )));
        }
        let name = options.name().map(str::to_owned);
        Ok(Arrays::Several(Box::new(Parts { task, name, lines, parts: parts.to_vec() })))
    }
}

/// The submission.
#[derive(Debug)]
pub(crate) enum Arrays {
    One(Box<ArraySubmission>),
    Several(Box<Parts>),
}

/// The lines of one file, in several arrays. The bodies of each are written when its turn comes, because all of them
/// together take much memory.
#[derive(Debug)]
pub(crate) struct Parts {
    task: Submission,
    name: Option<String>,
    lines: Lines,
    parts: Vec<LineRange>,
}

type LineRange = std::ops::Range<usize>;

/// The lines of a file, and the command for each of them.
#[derive(Debug)]
pub(crate) struct Lines {
    items: Vec<String>,
    form: Option<Form>,
}

impl Lines {
    fn new(items: Vec<String>, shell: &Shell) -> Result<Lines, Failure> {
        let around = SubmitterEnvironment::of_this_process();
        let form = shell.has_command().then(|| shell.form(&around)).transpose()?;
        Ok(Lines { items, form })
    }

    /// The body for an item: the item itself, or the command with the item.
    fn body(&self, item: &str) -> Result<Bytes, Failure> {
        match &self.form {
            Some(form) => form.with_item(item).to_bytes(),
            None => Ok(Bytes::copy_from_slice(item.as_bytes())),
        }
    }

    fn bodies(&self, range: &LineRange) -> Result<Vec<Bytes>, Failure> {
        self.items[range.clone()].iter().map(|item| self.body(item)).collect()
    }

    /// The lines of each array. The same lines always give the same parts, so that their names find them.
    fn parts(&self) -> Result<Vec<LineRange>, Failure> {
        let mut sizes = Vec::with_capacity(self.items.len());
        for item in &self.items {
            sizes.push(self.body(item)?.len() + ARRAY_BODY_OVERHEAD);
        }
        Ok(split(&sizes, ARRAY_BODIES_BYTES_MAX, SIZE_MAX as usize))
    }
}

/// Splits what has these sizes into as few ranges as fit.
fn split(sizes: &[usize], bytes_max: usize, count_max: usize) -> Vec<LineRange> {
    let mut parts = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, size) in sizes.iter().enumerate() {
        if index > start && (bytes + size > bytes_max || index - start == count_max) {
            parts.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    parts.push(start..sizes.len());
    parts
}

/// The lines of a file, without empty ones at its end.
fn read(file: &Path) -> Result<Vec<String>, Failure> {
    let mut items = Vec::new();
    for (index, line) in open(file)?.lines().enumerate() {
        let wrong = |why: String| Failure::input(format!("{}:{}: {why}", file.display(), index + 1));
        items.push(line.map_err(|error| wrong(error.to_string()))?);
        if items.len() > LINES_MAX {
            return Err(wrong(format!("at most {LINES_MAX} lines are submitted at once")));
        }
    }
    while items.last().is_some_and(String::is_empty) {
        items.pop();
    }
    if items.is_empty() {
        return Err(Failure::input(format!(
            "{} has no lines, so there is nothing to submit",
            file.display()
        )));
    }
    Ok(items)
}

pub(crate) async fn submit(client: &Client, arrays: Arrays, screen: &Screen) -> Outcome {
    match arrays {
        Arrays::One(array) => {
            let accepted = client.submit_array(*array).await?;
            screen.one(|| accepted.array.to_string(), || json::array_accepted(&accepted))?;
            report(&accepted, screen);
        }
        Arrays::Several(parts) => {
            let mut told = ItemList::new(screen);
            let print = |accepted: &ArrayAccepted| {
                told.next(|| accepted.array.to_string(), || json::array_accepted(accepted))
            };
            let submitted = parts.submit(client, screen, print).await;
            // Print what was accepted, also if the rest was not.
            told.end()?;
            submitted?;
        }
    }
    Ok(OK)
}

/// Submits the arrays, and waits for their end.
pub(crate) async fn submit_and_follow(
    client: &Client,
    arrays: Arrays,
    timeout: Option<Duration>,
    notify: Option<&str>,
    screen: &Screen,
) -> Outcome {
    let print = |accepted: &ArrayAccepted| {
        if screen.is_table() {
            remark(accepted.array.to_string());
        } else if screen.format == Format::Jsonl {
            screen.next(String::new, || json::array_accepted(accepted))?;
        }
        Ok(())
    };
    let ids = match arrays {
        Arrays::One(array) => {
            let accepted = client.submit_array(*array).await?;
            print(&accepted)?;
            report(&accepted, screen);
            vec![accepted.array]
        }
        Arrays::Several(parts) => parts.submit(client, screen, print).await?,
    };
    let waiting = async {
        match ids.as_slice() {
            [array] => arrays::wait(client, *array, timeout, screen).await,
            several => wait::all(client, several, timeout, screen).await,
        }
    };
    let outcome = follow::unless_interrupted(&ids, waiting).await?;
    if let Some(command) = notify {
        notify::run(client, &ids, command).await;
    }
    Ok(outcome)
}

impl Parts {
    /// Submits one array after the other.
    async fn submit(
        &self,
        client: &Client,
        screen: &Screen,
        mut print: impl FnMut(&ArrayAccepted) -> std::io::Result<()>,
    ) -> Result<Vec<TaskId>, Failure> {
        let mut all = Vec::with_capacity(self.parts.len());
        for (number, part) in (1..).zip(&self.parts) {
            // Lines are counted from 1, through all arrays.
            let first =
                u32::try_from(part.start + 1).map_err(|error| Failure::internal(error.to_string()))?;
            let array = ArraySubmission::of_items(self.named(number), self.lines.bodies(part)?).first(first);
            let accepted = client
                .submit_array(array)
                .await
                .map_err(|error| self.stopped_at(number, part, error.into()))?;
            print(&accepted)?;
            all.push(accepted);
        }
        if screen.is_table() {
            remark(format!("submitted {} lines, in {} arrays", self.lines.items.len(), all.len()));
            let known = all.iter().filter(|accepted| accepted.known).count() as u64;
            if known > 0 {
                remark(format!("{} known already by name", counted(known, "array was", "arrays were")));
            }
            if let Some(why) = all.iter().find_map(|accepted| accepted.unserved.as_ref()) {
                remark(format!("they wait: {}", escape_line(&why.message)));
            }
        }
        Ok(all.into_iter().map(|accepted| accepted.array).collect())
    }

    /// Each array has a name of its own. None has the name alone: it would stand for only some of the lines.
    fn named(&self, number: u64) -> Submission {
        match &self.name {
            Some(name) => self.task.clone().name(format!("{name}-part{number}")),
            None => self.task.clone(),
        }
    }

    fn stopped_at(&self, number: u64, part: &LineRange, mut failure: Failure) -> Failure {
        let before = match number - 1 {
            0 => "no line was submitted".to_owned(),
            arrays => {
                format!(
                    "lines 1 to {} were submitted before, as {}",
                    part.start,
                    counted(arrays, "array", "arrays")
                )
            }
        };
        failure.message = format!("array {number} of {}: {}; {before}", self.parts.len(), failure.message);
        failure
    }
}

fn report(accepted: &ArrayAccepted, screen: &Screen) {
    if !screen.is_table() {
        return;
    }
    if accepted.known {
        remark(format!("known already by its name, and {}", accepted.state.as_str()));
    } else if let Some(broken) = super::broken_at_once(accepted.array, &accepted.state) {
        remark(broken);
    }
    if let Some(why) = &accepted.unserved {
        remark(format!("it waits: {}", escape_line(&why.message)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_first_index_a_step_and_a_size() {
        for (text, first, step, size) in
            [("1-400", 1, 1, 400), ("0-10:2", 0, 2, 6), ("0-9:3", 0, 3, 4), ("7", 7, 1, 1), ("5-5", 5, 1, 1)]
        {
            assert_eq!(text.parse(), Ok(Range { first, step, size }), "{text}");
        }
    }

    #[test]
    fn lines_are_split_into_as_few_arrays_as_fit() {
        assert_eq!(split(&[5, 5, 5], 15, 9).len(), 1);
        assert_eq!(split(&[5, 5, 6], 15, 9), [0..2, 2..3]);
        assert_eq!(split(&[1; 5], 15, 2), [0..2, 2..4, 4..5]);
        // The client says that it is too large.
        assert_eq!(split(&[1, 99, 1], 15, 9), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn a_wrong_range_is_explained() {
        for (text, word) in [
            ("a-b", "FIRST-LAST"),
            ("", "FIRST-LAST"),
            ("9-1", "below"),
            ("1-9:0", "step"),
            ("0-5000000", "at most"),
        ] {
            let why = text.parse::<Range>().unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
