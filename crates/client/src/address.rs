//! Where a broker listens: `host:port`, `host` with the default port, `tls://host:port?ca=FILE`, or `unix:/path`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tenure_wire::DEFAULT_PORT;

use crate::error::Error;

/// Maximum number of addresses for one peer.
pub const ADDRESSES_MAX: usize = 64;

/// One address of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `host:port`; the host may be a name.
    Tcp(Box<str>),
    /// The same behind TLS.
    Tls(Box<TlsAddress>),
    /// A Unix socket's path.
    Unix(PathBuf),
}

/// `tls://host:port?ca=FILE`, with `&cert=FILE&key=FILE` if the broker requires client certificates. All files are in
/// PEM format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsAddress {
    /// `host:port`; the certificate must be for this host.
    pub address: Box<str>,
    /// The CA certificates that the broker's certificate is checked against.
    pub ca: PathBuf,
    /// The client's certificate chain and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
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
            return Err(Error::bad_address(text, "has too many addresses: at most 64 are allowed"));
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
        if let Some(rest) = text.strip_prefix("tls://") {
            return TlsAddress::parse(text, rest).map(|address| Address::Tls(Box::new(address)));
        }
        let text = text.strip_prefix("tcp://").or_else(|| text.strip_prefix("tenure://")).unwrap_or(text);
        if text.is_empty() {
            return bad("is empty");
        }
        if text.contains("://") || text.contains('/') || text.contains(char::is_whitespace) {
            return bad("is neither host:port nor unix:/path");
        }
        // An IPv6 address contains colons and is written in brackets.
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

impl TlsAddress {
    fn parse(text: &str, rest: &str) -> Result<TlsAddress, Error> {
        let bad = |why| Error::bad_address(text, why);
        let (host, files) = rest.split_once('?').unwrap_or((rest, ""));
        let Address::Tcp(address) = host.parse()? else {
            return Err(bad("needs a host and a port after tls://"));
        };
        let (mut ca, mut cert, mut key) = (None, None, None);
        for file in files.split('&').filter(|file| !file.is_empty()) {
            let (name, path) = file.split_once('=').unwrap_or((file, ""));
            let place = match name {
                "ca" => &mut ca,
                "cert" => &mut cert,
                "key" => &mut key,
                _ => {
                    return Err(bad(
                        "has an unknown option after the question mark: use ca=FILE, cert=FILE and key=FILE",
                    ));
                }
            };
            *place = Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
        }
        if cert.is_some() != key.is_some() {
            return Err(bad("needs cert=FILE and key=FILE together"));
        }
        let ca = ca.ok_or_else(|| bad("needs the certificate that signs the broker's own: ?ca=FILE"))?;
        Ok(TlsAddress { address, ca, identity: cert.zip(key) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => f.write_str(address),
            Address::Tls(tls) => write!(f, "tls://{}", tls.address),
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
    fn a_tls_address_names_its_files() {
        let address: Address = "tls://broker.lab?ca=/etc/ca.pem&cert=me.pem&key=me.key".parse().unwrap();
        let tls = TlsAddress {
            address: "broker.lab:7171".into(),
            ca: "/etc/ca.pem".into(),
            identity: Some(("me.pem".into(), "me.key".into())),
        };
        assert_eq!(address, Address::Tls(Box::new(tls)));
        assert_eq!(address.to_string(), "tls://broker.lab:7171");
        for wrong in
            ["tls://host", "tls://host?ca=", "tls://host?ca=a&cert=b", "tls://host?xy=a", "tls://?ca=a"]
        {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
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
