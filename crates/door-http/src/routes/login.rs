//! `/v1/login` and `/v1/logout`: for browsers.

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION, SET_COOKIE};
use serde::Deserialize;
use tenure_hub::ClockReading;
use tenure_hub::words::Name;

use crate::call::HttpCall;
use crate::codec::{self, QueryString};
use crate::dashboard::namespace_cookie;
use crate::login::{set, unset};
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate;

/// How long the body of a login may be.
const LOGIN_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LoginInput {
    key: String,
    namespace: Option<String>,
}

/// Checks a key and answers with a cookie that stands for it. A form is answered with a redirect to the first page.
pub(crate) async fn begin(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let bytes = call.bytes(LOGIN_BYTES_MAX).await?;
    let content_type = call.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_form = content_type.is_some_and(|text| text.starts_with("application/x-www-form-urlencoded"));
    let input = if is_form { form(&bytes)? } else { codec::read_json(&call.head.headers, &bytes)? };
    let key = Some(input.key.trim()).filter(|key| !key.is_empty());
    let now = ClockReading::now();
    let authenticator = &call.door.door.authenticator;
    let login = authenticator.login(now, call.connection.address, key.map(str::as_bytes));
    let principal = login.map_err(ProblemDetails::not_admitted)?;
    call.connection.login.admit();
    let namespace: Option<Name> = input.namespace.filter(|name| !name.is_empty()).map(Into::into);
    // Refuses a namespace that the key does not open, before the browser relies on it.
    principal.grant.namespace_for(namespace.clone()).map_err(|no| translate::problem(&no))?;
    let token = call.door.logins.begin(now, principal.grant);
    let mut response = reply::no_content();
    if is_form {
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    }
    let cookie = set(&token, call.door.settings.door.speaks_tls()).ok_or_else(ProblemDetails::unexpected)?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    if let Some(namespace) = namespace {
        let cookie = namespace_cookie(&namespace).ok_or_else(ProblemDetails::unexpected)?;
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

pub(crate) async fn end(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    call.door.logins.end(&call.head.headers);
    let mut response = reply::no_content();
    response.headers_mut().insert(SET_COOKIE, unset());
    Ok(response)
}

fn form(bytes: &[u8]) -> Result<LoginInput, ProblemDetails> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProblemDetails::bad_value("the form is not UTF-8"))?;
    let fields = QueryString::parse(text)?;
    fields.only(&["key", "namespace"])?;
    let namespace = fields.one("namespace")?.map(str::to_owned);
    Ok(LoginInput { key: fields.one("key")?.unwrap_or_default().to_owned(), namespace })
}
