//! The capacity of a worker, and how much of it is in use.

use crate::demand::{CPUS, Demand, Devices, GPUS, LIGHT_SLOTS, Quantity, Resource, SLOTS};
use crate::name::Name;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerCapacity {
    pub(crate) slots: u32,
    pub(crate) slots_used: u32,
    /// How many tasks that weigh no slot it holds at once.
    pub(crate) light_slots: u32,
    pub(crate) light_used: u32,
    /// By name. What is in use may be more than there is, if a worker registers again with less.
    resources: Vec<Supply>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Supply {
    name: Name,
    total: u64,
    used: u64,
    is_counted_by_piece: bool,
    /// For cpus and gpus, the thousandths in use of each: of all that exist, and of numbers beyond the total that
    /// attempts from before a new registration hold.
    pieces: Vec<u16>,
    /// How many of the pieces are not in use, and how many thousandths are free on the one with most room. They
    /// follow from the above, and answer whether a demand fits without a look at each piece.
    unused_pieces: u64,
    most_room: u64,
    /// The pieces of which a part is in use, in order. A part goes there first, so there are few.
    shared: Vec<u16>,
    /// The pieces before this one are in use.
    in_use_below: usize,
}

/// One thing that a worker has too little of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) resource: Name,
    pub(crate) needed: Quantity,
    pub(crate) free: Quantity,
    pub(crate) total: Quantity,
}

impl Supply {
    fn new(name: Name) -> Supply {
        let is_counted_by_piece = [CPUS, GPUS].contains(&&*name);
        Supply {
            name,
            total: 0,
            used: 0,
            is_counted_by_piece,
            pieces: Vec::new(),
            unused_pieces: 0,
            most_room: 0,
            shared: Vec::new(),
            in_use_below: 0,
        }
    }

    /// Takes over how much of it there is.
    fn declare(&mut self, total: u64) {
        self.total = total;
        if self.is_counted_by_piece {
            let count = (total / 1000) as usize;
            self.pieces.resize(self.pieces.len().max(count), 0);
            self.count_pieces();
        }
    }

    /// After a change of the total.
    fn count_pieces(&mut self) {
        let shared = self.existing_pieces().iter().zip(0..).filter(|(used, _)| is_shared(**used));
        self.shared = shared.map(|(_, number)| number).collect();
        self.unused_pieces = self.existing_pieces().iter().filter(|used| **used == 0).count() as u64;
        self.in_use_below = 0;
        self.most_room = self.find_most_room();
    }

    /// A worker may have hundreds of pieces: the compiler makes vector instructions of this loop, since every
    /// processor can compare signed numbers of 16 bits.
    fn find_most_room(&self) -> u64 {
        let least_used = self.existing_pieces().iter().map(|used| *used as i16).fold(1000, i16::min);
        1000 - least_used as u64
    }

    /// The thousandths in use of each piece that exists.
    fn existing_pieces(&self) -> &[u16] {
        &self.pieces[..(self.total / 1000) as usize]
    }

    fn fits(&self, needed: u64) -> bool {
        if self.used + needed > self.total {
            return false;
        }
        if !self.is_counted_by_piece {
            return true;
        }
        if needed < 1000 { needed <= self.most_room } else { needed / 1000 <= self.unused_pieces }
    }

    /// Whether a demand fits into these pieces. All of a resource that is not counted by piece is one.
    fn fits_in(&self, needed: u64, pieces: &[u16]) -> bool {
        let of_each = needed.min(1000);
        let used_of = |number: &u16| u64::from(self.pieces.get(usize::from(*number)).copied().unwrap_or(0));
        self.used + needed <= self.total && pieces.iter().all(|number| used_of(number) + of_each <= 1000)
    }

    /// How much one task could get.
    fn free(&self, needed: u64) -> u64 {
        let unused = self.total.saturating_sub(self.used);
        if !self.is_counted_by_piece {
            return unused;
        }
        if needed < 1000 { self.most_room } else { self.unused_pieces * 1000 }
    }

    /// The pieces for a demand that fits. A part goes where others share already, so that whole pieces stay
    /// whole.
    fn choose(&self, needed: u64) -> Vec<u16> {
        if needed < 1000 {
            return self.fullest_with_room(needed).into_iter().collect();
        }
        self.unused().take((needed / 1000) as usize).collect()
    }

    /// Of the pieces with room for a part, the first of those with most in use.
    fn fullest_with_room(&self, needed: u64) -> Option<u16> {
        let room = |number: &&u16| u64::from(self.pieces[usize::from(**number)]) + needed <= 1000;
        let with_room = self.shared.iter().filter(room);
        // Of equal ones `max_by_key` takes the last.
        let fullest = with_room.rev().max_by_key(|number| self.pieces[usize::from(**number)]);
        fullest.copied().or_else(|| self.unused().next())
    }

    /// The pieces that nothing uses, in order.
    fn unused(&self) -> impl Iterator<Item = u16> {
        let pieces = self.existing_pieces().iter().zip(0..).skip(self.in_use_below);
        pieces.filter(|(used, _)| **used == 0).map(|(_, number)| number)
    }

    fn change(&mut self, needed: u64, pieces: &[u16], change: impl Fn(u64, u64) -> u64) {
        self.used = change(self.used, needed);
        let of_each = needed.min(1000);
        for number in pieces.iter().map(|number| usize::from(*number)) {
            if self.pieces.len() <= number {
                self.pieces.resize(number + 1, 0);
            }
            let before = self.pieces[number];
            self.pieces[number] = change(u64::from(before), of_each) as u16;
            self.follow_piece(number, before);
        }
    }

    /// Updates what follows from the pieces after one of them changed. Only if the one with most room got less is
    /// there a look at each.
    fn follow_piece(&mut self, number: usize, before: u16) {
        if number >= self.existing_pieces().len() {
            return;
        }
        let after = self.pieces[number];
        if is_shared(before) != is_shared(after) {
            match self.shared.binary_search(&(number as u16)) {
                Ok(at) => drop(self.shared.remove(at)),
                Err(at) => self.shared.insert(at, number as u16),
            }
        }
        self.unused_pieces = self.unused_pieces + u64::from(after == 0) - u64::from(before == 0);
        if after == 0 {
            self.in_use_below = self.in_use_below.min(number);
        } else if self.in_use_below == number {
            self.in_use_below += 1;
        }
        let (had, has) = (1000 - u64::from(before.min(1000)), 1000 - u64::from(after.min(1000)));
        if has >= self.most_room {
            self.most_room = has;
        } else if self.unused_pieces == 0 && had == self.most_room {
            self.most_room = self.find_most_room();
        }
    }

    fn is_idle(&self) -> bool {
        self.total == 0 && self.used == 0
    }
}

/// Whether a part of a piece is in use, and a part is not.
fn is_shared(used: u16) -> bool {
    used > 0 && used < 1000
}

impl WorkerCapacity {
    /// Takes over what the worker declares. What is in use stays in use.
    pub(crate) fn declare(&mut self, slots: u32, light_slots: u32, resources: &[Resource]) {
        (self.slots, self.light_slots) = (slots, light_slots);
        for supply in &mut self.resources {
            supply.declare(0);
        }
        for resource in resources {
            self.supply_mut(&resource.name).declare(resource.quantity.0);
        }
        self.resources.retain(|supply| !supply.is_idle());
    }

    /// Whether the worker has slots for a task now.
    pub(crate) fn has_slots(&self, demand: &Demand) -> bool {
        match demand.slots {
            0 => self.light_used < self.light_slots,
            slots => u64::from(self.slots_used) + u64::from(slots) <= u64::from(self.slots),
        }
    }

    /// Whether the worker could take a task now.
    pub(crate) fn fits(&self, demand: &Demand) -> bool {
        self.has_slots(demand)
            && demand.resources.iter().all(|resource| {
                self.supply(&resource.name).is_some_and(|supply| supply.fits(resource.quantity.0))
            })
    }

    /// Whether the worker could take an attempt back that had these devices.
    pub(crate) fn fits_again(&self, demand: &Demand, devices: Option<&Devices>) -> bool {
        self.has_slots(demand)
            && demand.resources.iter().all(|resource| {
                let pieces = devices.map_or(&[][..], |devices| devices.of(&resource.name));
                let supply = self.supply(&resource.name);
                supply.is_some_and(|supply| supply.fits_in(resource.quantity.0, pieces))
            })
    }

    /// Whether nothing is in use.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots_used == 0 && self.light_used == 0 && self.resources.iter().all(|supply| supply.used == 0)
    }

    /// Whether the worker could take a task if it held nothing.
    pub(crate) fn is_large_enough(&self, demand: &Demand) -> bool {
        let has_slots = if demand.slots == 0 { self.light_slots > 0 } else { demand.slots <= self.slots };
        let has = |resource: &Resource| {
            self.supply(&resource.name).is_some_and(|supply| resource.quantity.0 <= supply.total)
        };
        has_slots && demand.resources.iter().all(has)
    }

    /// The cpus and gpus for a task that fits.
    pub(crate) fn choose(&self, demand: &Demand) -> Devices {
        let choose = |name: &str| match demand.of(name).0 {
            0 => Vec::new(),
            needed => self.supply(name).map(|supply| supply.choose(needed)).unwrap_or_default(),
        };
        Devices { cpus: choose(CPUS), gpus: choose(GPUS) }
    }

    /// Occupies the slots of a task.
    pub(crate) fn occupy_slots(&mut self, demand: &Demand) {
        match demand.slots {
            0 => self.light_used += 1,
            slots => self.slots_used += slots,
        }
    }

    /// Frees the slots of a task, and nothing else.
    pub(crate) fn vacate_slots(&mut self, demand: &Demand) {
        match demand.slots {
            0 => self.light_used -= 1,
            slots => self.slots_used -= slots,
        }
    }

    pub(crate) fn occupy(&mut self, demand: &Demand, devices: Option<&Devices>) {
        self.occupy_slots(demand);
        for resource in &demand.resources {
            let pieces = devices.map_or(&[][..], |devices| devices.of(&resource.name));
            let supply = self.supply_mut(&resource.name);
            supply.change(resource.quantity.0, pieces, |used, more| used + more);
        }
    }

    pub(crate) fn vacate(&mut self, demand: &Demand, devices: Option<&Devices>) {
        self.vacate_slots(demand);
        for resource in &demand.resources {
            let pieces = devices.map_or(&[][..], |devices| devices.of(&resource.name));
            let supply = self.supply_mut(&resource.name);
            supply.change(resource.quantity.0, pieces, |used, less| used - less);
        }
        // Most often what a task used is still there.
        if !demand.resources.is_empty() && self.resources.iter().any(Supply::is_idle) {
            self.resources.retain(|supply| !supply.is_idle());
        }
    }

    /// The first thing the worker has too little of, now.
    pub(crate) fn short_of(&self, demand: &Demand) -> Option<Short> {
        self.each(demand).find(|(_, fits, _)| !fits).map(|(short, _, _)| short)
    }

    /// The first thing the worker has too little of, even if it held nothing.
    pub(crate) fn too_small_for(&self, demand: &Demand) -> Option<Short> {
        self.each(demand).find(|(_, _, is_enough)| !is_enough).map(|(short, _, _)| short)
    }

    /// Each part of a demand with whether it fits now, and whether it could ever.
    fn each<'a>(&'a self, demand: &'a Demand) -> impl Iterator<Item = (Short, bool, bool)> + 'a {
        let (name, needed, used, total) = match demand.slots {
            0 => (LIGHT_SLOTS, 1, self.light_used, self.light_slots),
            slots => (SLOTS, slots, self.slots_used, self.slots),
        };
        let free = total.saturating_sub(used);
        let slots = Short {
            resource: name.into(),
            needed: Quantity::whole(u64::from(needed)),
            free: Quantity::whole(u64::from(free)),
            total: Quantity::whole(u64::from(total)),
        };
        let resources = demand.resources.iter().map(|resource| {
            let supply = self.supply(&resource.name);
            let needed = resource.quantity.0;
            let (free, total) = supply.map_or((0, 0), |supply| (supply.free(needed), supply.total));
            let short = Short {
                resource: resource.name.clone(),
                needed: resource.quantity,
                free: Quantity(free),
                total: Quantity(total),
            };
            (short, supply.is_some_and(|supply| supply.fits(needed)), needed <= total)
        });
        std::iter::once((slots, needed <= free, needed <= total)).chain(resources)
    }

    /// Each resource with how much of it is in use.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (&Name, Quantity, Quantity)> {
        self.resources.iter().map(|supply| (&supply.name, Quantity(supply.used), Quantity(supply.total)))
    }

    fn supply(&self, name: &str) -> Option<&Supply> {
        // A worker has few resources, and names of different lengths are unequal without a look at their bytes.
        self.resources.iter().find(|supply| *supply.name == *name)
    }

    fn supply_mut(&mut self, name: &Name) -> &mut Supply {
        let at = match self.resources.iter().position(|supply| *supply.name == **name) {
            Some(at) => at,
            None => {
                let at = self.resources.partition_point(|supply| supply.name < *name);
                self.resources.insert(at, Supply::new(name.clone()));
                at
            }
        };
        &mut self.resources[at]
    }

    /// Removes what makes no difference, to compare two of them.
    pub(crate) fn normal(&self) -> WorkerCapacity {
        let mut normal = self.clone();
        for supply in &mut normal.resources {
            while supply.pieces.last() == Some(&0) {
                supply.pieces.pop();
            }
            supply.in_use_below = 0;
        }
        normal
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stock(slots: u32, resources: &[(&str, &str)]) -> WorkerCapacity {
        let mut stock = WorkerCapacity::default();
        stock.declare(slots, 2, &listed(resources));
        stock
    }

    fn listed(resources: &[(&str, &str)]) -> Vec<Resource> {
        let parse = |text: &str| Quantity::parse(text).expect("a quantity");
        resources.iter().map(|(name, text)| Resource::new(*name, parse(text))).collect()
    }

    fn demand(slots: u32, resources: &[(&str, &str)]) -> Demand {
        let mut demand = Demand { slots, resources: listed(resources) };
        demand.normalize();
        demand
    }

    #[test]
    fn parts_of_a_gpu_share_one_so_that_the_others_stay_whole() {
        let mut stock = stock(8, &[("gpus", "2")]);
        let half = demand(1, &[("gpus", "0.5")]);
        let whole = demand(1, &[("gpus", "1")]);
        let first = stock.choose(&half);
        stock.occupy(&half, Some(&first));
        let second = stock.choose(&half);
        assert_eq!((&first.gpus, &second.gpus), (&vec![0], &vec![0]));
        stock.occupy(&half, Some(&second));
        assert_eq!(stock.choose(&whole).gpus, [1]);
        stock.vacate(&half, Some(&first));
        assert!(stock.fits(&half) && stock.fits(&whole));
        let large = demand(1, &[("gpus", "0.6")]);
        assert_eq!(stock.choose(&large).gpus, [1]);
    }

    proptest! {
        /// Whatever comes and goes, also after the worker registered again with another number of gpus.
        #[test]
        fn the_counts_of_pieces_are_those_of_a_look_at_each(
            acts in prop::collection::vec((0u8..9, 0usize..8), 1..120),
        ) {
            let mut stock = stock(1_000, &[("gpus", "70")]);
            let mut held: Vec<(Demand, Devices)> = Vec::new();
            for (act, number) in acts {
                if act == 8 {
                    stock.declare(1_000, 2, &listed(&[("gpus", ["70", "2", "0", "40"][number % 4])]));
                } else if act < 5 {
                    let wanted = ["0.5", "0.6", "0.3", "1", "3", "40", "0.5", "0.1"][number];
                    let wanted = demand(1, &[("gpus", wanted)]);
                    if stock.fits(&wanted) {
                        let devices = stock.choose(&wanted);
                        prop_assert!(!devices.gpus.is_empty());
                        stock.occupy(&wanted, Some(&devices));
                        held.push((wanted, devices));
                    }
                } else if !held.is_empty() {
                    let (wanted, devices) = held.swap_remove(number % held.len());
                    stock.vacate(&wanted, Some(&devices));
                }
                for supply in &stock.resources {
                    let mut counted = supply.clone();
                    counted.count_pieces();
                    let in_use = supply.existing_pieces().iter().take_while(|used| **used > 0).count();
                    prop_assert!(supply.in_use_below <= in_use);
                    counted.in_use_below = supply.in_use_below;
                    prop_assert_eq!(&counted, supply);
                }
            }
        }
    }

    #[test]
    fn two_halves_of_different_gpus_are_no_whole_one() {
        let mut stock = stock(8, &[("gpus", "2")]);
        let large = demand(1, &[("gpus", "0.6")]);
        for gpu in [0, 1] {
            let devices = stock.choose(&large);
            assert_eq!(devices.gpus, [gpu]);
            stock.occupy(&large, Some(&devices));
        }
        assert!(!stock.fits(&large), "0.8 are free, but not on one of them");
        assert!(!stock.fits(&demand(1, &[("gpus", "0.5")])));
        assert!(stock.fits(&demand(1, &[("gpus", "0.4")])));
        let short = stock.short_of(&large).expect("it does not fit");
        assert_eq!((&*short.resource, short.free), ("gpus", Quantity(400)));
    }

    #[test]
    fn a_light_task_needs_no_slot_but_a_light_one() {
        let mut stock = stock(1, &[]);
        stock.occupy(&Demand::default(), None);
        let light = demand(0, &[]);
        stock.occupy(&light, None);
        stock.occupy(&light, None);
        let short = stock.short_of(&light).expect("two are all it takes");
        assert_eq!((&*short.resource, short.total), ("light-slots", Quantity::whole(2)));
        stock.vacate(&light, None);
        assert!(stock.fits(&light) && !stock.fits(&Demand::default()));
    }

    #[test]
    fn what_is_in_use_stays_in_use_when_a_worker_declares_less() {
        let mut stock = stock(4, &[("cpus", "4"), ("licence", "2")]);
        let all = demand(1, &[("cpus", "4"), ("licence", "1")]);
        let devices = stock.choose(&all);
        assert_eq!(devices.cpus, [0, 1, 2, 3]);
        stock.occupy(&all, Some(&devices));
        stock.declare(4, 2, &listed(&[("cpus", "2")]));
        assert!(!stock.fits(&demand(1, &[("cpus", "1")])));
        stock.vacate(&all, Some(&devices));
        assert_eq!(stock.choose(&demand(1, &[("cpus", "2")])).cpus, [0, 1]);
        assert_eq!(stock.resources().count(), 1, "a resource that is neither there nor in use is forgotten");
    }
}
