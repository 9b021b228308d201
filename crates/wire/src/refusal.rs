//! A refusal: a stable code, a sentence for people, and the facts as fields.

use std::fmt;

use crate::Name;
use crate::id::TaskId;
use crate::schema::{message, words};
use crate::time::Timestamp;
use crate::words::StateName;

words! {
    /// The stable code of a refusal, the same through every door. `spec/errors.md` has a paragraph on each.
    pub enum Code {
        UnknownTask = "unknown-task",
        UnknownName = "unknown-name",
        NotAWorker = "not-a-worker",
        UnknownWorker = "unknown-worker",
        UnknownQueue = "unknown-queue",
        UnknownSchedule = "unknown-schedule",
        BadSchedule = "bad-schedule",
        UnknownHook = "unknown-hook",
        BadParent = "bad-parent",
        IdTaken = "id-taken",
        NameTaken = "name-taken",
        StaleAttempt = "stale-attempt",
        WrongState = "wrong-state",
        WorkerTaken = "worker-taken",
        BadName = "bad-name",
        BadValue = "bad-value",
        TooMany = "too-many",
        Full = "full",
        DiskFull = "disk-full",
        Draining = "draining",
        JournalAway = "journal-away",
        Deposed = "deposed",
        Elsewhere = "elsewhere",
        NotAllowed = "not-allowed",
        Trimmed = "trimmed",
        Unreadable = "unreadable",
        NoListener = "nobody-there",
        TooLate = "too-late",

        // Refusals of the door itself, before a request reaches the engine.
        /// This version does not know the message's kind.
        UnknownKind = "unknown-kind",
        /// The message's fields do not fit its kind.
        Malformed = "malformed",
        /// A request before `hello`.
        HelloFirst = "hello-first",
        /// A second `hello`.
        HelloAgain = "hello-again",
        /// No version of the protocol that both sides speak.
        BadVersion = "bad-version",
        /// A frame longer than the limit. The connection ends.
        TooLong = "too-long",
        /// The peer sent no `hello` in time, or did not read what was sent to it.
        TooSlow = "too-slow",
    }
}

message! {
    /// Why the broker refuses a request. Only the fields that belong to the code are set.
    pub struct Refusal {
        code: Code,
        /// A sentence for people.
        message: Box<str>,
        task: Option<TaskId>,
        name: Option<Name>,
        worker: Option<Name>,
        queue: Option<Name>,
        schedule: Option<Name>,
        hook: Option<Name>,
        /// The attempt that was presented.
        attempt: Option<u32>,
        /// The current attempt.
        current: Option<u32>,
        state: Option<StateName>,
        verb: Option<Box<str>>,
        /// The object of which there are too many, or that is full, wrong or not allowed.
        what: Option<Box<str>>,
        why: Option<Box<str>>,
        limit: Option<u64>,
        /// The first event that is still kept.
        oldest: Option<u64>,
        address: Option<Name>,
        deadline: Option<Timestamp>,
        /// The kind of message that is unknown or malformed.
        kind: Option<Box<str>>,
        /// The versions that the broker speaks.
        versions: Vec<u32>,
        /// Where the native door of another group is reached, the leader's first.
        addresses: Vec<Name>,
    }
}

impl Refusal {
    /// A refusal without further fields.
    pub fn new(code: Code, message: impl Into<Box<str>>) -> Refusal {
        Refusal {
            code,
            message: message.into(),
            task: None,
            name: None,
            worker: None,
            queue: None,
            schedule: None,
            hook: None,
            attempt: None,
            current: None,
            state: None,
            verb: None,
            what: None,
            why: None,
            limit: None,
            oldest: None,
            address: None,
            deadline: None,
            kind: None,
            versions: Vec::new(),
            addresses: Vec::new(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Refusal {}
