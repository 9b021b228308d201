//! What a session tells its peer about the group of brokers.

use tenure_door_kit::forward::{DoorGroup, GroupMember};
use tenure_hub::HubRefusal;
use tenure_hub::words::Name;

use super::Session;
use crate::translate;

/// The door whose addresses peers of this protocol can use.
const DOOR: &str = "native";

impl Session {
    /// Where the leader's native door is reached.
    pub(super) fn leader_address(&self) -> Option<Name> {
        leader_address(self.settings.door.group.as_ref()?)
    }

    /// The name of the group.
    pub(super) fn group_name(&self) -> Option<Name> {
        self.settings.door.group.as_ref().map(|group| group.group.as_str().into())
    }

    /// Where the native doors of all members are reached.
    pub(super) fn member_addresses(&self) -> Vec<Name> {
        self.settings.door.group.as_ref().map(member_addresses).unwrap_or_default()
    }

    /// The reason for the end of a session. A session that ends because another broker leads learns its address.
    pub(super) fn closing_refusal(&self, why: &HubRefusal) -> tenure_wire::Refusal {
        let mut refusal = translate::refusal(why);
        if let (HubRefusal::Deposed { holder }, Some(group)) = (why, &self.settings.door.group) {
            let view = group.view.borrow();
            let leader = view.members.iter().chain(&view.leader).find(|member| member.name == **holder);
            refusal.address = leader.and_then(address_of);
        }
        refusal
    }
}

pub(crate) fn leader_address(group: &DoorGroup) -> Option<Name> {
    address_of(group.view.borrow().leader.as_ref()?)
}

pub(crate) fn member_addresses(group: &DoorGroup) -> Vec<Name> {
    group.view.borrow().members.iter().filter_map(address_of).collect()
}

fn address_of(member: &GroupMember) -> Option<Name> {
    member.doors.get(DOOR).map(Name::from)
}
