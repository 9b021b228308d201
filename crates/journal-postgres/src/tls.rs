//! TLS to the database, with the certificate verified: a password must not go to another server.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::address::{JournalAddress, TlsMode};

/// A byte stream to a server: TCP or a Unix socket.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

pub(crate) type RawStream = Box<dyn ByteStream>;

/// What TLS needs, read once for each connection: files may be replaced meanwhile.
pub(crate) fn client_config(address: &JournalAddress) -> Result<Option<Arc<ClientConfig>>, String> {
    if address.tls == TlsMode::Disable {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    let found = match &address.root_file {
        Some(file) => {
            let wrong = || format!("sslrootcert: {} contains no PEM certificate", file.display());
            let read = CertificateDer::pem_file_iter(file).map_err(|_| wrong())?;
            let found = read.collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
            if found.is_empty() {
                return Err(wrong());
            }
            found
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(found);
    if roots.is_empty() {
        return Err(
            "the system has no trusted authorities: name the database's with ?sslrootcert=FILE".to_owned()
        );
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

/// The handshake with one server.
pub(crate) struct Handshake {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) host: String,
}

impl TlsConnect<RawStream> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted>>;

    fn connect(self, stream: RawStream) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let stream = TlsConnector::from(self.config).connect(name, stream).await?;
            Ok(Encrypted(Box::new(stream)))
        })
    }
}

/// Whether the handshake has failed for a reason that lasts: the server has no TLS, or its certificate does not fit. A
/// connection that breaks in the middle of it is no such reason.
pub(crate) fn is_tls_mistake(error: &tokio_postgres::Error) -> bool {
    let mut source: Option<&(dyn Error + 'static)> = error.source();
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            let inner = error.get_ref();
            return inner.is_some_and(|inner| {
                matches!(inner.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
                    || inner.is::<InvalidDnsNameError>()
            });
        }
        // The library has no type for this one.
        if cause.to_string() == "server does not support TLS" {
            return true;
        }
        source = cause.source();
    }
    false
}

pub(crate) struct Encrypted(Box<tokio_rustls::client::TlsStream<RawStream>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
