//! How people recognise a task: by a short id, its name and its command.

use std::borrow::Cow;
use std::collections::HashSet;

use tenure_client::TaskId;

/// The shortest id that is shown. An id begins with the time, so its end is what differs
/// (docs/decisions/0044-short-ids.md).
pub(crate) const SHORT_DIGITS: usize = 8;
pub(crate) const ID_DIGITS: usize = 32;

/// The digits of an id, without hyphens.
pub(crate) fn digits(id: TaskId) -> String {
    id.to_string().replace('-', "")
}

/// The last digits of an id.
pub(crate) fn short(id: TaskId) -> String {
    ending(&digits(id), SHORT_DIGITS)
}

/// The text with short ids in the place of whole ones. What only contains an id, a path for instance, stays.
pub(crate) fn with_short_ids(text: &str) -> String {
    let is_edge = |c: char| c.is_whitespace() || "`'\"()[]{},:;".contains(c);
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_edge) {
        let word = piece.trim_end_matches(is_edge);
        // A sentence may end with an id.
        let word = word.strip_suffix('.').unwrap_or(word);
        match word.parse::<TaskId>() {
            Ok(id) if word.len() == id.to_string().len() => shown += &short(id),
            _ => shown += word,
        }
        shown += &piece[word.len()..];
    }
    shown
}

/// The fewest digits by which these ids differ from each other, and no less than the shortest.
pub(crate) fn digits_needed(ids: impl IntoIterator<Item = TaskId>) -> usize {
    let all: HashSet<String> = ids.into_iter().map(digits).collect();
    let is_enough = |count: &usize| {
        let ends: HashSet<&str> = all.iter().map(|digits| &digits[ID_DIGITS - count..]).collect();
        ends.len() == all.len()
    };
    (SHORT_DIGITS..ID_DIGITS).find(is_enough).unwrap_or(ID_DIGITS)
}

/// The last digits of an id, as many as its neighbours need.
pub(crate) fn shortened(id: TaskId, count: usize) -> String {
    ending(&digits(id), count)
}

fn ending(digits: &str, count: usize) -> String {
    digits[ID_DIGITS.saturating_sub(count)..].to_owned()
}

/// A command as it would be typed.
pub(crate) fn command_line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
}

/// The command in the body of a task, if it is a shell task or a plan.
pub(crate) fn command_of(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    if let Some(words) = body.get("command").and_then(serde_json::Value::as_array) {
        return Some(command_line(words.iter().filter_map(serde_json::Value::as_str)));
    }
    let tasks = body.get("tasks").or_else(|| body.get("plan")?.get("tasks"))?.as_array()?;
    let commands = tasks.iter().filter_map(|task| task.get("command")?.as_str());
    Some(commands.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_as_short_as_its_neighbours_allow() {
        let id = |end: u16| {
            let mut id = [7; 16];
            id[10..12].copy_from_slice(&end.to_be_bytes());
            TaskId(id)
        };
        assert_eq!(short(id(1)), "07070707");
        assert_eq!(digits_needed([id(1)]), 8);
        assert_eq!(digits_needed([id(1), id(2)]), 9);
        assert_eq!(shortened(id(2), 9), "207070707");
        assert_eq!(digits_needed([id(1), id(1)]), 8, "one id is not its own neighbour");
    }

    #[test]
    fn whole_ids_in_a_sentence_become_short() {
        let id = "01a1f043-77f0-7cc3-98b4-dc0c0c07398f";
        let sentence = format!("waits for 2 tasks: {id}, `{id}[7]`. Not /{id}/x or run-{id}. But {id}.");
        assert_eq!(
            with_short_ids(&sentence),
            format!("waits for 2 tasks: 0c07398f, `0c07398f[7]`. Not /{id}/x or run-{id}. But 0c07398f.")
        );
        assert_eq!(with_short_ids("no id: 漢字  (x) "), "no id: 漢字  (x) ");
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        assert_eq!(
            command_line(["./sim", "--steps=7", "a b", "it's", ""]),
            "./sim --steps=7 'a b' 'it'\\''s' ''"
        );
        assert_eq!(command_of(br#"{"command": ["echo", "a"]}"#).as_deref(), Some("echo a"));
        assert_eq!(
            command_of(br#"{"plan": {"tasks": [{"command": "a"}, {"command": "b"}]}}"#).as_deref(),
            Some("a | b")
        );
        assert_eq!(command_of(b"anything"), None);
    }
}
