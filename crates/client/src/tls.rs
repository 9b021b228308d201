//! TLS to a broker: trusted certificates and the client's own.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tenure_wire::hello::MEMBER_PROTOCOL;
use tokio_rustls::TlsConnector;

use crate::address::TlsAddress;

/// Reads the certificate files of an address. Every connection reads them, so renewed certificates need no restart.
pub(crate) fn connector(
    tls: &TlsAddress,
    wants_member: bool,
) -> io::Result<(TlsConnector, ServerName<'static>)> {
    let mut roots = RootCertStore::empty();
    for root in certificates(&tls.ca)? {
        roots.add(root).map_err(|error| bad(&tls.ca, error))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| bad(certificate, error))?
        }
    };
    if wants_member {
        // A standby must see it before it decides who ends the connection's TLS.
        config.alpn_protocols = vec![MEMBER_PROTOCOL.to_vec()];
    }
    let host = tls.address.rsplit_once(':').map_or(&*tls.address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let host = ServerName::try_from(host).map_err(io::Error::other)?;
    Ok((TlsConnector::from(Arc::new(config)), host))
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| bad(file, error))?.collect();
    let read = read.map_err(|error| bad(file, error))?;
    if read.is_empty() { Err(bad(file, "contains no PEM certificate")) } else { Ok(read) }
}

fn bad(file: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", file.display()))
}
