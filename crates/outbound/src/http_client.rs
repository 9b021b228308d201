//! One POST: connect, send, read the status. A connection serves one request, a redirect is not followed, and the
//! answer's body is dropped.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::roots::TrustedRoots;
use crate::target::HttpTarget;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("tenure/", env!("CARGO_PKG_VERSION")));
/// How much of an answer is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Why a POST has no answer.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("no answer within {} s", .0.as_secs_f64())]
    TooLate(Duration),
    #[error("cannot connect: {0}")]
    Connect(#[source] std::io::Error),
    #[error("{0} is not a name that a certificate can have")]
    ServerName(String),
    #[error("TLS failed: {0}")]
    Tls(#[source] std::io::Error),
    #[error("the connection failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("a header cannot be sent: {0}")]
    Header(#[from] http::Error),
}

/// An answer: its status, and its body as far as it is of interest.
#[derive(Debug)]
pub(crate) struct PostAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// What is sent.
pub(crate) struct Post<'a> {
    pub(crate) target: &'a HttpTarget,
    /// Needed for `https`.
    pub(crate) roots: Option<&'a TrustedRoots>,
    pub(crate) media_type: HeaderValue,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) within: Duration,
}

impl Post<'_> {
    pub(crate) async fn send(self) -> Result<PostAnswer, PostError> {
        let within = self.within;
        timeout(within, self.exchange()).await.unwrap_or(Err(PostError::TooLate(within)))
    }

    async fn exchange(self) -> Result<PostAnswer, PostError> {
        let target = self.target;
        let stream = TcpStream::connect((target.host(), target.port())).await.map_err(PostError::Connect)?;
        // A delivery is one write.
        stream.set_nodelay(true).map_err(PostError::Connect)?;
        match self.roots.filter(|_| target.is_tls()) {
            None => self.over(stream).await,
            Some(roots) => {
                let name = ServerName::try_from(target.host().to_owned())
                    .map_err(|_| PostError::ServerName(target.host().to_owned()))?;
                let connector = TlsConnector::from(roots.config.clone());
                let stream = connector.connect(name, stream).await.map_err(PostError::Tls)?;
                self.over(stream).await
            }
        }
    }

    async fn over(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<PostAnswer, PostError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let length = self.body.len();
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.target.path())
            .header(HOST, self.target.authority())
            .header(USER_AGENT, AGENT)
            .header(CONTENT_TYPE, self.media_type)
            .header(CONTENT_LENGTH, length);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body))?;
        let exchange = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            // Most receivers have nothing to say, and a long answer is cut off.
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok(PostAnswer { status, body })
        };
        tokio::pin!(exchange, connection);
        // The connection ends with this function, answered or not.
        tokio::select! {
            answer = &mut exchange => answer,
            closed = &mut connection => {
                closed?;
                exchange.await
            }
        }
    }
}
