//! Defaults for peers that send only their role and a record id.

use tenure_hub::words::{Name, OnLost};

/// What the dialect does not say about workers and tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmessageSettings {
    /// How many tasks a worker gets at once.
    pub slots: u32,
    /// The types of tasks that a worker runs.
    pub task_types: Vec<Name>,
    /// The priority of each task.
    pub priority: i32,
    /// The tags of each task.
    pub tags: Vec<Name>,
    /// What happens to a running task when its worker is lost.
    pub on_lost: OnLost,
}

impl Default for XmessageSettings {
    fn default() -> XmessageSettings {
        XmessageSettings {
            slots: 200,
            task_types: vec!["sync".into(), "async".into()],
            priority: 0,
            tags: Vec::new(),
            on_lost: OnLost::Pause,
        }
    }
}
