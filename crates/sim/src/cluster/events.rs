//! What happens in a world with three brokers.

use tenure_hub::{Ask, Delivery};

#[derive(Debug)]
pub(super) enum ClusterEvent {
    PeerConnects {
        peer: usize,
    },
    PeerActs {
        peer: usize,
    },
    AtBroker {
        link: usize,
        asks: Vec<Ask>,
    },
    AtPeer {
        link: usize,
        delivery: Delivery,
    },
    BrokerNoticesCut {
        link: usize,
    },
    PeerNoticesCut {
        link: usize,
    },
    BrokerWakes {
        member: usize,
        life: u64,
    },
    WriterWorks {
        member: usize,
        life: u64,
    },
    MaintenanceWorks {
        member: usize,
        life: u64,
    },
    StandbyPolls {
        member: usize,
        life: u64,
    },
    BrokerStarts {
        member: usize,
        after_power_failure: bool,
    },
    BrokerGoesOn {
        member: usize,
        life: u64,
    },
    /// An observer asks every broker that leads, or believes so, for a task.
    ObserverAsks,
    Inspection,
}

impl ClusterEvent {
    /// The member whose process must run for it, if it is not on a link.
    pub(super) fn member(&self) -> Option<(usize, u64)> {
        match self {
            ClusterEvent::BrokerWakes { member, life }
            | ClusterEvent::WriterWorks { member, life }
            | ClusterEvent::MaintenanceWorks { member, life }
            | ClusterEvent::StandbyPolls { member, life } => Some((*member, *life)),
            _ => None,
        }
    }

    /// The link on whose broker side it happens.
    pub(super) fn broker_side(&self) -> Option<usize> {
        match self {
            ClusterEvent::AtBroker { link, .. } | ClusterEvent::BrokerNoticesCut { link } => Some(*link),
            _ => None,
        }
    }
}
