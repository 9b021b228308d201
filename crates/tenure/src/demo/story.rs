//! The story so far, according to the broker's events.

use std::collections::BTreeMap;

use tenure_client::{Event, EventKind, TaskId};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TaskPhase {
    #[default]
    Waiting,
    Running,
    /// It runs, but its worker is out of sight.
    Unseen,
    Completed,
    /// Ended in any other way.
    Ended,
}

/// One task of the demonstration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) label: String,
    pub(crate) stand: TaskPhase,
    pub(crate) worker: String,
    pub(crate) attempt: u32,
    /// How often the events said each of these.
    pub(crate) crashed: u32,
    pub(crate) completed: u32,
    pub(crate) returned: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    parts: BTreeMap<TaskId, Part>,
}

impl Story {
    pub(crate) fn add(&mut self, task: TaskId, label: String) {
        self.parts.insert(task, Part { label, ..Part::default() });
    }

    /// Takes an event in. Returns the label of the task it is about, if it is one of ours.
    pub(crate) fn handle_event(&mut self, event: &Event) -> Option<&str> {
        let part = self.parts.get_mut(&event.task?)?;
        part.attempt = part.attempt.max(event.attempt);
        if let Some(worker) = &event.worker {
            part.worker = worker.to_string();
        }
        match event.kind {
            EventKind::Started => part.stand = TaskPhase::Running,
            EventKind::HolderLost => part.stand = TaskPhase::Unseen,
            EventKind::HolderReturned => {
                part.stand = TaskPhase::Running;
                part.returned += 1;
            }
            EventKind::Crashed => {
                part.stand = TaskPhase::Waiting;
                part.crashed += 1;
            }
            EventKind::Completed => {
                part.stand = TaskPhase::Completed;
                part.completed += 1;
            }
            EventKind::GivenBack | EventKind::TakenBack => part.stand = TaskPhase::Waiting,
            _ if event.is_end() => part.stand = TaskPhase::Ended,
            _ => {}
        }
        Some(&part.label)
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = (&TaskId, &Part)> {
        self.parts.iter()
    }

    pub(crate) fn part(&self, task: TaskId) -> Option<&Part> {
        self.parts.get(&task)
    }

    pub(crate) fn count(&self, stand: TaskPhase) -> usize {
        self.parts.values().filter(|part| part.stand == stand).count()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.parts.values().all(|part| matches!(part.stand, TaskPhase::Completed | TaskPhase::Ended))
    }

    /// The tasks of a worker, by label.
    pub(crate) fn run_by(&self, worker: &str) -> Vec<&Part> {
        let runs = |part: &&Part| {
            part.worker == worker && matches!(part.stand, TaskPhase::Running | TaskPhase::Unseen)
        };
        self.parts.values().filter(runs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_client::Timestamp;

    fn event(kind: EventKind, attempt: u32, worker: &str) -> Event {
        let (task, worker) = (Some(TaskId([1; 16])), Some(worker.into()));
        Event {
            seq: 1,
            at: Timestamp(0),
            kind,
            task,
            attempt,
            queue: None,
            submitter: None,
            worker,
            more: None,
        }
    }

    #[test]
    fn a_story_follows_a_task_through_its_workers_death() {
        let mut story = Story::default();
        story.add(TaskId([1; 16]), "1".to_owned());
        story.handle_event(&event(EventKind::Started, 1, "ada"));
        assert_eq!(story.run_by("ada").len(), 1);
        story.handle_event(&event(EventKind::HolderLost, 1, "ada"));
        assert_eq!(story.count(TaskPhase::Unseen), 1);
        story.handle_event(&event(EventKind::Crashed, 1, "ada"));
        story.handle_event(&event(EventKind::Started, 2, "ben"));
        assert_eq!((story.run_by("ada").len(), story.run_by("ben").len()), (0, 1));
        story.handle_event(&event(EventKind::Completed, 2, "ben"));
        let part = story.part(TaskId([1; 16])).unwrap();
        assert_eq!((part.attempt, part.crashed, part.completed), (2, 1, 1));
        assert!(story.is_over());
    }

    #[test]
    fn other_peoples_tasks_are_not_part_of_it() {
        assert_eq!(Story::default().handle_event(&event(EventKind::Started, 1, "ada")), None);
    }
}
