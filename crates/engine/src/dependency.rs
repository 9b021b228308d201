//! Dependencies: what a task waits for before it may run.

use std::fmt;

use crate::id::TaskId;
use crate::name::Name;
use crate::state::StateName;

/// How a dependency has to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Condition {
    /// It is completed.
    #[default]
    Completed,
    /// In any way.
    Ended,
    /// It has failed.
    Failed,
    /// In any way, and the attempt that waits for it learns which. Only a running task waits like this, with
    /// `suspend`; a submission cannot ask for it.
    Waited,
}

impl Condition {
    /// The conditions that a submission can ask for.
    pub const ALL: [Condition; 3] = [Condition::Completed, Condition::Ended, Condition::Failed];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::Completed => "completed",
            Condition::Ended => "ended",
            Condition::Failed => "failed",
            Condition::Waited => "waited",
        }
    }

    /// The condition with this word.
    pub fn parse(text: &str) -> Option<Condition> {
        Condition::ALL.into_iter().find(|condition| condition.as_str() == text)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How to treat a task if one of its dependencies ends otherwise than it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnBroken {
    /// Cancel the dependent.
    #[default]
    Cancel,
    /// The task runs as if the dependency had ended as it should.
    Run,
    /// The task pauses, and a person decides.
    Hold,
}

impl OnBroken {
    /// All choices.
    pub const ALL: [OnBroken; 3] = [OnBroken::Cancel, OnBroken::Run, OnBroken::Hold];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            OnBroken::Cancel => "cancel",
            OnBroken::Run => "run",
            OnBroken::Hold => "hold",
        }
    }

    /// The choice with this word.
    pub fn parse(text: &str) -> Option<OnBroken> {
        OnBroken::ALL.into_iter().find(|policy| policy.as_str() == text)
    }
}

/// One dependency of a task, as the store keeps it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub task: TaskId,
    pub condition: Condition,
    pub progress: DependencyProgress,
}

/// How far a dependency is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DependencyProgress {
    /// The dependency has not ended.
    Open,
    /// It has ended as the dependent needs.
    Met,
    /// It ended otherwise. For [`Condition::Waited`]: it failed.
    Broken,
    /// Only for [`Condition::Waited`]: it was cancelled.
    Cancelled,
}

impl DependencyProgress {
    /// All of them.
    pub const ALL: [DependencyProgress; 4] = [
        DependencyProgress::Open,
        DependencyProgress::Met,
        DependencyProgress::Broken,
        DependencyProgress::Cancelled,
    ];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            DependencyProgress::Open => "open",
            DependencyProgress::Met => "met",
            DependencyProgress::Broken => "broken",
            DependencyProgress::Cancelled => "cancelled",
        }
    }
}

/// How a task ended that a suspended attempt waited for.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEnd {
    pub task: TaskId,
    /// One of the three ends.
    pub state: StateName,
}

/// The tasks, or the client, that a running task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitOn {
    /// These tasks.
    Tasks(Vec<TaskId>),
    /// Its children that have not ended, the oldest first, as many as one task may wait for.
    Children,
    /// A client that resumes it: the worker has stopped the attempt in place, as a pause asked for.
    Resume,
}

/// One dependency of a new task.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    pub task: AfterTask,
    pub condition: Condition,
}

/// The task that a new task waits for. It exists already, so dependencies cannot form a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTask {
    /// By its id.
    Id(TaskId),
    /// By its name.
    Name(Name),
    /// An earlier task of the same submission, counted from 0.
    Index(u32),
}

/// A dependency as people, doors and workers see it.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyInfo {
    pub task: TaskId,
    pub condition: Condition,
    pub progress: DependencyProgress,
    /// The name of the task, if the broker still knows it.
    pub name: Option<Name>,
    pub state: Option<StateName>,
    /// The size of its result.
    pub result_bytes: u32,
}
