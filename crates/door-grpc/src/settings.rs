//! What the door is told at its start. Addresses are not among it: whoever starts the door binds them.

use std::time::Duration;

use tonic::transport::{Identity, Server, ServerTlsConfig};

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a stranger may take to say its first words.
    pub hello_within: Duration,
    /// How many connections may be open at once, strangers included.
    pub connections_max: usize,
    /// How many calls and streams one connection may have under way.
    pub streams_max: u32,
    /// How often a silent connection is asked whether it is still there, and how long it may take to say so.
    pub ping: Duration,
    pub ping_timeout: Duration,
    /// After so long without anything else, a subscriber hears a heartbeat.
    pub heartbeat: Duration,
    /// The certificate and its key, if the door speaks TLS.
    pub tls: Option<Tls>,
}

/// A certificate chain and its private key, both in PEM, that go together.
#[derive(Clone)]
pub struct Tls(Identity);

/// What is wrong with a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// This is no certificate, whatever it is.
    Certificate(&'static str),
    Key(&'static str),
    /// Each looks like what it should be, and together they cannot be used.
    Both(String),
}

impl Tls {
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Tls, TlsFault> {
        let has = |text: &[u8], label: &str| text.windows(label.len()).any(|part| part == label.as_bytes());
        if !has(certificate, "BEGIN CERTIFICATE-----") {
            return Err(TlsFault::Certificate("holds no certificate in PEM"));
        }
        if !has(key, "PRIVATE KEY-----") {
            return Err(TlsFault::Key("holds no private key in PEM"));
        }
        let tls = Tls(Identity::from_pem(certificate, key));
        match Server::builder().tls_config(tls.config()) {
            Ok(_) => Ok(tls),
            Err(error) => Err(TlsFault::Both(cause(&error))),
        }
    }

    pub(crate) fn config(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.0.clone())
    }
}

/// The transport's own sentence says only that there was an error; what it is stands at the end of its causes.
fn cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), cause)
}

/// The key stays out of logs.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hello_within: Duration::from_secs(10),
            connections_max: 100_000,
            streams_max: 1_000,
            ping: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            heartbeat: Duration::from_secs(30),
            tls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_and_its_key_go_together_or_are_refused() {
        let certificate = include_bytes!("../tests/tls/certificate.pem");
        let key = include_bytes!("../tests/tls/key.pem");
        let other = include_bytes!("../tests/tls/other_key.pem");
        assert!(Tls::new(certificate, key).is_ok());
        let fault = |certificate, key| Tls::new(certificate, key).expect_err("it is refused");
        assert!(matches!(fault(key, certificate), TlsFault::Certificate(_)));
        assert!(matches!(fault(certificate, certificate), TlsFault::Key(_)));
        assert!(matches!(fault(certificate, b""), TlsFault::Key(_)));
        let TlsFault::Both(why) = fault(certificate, other) else { panic!("they do not go together") };
        assert!(why.contains("Key"), "{why}");
        let broken = String::from_utf8_lossy(certificate).replace('M', "!");
        assert!(matches!(fault(broken.as_bytes(), key), TlsFault::Both(_)));
    }
}
