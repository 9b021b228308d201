//! Where other members and SDKs reach the doors of a broker.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How many bytes the text form of a member's addresses may have.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The advertised addresses of a broker's doors, by name. Their text, `native=b1.example:7171 resp=b1.example:6379`, is
/// what a member stores in the replicated journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorAddresses {
    by_door: BTreeMap<String, String>,
}

/// The text does not list addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no list of doors such as \"native=b1.example:7171 resp=b1.example:6379\"")]
pub struct BadDoorAddresses(String);

impl DoorAddresses {
    /// Adds the address of a door, `host:port`, and replaces one that is there.
    pub fn set(&mut self, door: &str, address: &str) -> Result<(), BadDoorAddresses> {
        let is_word = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '=' | ','))
        };
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_word(door) || !is_word(address) || !has_port {
            return Err(BadDoorAddresses(format!("{door}={address}")));
        }
        self.by_door.insert(door.to_owned(), address.to_owned());
        Ok(())
    }

    /// The address of a door.
    pub fn get(&self, door: &str) -> Option<&str> {
        self.by_door.get(door).map(String::as_str)
    }

    /// All doors with their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_door.iter().map(|(door, address)| (door.as_str(), address.as_str()))
    }

    /// Whether no door is advertised.
    pub fn is_empty(&self) -> bool {
        self.by_door.is_empty()
    }
}

impl fmt::Display for DoorAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (door, address)) in self.by_door.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{door}={address}")?;
        }
        Ok(())
    }
}

impl FromStr for DoorAddresses {
    type Err = BadDoorAddresses;

    fn from_str(text: &str) -> Result<DoorAddresses, BadDoorAddresses> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadDoorAddresses(format!("a text of {} bytes", text.len())));
        }
        let mut addresses = DoorAddresses::default();
        for entry in text.split_ascii_whitespace() {
            let (door, address) = entry.split_once('=').ok_or_else(|| BadDoorAddresses(entry.to_owned()))?;
            addresses.set(door, address)?;
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_and_read() {
        let mut doors = DoorAddresses::default();
        doors.set("resp", "[::1]:6379").unwrap();
        doors.set("native", "b1.example:7171").unwrap();
        assert_eq!(doors.to_string(), "native=b1.example:7171 resp=[::1]:6379");
        assert_eq!(doors.to_string().parse(), Ok(doors.clone()));
        assert_eq!((doors.get("native"), doors.get("grpc")), (Some("b1.example:7171"), None));
        assert_eq!("".parse(), Ok(DoorAddresses::default()));
    }

    #[test]
    fn an_address_without_a_port_is_refused_by_name() {
        for text in ["native", "native=b1.example", "native=:7171", "native=b1:0", "=b1:1", "native=b1:70000"]
        {
            let refused = text.parse::<DoorAddresses>().expect_err(text);
            assert!(refused.to_string().contains(text), "{refused}");
        }
    }
}
