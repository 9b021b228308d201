//! `POST /namespace`: the namespace that the pages show from now on.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use tenure_hub::Grant;
use tenure_hub::words::{DEFAULT_NAMESPACE, Name, check_name};

use super::{format, frame};
use crate::call::HttpCall;
use crate::codec::{QueryString, percent};
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::translate;

const CHOSEN: &str = "tenure-namespace";
/// How long the form may be.
const FORM_BYTES_MAX: usize = 2048;

pub(super) async fn choose(mut call: HttpCall) -> HttpResult {
    let form = call.bytes(FORM_BYTES_MAX).await?;
    let form = std::str::from_utf8(&form).map_err(|_| ProblemDetails::bad_value("the form is not UTF-8"))?;
    let form = QueryString::parse(form)?;
    let wanted = form.one("namespace")?.unwrap_or(DEFAULT_NAMESPACE);
    check_name("namespace", wanted).map_err(|no| translate::problem(&no))?;
    let grant = &call.peer()?.principal.grant;
    let namespace = grant.namespace_for(Some(wanted.into())).map_err(|no| translate::problem(&no))?;
    let mut response = frame::redirect("/")?;
    let cookie = namespace_cookie(&namespace).ok_or_else(ProblemDetails::unexpected)?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// The cookie that names a namespace. It is no secret: scripts compare it with the namespace of their page.
pub(crate) fn namespace_cookie(namespace: &str) -> Option<HeaderValue> {
    let cookie = format!("{CHOSEN}={}; Path=/; SameSite=Strict", format::escaped(namespace));
    HeaderValue::from_str(&cookie).ok()
}

/// The namespace that was chosen on a page. A key that is bound to a namespace leaves no choice.
pub(crate) fn chosen_namespace(headers: &HeaderMap, grant: &Grant) -> Option<Name> {
    if grant.namespace.is_some() {
        return None;
    }
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let chosen = percent(pairs.find(|(name, _)| *name == CHOSEN)?.1).ok()?;
    check_name("namespace", &chosen).ok()?;
    Some(chosen.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_chooses_the_namespace_unless_the_key_does() {
        let chosen = |cookie: &str, grant: &Grant| {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())]);
            chosen_namespace(&headers, grant).map(|name| name.to_string())
        };
        let free = Grant::everything();
        assert_eq!(chosen("a=b; tenure-namespace=lab%20%3C7%3E", &free).as_deref(), Some("lab <7>"));
        assert_eq!(chosen("tenure-namespace=", &free), None);
        assert_eq!(chosen("tenure-namespace=a%0Ab", &free), None);
        assert_eq!(chosen("other=lab", &free), None);
        let bound = Grant { namespace: Some("own".into()), ..Grant::everything() };
        assert_eq!(chosen("tenure-namespace=lab", &bound), None);
    }
}
