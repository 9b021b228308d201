//! A broker of a group: first a standby that copies what is committed into its local files, then, when it takes
//! over, a leader whose store is opened from those files exactly as after a restart.

use std::sync::Arc;
use std::time::Duration;

use tenure_engine::{Settings, Timestamp};

use super::copy::{copy, refill};
use super::local::LocalJournal;
use super::mirror::Mirror;
use super::mutation::mistaken;
use super::{
    GroupState, LeaderClaim, LeaderState, Leadership, Member, PerStream, ReplicatedJournal,
    ReplicatedSession, ReplicatedTarget, ReplicationError, ReplicationMutation, Stream, StreamState,
};
use crate::disk::{Disk, DiskLock};
use crate::error::{IoContext, StoreError};
use crate::files::{self, HIGH_WATER, Named};
use crate::settings::{StoreSettings, Sync};
use crate::store::{Opened, Store};

/// Who a member is, and how its local store works.
#[derive(Clone, Debug)]
pub struct ReplicaSettings {
    /// The member.
    pub member: Member,
    /// The settings of its local files.
    pub store: StoreSettings,
    /// A deliberate mistake; ignored without the feature `mutations`.
    pub mutation: Option<ReplicationMutation>,
}

/// The local files of a member, and its session with the replicated journal.
#[derive(Debug)]
pub struct Replica {
    pub(super) disk: Arc<dyn Disk>,
    journal: Arc<dyn ReplicatedJournal>,
    settings: ReplicaSettings,
    session: Option<Box<dyn ReplicatedSession>>,
    pub(super) local: PerStream<Option<LocalJournal>>,
    mirror: Mirror,
    lock: Option<DiskLock>,
    epoch: u64,
}

/// The view of a standby after one round.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The group, as the database described it.
    pub state: GroupState,
    /// Where the local copy of the tasks ends.
    pub position: u64,
    /// How many bytes of all streams this round has copied.
    pub copied_bytes: u64,
}

impl Replica {
    /// Opens a data directory, which may be empty. Keeps other processes out while it lives.
    pub fn open(
        disk: Arc<dyn Disk>,
        journal: Arc<dyn ReplicatedJournal>,
        settings: ReplicaSettings,
    ) -> Result<Replica, StoreError> {
        let lock = Some(disk.lock()?);
        let (local, mirror) = (PerStream::default(), Mirror::default());
        Ok(Replica { disk, journal, settings, session: None, local, mirror, lock, epoch: 0 })
    }

    /// The addresses that the group knows when this member leads.
    pub fn set_doors(&mut self, doors: String) {
        self.settings.member.doors = doors;
    }

    /// The epoch that this member has begun last.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// One round of a standby: copies what has been committed since the last one. After an error the caller
    /// tries again, unless the local copy has diverged.
    ///
    /// The newest chunk is copied only when the leader has seen it committed. Until then it may vanish, and a
    /// copy of it would differ from what another leader writes there.
    pub fn follow(&mut self) -> Result<Followed, StoreError> {
        let mut session = self.connect()?;
        let followed = self.follow_with(&mut *session)?;
        self.session = Some(session);
        Ok(followed)
    }

    /// Why this member may try to lead now, if it may. If the group names this member as the leader, an earlier
    /// process led, or the answer to a claim was lost.
    pub fn claim(&self, state: &GroupState) -> Option<LeaderClaim> {
        if state.lease_left == Duration::ZERO || state.holder.as_ref() == Some(&self.settings.member.name) {
            return Some(LeaderClaim::LeaseEnded);
        }
        state.is_leader_gone.then_some(LeaderClaim::LeaderGone { epoch: state.epoch })
    }

    /// Takes over if the claim holds: fences the last leader, reads what is left, and opens the store. Both
    /// clocks show the present; the lease is counted on the monotonic one.
    pub fn lead(
        &mut self,
        claim: LeaderClaim,
        engine: Settings,
        now: Timestamp,
        monotonic: Timestamp,
    ) -> Result<Option<Opened>, StoreError> {
        let mut session = self.connect()?;
        let Some(mut leadership) = session.lead(&self.settings.member, claim)? else {
            self.session = Some(session);
            return Ok(None);
        };
        self.epoch = leadership.epoch;
        self.read_tail(&mut *session, &mut leadership)?;
        let store = match self.open_store(&leadership, session, engine.clone(), now, monotonic) {
            // A local file is damaged. The database has everything, so all of it is read again.
            Err(StoreError::Damaged(_)) => {
                self.wipe()?;
                let mut session = self.connect()?;
                let claim = LeaderClaim::Own { epoch: leadership.epoch };
                let Some(mut leadership) = session.lead(&self.settings.member, claim)? else {
                    return Ok(None);
                };
                self.epoch = leadership.epoch;
                self.read_tail(&mut *session, &mut leadership)?;
                self.open_store(&leadership, session, engine, now, monotonic)?
            }
            other => other?,
        };
        Ok(Some(store))
    }

    /// Copies everything that is committed at this moment, also the newest chunk. Another failover may take that one
    /// back, so a copy that has it must not follow the group afterwards.
    pub(super) fn copy_all(&mut self) -> Result<(), StoreError> {
        let mut session = self.connect()?;
        let state = session.look()?;
        self.mirror.follow(&*self.disk, &mut *session, &state.files)?;
        for stream in Stream::ALL {
            let end = state.streams[stream].end;
            let (local, _) = self.copy(&mut *session, &state, stream, end.position)?;
            let copied = local.end();
            self.local[stream] = Some(local);
            if copied != end {
                return Err(ReplicationError::Gone(format!("position {}", copied.position)).into());
            }
        }
        self.session = Some(session);
        Ok(())
    }

    fn connect(&mut self) -> Result<Box<dyn ReplicatedSession>, StoreError> {
        match self.session.take() {
            Some(session) => Ok(session),
            None => Ok(self.journal.connect()?),
        }
    }

    fn follow_with(&mut self, session: &mut dyn ReplicatedSession) -> Result<Followed, StoreError> {
        let state = session.look()?;
        self.mirror.follow(&*self.disk, session, &state.files)?;
        let mut copied_bytes = 0;
        for stream in Stream::ALL {
            let (local, bytes) = self.copy_settled(session, &state, stream)?;
            self.local[stream] = Some(local);
            copied_bytes += bytes;
        }
        let position = self.local.tasks.as_ref().map_or(0, |local| local.end().position);
        Ok(Followed { state, position, copied_bytes })
    }

    /// Copies what cannot vanish.
    fn copy_settled(
        &mut self,
        session: &mut dyn ReplicatedSession,
        state: &GroupState,
        stream: Stream,
    ) -> Result<(LocalJournal, u64), StoreError> {
        let local = self.take_local(state, stream)?;
        let StreamState { end, settled, .. } = &state.streams[stream];
        if local.end().position >= end.position {
            return Ok((local, 0));
        }
        self.local[stream] = Some(local);
        let certain = if *settled >= end.position {
            end.position
        } else {
            let newest = session.read(stream, end.position, 0)?;
            newest.last().map_or(0, |group| group.start).max(*settled)
        };
        self.copy(session, state, stream, certain)
    }

    /// Copies everything up to a position. A copy that seems to differ is read again as a whole first: the
    /// database may have lost chunks, and the boundaries of those before them are no longer in memory.
    fn copy(
        &mut self,
        session: &mut dyn ReplicatedSession,
        state: &GroupState,
        stream: Stream,
        upto: u64,
    ) -> Result<(LocalJournal, u64), StoreError> {
        let mut local = self.take_local(state, stream)?;
        match copy(&mut local, session, stream, upto) {
            Ok(bytes) => Ok((local, bytes)),
            // The database may have dropped the segment in which the copy ends.
            Err(StoreError::Diverged { .. } | StoreError::Replication(ReplicationError::Gone(_))) => {
                local = self.take_local(state, stream)?;
                let bytes = copy(&mut local, session, stream, upto)?;
                Ok((local, bytes))
            }
            Err(error) => Err(error),
        }
    }

    /// After an error the local copy is read again from the disk.
    fn take_local(&mut self, state: &GroupState, stream: Stream) -> Result<LocalJournal, StoreError> {
        let segments = &state.streams[stream].segments;
        match self.local[stream].take() {
            Some(mut local) => {
                local.keep_segments(segments)?;
                Ok(local)
            }
            None => LocalJournal::open(Arc::clone(&self.disk), stream, segments, self.settings.store.seed),
        }
    }

    /// Makes the local files equal to the database. If they are ahead of it, the database lost what they hold.
    fn read_tail(
        &mut self,
        session: &mut dyn ReplicatedSession,
        leadership: &mut Leadership,
    ) -> Result<(), StoreError> {
        let state = session.look()?;
        self.mirror.follow(&*self.disk, session, &state.files)?;
        for stream in Stream::ALL {
            self.read_tail_of(stream, session, &state, leadership)?;
        }
        Ok(())
    }

    fn read_tail_of(
        &mut self,
        stream: Stream,
        session: &mut dyn ReplicatedSession,
        state: &GroupState,
        leadership: &mut Leadership,
    ) -> Result<(), StoreError> {
        let is_skipped = self.has_mutation(ReplicationMutation::SkipTail);
        let engine = leadership.tails[stream].end;
        let (mut local, _) =
            self.copy(session, state, stream, if is_skipped { 0 } else { engine.position })?;
        if local.end().position > engine.position {
            if self.has_mutation(ReplicationMutation::NoRefill) {
                local.cut(engine)?;
            }
            let base = state.streams[stream].segments.last().copied().unwrap_or_default();
            let filled = refill(session, leadership, stream, &local.segments(), base, local.end().position)?;
            leadership.tails[stream] = filled;
        }
        local.follow_segment(leadership.tails[stream].segment)?;
        local.sync()
    }

    fn open_store(
        &mut self,
        leadership: &Leadership,
        session: Box<dyn ReplicatedSession>,
        engine: Settings,
        now: Timestamp,
        monotonic: Timestamp,
    ) -> Result<Opened, StoreError> {
        let leader = LeaderState::new(
            Arc::clone(&self.journal),
            session,
            self.settings.member.clone(),
            leadership.clone(),
            self.settings.mutation,
        );
        let target = ReplicatedTarget::new(Arc::new(leader), monotonic);
        // The database has synced everything; the local files may be as late as the operating system likes.
        let settings = StoreSettings { sync: Sync::Os, ..self.settings.store.clone() };
        self.local = PerStream::default();
        self.lock = None;
        let opened = Store::open_replicated(Arc::clone(&self.disk), settings, engine, now, target);
        if opened.is_err() {
            self.lock = Some(self.disk.lock()?);
        }
        opened
    }

    /// Removes everything that the database holds as well.
    fn wipe(&mut self) -> Result<(), StoreError> {
        self.local = PerStream::default();
        self.mirror = Mirror::default();
        for name in self.disk.list().doing("listing", "the directory")? {
            let is_copied = match files::named(&name) {
                Named::Journal(_) | Named::Snapshot(_) | Named::Events(_) | Named::Spare(_) => true,
                Named::Unfinished => true,
                Named::Topics(_) | Named::Keys(_) => true,
                Named::Hook => true,
                Named::TaskLog(_) => false,
                Named::Other => name == HIGH_WATER,
            };
            if is_copied {
                self.disk.remove(&name).doing("removing", &name)?;
            }
        }
        self.disk.sync_dir().syncing("the directory")
    }

    fn has_mutation(&self, mistake: ReplicationMutation) -> bool {
        mistaken(self.settings.mutation, mistake)
    }
}
