//! The demand of a task on the worker that runs it: slots, and quantities of resources.

use std::fmt;

use crate::limits::{DEVICES_MAX, QUANTITY_MAX, RESOURCES_MAX, TASK_SLOTS_MAX};
use crate::name::{self, Name};
use crate::refusal::Refusal;

/// The resources whose single pieces are assigned: a task learns which of them are its own.
pub const CPUS: &str = "cpus";
/// The resource whose devices are numbered like processors.
pub const GPUS: &str = "gpus";
/// Counted in bytes.
pub const MEM: &str = "mem";
/// Not resources, but explanations name them like resources.
pub const SLOTS: &str = "slots";
/// The name under which the room for tasks without weight is shown.
pub const LIGHT_SLOTS: &str = "light-slots";

/// A quantity of a resource in thousandths: half a GPU is 500. Memory is counted in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(pub u64);

impl Quantity {
    /// One whole.
    pub const ONE: Quantity = Quantity(1000);

    /// This many whole ones.
    pub fn whole(count: u64) -> Quantity {
        Quantity(count.saturating_mul(1000))
    }

    /// Whether there is no fraction.
    pub fn is_whole(self) -> bool {
        self.0.is_multiple_of(1000)
    }

    /// Reads `4`, `0.5`, `8GB` or `512MiB`. A unit stands for a number of bytes.
    pub fn parse(text: &str) -> Option<Quantity> {
        let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "t" | "tb" => 1_000_000_000_000,
            "ki" | "kib" => 1 << 10,
            "mi" | "mib" => 1 << 20,
            "gi" | "gib" => 1 << 30,
            "ti" | "tib" => 1 << 40,
            _ => return None,
        };
        let number = number.trim();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let are_digits =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(decimals) || decimals.len() > 3 {
            return None;
        }
        let thousandths = decimals.parse::<u64>().ok()? * 10_u64.pow(3 - decimals.len() as u32);
        let all = whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(thousandths)?;
        all.checked_mul(factor).map(Quantity)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 1000)?;
        match self.0 % 1000 {
            0 => Ok(()),
            rest => write!(f, ".{}", format!("{rest:03}").trim_end_matches('0')),
        }
    }
}

/// A quantity of a resource.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub name: Name,
    pub quantity: Quantity,
}

impl Resource {
    /// This quantity of a resource.
    pub fn new(name: impl Into<Name>, quantity: Quantity) -> Resource {
        Resource { name: name.into(), quantity }
    }

    /// The quantity with its unit.
    pub fn amount(&self) -> Amount<'_> {
        Amount { of: &self.name, quantity: self.quantity }
    }
}

/// A quantity as people read it: `8 GB` of memory, `4` of anything else.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Copy, Debug)]
pub struct Amount<'a> {
    pub of: &'a str,
    pub quantity: Quantity,
}

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of != MEM {
            return write!(f, "{}", self.quantity);
        }
        let bytes = self.quantity.0 / 1000;
        let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
        match units.into_iter().find(|(_, factor)| bytes >= *factor) {
            Some((unit, factor)) => {
                // Rounded down to tenths.
                let tenths = bytes / (factor / 10);
                write!(f, "{} {unit}", Quantity(tenths * 100))
            }
            None => write!(f, "{bytes} B"),
        }
    }
}

/// The slots and resources that a task occupies while a worker holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    /// Zero for a task that mostly waits: it occupies a light slot instead.
    pub slots: u32,
    /// By name, each once, none of them zero.
    pub resources: Vec<Resource>,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand { slots: 1, resources: Vec::new() }
    }
}

impl Demand {
    /// One slot and nothing else: every worker with a free slot fits.
    pub fn is_plain(&self) -> bool {
        self.slots == 1 && self.resources.is_empty()
    }

    /// The quantity of a resource; zero if it is not named.
    pub fn of(&self, name: &str) -> Quantity {
        self.resources
            .iter()
            .find(|resource| &*resource.name == name)
            .map_or(Quantity::default(), |resource| resource.quantity)
    }

    /// Brings equal demands into the same form.
    pub(crate) fn normalize(&mut self) {
        if !self.resources.is_empty() {
            self.resources.retain(|resource| resource.quantity.0 > 0);
            self.resources.sort();
        }
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.slots > TASK_SLOTS_MAX {
            return Err(Refusal::TooMany { what: "slots", limit: TASK_SLOTS_MAX as usize });
        }
        check_resources(&self.resources, |resource| {
            let (name, quantity) = (&*resource.name, resource.quantity);
            if (name == CPUS || name == GPUS) && quantity > Quantity::ONE && !quantity.is_whole() {
                return Err(Refusal::BadValue {
                    what: "resource",
                    why: "is neither a whole number of cpus or gpus nor a part of one",
                });
            }
            Ok(())
        })
    }
}

/// Checks what a worker declares. Sorted by name.
pub(crate) fn check_declared(resources: &[Resource]) -> Result<(), Refusal> {
    check_resources(resources, |resource| {
        if *resource.name != *CPUS && *resource.name != *GPUS {
            return Ok(());
        }
        if !resource.quantity.is_whole() {
            return Err(Refusal::BadValue {
                what: "resource",
                why: "is a part of a cpu or gpu: declare whole ones",
            });
        }
        if resource.quantity > Quantity::whole(DEVICES_MAX as u64) {
            return Err(Refusal::TooMany { what: "cpus or gpus", limit: DEVICES_MAX });
        }
        Ok(())
    })
}

fn check_resources(
    resources: &[Resource],
    check: impl Fn(&Resource) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if resources.len() > RESOURCES_MAX {
        return Err(Refusal::TooMany { what: "resources", limit: RESOURCES_MAX });
    }
    for resource in resources {
        name::check("resource", &resource.name)?;
        if [SLOTS, LIGHT_SLOTS].contains(&&*resource.name) {
            return Err(Refusal::BadValue {
                what: "resource",
                why: "has the reserved name of the slots: choose another",
            });
        }
        if resource.quantity > QUANTITY_MAX {
            return Err(Refusal::BadValue { what: "resource", why: "is above the largest quantity, 10^15" });
        }
        check(resource)?;
    }
    if resources.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(Refusal::BadValue { what: "resource", why: "is named twice" });
    }
    Ok(())
}

/// The cpus and gpus that belong to an attempt, by their numbers on the worker. A part of one shares its
/// number with other attempts.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    pub cpus: Vec<u16>,
    pub gpus: Vec<u16>,
}

impl Devices {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.gpus.is_empty()
    }

    pub(crate) fn of(&self, name: &str) -> &[u16] {
        match name {
            CPUS => &self.cpus,
            GPUS => &self.gpus,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_decimals_and_units() {
        for (text, thousandths) in [
            ("4", 4_000),
            ("0.5", 500),
            ("0.125", 125),
            ("8GB", 8_000_000_000_000),
            ("8 gb", 8_000_000_000_000),
            ("1.5GiB", 1_610_612_736_000),
            ("512MiB", 536_870_912_000),
        ] {
            assert_eq!(Quantity::parse(text), Some(Quantity(thousandths)), "{text}");
        }
        for text in ["", "-1", "0.0005", ".5", "5.", "4 parsecs", "1e3", "99999999999999999999", "9999999TB"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn quantities_are_written_as_people_say_them() {
        for (name, text, written) in [
            ("gpus", "0.5", "0.5"),
            ("cpus", "4", "4"),
            ("mem", "8GB", "8 GB"),
            ("mem", "1.5GB", "1.5 GB"),
            ("mem", "512", "512 B"),
            ("licence", "2.25", "2.25"),
        ] {
            let resource = Resource::new(name, Quantity::parse(text).expect(text));
            assert_eq!(resource.amount().to_string(), written);
        }
    }
}
