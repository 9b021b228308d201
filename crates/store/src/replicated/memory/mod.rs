//! A replicated journal in memory, with the faults of a real one. Calls are cut before they arrive; are done
//! while the answer is lost; arrive late, after those of other sessions; are committed on the primary alone and
//! vanish at the next failover. The simulated database is away for a while, and a failover to a standby that lags loses
//! what was acknowledged.
//!
//! Everything follows from a seed, so a failing run can be repeated.

mod session;
mod state;

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tenure_engine::Timestamp;

use self::session::MemorySession;
use self::state::{JournalState, Statement};
use super::mutation::mistaken;
use super::{ReplicatedJournal, ReplicatedSession, ReplicationError, ReplicationMutation, Stream};
use crate::random::Random;

/// The chance of each fault per call, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFaults {
    /// The statement does not arrive.
    pub cut: u64,
    /// It is done, and the answer is lost.
    pub answer_lost: u64,
    /// The connection breaks, and the statement arrives later.
    pub late: u64,
    /// It is committed on the primary alone, and the session learns it.
    pub doubt: u64,
}

/// A handle: clones share the same journal.
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    shared: Arc<Mutex<Inner>>,
    thawed: Arc<Condvar>,
}

#[derive(Debug)]
struct Inner {
    now: Timestamp,
    random: Random,
    faults: JournalFaults,
    away_until: Timestamp,
    /// After this many more calls it is away until then.
    leaves_after: Option<(u64, Timestamp)>,
    /// The primary.
    current: JournalState,
    /// The state that every standby has, and the states before the last acknowledged appends.
    replicated: JournalState,
    earlier: Vec<JournalState>,
    late: Vec<Statement>,
    /// The primary has committed what no standby has.
    is_ahead: bool,
    /// Sessions that were opened before the last failover are cut.
    generation: u64,
    mutation: Option<ReplicationMutation>,
    statements: u64,
    /// Calls wait.
    is_frozen: bool,
}

/// How many acknowledged appends a lagging standby may lack.
const LAG_MAX: usize = 4;
/// The chance, at each later call, that a late statement arrives.
const ARRIVES_PERCENT: u64 = 6;

impl MemoryJournal {
    /// An empty journal; its faults follow from the seed.
    pub fn new(seed: u64) -> MemoryJournal {
        MemoryJournal {
            shared: Arc::new(Mutex::new(Inner {
                now: Timestamp::ZERO,
                random: Random::new(seed),
                faults: JournalFaults::default(),
                away_until: Timestamp::ZERO,
                leaves_after: None,
                current: JournalState::default(),
                replicated: JournalState::default(),
                earlier: Vec::new(),
                late: Vec::new(),
                is_ahead: false,
                generation: 0,
                mutation: None,
                statements: 0,
                is_frozen: false,
            })),
            thawed: Arc::default(),
        }
    }

    /// Makes a deliberate mistake; does nothing without the feature `mutations`.
    pub fn mistake(&self, mutation: Option<ReplicationMutation>) {
        self.inner().mutation = mutation;
    }

    /// Sets the clock of the journal.
    pub fn set_now(&self, now: Timestamp) {
        self.inner().now = now;
    }

    /// Sets how often each fault happens.
    pub fn set_faults(&self, faults: JournalFaults) {
        self.inner().faults = faults;
    }

    /// Answers nothing until this moment.
    pub fn go_away_until(&self, until: Timestamp) {
        let mut inner = self.inner();
        inner.away_until = inner.away_until.max(until);
        inner.generation += 1;
    }

    /// The same, from the middle of what a session does: after this many more calls.
    pub fn go_away_after(&self, calls: u64, until: Timestamp) {
        self.inner().leaves_after = Some((calls, until));
    }

    /// Calls get no answer and no error until the journal thaws, as with a server that is stopped.
    pub fn freeze(&self, is_frozen: bool) {
        self.inner().is_frozen = is_frozen;
        self.thawed.notify_all();
    }

    /// Promotes a standby that has everything acknowledged. What was committed on the primary alone vanishes.
    pub fn fail_over(&self) {
        let mut inner = self.inner();
        inner.current = inner.replicated.clone();
        inner.is_ahead = false;
        inner.generation += 1;
    }

    /// Promotes a standby that lacks up to this many acknowledged appends of the current leader.
    pub fn fail_over_losing(&self, appends: usize) {
        let mut inner = self.inner();
        let lost = appends.min(inner.earlier.len());
        if lost > 0 {
            let kept = inner.earlier.len() - lost;
            let lagging = inner.earlier[kept].clone();
            inner.replicated = inner.replicated.with_rows_of(lagging);
            inner.earlier.truncate(kept);
        }
        inner.current = inner.replicated.clone();
        inner.is_ahead = false;
        inner.leaves_after = None;
        inner.generation += 1;
    }

    /// Where a stream ends.
    pub fn end(&self, stream: Stream) -> u64 {
        self.inner().current.end(stream).position
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.inner().current.epoch
    }

    /// The last leader's name and process.
    pub fn holder(&self) -> Option<(String, u64)> {
        let inner = self.inner();
        let state = inner.current.look(inner.now);
        state.holder.map(|name| (name, state.instance))
    }

    /// Whether the primary has committed what no standby has, so that a failover loses it.
    pub fn is_ahead(&self) -> bool {
        self.inner().is_ahead
    }

    /// Whether it answers nothing.
    pub fn is_away(&self) -> bool {
        let inner = self.inner();
        inner.now < inner.away_until
    }

    /// How long the lease of the leader still lasts.
    pub fn lease_left(&self) -> Duration {
        let inner = self.inner();
        inner.current.look(inner.now).lease_left
    }

    /// How many statements it has executed.
    pub fn statements(&self) -> u64 {
        self.inner().statements
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.lock().expect("no holder of the lock panics")
    }

    /// The same for a call of a session.
    fn answering(&self) -> MutexGuard<'_, Inner> {
        let answering = self.thawed.wait_while(self.inner(), |inner| inner.is_frozen);
        answering.expect("no holder of the lock panics")
    }
}

impl ReplicatedJournal for MemoryJournal {
    fn connect(&self) -> Result<Box<dyn ReplicatedSession>, ReplicationError> {
        let mut inner = self.answering();
        let cut = inner.faults.cut;
        if inner.now < inner.away_until || inner.happens(cut) {
            return Err(ReplicationError::Away("nothing listens".into()));
        }
        let generation = inner.generation;
        Ok(Box::new(MemorySession::new(self.clone(), generation)))
    }
}

impl Inner {
    fn happens(&mut self, percent: u64) -> bool {
        percent > 0 && self.random.below(100) < percent
    }

    fn has_mutation(&self, mistake: ReplicationMutation) -> bool {
        mistaken(self.mutation, mistake)
    }

    /// Counts a call. Returns whether the database goes away while the call is on its way.
    fn leaves_now(&mut self) -> bool {
        match self.leaves_after.take() {
            Some((0, until)) => {
                self.away_until = self.away_until.max(until);
                self.generation += 1;
                true
            }
            Some((calls, until)) => {
                self.leaves_after = Some((calls - 1, until));
                false
            }
            None => false,
        }
    }

    /// Executes some of the statements that are late.
    fn let_late_arrive(&mut self) {
        while !self.late.is_empty() && self.random.below(100) < ARRIVES_PERCENT {
            let index = self.random.below(self.late.len() as u64) as usize;
            let statement = self.late.swap_remove(index);
            let _ = self.execute(&statement);
        }
    }

    /// Executes a statement on the primary and its standbys.
    fn execute(&mut self, statement: &Statement) -> Result<state::StatementAnswer, ReplicationError> {
        let answer = self.execute_on_primary(statement)?;
        self.replicate(statement);
        Ok(answer)
    }

    fn execute_on_primary(
        &mut self,
        statement: &Statement,
    ) -> Result<state::StatementAnswer, ReplicationError> {
        self.statements += 1;
        let keeps_epoch = self.has_mutation(ReplicationMutation::KeepEpoch);
        let answer = self.current.execute(statement, self.now, keeps_epoch)?;
        self.is_ahead = true;
        Ok(answer)
    }

    /// The standbys receive everything that the primary has committed so far, in its order.
    fn replicate(&mut self, statement: &Statement) {
        match statement {
            Statement::Append { .. } => self.earlier.push(self.replicated.clone()),
            // A lagging standby lacks appends of one leader, and nothing that lets the leader delete files.
            Statement::Lead { .. }
            | Statement::PutFile { .. }
            | Statement::RemoveFile { .. }
            | Statement::DropSegments { .. } => self.earlier.clear(),
            Statement::Renew { .. } | Statement::Release { .. } | Statement::BeginSegment { .. } => {}
        }
        if self.earlier.len() > LAG_MAX {
            self.earlier.remove(0);
        }
        self.replicated = self.current.clone();
        self.is_ahead = false;
    }
}
