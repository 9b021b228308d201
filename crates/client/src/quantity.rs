//! Quantities of resources.

use std::fmt;

/// The resources whose single pieces the broker assigns.
pub const CPUS: &str = "cpus";
/// See [`CPUS`].
pub const GPUS: &str = "gpus";
/// Memory, counted in bytes.
pub const MEM: &str = "mem";

/// A quantity of a resource in thousandths: half a GPU is 500. Memory is counted in bytes.
///
/// ```
/// use tenure_client::Quantity;
///
/// assert_eq!(Quantity::parse("0.5"), Ok(Quantity(500)));
/// assert_eq!(Quantity::parse("8GB"), Ok(Quantity(8_000_000_000_000)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(pub u64);

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadQuantity(Box<str>);

impl fmt::Display for BadQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no quantity: write a number with at most three decimals, and kB, MB, GB, TB, KiB, MiB, GiB or TiB for bytes",
            self.0
        )
    }
}

impl std::error::Error for BadQuantity {}

impl Quantity {
    /// This many whole ones.
    pub fn whole(count: u64) -> Quantity {
        Quantity(count.saturating_mul(1000))
    }

    /// Reads `4`, `0.5`, `8GB` or `512MiB`.
    pub fn parse(text: &str) -> Result<Quantity, BadQuantity> {
        read(text).map(Quantity).ok_or_else(|| BadQuantity(text.into()))
    }

    /// The quantity as people write it: with a unit if it is memory.
    pub fn of(self, resource: &str) -> String {
        if resource != MEM {
            return self.to_string();
        }
        let bytes = self.0 / 1000;
        let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
        match units.into_iter().find(|(_, factor)| bytes >= *factor) {
            // Rounded down to tenths.
            Some((unit, factor)) => format!("{}{unit}", Quantity(bytes / (factor / 10) * 100)),
            None => format!("{bytes}B"),
        }
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

fn read(text: &str) -> Option<u64> {
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
    let are_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let thousandths = decimals.parse::<u64>().ok()? * 10_u64.pow(3 - decimals.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(thousandths)?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_written_with_decimals_and_units() {
        for (resource, text, thousandths, written) in [
            ("cpus", "4", 4_000, "4"),
            ("gpus", "0.5", 500, "0.5"),
            ("mem", "8GB", 8_000_000_000_000, "8GB"),
            ("mem", "1.5 GiB", 1_610_612_736_000, "1.6GB"),
            ("mem", "100", 100_000, "100B"),
        ] {
            assert_eq!(Quantity::parse(text), Ok(Quantity(thousandths)), "{text}");
            assert_eq!(Quantity(thousandths).of(resource), written);
        }
        for text in ["", "-1", "0.0005", ".5", "4 parsecs", "99999999999999999999", "9999999TB"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
