//! Rights: what a key may do, and which right each request needs.
//!
//! The hub itself refuses a request without the right for it, so no door can forget the check.

use tenure_engine::{Command, Refusal};

use crate::refusal::HubRefusal;
use crate::request::Request;
use crate::topics::event_prefix;

/// One right of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Right {
    /// Submit tasks and control them: cancel, pause, resume, retry, move.
    Submit,
    /// Read tasks, bodies, results, events, queues, workers and statistics.
    Read,
    /// Register as a worker, take tasks and report on them.
    Work,
    /// Set limits, pause queues, drain and clear workers, challenge workers.
    Manage,
    /// Copy the whole store, including all namespaces.
    Backup,
}

impl Right {
    /// All rights.
    pub const ALL: [Right; 5] = [Right::Submit, Right::Read, Right::Work, Right::Manage, Right::Backup];

    /// The name in configuration files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Right::Submit => "submit",
            Right::Read => "read",
            Right::Work => "work",
            Right::Manage => "manage",
            Right::Backup => "backup",
        }
    }

    /// The right with this word.
    pub fn find(word: &str) -> Option<Right> {
        Right::ALL.into_iter().find(|right| right.as_str() == word)
    }
}

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// All rights.
    pub const ALL: Rights = Rights(0b1_1111);

    /// These rights.
    pub const fn of(rights: &[Right]) -> Rights {
        let mut set = Rights::NONE;
        let mut index = 0;
        while index < rights.len() {
            set = set.with(rights[index]);
            index += 1;
        }
        set
    }

    /// With one more right.
    #[must_use]
    pub const fn with(self, right: Right) -> Rights {
        Rights(self.0 | 1 << right as u8)
    }

    /// Without this right.
    #[must_use]
    pub const fn without(self, right: Right) -> Rights {
        Rights(self.0 & !(1 << right as u8))
    }

    /// Whether the right is among them.
    pub const fn contains(self, right: Right) -> bool {
        self.0 & (1 << right as u8) != 0
    }

    /// The rights one by one.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.contains(*right))
    }

    /// Whether these rights suffice.
    pub const fn suffice(self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Right(right) => self.contains(right),
            Needs::SubmitOrWork => self.contains(Right::Submit) || self.contains(Right::Work),
            Needs::ReadSubmitOrWork => {
                self.contains(Right::Read) || self.contains(Right::Submit) || self.contains(Right::Work)
            }
        }
    }

    /// Refuses what these rights do not allow.
    pub const fn check(self, needs: Needs) -> Result<(), HubRefusal> {
        if self.suffice(needs) {
            Ok(())
        } else {
            Err(HubRefusal::Engine(Refusal::NotAllowed { what: needs.what() }))
        }
    }
}

impl std::fmt::Debug for Rights {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.iter().map(Right::as_str)).finish()
    }
}

/// The rights that an act needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Every admitted peer may do it.
    Nothing,
    /// This right.
    Right(Right),
    /// Talk to other peers: either of the two rights.
    SubmitOrWork,
    /// Read what such peers leave for each other: any of the three rights.
    ReadSubmitOrWork,
}

impl Needs {
    /// Completes "this key may not …".
    const fn what(self) -> &'static str {
        match self {
            Needs::Nothing => "do nothing",
            Needs::Right(Right::Submit) => "submit and steer tasks",
            Needs::Right(Right::Read) => "read tasks, results and events",
            Needs::Right(Right::Work) => "work",
            Needs::Right(Right::Manage) => "manage the broker",
            Needs::Right(Right::Backup) => "make backups",
            Needs::SubmitOrWork => "talk to other peers",
            Needs::ReadSubmitOrWork => "read keys",
        }
    }
}

impl Request {
    /// The right that this request needs.
    pub fn needs(&self) -> Needs {
        match self {
            Request::Submit(_) | Request::SubmitArray(_) => Needs::Right(Right::Submit),
            Request::Reconcile(page) if page.apply => Needs::Right(Right::Submit),
            Request::Reconcile(_) => Needs::Right(Right::Read),
            Request::Complete(_)
            | Request::Fail { .. }
            | Request::Checkpoint { .. }
            | Request::AppendLog { .. }
            | Request::Confirm { .. } => Needs::Right(Right::Work),
            Request::Command(command) => command_needs(command),
            Request::Query(_)
            | Request::Logs { .. }
            | Request::Stats
            | Request::Watch(_)
            | Request::Hooks
            | Request::Undelivered { .. } => Needs::Right(Right::Read),
            Request::Redeliver { .. } => Needs::Right(Right::Manage),
            Request::Listen { .. }
            | Request::Unlisten { .. }
            | Request::Call { .. }
            | Request::GiveUpCall { .. }
            | Request::CallAnswer { .. }
            | Request::ReceiveBroadcasts { .. }
            | Request::Broadcast(_) => Needs::SubmitOrWork,
            Request::Backup { .. } => Needs::Right(Right::Backup),
            Request::ShowCounters(_) | Request::Unwatch { .. } | Request::Refused { .. } => Needs::Nothing,
        }
    }
}

fn command_needs(command: &Command) -> Needs {
    match command {
        Command::Submit(_)
        | Command::SubmitArray(_)
        | Command::LimitArray { .. }
        | Command::Release { .. }
        | Command::Cancel { .. }
        | Command::Pause { .. }
        | Command::Resume { .. }
        | Command::Retry { .. }
        | Command::Move { .. }
        | Command::Abandon(_)
        | Command::SetSchedule(_)
        | Command::PauseSchedule { .. }
        | Command::ResumeSchedule { .. }
        | Command::RemoveSchedule { .. }
        | Command::RunSchedule { .. } => Needs::Right(Right::Submit),
        Command::SetLimit { .. }
        | Command::SetTagRate { .. }
        | Command::SetQueueRate { .. }
        | Command::SetShare { .. }
        | Command::PauseQueue { .. }
        | Command::ResumeQueue { .. }
        | Command::SetThresholds { .. }
        | Command::DrainWorker { .. }
        | Command::ClearWorker { .. } => Needs::Right(Right::Manage),
        Command::Register(_)
        | Command::Heartbeat { .. }
        | Command::Start(_)
        | Command::Progress { .. }
        | Command::Checkpoint { .. }
        | Command::Suspend { .. }
        | Command::Complete(_)
        | Command::Fail(_)
        | Command::Confirm { .. }
        | Command::GiveBack { .. }
        | Command::Ask { .. }
        | Command::Unask
        | Command::Undelivered { .. }
        | Command::Forgotten(_)
        | Command::Drain
        | Command::Leave => Needs::Right(Right::Work),
        Command::SessionClosed => Needs::Nothing,
    }
}

/// An act of a peer on topics. Topics are shared memory beside the hub, so doors check the right themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicAct {
    /// Publish a message.
    Publish,
    /// Subscribe to topics, or answer requests on them.
    Subscribe,
    /// Subscribe to the broker's own events of tasks, queues and workers.
    SubscribeToEvents,
    /// Pause, resume or end a subscription.
    ChangeSubscription,
    /// Publish a message and wait for answers.
    Request,
    /// List topics and subscriptions.
    List,
}

impl TopicAct {
    /// All acts.
    pub const ALL: [TopicAct; 6] = [
        TopicAct::Publish,
        TopicAct::Subscribe,
        TopicAct::SubscribeToEvents,
        TopicAct::ChangeSubscription,
        TopicAct::Request,
        TopicAct::List,
    ];

    /// The name in the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopicAct::Publish => "publish",
            TopicAct::Subscribe | TopicAct::SubscribeToEvents => "subscribe",
            TopicAct::ChangeSubscription => "change-subscription",
            TopicAct::Request => "request",
            TopicAct::List => "list-topics",
        }
    }

    /// The act of subscribing to these topics or patterns.
    pub fn subscribe_to<'a>(mut filters: impl Iterator<Item = &'a str>) -> TopicAct {
        if filters.any(|filter| event_prefix(filter).is_some()) {
            TopicAct::SubscribeToEvents
        } else {
            TopicAct::Subscribe
        }
    }

    /// The right that this act needs.
    pub const fn needs(self) -> Needs {
        match self {
            TopicAct::Publish | TopicAct::Subscribe | TopicAct::ChangeSubscription | TopicAct::Request => {
                Needs::SubmitOrWork
            }
            TopicAct::SubscribeToEvents | TopicAct::List => Needs::Right(Right::Read),
        }
    }
}

/// An act of a peer on keys. Keys are shared memory beside the hub, as topics are, so doors check the right
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyspaceAct {
    /// Read a stored key.
    Read,
    /// Change a stored key.
    Write,
}

impl KeyspaceAct {
    /// Both acts.
    pub const ALL: [KeyspaceAct; 2] = [KeyspaceAct::Read, KeyspaceAct::Write];

    /// The right that this act needs. A program that may write can read anything by moving it, so write
    /// access includes read access. Workers have both, because existing workers keep their own keys.
    pub const fn needs(self) -> Needs {
        match self {
            KeyspaceAct::Read => Needs::ReadSubmitOrWork,
            KeyspaceAct::Write => Needs::SubmitOrWork,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = Rights::of(&[Right::Submit, Right::Backup]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Right::Submit, Right::Backup]);
        assert_eq!(set.without(Right::Submit), Rights::of(&[Right::Backup]));
        assert_eq!(Rights::of(&Right::ALL), Rights::ALL);
        assert_eq!(format!("{set:?}"), r#"{"submit", "backup"}"#);
        assert!(Right::ALL.into_iter().all(|right| Right::find(right.as_str()) == Some(right)));
    }

    #[test]
    fn either_right_is_enough_to_talk_to_others_and_a_refusal_names_the_right() {
        assert!(Rights::of(&[Right::Work]).suffice(Needs::SubmitOrWork));
        assert!(Rights::of(&[Right::Submit]).suffice(Needs::SubmitOrWork));
        let refusal = Rights::of(&[Right::Read]).check(Needs::SubmitOrWork).unwrap_err();
        assert_eq!(refusal.to_string(), "this key may not talk to other peers");
        assert!(Rights::NONE.suffice(Needs::Nothing));
    }
}
