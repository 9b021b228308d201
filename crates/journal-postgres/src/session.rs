//! One connection as the store uses it.

use std::sync::Arc;

use tenure_store::{
    FrameGroup, GroupState, LeaderClaim, Leadership, Member, PerStream, Place, ReplicatedSession,
    ReplicationError, StoredGroup, Stream,
};

use crate::JournalContext;
use crate::link::PostgresLink;

#[derive(Debug)]
pub(crate) struct PostgresSession {
    pub(crate) link: PostgresLink,
    pub(crate) shared: Arc<JournalContext>,
}

impl PostgresSession {
    pub(crate) fn new(link: PostgresLink, shared: Arc<JournalContext>) -> PostgresSession {
        PostgresSession { link, shared }
    }

    pub(crate) fn group(&self) -> String {
        self.shared.settings.group.clone()
    }
}

impl ReplicatedSession for PostgresSession {
    fn look(&mut self) -> Result<GroupState, ReplicationError> {
        self.look_now()
    }

    fn lead(&mut self, member: &Member, claim: LeaderClaim) -> Result<Option<Leadership>, ReplicationError> {
        self.lead_now(member, claim)
    }

    fn renew(&mut self, leadership: &Leadership, settled: PerStream<u64>) -> Result<(), ReplicationError> {
        self.renew_now(leadership, settled)
    }

    fn release(&mut self, leadership: &Leadership) -> Result<(), ReplicationError> {
        self.release_now(leadership)
    }

    fn append(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        group: &FrameGroup,
    ) -> Result<(), ReplicationError> {
        self.append_rows(leadership, stream, group)
    }

    fn read(
        &mut self,
        stream: Stream,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredGroup>, ReplicationError> {
        self.read_rows(stream, from, bytes_max)
    }

    fn begin_segment(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        at: Place,
    ) -> Result<(), ReplicationError> {
        self.begin(leadership, stream, at)
    }

    fn drop_segments(
        &mut self,
        leadership: &Leadership,
        stream: Stream,
        starts: &[u64],
    ) -> Result<(), ReplicationError> {
        self.drop_all(leadership, stream, starts)
    }

    fn put_file(
        &mut self,
        leadership: &Leadership,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), ReplicationError> {
        self.upload(leadership, name, bytes)
    }

    fn get_file(&mut self, name: &str) -> Result<Vec<u8>, ReplicationError> {
        self.download(name)
    }

    fn remove_file(&mut self, leadership: &Leadership, name: &str) -> Result<(), ReplicationError> {
        self.delete_file(leadership, name)
    }
}
