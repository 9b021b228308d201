//! TLS for TCP doors: a certificate, its key, and optionally the CA for client certificates.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{Acceptor, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// The TLS settings of a door. The private key is never printed.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

/// What is wrong with the files of a TLS door.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// The file of the certificate chain.
    #[error("contains no PEM certificate")]
    Certificate,
    /// The file of the private key.
    #[error("contains no PEM private key")]
    Key,
    /// The file of the client CA.
    #[error("contains no PEM certificate that can verify clients: {0}")]
    ClientAuthority(String),
    /// Certificate and key do not belong together.
    #[error("the certificate cannot be used with the key: {0}")]
    Pair(String),
}

impl Tls {
    /// Reads a certificate chain and its key in PEM. With a client CA, peers must present a certificate that it
    /// signed.
    pub fn new(certificate: &[u8], key: &[u8], client_authority: Option<&[u8]>) -> Result<Tls, TlsFault> {
        let chain = certificates(certificate).ok_or(TlsFault::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsFault::Key)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFault::Pair(error.to_string()))?;
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let fault = |why: String| TlsFault::ClientAuthority(why);
                let mut roots = RootCertStore::empty();
                for root in certificates(authority).ok_or_else(|| fault("it is empty".to_owned()))? {
                    roots.add(root).map_err(|error| fault(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| fault(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config =
            builder.with_single_cert(chain, key).map_err(|error| TlsFault::Pair(error.to_string()))?;
        Ok(Tls { config: Arc::new(config) })
    }

    /// The same certificate for a door that negotiates its protocol inside TLS, such as HTTP/2; the preferred protocol
    /// comes first.
    #[must_use]
    pub fn with_protocols(&self, protocols: &[&[u8]]) -> Tls {
        let mut config = (*self.config).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Tls { config: Arc::new(config) }
    }

    /// Whether the handshake that begins with these bytes offers this protocol. `None` if more of them are needed.
    pub fn is_offered(first: &[u8], protocol: &[u8]) -> Option<bool> {
        let mut acceptor = Acceptor::default();
        let mut rest = first;
        while !rest.is_empty() {
            if acceptor.read_tls(&mut rest).is_err() {
                return Some(false);
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let mut offered = accepted.client_hello().alpn().into_iter().flatten();
                    return Some(offered.any(|name| name == protocol));
                }
                Err(_) => return Some(false),
            }
        }
        None
    }

    /// Accepts the handshake of a peer.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

/// Returns all certificates of a file; `None` if there is none, or an invalid one.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    chain.ok().filter(|chain| !chain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let (certificate, key) = pair();
        let (_, other_key) = pair();
        let tls = |certificate: &str, key: &str, authority: Option<&str>| {
            Tls::new(certificate.as_bytes(), key.as_bytes(), authority.map(str::as_bytes))
        };
        assert!(tls(&certificate, &key, None).is_ok());
        assert!(tls(&certificate, &key, Some(&certificate)).is_ok());
        let fault =
            |certificate, key, authority| tls(certificate, key, authority).expect_err("it is refused");
        assert_eq!(fault(&key, &key, None), TlsFault::Certificate);
        assert_eq!(fault(&certificate, &certificate, None), TlsFault::Key);
        assert!(matches!(fault(&certificate, &other_key, None), TlsFault::Pair(_)));
        assert!(matches!(fault(&certificate, &key, Some(&key)), TlsFault::ClientAuthority(_)));
        assert!(!format!("{:?}", tls(&certificate, &key, None)).contains("PRIVATE"));
    }
}
