//! Which group of a cluster serves which namespace, as a member of one of them knows it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tenure_engine::Name;

use crate::refusal::HubRefusal;

/// Where the namespaces of a cluster are. A broker without one serves every namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The group of this broker.
    pub group: Name,
    /// The group of the namespaces that are not placed.
    pub default_group: Name,
    /// The namespaces that are placed.
    pub namespaces: HashMap<Name, PlacedNamespace>,
    /// The members of the other groups, each with its doors by name; the leader first.
    pub members: HashMap<Name, Vec<MemberDoors>>,
}

/// The addresses of one member's doors, by the name of the door.
pub type MemberDoors = BTreeMap<String, Name>;

/// A namespace with a group of its own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedNamespace {
    /// The group that serves it.
    pub group: Name,
    /// The first event of this group that can be about the namespace: its earlier events are in the journal of another
    /// group.
    pub first_event: u64,
}

impl Placement {
    /// The group that serves a namespace.
    pub fn group_of(&self, namespace: &str) -> &Name {
        self.namespaces.get(namespace).map_or(&self.default_group, |placed| &placed.group)
    }

    fn check(&self, door: &str, namespace: &Name) -> Result<(), HubRefusal> {
        let group = self.group_of(namespace);
        if *group == self.group {
            return Ok(());
        }
        // A peer of a Unix socket is on this machine. It can reach the same protocol by TCP.
        let door = if door == "native_unix" { "native" } else { door };
        let members = self.members.get(group).map_or(&[][..], Vec::as_slice);
        let addresses = members.iter().filter_map(|doors| doors.get(door).cloned()).collect();
        Err(HubRefusal::Elsewhere { namespace: namespace.clone(), group: group.clone(), addresses })
    }
}

/// The placement that all doors of a broker see.
#[derive(Debug, Default)]
pub(crate) struct PlacementCell {
    /// Most brokers have none, and do not take the lock.
    is_set: AtomicBool,
    placement: RwLock<Arc<Placement>>,
}

impl PlacementCell {
    pub(crate) fn set(&self, placement: Option<Placement>) {
        let is_set = placement.is_some();
        let mut known = self.placement.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(placement.unwrap_or_default());
        self.is_set.store(is_set, Ordering::Release);
    }

    /// Refuses a namespace that another group serves.
    pub(crate) fn check(&self, door: &str, namespace: &Name) -> Result<(), HubRefusal> {
        if !self.is_set.load(Ordering::Acquire) {
            return Ok(());
        }
        self.placement.read().unwrap_or_else(PoisonError::into_inner).check(door, namespace)
    }

    /// The first event that can be about the namespace.
    pub(crate) fn first_event(&self, namespace: &Name) -> u64 {
        if !self.is_set.load(Ordering::Acquire) {
            return 0;
        }
        let placement = self.placement.read().unwrap_or_else(PoisonError::into_inner);
        placement.namespaces.get(namespace).map_or(0, |placed| placed.first_event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_of_another_group_is_refused_with_the_addresses_of_this_door() {
        let cell = PlacementCell::default();
        assert_eq!(cell.check("native", &"lab".into()), Ok(()), "no placement");
        let doors = |port: u32| MemberDoors::from([("native".to_owned(), format!("b{port}:{port}").into())]);
        let placed = PlacedNamespace { group: "g2".into(), first_event: 7 };
        let placement = Placement {
            group: "g1".into(),
            default_group: "g1".into(),
            namespaces: HashMap::from([("lab".into(), placed)]),
            members: HashMap::from([("g2".into(), vec![doors(2), doors(1)])]),
        };
        cell.set(Some(placement.clone()));
        assert_eq!(cell.check("native", &"default".into()), Ok(()));
        let refused = cell.check("native_unix", &"lab".into()).unwrap_err();
        assert_eq!(refused.to_string(), "the namespace lab belongs to the group g2: connect to b2:2 or b1:1");
        let refused = cell.check("resp", &"lab".into()).unwrap_err();
        assert!(refused.to_string().contains("try again later"), "{refused}");
        assert_eq!((cell.first_event(&"lab".into()), cell.first_event(&"x".into())), (7, 0));
        cell.set(Some(Placement { group: "g2".into(), ..placement }));
        assert!(cell.check("native", &"lab".into()).is_ok());
        assert!(cell.check("native", &"default".into()).is_err(), "it belongs to the default group");
    }
}
