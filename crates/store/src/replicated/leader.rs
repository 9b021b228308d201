//! The state that the streams of a leader share: the connection that begins epochs, and the current epoch.
//!
//! Every connection gets an epoch of its own. So when a connection breaks, whatever it still has under way is
//! fenced before the leader looks at what was committed. The journal of tasks is written on the connection that
//! has begun the epoch; each other stream has a connection of its own, and one that is in doubt asks for a new
//! epoch here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::copy::refill;
use super::hook_files::HookUploads;
use super::mutation::mistaken;
use super::{
    LeaderClaim, LeaderLease, Leadership, Member, PerStream, Place, ReplicatedJournal, ReplicatedSession,
    ReplicationError, ReplicationMutation, Stream, StreamState, Tail,
};
use crate::error::StoreError;
use crate::segment::Segment;
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct LeaderState {
    pub(super) journal: Arc<dyn ReplicatedJournal>,
    pub(super) member: Member,
    pub(super) mutation: Option<ReplicationMutation>,
    pub(super) lease: LeaderLease,
    first: Leadership,
    /// The current epoch, for the maintenance thread, which must not wait for the connection.
    epoch: AtomicU64,
    connection: Mutex<LeaderConnection>,
    /// Up to where each stream is committed and in the local files.
    written: PerStream<Mutex<Place>>,
    /// How many bytes the database lost and got back.
    refilled_bytes: AtomicU64,
    pub(super) hooks: HookUploads,
}

#[derive(Debug)]
pub(super) struct LeaderConnection {
    /// `None` after a doubt: the next connection begins a new epoch.
    pub(super) session: Option<Box<dyn ReplicatedSession>>,
    pub(super) leadership: Leadership,
    /// Counts how often the ends of the streams were read.
    pub(super) generation: u64,
    /// The lease is released: this broker leads no longer, and begins no epoch.
    pub(super) is_released: bool,
}

impl LeaderState {
    pub(crate) fn new(
        journal: Arc<dyn ReplicatedJournal>,
        session: Box<dyn ReplicatedSession>,
        member: Member,
        leadership: Leadership,
        mutation: Option<ReplicationMutation>,
    ) -> LeaderState {
        LeaderState {
            journal,
            member,
            mutation,
            lease: LeaderLease::default(),
            first: leadership.clone(),
            epoch: AtomicU64::new(leadership.epoch),
            written: PerStream::new(|stream| Mutex::new(leadership.tails[stream].end)),
            connection: Mutex::new(LeaderConnection {
                session: Some(session),
                leadership,
                generation: 0,
                is_released: false,
            }),
            refilled_bytes: AtomicU64::new(0),
            hooks: HookUploads::default(),
        }
    }

    pub(super) fn connection(&self) -> MutexGuard<'_, LeaderConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current epoch. The ends are of the moment when the first one began.
    pub(super) fn leadership(&self) -> Leadership {
        Leadership { epoch: self.epoch.load(Ordering::Acquire), ..self.first.clone() }
    }

    pub(crate) fn lease(&self) -> LeaderLease {
        self.lease.clone()
    }

    pub(crate) fn refilled_bytes(&self) -> u64 {
        self.refilled_bytes.load(Ordering::Acquire)
    }

    /// Up to where a stream is committed and in the local files.
    pub(super) fn written(&self, stream: Stream) -> Place {
        *self.written[stream].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_written(&self, stream: Stream, place: Place) {
        *self.written[stream].lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    pub(crate) fn has_mutation(&self, mistake: ReplicationMutation) -> bool {
        mistaken(self.mutation, mistake)
    }

    /// Connects again, fences everything that is under way, and reads where the streams end. If the database has
    /// lost what is in the local files, it gets it back.
    pub(super) fn begin_epoch(
        &self,
        connection: &mut LeaderConnection,
        shared: &Shared,
    ) -> Result<(), StoreError> {
        connection.session = None;
        if connection.is_released {
            let (holder, epoch) = (String::new(), connection.leadership.epoch);
            return Err(ReplicationError::Fenced { holder, epoch }.into());
        }
        let mut session = self.journal.connect()?;
        let mut leadership = if self.has_mutation(ReplicationMutation::ResolveByReading) {
            self.read_only(&mut *session, &connection.leadership)?
        } else {
            self.lead_again(&mut *session, &mut connection.leadership)?
        };
        self.set_epoch(&mut connection.leadership, leadership.epoch);
        for stream in Stream::ALL {
            self.refill(stream, &mut *session, &mut leadership, shared)?;
        }
        connection.leadership = leadership;
        connection.generation += 1;
        connection.session = Some(session);
        Ok(())
    }

    /// The same for a stream whose own connection is in doubt, unless another stream has done it since.
    pub(super) fn begin_epoch_after(&self, generation: u64, shared: &Shared) -> Result<(), StoreError> {
        let mut connection = self.connection();
        if connection.generation != generation {
            return Ok(());
        }
        self.begin_epoch(&mut connection, shared)
    }

    fn set_epoch(&self, leadership: &mut Leadership, epoch: u64) {
        leadership.epoch = epoch;
        self.epoch.store(epoch, Ordering::Release);
    }

    /// If the answer to an earlier attempt was lost, the epoch is higher than the one this leader knows, and
    /// still its own. A new one is begun all the same: what a read shows may vanish.
    fn lead_again(
        &self,
        session: &mut dyn ReplicatedSession,
        known: &mut Leadership,
    ) -> Result<Leadership, StoreError> {
        let epoch = known.epoch;
        if let Some(leadership) = session.lead(&self.member, LeaderClaim::Own { epoch })? {
            return Ok(leadership);
        }
        let state = session.look()?;
        let fenced =
            ReplicationError::Fenced { holder: state.holder.unwrap_or_default(), epoch: state.epoch };
        if state.instance != self.member.instance || state.epoch <= epoch {
            return Err(fenced.into());
        }
        self.set_epoch(known, state.epoch);
        let again = session.lead(&self.member, LeaderClaim::Own { epoch: state.epoch })?;
        again.ok_or_else(|| fenced.into())
    }

    /// A mistake, for the simulator.
    fn read_only(
        &self,
        session: &mut dyn ReplicatedSession,
        known: &Leadership,
    ) -> Result<Leadership, StoreError> {
        let state = session.look()?;
        if state.epoch != known.epoch {
            let holder = state.holder.unwrap_or_default();
            return Err(ReplicationError::Fenced { holder, epoch: state.epoch }.into());
        }
        let tails = PerStream::new(|stream| {
            let StreamState { end, segments, .. } = &state.streams[stream];
            Tail { end: *end, segment: segments.last().map_or(0, |place| place.position) }
        });
        Ok(Leadership { tails, ..known.clone() })
    }

    /// If the stream ends before what was committed, the database lost it. The local files have all of it.
    fn refill(
        &self,
        stream: Stream,
        session: &mut dyn ReplicatedSession,
        leadership: &mut Leadership,
        shared: &Shared,
    ) -> Result<(), StoreError> {
        let (written, end) = (self.written(stream), leadership.tails[stream].end);
        if end.position >= written.position {
            return Ok(());
        }
        if self.has_mutation(ReplicationMutation::NoRefill) {
            let (holder, epoch) = (self.member.name.clone(), leadership.epoch);
            return Err(ReplicationError::Fenced { holder, epoch }.into());
        }
        let state = session.look()?;
        let base = state.streams[stream].segments.last().copied().unwrap_or_default();
        let segments = local_segments(shared, stream);
        let filled = refill(session, leadership, stream, &segments, base, written.position)?;
        if filled.end != written {
            return Err(StoreError::Diverged { position: filled.end.position });
        }
        self.refilled_bytes.fetch_add(written.position - end.position, Ordering::AcqRel);
        leadership.tails[stream] = filled;
        Ok(())
    }
}

fn local_segments(shared: &Shared, stream: Stream) -> Vec<Arc<Segment>> {
    let of_log = |files: &Mutex<Vec<crate::topic_log::TopicFile>>| {
        let files = files.lock().expect("no holder of the lock panics");
        files.iter().map(|file| Arc::clone(&file.segment)).collect()
    };
    match stream {
        Stream::Tasks => {
            let files = shared.files.read().expect("no holder of the lock panics");
            files.segments.values().cloned().collect()
        }
        Stream::Topics => of_log(&shared.topics),
        Stream::Keys => of_log(&shared.keys),
    }
}
