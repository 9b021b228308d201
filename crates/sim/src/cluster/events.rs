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
        seat: usize,
        life: u64,
    },
    WriterWorks {
        seat: usize,
        life: u64,
    },
    MaintenanceWorks {
        seat: usize,
        life: u64,
    },
    StandbyPolls {
        seat: usize,
        life: u64,
    },
    BrokerStarts {
        seat: usize,
        after_power_failure: bool,
    },
    BrokerGoesOn {
        seat: usize,
        life: u64,
    },
    /// An observer asks every broker that leads, or believes so, for a task.
    ObserverAsks,
    Inspection,
}

impl ClusterEvent {
    /// The seat whose process must run for it, if it is not on a link.
    pub(super) fn seat(&self) -> Option<(usize, u64)> {
        match self {
            ClusterEvent::BrokerWakes { seat, life }
            | ClusterEvent::WriterWorks { seat, life }
            | ClusterEvent::MaintenanceWorks { seat, life }
            | ClusterEvent::StandbyPolls { seat, life } => Some((*seat, *life)),
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
