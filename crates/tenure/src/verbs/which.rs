//! Which task or array is meant: an id, its end or its beginning if no other has the same, or `name:NAME`; with
//! `[INDEX]` an element of an array.

use tenure_client::{ArrayInfo, Client, Code, Error, Query, TaskId, TaskInfo, Timestamp};

use crate::exit::{BAD_INPUT, Failure, REFUSED};
use crate::output::label::digits as plain;
use crate::output::times::now;

/// The shortest part of an id that is looked up.
const DIGITS_MIN: usize = 6;
/// How many tasks are looked at to find the rest of an id.
const SEARCH_MAX: usize = 100_000;
/// A part of an id is looked for among the tasks of this time first: people mean what they have just seen.
const RECENT_MILLIS: u64 = 86_400_000;
/// Ids are made by clients, whose clocks may differ from the broker's.
const CLOCK_SKEW_MILLIS: u64 = 600_000;

/// Finds the task's id.
pub(crate) async fn resolve(client: &Client, text: &str) -> Result<TaskId, Failure> {
    if let Some((array, index)) = split_element(text) {
        let array = Box::pin(resolve(client, array)).await?;
        let found = client.array(array).await?.element(index);
        return found.ok_or_else(|| {
            Failure::new(REFUSED, format!("array {array} has no element with the index {index}"))
        });
    }
    if let Some(name) = text.strip_prefix("name:") {
        return match client.find(name).await {
            Err(Error::Refused(no)) if no.code == Code::UnknownName => Ok(client.find_array(name).await?.id),
            found => Ok(found?.id),
        };
    }
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let digits = text.replace('-', "").to_ascii_lowercase();
    if !is_part_of_id(text) {
        let hint = format!("write the id, at least its last {DIGITS_MIN} digits, or name:NAME");
        return Err(Failure::new(BAD_INPUT, format!("`{text}` is not a task: {hint}")));
    }
    // An array is meant rather than one of its elements, whose ids begin alike.
    if let Some(id) = search_arrays(client, text, &digits).await? {
        return Ok(id);
    }
    // An id begins with the time it was made, so only the tasks of that time need to be looked at.
    let (after, before) = time_of(&digits);
    let near =
        Query::default().submitted_after(Timestamp(after)).submitted_before(Timestamp(before)).page(1_000);
    if let Some(id) = search(client, near, text, &digits).await? {
        return Ok(id);
    }
    // The end of an id says nothing of its time, and clients may choose other ids.
    let recent = Query::default().submitted_after(Timestamp(now().saturating_sub(RECENT_MILLIS)));
    for query in [recent, Query::default()] {
        if let Some(id) = search(client, query.page(1_000), text, &digits).await? {
            return Ok(id);
        }
    }
    Err(Failure::new(REFUSED, format!("there is no task whose id begins or ends with {text}")))
}

/// Whether a text can be the beginning or the end of an id.
pub(crate) fn is_part_of_id(text: &str) -> bool {
    let digits = text.bytes().filter(|byte| *byte != b'-').count();
    (DIGITS_MIN..32).contains(&digits) && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// A task, or an array.
pub(crate) enum Found {
    Task(Box<TaskInfo>),
    Array(Box<ArrayInfo>),
}

pub(crate) async fn show(client: &Client, text: &str) -> Result<Found, Failure> {
    let id = resolve(client, text).await?;
    match client.show(id).await {
        Ok(task) => Ok(Found::Task(Box::new(task))),
        Err(Error::Refused(no)) if no.code == Code::UnknownTask => match client.array(id).await {
            Ok(array) => Ok(Found::Array(Box::new(array))),
            Err(_) => Err(Error::Refused(no).into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// A task, where an array would not do.
pub(crate) async fn show_task(client: &Client, text: &str) -> Result<TaskInfo, Failure> {
    match show(client, text).await? {
        Found::Task(task) => Ok(*task),
        Found::Array(array) => {
            let hint = format!("name one of its tasks, such as '{}[{}]'", array.id, array.first);
            Err(Failure::new(BAD_INPUT, format!("`{text}` is an array: {hint}")))
        }
    }
}

/// The array of this id, if it is one.
pub(crate) async fn find_array(client: &Client, id: TaskId) -> Result<Option<ArrayInfo>, Failure> {
    match client.array(id).await {
        Ok(array) => Ok(Some(array)),
        Err(Error::Refused(no)) if matches!(no.code, Code::UnknownTask | Code::UnknownKind) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `ARRAY[INDEX]`.
pub(crate) fn split_element(text: &str) -> Option<(&str, u32)> {
    let (array, index) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((array, index.parse().ok()?))
}

async fn search_arrays(client: &Client, text: &str, digits: &str) -> Result<Option<TaskId>, Failure> {
    let arrays = match client.arrays(SEARCH_MAX).await {
        Ok(arrays) => arrays,
        Err(Error::Refused(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut found: Option<TaskId> = None;
    for id in arrays.iter().map(|array| array.id) {
        let whole = plain(id);
        if whole.starts_with(digits) || whole.ends_with(digits) {
            if let Some(other) = found {
                let why = format!("`{text}` is not unique: {other} and {id} have it, write more digits");
                return Err(Failure::new(BAD_INPUT, why));
            }
            found = Some(id);
        }
    }
    Ok(found)
}

async fn search(client: &Client, query: Query, text: &str, digits: &str) -> Result<Option<TaskId>, Failure> {
    let mut listing = client.list(query);
    let mut found: Option<TaskId> = None;
    let mut looked = 0;
    while let Some(task) = listing.next().await {
        let id = task?.id;
        let whole = plain(id);
        if whole.starts_with(digits) || whole.ends_with(digits) {
            if let Some(other) = found.filter(|other| *other != id) {
                let why = format!("`{text}` is not unique: {other} and {id} have it, write more digits");
                return Err(Failure::new(BAD_INPUT, why));
            }
            found = Some(id);
        }
        looked += 1;
        if looked >= SEARCH_MAX && found.is_none() {
            return Err(Failure::new(
                BAD_INPUT,
                format!("none of the first {SEARCH_MAX} tasks has `{text}` in its id: write the whole id"),
            ));
        }
    }
    Ok(found)
}

/// The span of time in which an id that begins so was made: its first twelve digits are milliseconds.
fn time_of(digits: &str) -> (u64, u64) {
    let stamp = &digits[..digits.len().min(12)];
    let bound = |fill: &str| {
        u64::from_str_radix(&format!("{stamp}{}", fill.repeat(12 - stamp.len())), 16).unwrap_or(0)
    };
    (bound("0").saturating_sub(CLOCK_SKEW_MILLIS), bound("f").saturating_add(CLOCK_SKEW_MILLIS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_tells_when_it_was_made() {
        let id = TaskId::new();
        let now = now();
        for length in [6, 8, 12, 20] {
            let (after, before) = time_of(&plain(id)[..length]);
            assert!(after <= now && now <= before, "{length}: {after} {now} {before}");
        }
        let (after, before) = time_of(&plain(id)[..12]);
        assert_eq!(before - after, 2 * CLOCK_SKEW_MILLIS);
    }
}
