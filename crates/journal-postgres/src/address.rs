//! Where the servers are: a URL as psql takes it, with any number of hosts.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::Host;
use zeroize::Zeroizing;

/// The servers of one database. Never shows a password.
#[derive(Clone, PartialEq, Eq)]
pub struct JournalAddress {
    pub(crate) hosts: Vec<ServerAddress>,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) tls: TlsMode,
    /// The authorities of the servers' certificates. `None`: those of the system.
    pub(crate) root_file: Option<PathBuf>,
    /// A password file in the form of psql.
    pub(crate) passfile: Option<PathBuf>,
    pub(crate) password: Option<Zeroizing<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    pub(crate) host: ServerHost,
    pub(crate) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerHost {
    Tcp(String),
    /// The directory of a Unix socket.
    Unix(PathBuf),
}

/// Whether the connection uses TLS. A certificate is always verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    Disable,
    Verify,
}

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JournalAddressError(String);

const DEFAULT_PORT: u16 = 5432;
/// Options of the URL that this program reads itself.
const OWN_OPTIONS: [&str; 3] = ["sslmode", "sslrootcert", "passfile"];

impl JournalAddress {
    /// Whether the URL has a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Uses this password, unless the URL has one.
    pub fn set_password(&mut self, password: Zeroizing<String>) {
        self.password.get_or_insert(password);
    }

    /// Whether the password of the URL would cross the network in clear text.
    pub fn crosses_in_clear(&self) -> bool {
        self.tls == TlsMode::Disable && self.hosts.iter().any(|server| !server.is_local())
    }
}

impl FromStr for JournalAddress {
    type Err = JournalAddressError;

    fn from_str(text: &str) -> Result<JournalAddress, JournalAddressError> {
        let wrong = |why: &str| {
            JournalAddressError(format!("{why}: write postgres://USER@HOST:PORT,HOST:PORT/DATABASE"))
        };
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(wrong("the address does not begin with postgres://"));
        }
        let (plain, own) = split_options(text);
        // The parser's message may quote the text, and with it a password.
        let config = Config::from_str(&plain).map_err(|_| wrong("the journal's address cannot be read"))?;
        let mut hosts = Vec::new();
        for (index, host) in config.get_hosts().iter().enumerate() {
            let ports = config.get_ports();
            let port = ports.get(index).or_else(|| ports.first()).copied().unwrap_or(DEFAULT_PORT);
            let host = match host {
                Host::Tcp(name) => ServerHost::Tcp(name.clone()),
                Host::Unix(path) => ServerHost::Unix(path.clone()),
            };
            hosts.push(ServerAddress { host, port });
        }
        if hosts.is_empty() {
            return Err(wrong("the journal's address names no host"));
        }
        let user = config.get_user().ok_or_else(|| wrong("the journal's address names no user"))?.to_owned();
        let database = config.get_dbname().unwrap_or(&user).to_owned();
        let is_local = hosts.iter().all(ServerAddress::is_local);
        let tls = match own.get("sslmode") {
            None if is_local => TlsMode::Disable,
            None => TlsMode::Verify,
            Some("disable") => TlsMode::Disable,
            Some("require" | "verify-full") => TlsMode::Verify,
            Some(other) => {
                return Err(JournalAddressError(format!(
                    "sslmode={other} is not supported: write disable, or verify-full (the default for other machines)"
                )));
            }
        };
        let password = config
            .get_password()
            .map(|bytes| String::from_utf8(bytes.to_vec()).map(Zeroizing::new))
            .transpose()
            .map_err(|_| wrong("the password in the journal's address is not UTF-8"))?;
        Ok(JournalAddress {
            hosts,
            user,
            database,
            tls,
            root_file: own.get("sslrootcert").map(PathBuf::from),
            passfile: own.get("passfile").map(PathBuf::from),
            password,
        })
    }
}

impl ServerAddress {
    pub(crate) fn is_local(&self) -> bool {
        match &self.host {
            ServerHost::Unix(_) => true,
            ServerHost::Tcp(name) => {
                name == "localhost"
                    || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            ServerHost::Tcp(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            ServerHost::Tcp(name) => write!(f, "{name}:{}", self.port),
            ServerHost::Unix(path) => write!(f, "{}:{}", path.display(), self.port),
        }
    }
}

impl fmt::Display for JournalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        write!(f, "postgres://{}@{}/{}", self.user, hosts.join(","), self.database)
    }
}

impl fmt::Debug for JournalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Default)]
struct OwnOptions(Vec<(&'static str, String)>);

impl OwnOptions {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// Takes the options that the parser of the library does not know out of the URL.
fn split_options(text: &str) -> (String, OwnOptions) {
    let Some((before, options)) = text.split_once('?') else {
        return (text.to_owned(), OwnOptions::default());
    };
    let mut own = OwnOptions::default();
    let mut left = Vec::new();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match OWN_OPTIONS.iter().find(|known| **known == key) {
            Some(known) => own.0.push((known, decoded(value))),
            None => left.push(option),
        }
    }
    let rest = left.join("&");
    (if rest.is_empty() { before.to_owned() } else { format!("{before}?{rest}") }, own)
}

/// Percent-encoding, as in every URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut left = text.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        let hex = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                left = &rest[2..];
            }
            None => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<JournalAddress, String> {
        text.parse().map_err(|error: JournalAddressError| error.to_string())
    }

    #[test]
    fn a_url_names_hosts_user_and_database() {
        let address = parse("postgres://tenure@db1,db2:6000/work?sslrootcert=%2Fetc%2Fca.pem").unwrap();
        assert_eq!(address.to_string(), "postgres://tenure@db1:5432,db2:6000/work");
        assert_eq!(address.root_file.as_deref(), Some(std::path::Path::new("/etc/ca.pem")));
        assert_eq!(address.tls, TlsMode::Verify, "other machines are reached by TLS");
        let address = parse("postgres://tenure@127.0.0.1:1,localhost:2/").unwrap();
        assert_eq!((address.tls, &*address.database), (TlsMode::Disable, "tenure"));
        assert!(parse("postgres://t@db1/work?sslmode=disable").unwrap().crosses_in_clear());
    }

    #[test]
    fn a_password_is_never_shown() {
        let address = parse("postgres://tenure:hunter2@db1/work").unwrap();
        assert!(address.has_password());
        assert!(!format!("{address} {address:?}").contains("hunter2"));
        let error = parse("postgres://tenure:hunter2@db1:nonsense/work").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parse("mysql://x@y/z").unwrap_err().contains("does not begin with postgres://"));
        assert!(parse("postgres://db1/work").unwrap_err().contains("names no user"));
        let error = parse("postgres://t@db1/work?sslmode=prefer").unwrap_err();
        assert!(error.contains("sslmode=prefer is not supported"), "{error}");
    }
}
