//! Statistics of the broker for people and monitoring systems. The hub is the only writer, so they are plain
//! numbers.

use tenure_engine::command::{Gauges, QueueGauge};
use tenure_engine::event::{EventData, LostReason, Next};
use tenure_engine::record::StateChange;
use tenure_engine::{Name, StateName, TaskState, Timestamp};
use tenure_topics::ShardStats;

use crate::counters::{DoorConnections, DoorCount};
use crate::histogram::{BATCH_BYTES, Histogram, SYNC_SECONDS, TASK_SECONDS};
use crate::hooks::HookInfo;
use crate::leader_status::LeaderStatus;
use crate::metrics::waits;
use crate::queue_flow::{QueueFlow, QueueFlows};

/// The queue that stands for all that are not shown one by one, and its namespace.
const OTHERS: &str = "(others)";

/// The figures of the broker, as metrics show them.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    pub started_at_millis: u64,
    pub sessions: u64,
    pub requests_total: u64,
    pub refusals_total: u64,
    pub stale_refusals_total: u64,
    pub submitted_total: u64,
    pub assigned_total: u64,
    pub started_total: u64,
    pub completed_total: u64,
    pub failed_total: u64,
    pub cancelled_total: u64,
    pub leases_expired_total: u64,
    /// Attempts that crashed. Indexed by [`LostReason::ALL`].
    pub crashes_total: [u64; 6],
    /// Workers that were lost, whatever they held. Indexed by [`LostReason::ALL`].
    pub workers_lost_total: [u64; 6],
    /// Attempts that are over. Indexed by [`AttemptOutcome::ALL`].
    pub attempts_total: [u64; 8],
    pub taken_back_total: u64,
    pub quarantines_total: u64,
    pub backlogs_total: u64,
    pub batches_total: u64,
    pub synced_bytes_total: u64,
    pub sync_seconds_total: f64,
    pub sync_seconds_max: f64,
    pub watches_lagged_total: u64,
    pub calls_total: u64,
    pub broadcasts_total: u64,
    pub turns_total: u64,
    pub journal_bytes: u64,
    /// `None` if it is not known, or not for the key of the session.
    pub disk_free_bytes: Option<u64>,
    pub disk_full: bool,
    /// The replicated journal does not answer.
    pub journal_away: bool,
    /// Acknowledged bytes that the replicated journal had lost and got back.
    pub refilled_bytes_total: u64,
    /// The leader of a group.
    pub leader: Option<LeaderStatus>,
    pub recovery_seconds: f64,
    pub tasks: u64,
    /// Tasks by state, the oldest waiting task, limits in use.
    pub gauges: Gauges,
    pub oldest_ready_seconds: f64,
    pub last_event: u64,
    /// The counters of the doors, and their connections.
    pub doors: Vec<DoorCount>,
    pub connections: Vec<DoorConnections>,
    pub hooks: Vec<HookInfo>,
    /// How long tasks were ready before a worker got them, how long attempts ran, and how long tasks took from their
    /// submission to their end.
    pub wait: Histogram,
    pub run: Histogram,
    pub end_to_end: Histogram,
    /// The time and the bytes of each sync.
    pub sync_seconds: Histogram,
    pub batch_bytes: Histogram,
    /// The largest queues, and the sum of the others.
    pub queues: Vec<QueueFigures>,
    /// Pub/sub, as of the reaper's last round.
    pub topics: ShardStats,
    /// `always`, `interval` or `os`: how durable an acknowledgement is.
    pub sync: &'static str,
}

impl Stats {
    /// Counts an event when it is decided.
    pub(crate) fn count(&mut self, kind: &EventData) {
        match kind {
            EventData::Submitted { .. } => self.submitted_total += 1,
            EventData::Assigned { .. } => self.assigned_total += 1,
            EventData::Started { .. } => self.started_total += 1,
            EventData::Completed { .. } => self.completed_total += 1,
            EventData::Failed { next: Next::Failed, .. } | EventData::Expired => self.failed_total += 1,
            EventData::Cancelled { .. } => self.cancelled_total += 1,
            EventData::WorkerLost { reason } => self.workers_lost_total[index_of(*reason)] += 1,
            EventData::TakenBack { .. } => self.taken_back_total += 1,
            EventData::WorkerQuarantined { .. } => self.quarantines_total += 1,
            EventData::QueueBacklog { .. } => self.backlogs_total += 1,
            EventData::Crashed { reason, next, .. } => {
                self.leases_expired_total += u64::from(*reason != LostReason::WorkerSaidSo);
                self.crashes_total[index_of(*reason)] += 1;
                self.failed_total += u64::from(*next == Next::Failed);
                self.cancelled_total += u64::from(*next == Next::Cancelled);
            }
            _ => {}
        }
    }

    /// Counts a change of state: how long the task waited, ran, and took in all.
    pub(crate) fn changed(&mut self, change: &StateChange<'_>) {
        let (before, next) = (change.before, change.next.name());
        if let TaskState::Ready { since } = before
            && next == StateName::Assigned
        {
            self.wait.observe(change.now.since(*since).as_secs_f64());
        }
        if before.name().is_held() && !next.is_held() {
            self.attempts_total[AttemptOutcome::of(change.kind) as usize] += 1;
            if let Some(started_at) = before.holding().and_then(|holding| holding.started_at) {
                self.run.observe(change.now.since(started_at).as_secs_f64());
            }
        }
        if next.has_ended() {
            self.end_to_end.observe(change.now.since(change.submitted_at).as_secs_f64());
        }
    }

    /// Counts a sync of the journal.
    pub(crate) fn synced(&mut self, bytes: u64, seconds: f64) {
        self.synced_bytes_total += bytes;
        self.sync_seconds_total += seconds;
        self.sync_seconds_max = self.sync_seconds_max.max(seconds);
        self.sync_seconds.observe(seconds);
        self.batch_bytes.observe(bytes as f64);
    }
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            started_at_millis: 0,
            sessions: 0,
            requests_total: 0,
            refusals_total: 0,
            stale_refusals_total: 0,
            submitted_total: 0,
            assigned_total: 0,
            started_total: 0,
            completed_total: 0,
            failed_total: 0,
            cancelled_total: 0,
            leases_expired_total: 0,
            crashes_total: [0; 6],
            workers_lost_total: [0; 6],
            attempts_total: [0; 8],
            taken_back_total: 0,
            quarantines_total: 0,
            backlogs_total: 0,
            batches_total: 0,
            synced_bytes_total: 0,
            sync_seconds_total: 0.0,
            sync_seconds_max: 0.0,
            watches_lagged_total: 0,
            calls_total: 0,
            broadcasts_total: 0,
            turns_total: 0,
            journal_bytes: 0,
            disk_free_bytes: None,
            disk_full: false,
            journal_away: false,
            refilled_bytes_total: 0,
            leader: None,
            recovery_seconds: 0.0,
            tasks: 0,
            gauges: Gauges::default(),
            oldest_ready_seconds: 0.0,
            last_event: 0,
            doors: Vec::new(),
            connections: Vec::new(),
            hooks: Vec::new(),
            wait: Histogram::new(TASK_SECONDS),
            run: Histogram::new(TASK_SECONDS),
            end_to_end: Histogram::new(TASK_SECONDS),
            sync_seconds: Histogram::new(SYNC_SECONDS),
            batch_bytes: Histogram::new(BATCH_BYTES),
            queues: Vec::new(),
            topics: ShardStats::default(),
            sync: "",
        }
    }
}

pub(crate) fn index_of(reason: LostReason) -> usize {
    LostReason::ALL.iter().position(|known| *known == reason).expect("every reason is listed")
}

/// How an attempt ended.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    Completed,
    Failed,
    Crashed,
    GivenBack,
    TakenBack,
    Cancelled,
    Paused,
    Expired,
}

impl AttemptOutcome {
    /// All outcomes.
    pub const ALL: [AttemptOutcome; 8] = [
        AttemptOutcome::Completed,
        AttemptOutcome::Failed,
        AttemptOutcome::Crashed,
        AttemptOutcome::GivenBack,
        AttemptOutcome::TakenBack,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Paused,
        AttemptOutcome::Expired,
    ];

    /// Its word in every protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            AttemptOutcome::Completed => "completed",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Crashed => "crashed",
            AttemptOutcome::GivenBack => "given-back",
            AttemptOutcome::TakenBack => "taken-back",
            AttemptOutcome::Cancelled => "cancelled",
            AttemptOutcome::Paused => "paused",
            AttemptOutcome::Expired => "expired",
        }
    }

    /// The outcome that an event stands for.
    pub(crate) fn of(kind: &EventData) -> AttemptOutcome {
        match kind {
            EventData::Completed { .. } => AttemptOutcome::Completed,
            EventData::Failed { .. } => AttemptOutcome::Failed,
            EventData::Crashed { .. } => AttemptOutcome::Crashed,
            EventData::GivenBack { .. } => AttemptOutcome::GivenBack,
            EventData::Cancelled { .. } => AttemptOutcome::Cancelled,
            EventData::Paused { .. } => AttemptOutcome::Paused,
            EventData::Expired => AttemptOutcome::Expired,
            // Everything else that unassigns a task does so before its worker has begun.
            _ => AttemptOutcome::TakenBack,
        }
    }
}

/// Figures of one queue, or of all that are not shown one by one.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq)]
pub struct QueueFigures {
    pub namespace: Name,
    pub queue: Name,
    /// Indexed by `StateName`.
    pub by_state: [u64; StateName::COUNT],
    pub oldest_ready_seconds: f64,
    /// `None` for the sum of many queues, as are the next ones.
    pub live_workers: Option<u32>,
    pub paused: Option<bool>,
    pub arrival_rate: Option<f64>,
    /// For the waits of [`waits`].
    pub slots_needed: [u64; 3],
    pub flow: QueueFlow,
}

impl QueueFigures {
    pub(crate) fn new(now: Timestamp, gauge: &QueueGauge, flow: QueueFlow) -> QueueFigures {
        let count = |state: StateName| gauge.by_state[state as usize];
        let held = count(StateName::Assigned) + count(StateName::Running);
        let slots = |wait| flow.slots_needed(now, count(StateName::Ready), held, wait);
        QueueFigures {
            namespace: gauge.namespace.clone(),
            queue: gauge.queue.clone(),
            by_state: gauge.by_state,
            oldest_ready_seconds: gauge.oldest_ready.map_or(0.0, |at| now.since(at).as_secs_f64()),
            live_workers: Some(gauge.live_workers),
            paused: Some(gauge.paused),
            arrival_rate: Some(flow.arrival_rate(now)),
            slots_needed: waits().map(slots),
            flow,
        }
    }

    /// The figures of the queues that are shown, and the sum of the others, if there are others.
    pub(crate) fn all(now: Timestamp, gauges: &Gauges, flows: &QueueFlows) -> Vec<QueueFigures> {
        let mut shown: Vec<QueueFigures> = gauges
            .queues
            .iter()
            .map(|gauge| QueueFigures::new(now, gauge, flows.of(&gauge.namespace, &gauge.queue)))
            .collect();
        if gauges.queue_count > shown.len() {
            let mut by_state = gauges.by_state;
            let mut flow = flows.total();
            for queue in &shown {
                by_state.iter_mut().zip(queue.by_state).for_each(|(sum, count)| *sum -= count);
                flow.subtract(&queue.flow);
            }
            shown.push(QueueFigures {
                namespace: OTHERS.into(),
                queue: OTHERS.into(),
                by_state,
                oldest_ready_seconds: 0.0,
                live_workers: None,
                paused: None,
                arrival_rate: None,
                slots_needed: [0; 3],
                flow,
            });
        }
        shown
    }

    /// How many tasks are ready.
    pub fn ready(&self) -> u64 {
        self.by_state[StateName::Ready as usize]
    }

    pub(crate) fn labels(&self) -> [(&'static str, &str); 2] {
        [("namespace", &self.namespace), ("queue", &self.queue)]
    }
}
