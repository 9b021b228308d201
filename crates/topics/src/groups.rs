//! Queue groups: one of all matching members gets a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::subscriptions::SubscriptionIndex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupIndex(u32);

#[derive(Debug, Default)]
pub(crate) struct Groups {
    slots: Vec<Group>,
    free: Vec<GroupIndex>,
    by_name: BTreeMap<Arc<str>, GroupIndex>,
    /// The groups that match the current message.
    touched: Vec<GroupIndex>,
}

#[derive(Debug)]
struct Group {
    name: Arc<str>,
    members: Vec<SubscriptionIndex>,
    /// The message that the choice below is for.
    about: u64,
    best: Option<(MemberRank, SubscriptionIndex)>,
}

/// See [`crate::subscription::Subscription::rank`]; the member with the lowest rank gets the message.
pub(crate) type MemberRank = (bool, u32, u64);

impl Groups {
    pub(crate) fn join(&mut self, name: &Arc<str>, member: SubscriptionIndex) -> GroupIndex {
        let index = self.by_name.get(name).copied().unwrap_or_else(|| self.create(name));
        self.slots[index.0 as usize].members.push(member);
        index
    }

    pub(crate) fn leave(&mut self, index: GroupIndex, member: SubscriptionIndex) {
        let group = &mut self.slots[index.0 as usize];
        group.members.retain(|&other| other != member);
        if group.members.is_empty() {
            self.by_name.remove(&group.name);
            self.free.push(index);
        }
    }

    pub(crate) fn members(&self, index: GroupIndex) -> &[SubscriptionIndex] {
        &self.slots[index.0 as usize].members
    }

    /// Nominates a member for the message with this order number.
    pub(crate) fn nominate(
        &mut self,
        index: GroupIndex,
        message: u64,
        member: SubscriptionIndex,
        rank: MemberRank,
    ) {
        let group = &mut self.slots[index.0 as usize];
        if group.about != message {
            (group.about, group.best) = (message, None);
            self.touched.push(index);
        }
        // Equal ranks are decided by index, so that the choice does not depend on the order of nominations.
        if group.best.is_none_or(|best| (rank, member) < best) {
            group.best = Some((rank, member));
        }
    }

    /// The next member chosen for the current message, group by group.
    pub(crate) fn next_chosen(&mut self) -> Option<SubscriptionIndex> {
        let index = self.touched.pop()?;
        self.slots[index.0 as usize].best.map(|(_, member)| member)
    }

    fn create(&mut self, name: &Arc<str>) -> GroupIndex {
        let group = Group { name: Arc::clone(name), members: Vec::new(), about: 0, best: None };
        let index = if let Some(index) = self.free.pop() {
            self.slots[index.0 as usize] = group;
            index
        } else {
            self.slots.push(group);
            GroupIndex(u32::try_from(self.slots.len() - 1).expect("fewer groups than subscriptions"))
        };
        self.by_name.insert(Arc::clone(name), index);
        index
    }
}
