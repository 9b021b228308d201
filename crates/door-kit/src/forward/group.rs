//! The group that a broker belongs to, as its doors see it.

use tokio::sync::watch;

use super::{DoorAddresses, GroupSecret};

/// Lets the doors of a member forward connections, and accept those that other members forward.
#[derive(Clone, Debug)]
pub struct DoorGroup {
    /// The name of the group.
    pub group: String,
    /// The name of this member.
    pub name: String,
    /// The secret that its members share.
    pub secret: GroupSecret,
    /// Who leads, and who else is there. It changes while the broker runs.
    pub view: watch::Receiver<GroupView>,
}

/// The members of a group at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// The leader, if it is known.
    pub leader: Option<GroupMember>,
    /// All members that are known, with the leader.
    pub members: Vec<GroupMember>,
}

/// One broker of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMember {
    /// Its name in the group.
    pub name: String,
    /// Differs for every process.
    pub instance: u64,
    /// Where its doors are reached.
    pub doors: DoorAddresses,
}

impl GroupView {
    /// Where the leader's door is reached.
    pub(crate) fn leader_at(&self, door: &str) -> Option<LeaderDoor> {
        let leader = self.leader.as_ref()?;
        let address = leader.doors.get(door)?.to_owned();
        Some(LeaderDoor { name: leader.name.clone(), instance: leader.instance, address })
    }
}

/// One door of the process that leads. Another process of the same name is another leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderDoor {
    pub(crate) name: String,
    pub(crate) instance: u64,
    pub(crate) address: String,
}
