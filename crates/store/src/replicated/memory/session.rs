//! One connection, and what may happen to each of its calls.

use super::state::{Statement, StatementAnswer};
use super::{Inner, MemoryJournal};
use crate::replicated::{
    FrameGroup, GroupState, LeaderClaim, Leadership, Member, PerStream, Place, ReplicatedSession,
    ReplicationError, ReplicationMutation, StoredGroup, Stream,
};

#[derive(Debug)]
pub(super) struct MemorySession {
    journal: MemoryJournal,
    generation: u64,
    is_cut: bool,
}

impl MemorySession {
    pub(super) fn new(journal: MemoryJournal, generation: u64) -> MemorySession {
        MemorySession { journal, generation, is_cut: false }
    }

    fn change(&mut self, statement: Statement) -> Result<StatementAnswer, ReplicationError> {
        let journal = self.journal.clone();
        let mut inner = journal.answering();
        if inner.leaves_now() {
            // The statement may have left before the connection broke.
            self.is_cut = true;
            if inner.happens(50) {
                inner.late.push(statement);
            }
            return Err(ReplicationError::Doubt);
        }
        self.arrives(&mut inner)?;
        let faults = inner.faults;
        if inner.happens(faults.late) {
            self.is_cut = true;
            inner.late.push(statement);
            return Err(ReplicationError::Doubt);
        }
        inner.let_late_arrive();
        if inner.happens(faults.doubt) {
            let answer = inner.execute_on_primary(&statement)?;
            if inner.has_mutation(ReplicationMutation::IgnoreNotice) {
                return Ok(answer);
            }
            self.is_cut = true;
            return Err(ReplicationError::Doubt);
        }
        let answer = inner.execute(&statement)?;
        if inner.happens(faults.answer_lost) {
            self.is_cut = true;
            return Err(ReplicationError::Doubt);
        }
        Ok(answer)
    }

    fn query<T>(
        &mut self,
        ask: impl FnOnce(&Inner) -> Result<T, ReplicationError>,
    ) -> Result<T, ReplicationError> {
        let journal = self.journal.clone();
        let mut inner = journal.answering();
        self.arrives(&mut inner)?;
        inner.let_late_arrive();
        ask(&inner)
    }

    fn arrives(&mut self, inner: &mut Inner) -> Result<(), ReplicationError> {
        let is_away = inner.now < inner.away_until || self.generation != inner.generation;
        if self.is_cut || is_away || inner.happens(inner.faults.cut) {
            self.is_cut = true;
            // The session cannot tell whether its statement has arrived.
            return Err(ReplicationError::Doubt);
        }
        Ok(())
    }
}

impl ReplicatedSession for MemorySession {
    fn look(&mut self) -> Result<GroupState, ReplicationError> {
        self.query(|inner| Ok(inner.current.look(inner.now)))
    }

    fn lead(&mut self, member: &Member, claim: LeaderClaim) -> Result<Option<Leadership>, ReplicationError> {
        let before = self.journal.inner().current.tails();
        let statement = Statement::Lead { member: member.clone(), claim };
        match self.change(statement)? {
            StatementAnswer::Leading(mut leadership) => {
                let inner = self.journal.inner();
                if inner.has_mutation(ReplicationMutation::ReadEndTogether) {
                    // The snapshot of a statement is older than the lock that it waits for.
                    leadership.tails = before;
                }
                Ok(Some(leadership))
            }
            StatementAnswer::NotLeading | StatementAnswer::Done => Ok(None),
        }
    }

    fn renew(&mut self, leadership: &Leadership, settled: PerStream<u64>) -> Result<(), ReplicationError> {
        let Leadership { epoch, lease, .. } = *leadership;
        self.change(Statement::Renew { epoch, lease, settled }).map(drop)
    }

    fn release(&mut self, leadership: &Leadership) -> Result<(), ReplicationError> {
        self.change(Statement::Release { epoch: leadership.epoch }).map(drop)
    }

    fn append(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        group: &FrameGroup,
    ) -> Result<(), ReplicationError> {
        self.change(Statement::Append { epoch: leadership.epoch, stream, group: group.clone() }).map(drop)
    }

    fn read(
        &mut self,
        stream: Stream,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredGroup>, ReplicationError> {
        self.query(|inner| inner.current.read(stream, from, bytes_max))
    }

    fn begin_segment(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        at: Place,
    ) -> Result<(), ReplicationError> {
        self.change(Statement::BeginSegment { epoch: leadership.epoch, stream, at }).map(drop)
    }

    fn drop_segments(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        starts: &[u64],
    ) -> Result<(), ReplicationError> {
        self.change(Statement::DropSegments { epoch: leadership.epoch, stream, starts: starts.to_vec() })
            .map(drop)
    }

    fn put_file(
        &mut self,
        leadership: &Leadership,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), ReplicationError> {
        let (epoch, name) = (leadership.epoch, name.to_owned());
        self.change(Statement::PutFile { epoch, name, bytes: bytes.to_vec() }).map(drop)
    }

    fn get_file(&mut self, name: &str) -> Result<Vec<u8>, ReplicationError> {
        self.query(|inner| inner.current.file(name))
    }

    fn remove_file(&mut self, leadership: &Leadership, name: &str) -> Result<(), ReplicationError> {
        self.change(Statement::RemoveFile { epoch: leadership.epoch, name: name.to_owned() }).map(drop)
    }
}
