//! What every request passes: is it for this broker, does it come from a page of this broker, has it a key, which
//! handler answers it.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONNECTION, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio::sync::Mutex;

use crate::authentication::HttpPeer;
use crate::call::HttpCall;
use crate::codec::{QueryString, SharedBody, drain};
use crate::dashboard;
use crate::problem::ProblemDetails;
use crate::reply::{HttpBody, HttpResult, charged};
use crate::routes::Access;
use crate::server::{HttpConnection, HttpDoor};

/// Where a browser says that a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(crate) async fn answer(
    door: Arc<HttpDoor>,
    connection: Arc<HttpConnection>,
    request: Request<Incoming>,
) -> Response<HttpBody> {
    let (memory, login) = (connection.memory.clone(), connection.login.clone());
    let counters = Arc::clone(&door.door.counters);
    let (head, body) = request.into_parts();
    let is_page = dashboard::is_for_a_person(&head);
    let is_http1 = head.version <= Version::HTTP_11;
    let body = Arc::new(Mutex::new(body));
    let handled = handle(door, connection, head, &body).await;
    let mut response = match handled.and_then(|response| charged(response, &memory)) {
        Ok(response) => response,
        Err(problem) => {
            counters.count(problem.code);
            drain(&body).await;
            if !problem.delay.is_zero() {
                login.hold(problem.delay);
                tokio::time::sleep(problem.delay).await;
            }
            let mut response = if is_page { dashboard::problem_page(&problem) } else { problem.response() };
            if problem.ends {
                login.end();
                if is_http1 {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
            }
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn handle(
    door: Arc<HttpDoor>,
    connection: Arc<HttpConnection>,
    head: Parts,
    body: &SharedBody,
) -> HttpResult {
    check_host(&door.settings.hosts, door.door.authenticator.wants_keys(), &head)?;
    check_origin(&head)?;
    let (endpoint, path) = door.router.find(&head.method, head.uri.path())?;
    let (access, handle) = (endpoint.access, endpoint.handle);
    check_read_only(door.settings.read_only, &head.method, endpoint.path)?;
    let query = QueryString::parse(head.uri.query().unwrap_or_default())?;
    let peer = match access {
        Access::Anyone => {
            if !door.door.authenticator.wants_keys() {
                connection.login.admit();
            }
            None
        }
        Access::Key => Some(HttpPeer::enter(&door, &connection, &head.headers, &query)?),
    };
    let call =
        HttpCall { door, connection, peer, path, query, head, body: Arc::clone(body), body_charge: None };
    handle(call).await
}

/// What does not change anything although its method says so: logins, the choice of a namespace, and waiting.
const HARMLESS: [&str; 4] = ["/v1/login", "/v1/logout", "/namespace", "/v1/wait"];

/// A door that is read-only refuses what changes something.
fn check_read_only(is_read_only: bool, method: &http::Method, path: &str) -> Result<(), ProblemDetails> {
    if !is_read_only || method.is_safe() || HARMLESS.contains(&path) {
        return Ok(());
    }
    let detail = "this door of the broker is read-only";
    Err(ProblemDetails::new(
        StatusCode::FORBIDDEN,
        "read-only",
        detail,
        "use another door, or turn http_read_only off",
    ))
}

/// A page of another site whose name was pointed to this machine would pass as a page of this broker. Such a page has
/// its own name in `Host`; without keys only addresses, `localhost` and configured names are for this broker.
pub(crate) fn check_host(hosts: &[String], has_keys: bool, head: &Parts) -> Result<(), ProblemDetails> {
    let misdirected = |detail: String| {
        let action = "use the address of the broker, or add the name to http_hosts";
        ProblemDetails::new(StatusCode::MISDIRECTED_REQUEST, "bad-host", detail, action)
    };
    let Some(host) = authority(head) else {
        return Err(misdirected("the request has no Host".to_owned()));
    };
    let name = host_name(host);
    let is_known = hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_free = hosts.is_empty() && has_keys;
    if is_known || is_free || is_local_name(name) {
        return Ok(());
    }
    Err(misdirected(format!("this broker does not answer for {name:?}")))
}

/// A browser says where a request that changes something comes from. Other programs say nothing.
fn check_origin(head: &Parts) -> Result<(), ProblemDetails> {
    if head.method.is_safe() {
        return Ok(());
    }
    let cross_site = || {
        let detail = "the request comes from a page of another site";
        ProblemDetails::new(StatusCode::FORBIDDEN, "cross-site", detail, "open a page of the broker itself")
    };
    if let Some(site) = head.headers.get(SEC_FETCH_SITE) {
        let is_own = site == "same-origin" || site == "none";
        return if is_own { Ok(()) } else { Err(cross_site()) };
    }
    let Some(origin) = head.headers.get(ORIGIN) else { return Ok(()) };
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    if host.is_some() && host == authority(head) { Ok(()) } else { Err(cross_site()) }
}

/// The host and port that the request is for.
fn authority(head: &Parts) -> Option<&str> {
    let of_uri = head.uri.authority().map(http::uri::Authority::as_str);
    of_uri.or_else(|| head.headers.get(HOST)?.to_str().ok()).filter(|host| !host.is_empty())
}

/// The host without its port and brackets.
fn host_name(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(address, _)| address);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// An address cannot be pointed elsewhere, and `localhost` is always this machine.
fn is_local_name(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/v1/tasks");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_name_of_a_host_has_no_port_and_no_brackets() {
        for (authority, name) in [
            ("localhost:7173", "localhost"),
            ("localhost", "localhost"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]:7173", "::1"),
        ] {
            assert_eq!(host_name(authority), name);
            assert!(is_local_name(name));
        }
        assert!(!is_local_name("evil.example"));
        assert!(!is_local_name("127.0.0.1.evil.example"));
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let code = |method, fields: &[(&str, &str)]| {
            check_origin(&head(method, fields)).err().map_or("", |problem| problem.code)
        };
        assert_eq!(code("POST", &[("host", "localhost:7173")]), "");
        assert_eq!(code("POST", &[("sec-fetch-site", "cross-site")]), "cross-site");
        assert_eq!(code("POST", &[("sec-fetch-site", "same-site")]), "cross-site");
        assert_eq!(code("POST", &[("sec-fetch-site", "same-origin")]), "");
        assert_eq!(code("GET", &[("sec-fetch-site", "cross-site")]), "");
        let own = [("host", "localhost:7173"), ("origin", "http://localhost:7173")];
        assert_eq!(code("POST", &own), "");
        let other = [("host", "localhost:7173"), ("origin", "http://localhost:8000")];
        assert_eq!(code("DELETE", &other), "cross-site");
        assert_eq!(code("DELETE", &[("host", "localhost"), ("origin", "null")]), "cross-site");
    }
}
