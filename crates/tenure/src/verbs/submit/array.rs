//! Many tasks as one array: a range of indexes, or the lines of a file.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tenure_client::{ArrayAccepted, ArraySubmission, Client, TaskId};

use super::Draft;
use super::lines::open;
use super::shell::{Shell, Surroundings};
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::escape_line;
use crate::output::{Format, Screen, json, remark};
use crate::verbs::{arrays, follow};

/// What an array is limited to, so that a wrong range is noticed here.
const SIZE_MAX: u64 = 1_000_000;

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

    /// The array of a task. `body` is what the command line gives besides a command.
    pub(crate) fn submission(
        &self,
        task: Draft,
        shell: &Shell,
        body: impl FnOnce() -> Result<Option<Bytes>, Failure>,
    ) -> Result<ArraySubmission, Failure> {
        let mut array = match (&self.array, &self.each_line) {
            (Some(range), _) => {
                let body = body()?
                    .ok_or_else(|| Failure::usage("nothing to submit: give a body, or -- and a command"))?;
                ArraySubmission::new(task.body(body), range.size).first(range.first).step(range.step)
            }
            (None, Some(file)) => {
                // Lines are counted from 1, as in editors.
                ArraySubmission::of_items(task, bodies(&read(file)?, shell)?).first(1)
            }
            (None, None) => return Err(Failure::usage("an array needs --array or --each-line")),
        };
        if let Some(limit) = self.array_limit {
            array = array.limit(limit);
        }
        Ok(array)
    }
}

/// One body for each item: the item itself, or the command with the item.
fn bodies(items: &[String], shell: &Shell) -> Result<Vec<Bytes>, Failure> {
    if !shell.has_command() {
        return Ok(items.iter().map(|item| Bytes::copy_from_slice(item.as_bytes())).collect());
    }
    let form = shell.form(&Surroundings::of_this_process())?;
    items.iter().map(|item| form.with_item(item).to_bytes()).collect()
}

/// The lines of a file, without empty ones at its end.
fn read(file: &Path) -> Result<Vec<String>, Failure> {
    let mut items = Vec::new();
    for (index, line) in open(file)?.lines().enumerate() {
        let wrong = |why: String| Failure::input(format!("{}:{}: {why}", file.display(), index + 1));
        items.push(line.map_err(|error| wrong(error.to_string()))?);
        if items.len() as u64 > SIZE_MAX {
            return Err(wrong(format!("an array has at most {SIZE_MAX} items")));
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

/// Submits the array, and follows it if asked to.
pub(crate) async fn submit(
    client: &Client,
    array: ArraySubmission,
    wait: bool,
    timeout: Option<Duration>,
    screen: &Screen,
) -> Outcome {
    let accepted = client.submit_array(array).await?;
    if !wait {
        screen.one(|| accepted.array.to_string(), || json::array_accepted(&accepted))?;
        report(&accepted, screen);
        return Ok(OK);
    }
    if screen.is_table() {
        remark(accepted.array.to_string());
    } else if screen.format == Format::Jsonl {
        screen.next(String::new, || json::array_accepted(&accepted))?;
    }
    report(&accepted, screen);
    let tasks: &[TaskId] = std::slice::from_ref(&accepted.array);
    follow::unless_interrupted(tasks, arrays::wait(client, accepted.array, timeout, screen)).await
}

fn report(accepted: &ArrayAccepted, screen: &Screen) {
    if !screen.is_table() {
        return;
    }
    if accepted.known {
        remark(format!("known already by its name, and {}", accepted.state.as_str()));
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
