//! Problems as pages, for people who opened a page of the dashboard.

use http::header::ACCEPT;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use maud::{Markup, html};

use super::frame;
use crate::problem::{NO_KEY, ProblemDetails};
use crate::reply::HttpBody;

/// The code of a request for which the key lacks a right.
const NOT_ALLOWED: &str = "not-allowed";

/// Whether a browser shows the answer to a person.
pub(crate) fn is_for_a_person(head: &Parts) -> bool {
    let accept = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let path = head.uri.path();
    let is_page = (head.method == Method::GET && !path.starts_with("/v1/"))
        || path == "/v1/login"
        || path == "/namespace";
    is_page && accept.contains("text/html")
}

pub(crate) fn problem_page(problem: &ProblemDetails) -> Response<HttpBody> {
    let is_login = problem.status == StatusCode::UNAUTHORIZED;
    // A visitor without a key has done nothing wrong yet.
    let is_first = &*problem.detail == NO_KEY;
    let title = if is_login { "A key is needed" } else { "This does not work" };
    let mut response = frame::bare_page(
        problem.status,
        title,
        &html! {
            section.card.centered {
                h1 { (title) }
                @if is_login {
                    @if !is_first { p.problem role="alert" { (problem.detail) "." } }
                    p.muted { "Log in with a key of this broker." }
                    (login())
                } @else {
                    p { (problem.detail) "." }
                    p.muted { "What to do: " (problem.action) "." }
                    p.muted { "HTTP " (problem.status.as_u16()) " · " code { (problem.code) } }
                    p { a.button href="/" { "Overview" } }
                    // A key that may not read sees no page with a button to log out.
                    @if problem.code == NOT_ALLOWED { h2 { "Use another key" } (login()) }
                }
            }
        },
    );
    // What the problem says to programs in the head of the answer holds for browsers as well.
    for (name, value) in problem.response().headers() {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response
}

/// The API answers this form with a cookie.
fn login() -> Markup {
    html! {
        form.stack method="post" action="/v1/login" {
            div.field {
                label for="key" { "Key" }
                input #key name="key" type="password" required autofocus autocomplete="current-password";
            }
            div.field {
                label for="namespace" { "Namespace, unless the key has one" }
                input #namespace name="namespace" maxlength="255" autocomplete="off";
            }
            div.buttons { button.primary type="submit" { "Log in" } }
        }
    }
}
