//! Deliberate mistakes, to show that the simulator's checks find them. Only a build with the feature
//! `mutations` can make one.

/// One deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationMutation {
    /// Resolve a doubt by reading the end of the journal.
    ResolveByReading,
    /// Lead again on a new connection without a new epoch.
    KeepEpoch,
    /// Read the end of the journal with the statement that begins the epoch.
    ReadEndTogether,
    /// Take a commit for replicated although the database said that it may not be.
    IgnoreNotice,
    /// Write the local file before the frames are committed.
    WriteLocalFirst,
    /// Take over without reading what is committed beyond the local copy.
    SkipTail,
    /// Do not restore what the database lost.
    NoRefill,
    /// Drop segments before the snapshot that replaces them is in the database.
    DropEarly,
    /// Replies leave before their records are committed.
    SpeakEarly,
    /// Answer queries after the lease has ended.
    IgnoreLease,
}

impl ReplicationMutation {
    /// All of them.
    pub const ALL: [ReplicationMutation; 10] = [
        ReplicationMutation::ResolveByReading,
        ReplicationMutation::KeepEpoch,
        ReplicationMutation::ReadEndTogether,
        ReplicationMutation::IgnoreNotice,
        ReplicationMutation::WriteLocalFirst,
        ReplicationMutation::SkipTail,
        ReplicationMutation::NoRefill,
        ReplicationMutation::DropEarly,
        ReplicationMutation::SpeakEarly,
        ReplicationMutation::IgnoreLease,
    ];
}

/// Whether this mistake is to be made. Never without the feature.
pub(crate) fn mistaken(chosen: Option<ReplicationMutation>, mistake: ReplicationMutation) -> bool {
    cfg!(feature = "mutations") && chosen == Some(mistake)
}
