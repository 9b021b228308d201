//! The address of a receiver: `http://` or `https://`.

use std::fmt;

use http::Uri;

/// A checked address.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpTarget {
    uri: Uri,
    host: String,
    port: u16,
    is_tls: bool,
}

/// Why a text is not such an address.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    #[error("is not an address: write http://HOST:PORT/PATH or https://HOST/PATH")]
    NotAnAddress,
    #[error("contains a user or a password: put a secret into `secret_file` or into a header")]
    HasUser,
}

impl HttpTarget {
    /// Reads an address that begins with `http://` or `https://`.
    pub fn parse(text: &str) -> Result<HttpTarget, TargetFault> {
        let uri: Uri = text.parse().map_err(|_| TargetFault::NotAnAddress)?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(TargetFault::NotAnAddress),
        };
        let authority = uri.authority().ok_or(TargetFault::NotAnAddress)?;
        if authority.as_str().contains('@') {
            return Err(TargetFault::HasUser);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(TargetFault::NotAnAddress);
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(HttpTarget { host, port, is_tls, uri })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether the address begins with `https://`.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// What stands in the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", http::uri::Authority::as_str)
    }

    /// What stands in the first line of a request.
    pub(crate) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    }

    /// The address as it may be shown: without the query, which may hold a token.
    pub fn without_secrets(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.uri.path())
    }
}

/// Without the query.
impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without_secrets())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_a_path_and_is_shown_without_its_query() {
        let target = HttpTarget::parse("https://hooks.example.org/in?token=s3cret").expect("an address");
        assert_eq!((target.host(), target.port(), target.is_tls()), ("hooks.example.org", 443, true));
        assert_eq!(target.path(), "/in?token=s3cret");
        assert_eq!(format!("{target:?}"), "https://hooks.example.org/in");
        let target = HttpTarget::parse("http://[::1]:8080").expect("an address");
        assert_eq!((target.host(), target.port(), target.path()), ("::1", 8080, "/"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "example.org/in", "ftp://example.org/", "https://", "/path"] {
            assert_eq!(HttpTarget::parse(text), Err(TargetFault::NotAnAddress), "{text}");
        }
        assert_eq!(HttpTarget::parse("http://a:b@example.org/"), Err(TargetFault::HasUser));
    }
}
