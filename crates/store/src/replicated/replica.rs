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
    GroupState, LeaderClaim, Leadership, Member, ReplicatedJournal, ReplicatedSession, ReplicatedTarget,
    ReplicationMutation,
};
use crate::disk::{Disk, DiskLock};
use crate::error::{Doing, StoreError};
use crate::files::{self, HIGH_WATER, Named};
use crate::settings::{StoreSettings, Sync};
use crate::store::{Opened, Store};

#[derive(Clone, Debug)]
pub struct ReplicaSettings {
    pub member: Member,
    pub store: StoreSettings,
    /// A deliberate mistake; ignored without the feature `mutations`.
    pub mutation: Option<ReplicationMutation>,
}

#[derive(Debug)]
pub struct Replica {
    disk: Arc<dyn Disk>,
    journal: Arc<dyn ReplicatedJournal>,
    settings: ReplicaSettings,
    session: Option<Box<dyn ReplicatedSession>>,
    local: Option<LocalJournal>,
    mirror: Mirror,
    lock: Option<DiskLock>,
}

/// What a standby knows after one round.
#[derive(Clone, Debug)]
pub struct Followed {
    pub state: GroupState,
    /// Where the local copy ends.
    pub position: u64,
    /// How many bytes this round has copied.
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
        let mirror = Mirror::default();
        Ok(Replica { disk, journal, settings, session: None, local: None, mirror, lock })
    }

    /// One round of a standby: copies what has been committed since the last one. After an error the caller
    /// tries again, unless the local copy has diverged.
    ///
    /// The newest group is copied only when the leader has seen it committed. Until then it may vanish, and a
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
        self.read_tail(&mut *session, &mut leadership)?;
        let store = match self.open_store(&leadership, session, engine.clone(), now, monotonic) {
            // A local file is damaged. The engine has everything, so all of it is read again.
            Err(StoreError::Damaged(_)) => {
                self.wipe()?;
                let mut session = self.connect()?;
                let claim = LeaderClaim::Own { epoch: leadership.epoch };
                let Some(mut leadership) = session.lead(&self.settings.member, claim)? else {
                    return Ok(None);
                };
                self.read_tail(&mut *session, &mut leadership)?;
                self.open_store(&leadership, session, engine, now, monotonic)?
            }
            other => other?,
        };
        Ok(Some(store))
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
        let newest = session.read(state.end.position, 0)?;
        let certain = newest.last().map_or(0, |group| group.start).max(state.settled);
        let (local, copied_bytes) = self.copy(session, &state, certain)?;
        let position = local.end().position;
        self.local = Some(local);
        Ok(Followed { state, position, copied_bytes })
    }

    /// Copies everything up to a position. A copy that seems to differ is read again as a whole first: the
    /// engine may have lost groups, and the boundaries of those before them are no longer in memory.
    fn copy(
        &mut self,
        session: &mut dyn ReplicatedSession,
        state: &GroupState,
        upto: u64,
    ) -> Result<(LocalJournal, u64), StoreError> {
        let mut local = self.take_local(state)?;
        match copy(&mut local, session, upto) {
            Ok(bytes) => Ok((local, bytes)),
            Err(StoreError::Diverged { .. }) => {
                local = self.take_local(state)?;
                let bytes = copy(&mut local, session, upto)?;
                Ok((local, bytes))
            }
            Err(error) => Err(error),
        }
    }

    /// After an error the local copy is read again from the disk.
    fn take_local(&mut self, state: &GroupState) -> Result<LocalJournal, StoreError> {
        match self.local.take() {
            Some(mut local) => {
                local.keep_segments(&state.segments)?;
                Ok(local)
            }
            None => LocalJournal::open(Arc::clone(&self.disk), &state.segments, self.settings.store.seed),
        }
    }

    /// Makes the local files equal to the engine. If they are ahead of it, the engine lost what they hold.
    fn read_tail(
        &mut self,
        session: &mut dyn ReplicatedSession,
        leadership: &mut Leadership,
    ) -> Result<(), StoreError> {
        let state = session.look()?;
        self.mirror.follow(&*self.disk, session, &state.files)?;
        let is_skipped = self.is_mistaken(ReplicationMutation::SkipTail);
        let end = if is_skipped { 0 } else { leadership.end.position };
        let (mut local, _) = self.copy(session, &state, end)?;
        if local.end().position > leadership.end.position {
            if self.is_mistaken(ReplicationMutation::NoRefill) {
                local.cut(leadership.end)?;
            }
            let base = state.segments.last().copied().unwrap_or_default();
            let filled = refill(session, leadership, &local.segments(), base, local.end().position)?;
            leadership.end = filled.end;
            leadership.segment = filled.segment;
        }
        local.follow_segment(leadership.segment)?;
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
        let target = ReplicatedTarget::new(
            Arc::clone(&self.journal),
            session,
            self.settings.member.clone(),
            leadership.clone(),
            self.settings.mutation,
            monotonic,
        );
        // The engine has synced everything; the local files may be as late as the operating system likes.
        let settings = StoreSettings { sync: Sync::Os, ..self.settings.store.clone() };
        self.local = None;
        self.lock = None;
        let opened = Store::open_replicated(Arc::clone(&self.disk), settings, engine, now, target);
        if opened.is_err() {
            self.lock = Some(self.disk.lock()?);
        }
        opened
    }

    /// Removes everything that the engine holds as well.
    fn wipe(&mut self) -> Result<(), StoreError> {
        self.local = None;
        self.mirror = Mirror::default();
        for name in self.disk.list().doing("listing", "the directory")? {
            let is_copied = match files::named(&name) {
                Named::Journal(_) | Named::Snapshot(_) | Named::Events(_) | Named::Spare(_) => true,
                Named::Unfinished => true,
                Named::Topics(_) | Named::Keys(_) | Named::TaskLog(_) | Named::Hook => false,
                Named::Other => name == HIGH_WATER,
            };
            if is_copied {
                self.disk.remove(&name).doing("removing", &name)?;
            }
        }
        self.disk.sync_dir().syncing("the directory")
    }

    fn is_mistaken(&self, mistake: ReplicationMutation) -> bool {
        mistaken(self.settings.mutation, mistake)
    }
}
