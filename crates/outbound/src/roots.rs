//! The authorities that a receiver's certificate may come from: those of the system, or those of one file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// What a TLS connection needs.
#[derive(Clone, Debug)]
pub struct TrustedRoots {
    pub(crate) config: Arc<ClientConfig>,
}

/// Why there are no authorities.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum RootsFault {
    #[error("{} contains no PEM certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error(
        "the system has no trusted authorities: install the package ca-certificates, or name a `ca_file`"
    )]
    NoneOnSystem,
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

impl TrustedRoots {
    /// The authorities of the system.
    pub fn of_system() -> Result<TrustedRoots, RootsFault> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            return Err(RootsFault::NoneOnSystem);
        }
        TrustedRoots::new(found.certs)
    }

    /// The authorities of a file, and no others.
    pub fn of_file(path: &Path) -> Result<TrustedRoots, RootsFault> {
        let wrong = || RootsFault::NoCertificate(path.to_owned());
        let read = CertificateDer::pem_file_iter(path).map_err(|_| wrong())?;
        let certificates: Vec<_> = read.collect::<Result<_, _>>().map_err(|_| wrong())?;
        if certificates.is_empty() {
            return Err(wrong());
        }
        TrustedRoots::new(certificates)
    }

    fn new(certificates: Vec<CertificateDer<'static>>) -> Result<TrustedRoots, RootsFault> {
        let mut roots = RootCertStore::empty();
        // A system's list may contain certificates that are too old to be parsed.
        roots.add_parsable_certificates(certificates);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TrustedRoots { config: Arc::new(config) })
    }
}
