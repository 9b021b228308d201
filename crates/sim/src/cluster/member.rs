//! One of the three brokers of a group: a process that stands by, leads, is dead or is stopped.

use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::Timestamp;
use tenure_store::{
    Member, MemoryDisk, MemoryJournal, Replica, ReplicaSettings, ReplicationMutation, StoreError,
};

use super::leader::Leader;
use crate::broker::{engine_settings, store_settings};

pub(super) const LEASE: Duration = Duration::from_millis(2_000);

#[derive(Debug)]
pub(super) struct ClusterMember {
    name: String,
    pub(super) disk: MemoryDisk,
    pub(super) role: Role,
    /// Counts the processes, and the roles of each: an event for an earlier one is void.
    pub(super) life: u64,
    /// Of the current process.
    pub(super) instance: u64,
    /// The process exists but is stopped.
    pub(super) stopped_since: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) enum Role {
    Dead,
    Standby(Box<Replica>),
    Leading(Box<Leader>),
}

/// The outcome of one round of a standby.
#[derive(Debug)]
pub(super) enum Round {
    Follows,
    Leads,
    /// The journal did not answer, or has changed meanwhile.
    TriesAgain,
    Failed(StoreError),
}

impl ClusterMember {
    pub(super) fn new(number: u64) -> ClusterMember {
        ClusterMember {
            name: format!("broker-{number}"),
            disk: MemoryDisk::new(),
            role: Role::Dead,
            life: 0,
            instance: 0,
            stopped_since: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn leader(&mut self) -> Option<&mut Leader> {
        match &mut self.role {
            Role::Leading(leader) => Some(leader),
            Role::Dead | Role::Standby(_) => None,
        }
    }

    pub(super) fn leads(&self) -> Option<&Leader> {
        match &self.role {
            Role::Leading(leader) => Some(leader),
            Role::Dead | Role::Standby(_) => None,
        }
    }

    /// A new process starts on its disk and stands by.
    pub(super) fn start(
        &mut self,
        journal: &MemoryJournal,
        instance: u64,
        mutation: Option<ReplicationMutation>,
    ) -> Result<(), StoreError> {
        self.role = Role::Dead;
        self.life += 1;
        self.instance = instance;
        self.stand_by(journal, mutation)
    }

    /// The process goes back to standing by.
    pub(super) fn stand_by(
        &mut self,
        journal: &MemoryJournal,
        mutation: Option<ReplicationMutation>,
    ) -> Result<(), StoreError> {
        self.role = Role::Dead;
        self.life += 1;
        let member =
            Member { name: self.name.clone(), instance: self.instance, lease: LEASE, doors: String::new() };
        let settings = ReplicaSettings { member, store: store_settings(self.instance), mutation };
        let replica = Replica::open(Arc::new(self.disk.clone()), Arc::new(journal.clone()), settings)?;
        self.role = Role::Standby(Box::new(replica));
        Ok(())
    }

    /// A standby copies what is new, and takes over if it may.
    pub(super) fn round(&mut self, now: Timestamp, mutation: Option<ReplicationMutation>) -> Round {
        let Role::Standby(replica) = &mut self.role else { return Round::Follows };
        let led = replica.follow().and_then(|followed| match replica.claim(&followed.state) {
            Some(claim) => replica.lead(claim, engine_settings(), now, now),
            None => Ok(None),
        });
        match led {
            Ok(None) => Round::Follows,
            Ok(Some(opened)) => {
                self.life += 1;
                self.role = Role::Leading(Box::new(Leader::new(opened, mutation)));
                Round::Leads
            }
            Err(StoreError::Replication(_)) => Round::TriesAgain,
            Err(error) => Round::Failed(error),
        }
    }
}
