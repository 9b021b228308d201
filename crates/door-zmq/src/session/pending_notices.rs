//! Sends notices about jobs to a client: at once, collected after a delay, or as a replay after an absence.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{Event, EventFilter, Name, TaskId, Timestamp};
use tenure_hub::{Request, Watch};

use super::client::{MISSED, NOTICES, lookup};
use super::majordomo::{ReplyPurpose, SessionTurn};
use crate::mdp::{MdpDialect, NOTICE_JOBS_MAX, Notice, NoticeKind, Notify, ReturnPath, encode_notices};
use crate::translate;

/// Maximum number of replayed events in one reply.
const ANSWER_EVENTS_MAX: usize = 1_000;

/// Minimum time for collecting notices of kinds that come in bursts, so that the crash of a worker with many jobs is
/// one notice and not hundreds.
const STORM: Duration = Duration::from_millis(5);

/// Maximum number of collected notices; then they are sent at once.
const GATHERED_MAX: usize = 10_000;

/// How many events may wait for the names of their jobs.
const LOOKUPS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct PendingNotices {
    /// The return path to the client, if it wants notices.
    path: Option<ReturnPath>,
    /// The client has turned notices off, and gets none before it asks for them.
    is_muted: bool,
    /// Collected and not sent yet, oldest first.
    gathered: Vec<Notice>,
    tell_at: Option<Timestamp>,
    replay: Option<Replay>,
    /// Events whose jobs are being looked up, in order. No later notice overtakes the first of them.
    unnamed: VecDeque<Unnamed>,
    names: HashMap<TaskId, Option<Box<str>>>,
}

/// A pending reply to `mmi.notify`.
#[derive(Debug)]
struct Replay {
    watch: u64,
    path: ReturnPath,
    notices: Vec<Notice>,
    /// Set when everything was read: the number of the latest event.
    latest: Option<u64>,
    has_more: bool,
}

#[derive(Debug)]
struct Unnamed {
    watch: u64,
    event: Arc<Event>,
}

impl PendingNotices {
    /// A client of a dialect with notices has sent something: starts notices, unless it has turned them off.
    pub(super) fn begin_unless_muted(&mut self, path: &ReturnPath, turn: &mut SessionTurn<'_>) {
        if !self.is_muted {
            self.begin(path, turn);
        }
    }

    /// Starts notices for the client.
    fn begin(&mut self, path: &ReturnPath, turn: &mut SessionTurn<'_>) {
        if self.path.is_none() {
            watch(NOTICES, None, turn);
        }
        self.path = Some(path.clone());
    }

    /// Answers `mmi.notify`.
    pub(super) fn ask(&mut self, notify: Notify, path: ReturnPath, turn: &mut SessionTurn<'_>) {
        if self.replay.is_some() {
            return turn.send(path.mmi_reply(SERVICE, &[Bytes::from_static(b"409")]));
        }
        match notify {
            Notify::On { .. } => self.is_muted = false,
            Notify::Off => self.is_muted = true,
            Notify::After(_) => {}
        }
        let (number, from) = match notify {
            Notify::On { after: None } => {
                self.begin(&path, turn);
                (MISSED, None)
            }
            Notify::On { after: Some(after) } => {
                self.path = Some(path.clone());
                // The watch restarts at that event; what it delivers until it is live was missed.
                (NOTICES, Some(after.saturating_add(1)))
            }
            Notify::Off => {
                if self.path.take().is_some() {
                    turn.ask(Request::Unwatch { watch: NOTICES }, ReplyPurpose::Nothing);
                }
                self.gathered.clear();
                (MISSED, None)
            }
            Notify::After(after) => (MISSED, Some(after.saturating_add(1))),
        };
        self.replay =
            Some(Replay { watch: number, path, notices: Vec::new(), latest: None, has_more: false });
        watch(number, from, turn);
    }

    /// An event about a job. `job_id` is known for jobs of this connection, otherwise it has to be looked up.
    pub(super) fn event(
        &mut self,
        watch: u64,
        event: &Arc<Event>,
        job_id: Option<Option<&str>>,
        turn: &mut SessionTurn<'_>,
    ) {
        let Some(task) = event.task() else { return };
        let speaks_of_jobs = self.dialect(watch) == Some(MdpDialect::Pl);
        let would_tell = !translate::notices(event, None, turn.settings).is_empty();
        if !would_tell {
            return;
        }
        match job_id {
            Some(job_id) if self.unnamed.is_empty() => self.handle_event(watch, event, job_id, turn),
            None if !speaks_of_jobs && self.unnamed.is_empty() => self.handle_event(watch, event, None, turn),
            _ if self.unnamed.len() >= LOOKUPS_MAX => self.handle_event(watch, event, None, turn),
            known => {
                self.unnamed.push_back(Unnamed { watch, event: Arc::clone(event) });
                match known {
                    Some(job_id) => {
                        self.names.insert(task, job_id.map(Into::into));
                    }
                    None if !self.names.contains_key(&task) => lookup(task, turn),
                    None => {}
                }
            }
        }
    }

    /// Whether the lookup of this task's job is pending.
    pub(super) fn looks_up(&self, task: TaskId) -> bool {
        self.unnamed.iter().any(|unnamed| unnamed.event.task() == Some(task))
    }

    pub(super) fn looked_up(&mut self, task: TaskId, job_id: Option<&str>, turn: &mut SessionTurn<'_>) {
        self.names.insert(task, job_id.map(Into::into));
        while let Some(first) = self.unnamed.front() {
            let Some(job_id) = first.event.task().and_then(|task| self.names.get(&task).cloned()) else {
                break;
            };
            if let Some(Unnamed { watch, event }) = self.unnamed.pop_front() {
                self.handle_event(watch, &event, job_id.as_deref(), turn);
            }
        }
        if self.unnamed.is_empty() {
            self.names.clear();
        }
        self.answer(turn);
    }

    /// Older events are gone.
    pub(super) fn gap(&mut self, watch: u64, from: u64, oldest: u64, turn: &mut SessionTurn<'_>) {
        let notice = translate::gap_notice(turn.now.wall, from, oldest);
        match &mut self.replay {
            Some(replay) if replay.watch == watch => replay.notices.push(notice),
            _ => self.add(notice, turn),
        }
    }

    /// The replay is complete.
    pub(super) fn live(&mut self, watch: u64, next: u64, turn: &mut SessionTurn<'_>) {
        let Some(replay) = self.replay.as_mut().filter(|replay| replay.watch == watch) else { return };
        replay.latest = Some(next.saturating_sub(1));
        if watch == MISSED {
            turn.ask(Request::Unwatch { watch }, ReplyPurpose::Nothing);
        }
        self.answer(turn);
    }

    /// Collects a notice for a client that wants notices.
    pub(super) fn add(&mut self, notice: Notice, turn: &SessionTurn<'_>) {
        if self.path.is_none() {
            return;
        }
        let timeout = match notice.kind {
            NoticeKind::WorkerCrashed | NoticeKind::JobFailed | NoticeKind::JobCancelled => {
                turn.settings.crash_notification_delay.max(STORM)
            }
            NoticeKind::NoWorkers | NoticeKind::JobExpired | NoticeKind::JobRefused | NoticeKind::Gap => {
                turn.settings.crash_notification_delay
            }
        };
        self.tell_at = Some(self.tell_at.unwrap_or(Timestamp::NEVER).min(turn.now.steady + timeout));
        self.gathered.push(notice);
        if self.gathered.len() >= GATHERED_MAX {
            self.tell_at = Some(turn.now.steady);
        }
    }

    /// Sends the collected notices, if it is time: notices of one kind together, the kinds in order of their first
    /// notice.
    pub(super) fn send_notices(&mut self, turn: &mut SessionTurn<'_>) {
        if self.tell_at.is_none_or(|at| at > turn.now.steady) {
            return;
        }
        self.tell_at = None;
        let Some(path) = &self.path else { return };
        for same in by_kind(std::mem::take(&mut self.gathered)) {
            for part in same.chunks(NOTICE_JOBS_MAX) {
                turn.send(path.notice(turn.settings.notice_slot, part));
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.tell_at
    }

    /// Handles an event whose job id is known.
    fn handle_event(&mut self, watch: u64, event: &Event, job_id: Option<&str>, turn: &mut SessionTurn<'_>) {
        for notice in translate::notices(event, job_id, turn.settings) {
            match &mut self.replay {
                Some(replay)
                    if replay.watch == watch && replay.latest.is_none_or(|latest| event.seq <= latest) =>
                {
                    if replay.notices.len() < ANSWER_EVENTS_MAX {
                        replay.notices.push(notice);
                    } else {
                        replay.has_more = true;
                    }
                }
                _ => self.add(notice, turn),
            }
        }
    }

    /// Sends the reply if everything is read and every job has its id.
    fn answer(&mut self, turn: &mut SessionTurn<'_>) {
        let is_complete = self.replay.as_ref().is_some_and(|replay| {
            replay.latest.is_some() && !self.unnamed.iter().any(|unnamed| unnamed.watch == replay.watch)
        });
        if !is_complete {
            return;
        }
        let Some(replay) = self.replay.take() else { return };
        let code: &'static [u8] = if replay.has_more { b"206" } else { b"200" };
        let latest = match replay.notices.last() {
            Some(last) if replay.has_more => last.event,
            _ => replay.latest.unwrap_or_default(),
        };
        let mut frames = vec![Bytes::from_static(code), Bytes::from(latest.to_string())];
        frames.extend(replay.notices.chunks(1).map(encode_notices));
        turn.send(replay.path.mmi_reply(SERVICE, &frames));
    }

    fn dialect(&self, watch: u64) -> Option<MdpDialect> {
        match (&self.replay, &self.path) {
            (Some(replay), _) if replay.watch == watch => Some(replay.path.dialect),
            (_, path) => path.as_ref().map(|path| path.dialect),
        }
    }
}

const SERVICE: &str = "mmi.notify";

/// Many workers that die for the last time leave a crash and a failure for each job, alternating.
fn by_kind(notices: Vec<Notice>) -> Vec<Vec<Notice>> {
    let mut kinds: Vec<Vec<Notice>> = Vec::new();
    for notice in notices {
        match kinds.iter_mut().find(|same| same[0].kind == notice.kind) {
            Some(same) => same.push(notice),
            None => kinds.push(vec![notice]),
        }
    }
    kinds
}

fn watch(number: u64, from: Option<u64>, turn: &mut SessionTurn<'_>) {
    let filter = EventFilter {
        submitter: Some(turn.me.name.clone()),
        kinds: translate::NOTICE_KINDS.map(Name::from).to_vec(),
        ..EventFilter::default()
    };
    turn.ask(Request::Watch(Watch { watch: number, filter, from }), ReplyPurpose::Nothing);
}
