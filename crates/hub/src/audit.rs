//! The audit log: which peer did what, from where, with which key, and with which outcome; one JSON object
//! per line.
//!
//! The hub adds a line when the act is on disk, so the log never claims what a crash undoes. Lines go through
//! a bounded queue to a writer thread: a slow or full disk under the log loses lines, which are counted, and
//! never blocks the hub.

mod act;
mod file;
mod line;
mod writer;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tenure_engine::{Name, Timestamp};

use crate::clock::wall_clock;
use crate::counters::Counters;
use crate::principal::Principal;
use crate::refusal::HubRefusal;
use crate::thread::start_thread;

pub(crate) use act::AuditAct;
pub use file::{AuditFile, LogFile};
pub(crate) use line::{AuditField, AuditLine, AuditOutcome, Who};
use writer::AuditWriter;

/// How many lines may wait for the writer thread. A line has at most a few kilobytes.
const LINES_WAITING_MAX: usize = 8_192;
/// How long a stopping broker waits for the last lines.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The location, size and level of the log.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    pub path: PathBuf,
    pub level: AuditLevel,
    /// A file that would grow beyond this is rotated.
    pub file_bytes_max: u64,
    /// The maximum number of files, including the current one.
    pub files_max: usize,
}

/// Which acts the audit log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// Acts of clients and administrators, workers that join and leave, and refused keys.
    #[default]
    Acts,
    /// Also the reports of workers on their tasks.
    All,
}

/// The log, as the hub and the doors see it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit {
    level: AuditLevel,
    lines: SyncSender<AuditMessage>,
    /// Lines that found the queue full, since the writer last reported them.
    dropped: Arc<AtomicU64>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
pub(crate) enum AuditMessage {
    Line(Box<AuditLine>),
    /// Write and sync everything before this, then confirm.
    Close(SyncSender<()>),
}

/// Why a peer was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The peer showed no key.
    NoKey,
    /// The broker does not know the key.
    WrongKey,
}

impl Audit {
    /// Opens the file, or creates it.
    pub fn open(settings: &AuditSettings) -> std::io::Result<Audit> {
        let file = AuditFile::open(&settings.path, settings.file_bytes_max, settings.files_max)?;
        Ok(Audit::with(Box::new(file), settings.level))
    }

    /// The same with any file, for example one that fails in a test.
    pub fn with(file: Box<dyn LogFile>, level: AuditLevel) -> Audit {
        let (lines, waiting) = sync_channel(LINES_WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counters = Arc::new(Counters::new("audit"));
        let mut writer = AuditWriter::new(file, Arc::clone(&dropped), Arc::clone(&counters));
        start_thread("tenure-audit", move || writer.run(&waiting));
        Audit { level, lines, dropped, counters }
    }

    /// The log's counters: lines written and lines lost.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// A door refused a request of an admitted peer. The hub logs its own refusals.
    pub fn refused(
        &self,
        principal: &Principal,
        namespace: Option<&Name>,
        act: &'static str,
        no: &HubRefusal,
    ) {
        let who = Who {
            namespace: namespace.or(principal.grant.namespace.as_ref()).cloned(),
            ..Who::of(principal)
        };
        self.add(AuditLine::new(wall_clock(), Some(who), act, AuditOutcome::of(no)));
    }

    /// A standby has written a backup, or refused it.
    pub fn backed_up(
        &self,
        principal: &Principal,
        identity: Name,
        directory: &str,
        outcome: Result<u64, (&'static str, String)>,
    ) {
        let who = Who {
            namespace: principal.grant.namespace.clone(),
            identity: Some(identity),
            ..Who::of(principal)
        };
        let (written, bytes) = match outcome {
            Ok(bytes) => (AuditOutcome::Done, i64::try_from(bytes).ok()),
            Err((code, why)) => (AuditOutcome::Refused { code, why }, None),
        };
        let mut line = AuditLine::new(wall_clock(), Some(who), "backup", written);
        line.fields.push(("directory", AuditField::Text(directory.into())));
        line.fields.extend(bytes.map(|bytes| ("bytes", AuditField::Number(bytes))));
        self.add(line);
    }

    /// A peer was not admitted.
    pub fn not_admitted(&self, now: Timestamp, door: &'static str, address: Option<IpAddr>, no: NotAdmitted) {
        let (code, why) = match no {
            NotAdmitted::NoKey => ("no-key", "no key was shown"),
            NotAdmitted::WrongKey => ("wrong-key", "the key is not known"),
        };
        let who = Who { door, address, ..Who::default() };
        let outcome = AuditOutcome::Refused { code, why: why.to_owned() };
        self.add(AuditLine::new(now, Some(who), "connect", outcome));
    }

    /// The configuration was reloaded: the names of the changed settings and of the added and removed keys.
    pub fn reloaded(&self, settings: &[&'static str], keys_added: &[Name], keys_removed: &[Name]) {
        let mut line = AuditLine::new(wall_clock(), None, "reload", AuditOutcome::Done);
        let settings = settings.iter().map(|key| Name::from(*key)).collect();
        for (name, list) in [
            ("settings", settings),
            ("keys_added", keys_added.to_vec()),
            ("keys_removed", keys_removed.to_vec()),
        ] {
            if !list.is_empty() {
                line.fields.push((name, AuditField::names(list)));
            }
        }
        self.add(line);
    }

    /// The configuration could not be reloaded.
    pub fn not_reloaded(&self, why: &str) {
        let outcome = AuditOutcome::Refused { code: "bad-configuration", why: why.to_owned() };
        self.add(AuditLine::new(wall_clock(), None, "reload", outcome));
    }

    /// The broker starts.
    pub fn started(&self, version: &str) {
        let mut line = AuditLine::new(wall_clock(), None, "start", AuditOutcome::Done);
        line.fields.push(("version", AuditField::Text(version.into())));
        self.add(line);
    }

    /// The broker stops: writes the last line. Waits until it is on disk, but not for a disk that hangs.
    pub fn stopped(&self) {
        self.add(AuditLine::new(wall_clock(), None, "stop", AuditOutcome::Done));
        let (done, is_done) = sync_channel(1);
        let mut message = AuditMessage::Close(done);
        let begun = std::time::Instant::now();
        while begun.elapsed() < CLOSE_TIMEOUT {
            match self.lines.try_send(message) {
                Ok(()) => {
                    let _ = is_done.recv_timeout(CLOSE_TIMEOUT);
                    return;
                }
                Err(TrySendError::Full(again)) => message = again,
                Err(TrySendError::Disconnected(_)) => return,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn level(&self) -> AuditLevel {
        self.level
    }

    /// Never blocks: a line that finds the queue full is counted, and the log reports how many were lost.
    pub(crate) fn add(&self, line: AuditLine) {
        self.add_boxed(Box::new(line));
    }

    pub(crate) fn add_boxed(&self, line: Box<AuditLine>) {
        if self.lines.try_send(AuditMessage::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
