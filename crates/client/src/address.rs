//! Where a broker listens: `host:port`, `host` with the default port, or `unix:/path`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tenure_wire::DEFAULT_PORT;

use crate::error::Error;

/// How many addresses one peer may be given.
pub const ADDRESSES_MAX: usize = 64;

/// One address of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `host:port`; the host may be a name.
    Tcp(Box<str>),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl Address {
    /// Reads several addresses, separated by commas.
    ///
    /// ```
    /// use tenure_client::Address;
    /// assert_eq!(Address::parse_many("one:7171, unix:/run/tenure.sock").unwrap().len(), 2);
    /// ```
    pub fn parse_many(text: &str) -> Result<Vec<Address>, Error> {
        let addresses: Vec<Address> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if addresses.len() > ADDRESSES_MAX {
            return Err(Error::bad_address(text, "has too many addresses, at most 64 are taken"));
        }
        Ok(addresses)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let bad = |why| Err(Error::bad_address(text, why));
        let text = text.trim();
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { bad("has no path") } else { Ok(Address::Unix(path.into())) };
        }
        let text = text.strip_prefix("tcp://").or_else(|| text.strip_prefix("tenure://")).unwrap_or(text);
        if text.is_empty() {
            return bad("is empty");
        }
        if text.contains("://") || text.contains('/') || text.contains(char::is_whitespace) {
            return bad("is neither host:port nor unix:/path");
        }
        // An address of IP version 6 has colons of its own and stands in brackets.
        let after_host = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((_, after)) => after,
                None => return bad("lacks the closing bracket"),
            },
            None => text.find(':').map_or("", |colon| &text[colon..]),
        };
        match after_host.strip_prefix(':') {
            None if after_host.is_empty() => Ok(Address::Tcp(format!("{text}:{DEFAULT_PORT}").into())),
            Some(port) if port.parse::<u16>().is_ok() && !text.starts_with(':') => {
                Ok(Address::Tcp(text.into()))
            }
            _ => bad("needs a port between 1 and 65535 after the host"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => f.write_str(address),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(text: &str) -> Address {
        Address::Tcp(text.into())
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, address) in [
            ("127.0.0.1:7000", tcp("127.0.0.1:7000")),
            ("broker.lab", tcp("broker.lab:7171")),
            ("tcp://broker.lab:1", tcp("broker.lab:1")),
            (" [::1]:7000 ", tcp("[::1]:7000")),
            ("[::1]", tcp("[::1]:7171")),
            ("unix:/run/tenure.sock", Address::Unix("/run/tenure.sock".into())),
            ("unix:///run/tenure.sock", Address::Unix("/run/tenure.sock".into())),
            ("unix:here.sock", Address::Unix("here.sock".into())),
        ] {
            assert_eq!(text.parse::<Address>().unwrap(), address, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for text in [
            "",
            "unix:",
            "host:",
            "host:notaport",
            "host:70000",
            ":7171",
            "http://host",
            "a/b",
            "[::1",
            "::1:7:7",
            "a b",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(text.trim()), "{text}: {error}");
        }
    }
}
