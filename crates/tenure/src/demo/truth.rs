//! An independent record: every command writes a line when it starts and one when it ends, without the broker. At the
//! end both records are compared.

use std::collections::BTreeMap;
use std::path::Path;

use super::story::{Story, TaskPhase};

/// The command of a task: it tells the file that it begins, works, and tells it that it is done.
pub(crate) const SCRIPT: &str = "\
echo \"begin $TENURE_TASK_ID $TENURE_ATTEMPT\" >> \"$TRUTH\"
sleep \"$SECONDS_OF_WORK\"
echo \"end $TENURE_TASK_ID $TENURE_ATTEMPT\" >> \"$TRUTH\"";

/// Lines of one task.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    begins: Vec<u32>,
    ends: Vec<u32>,
}

/// One promise, and whether it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) kept: bool,
    pub(crate) sentence: String,
}

/// Compares what the commands wrote with what the broker's events say.
pub(crate) fn compare(file: &Path, story: &Story) -> Vec<Verdict> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    judge(&read(&text), story)
}

fn read(text: &str) -> BTreeMap<String, Lines> {
    let mut all: BTreeMap<String, Lines> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [what, task, attempt] = words[..]
            && let Ok(attempt) = attempt.parse()
        {
            let lines = all.entry(task.to_owned()).or_default();
            if what == "begin" { lines.begins.push(attempt) } else { lines.ends.push(attempt) }
        }
    }
    all
}

fn judge(truth: &BTreeMap<String, Lines>, story: &Story) -> Vec<Verdict> {
    let nothing = Lines::default();
    let total = story.parts().count();
    let (mut done, mut twice, mut repeated, mut unexplained, mut disagree) = (0, 0, 0, 0, 0);
    for (task, part) in story.parts() {
        let lines = truth.get(&task.to_string()).unwrap_or(&nothing);
        done += usize::from(!lines.ends.is_empty() && part.stand == TaskPhase::Completed);
        twice += usize::from(lines.ends.len() > 1 || part.completed > 1);
        let mut begins = lines.begins.clone();
        begins.sort_unstable();
        begins.dedup();
        repeated += lines.begins.len() - begins.len();
        // Every start beyond the first must have a crash event that the submitter received.
        unexplained += lines.begins.len().saturating_sub(1 + part.crashed as usize);
        disagree += usize::from(lines.ends.len() != part.completed as usize);
    }
    let verdict = |kept, sentence: String| Verdict { kept, sentence };
    vec![
        verdict(
            done == total,
            format!("nothing lost: {done} of {total} tasks were submitted, run and completed"),
        ),
        verdict(
            twice == 0 && repeated == 0,
            format!(
                "nothing done twice: {twice} tasks ended more than once, {repeated} attempts began twice"
            ),
        ),
        verdict(
            unexplained == 0,
            format!(
                "nothing run again without a reason: {unexplained} beginnings without a crash before them"
            ),
        ),
        verdict(
            disagree == 0,
            format!("the broker's events agree with what the commands wrote: {disagree} differences"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_client::{Event, EventKind, TaskId, Timestamp};

    const TASK: TaskId = TaskId([1; 16]);

    fn story(kinds: &[(EventKind, u32)]) -> Story {
        let mut story = Story::default();
        story.add(TASK, "1".to_owned());
        for (kind, attempt) in kinds {
            let event = Event {
                seq: 1,
                at: Timestamp(0),
                kind: kind.clone(),
                task: Some(TASK),
                attempt: *attempt,
                queue: None,
                submitter: None,
                worker: None,
                more: None,
            };
            story.handle_event(&event);
        }
        story
    }

    fn kept(text: &str, story: &Story) -> Vec<bool> {
        judge(&read(&text.replace('T', &TASK.to_string())), story)
            .iter()
            .map(|verdict| verdict.kept)
            .collect()
    }

    #[test]
    fn a_task_that_was_run_again_after_a_crash_is_as_it_should_be() {
        let events = [
            (EventKind::Started, 1),
            (EventKind::Crashed, 1),
            (EventKind::Started, 2),
            (EventKind::Completed, 2),
        ];
        assert_eq!(kept("begin T 1\nbegin T 2\nend T 2\n", &story(&events)), [true, true, true, true]);
    }

    #[test]
    fn every_broken_promise_is_found() {
        let once = story(&[(EventKind::Started, 1), (EventKind::Completed, 1)]);
        assert_eq!(kept("begin T 1\nend T 1\n", &once), [true, true, true, true]);
        assert!(!kept("", &story(&[]))[0], "lost");
        assert!(!kept("begin T 1\nend T 1\nend T 2\n", &once)[1], "done twice");
        assert!(!kept("begin T 1\nbegin T 1\nend T 1\n", &once)[1], "the same attempt twice");
        assert!(!kept("begin T 1\nbegin T 2\nend T 2\n", &once)[2], "run again without a crash");
        assert!(!kept("begin T 1\n", &once)[3], "said to be completed, but it never ended");
    }
}
