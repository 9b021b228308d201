//! The frame of every page: navigation, search, notices and the dialog that confirms an act.

use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use maud::{DOCTYPE, Markup, html};
use tenure_hub::{Right, wall_clock};

use super::assets;
use super::format::escaped;
use crate::authentication::HttpPeer;
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{HttpBody, HttpResult, full};

/// No script, style or frame comes from elsewhere or stands in the page itself, so a name that got into a page
/// unescaped could not run.
const CONTENT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Tasks,
    Workers,
    Queues,
    Hooks,
    Schedules,
    Topics,
    Events,
    /// A page that the navigation does not lead to.
    Other,
}

const NAVIGATION: [(Section, &str, &str); 8] = [
    (Section::Overview, "/", "Overview"),
    (Section::Tasks, "/tasks", "Tasks"),
    (Section::Workers, "/workers", "Workers"),
    (Section::Queues, "/queues", "Queues"),
    (Section::Schedules, "/schedules", "Schedules"),
    (Section::Hooks, "/hooks", "Hooks"),
    (Section::Topics, "/topics", "Topics"),
    (Section::Events, "/events", "Events"),
];

/// What the viewer may do, so that a page offers nothing else. The hub checks it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Cancel, pause, resume, retry and release tasks.
    pub(super) steer: bool,
    /// Pause queues, set limits, drain workers.
    pub(super) manage: bool,
}

impl Allowed {
    pub(super) fn of(peer: &HttpPeer) -> Allowed {
        let may = |right| !peer.is_read_only && peer.principal.grant.rights.contains(right);
        Allowed { steer: may(Right::Submit), manage: may(Right::Manage) }
    }
}

/// A page with its frame.
pub(super) fn page(call: &HttpCall, section: Section, title: &str, content: &Markup) -> HttpResult {
    let peer = call.peer()?;
    let has_keys = call.door.door.authenticator.wants_keys();
    Ok(respond(StatusCode::OK, document(Some((peer, has_keys)), section, title, content)))
}

/// A page for a visitor that is not known, or to whom something cannot be shown.
pub(super) fn bare_page(status: StatusCode, title: &str, content: &Markup) -> Response<HttpBody> {
    respond(status, document(None, Section::Other, title, content))
}

fn respond(status: StatusCode, page: Markup) -> Response<HttpBody> {
    let mut response = Response::new(full(page.into_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// The page as a whole. `viewer` is the peer, and whether it had to show a key.
fn document(viewer: Option<(&HttpPeer, bool)>, section: Section, title: &str, content: &Markup) -> Markup {
    let allowed = viewer.map(|(peer, _)| Allowed::of(peer));
    html! {
        (DOCTYPE)
        html lang="en" data-now=(wall_clock().0) data-namespace=[viewer.map(|(peer, _)| &*peer.namespace)]
            data-bound=[viewer.map(|(peer, _)| peer.principal.grant.namespace.is_some())] {
            head {
                meta charset="utf-8";
                title { (title) " · Tenure" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href=(assets::path("icon.svg"));
                link rel="stylesheet" href=(assets::path("style.css"));
                @if viewer.is_some() { script type="module" src=(assets::path("app.js")) {} }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.bar { (bar(viewer, section)) }
                main #main tabindex="-1" { (content) }
                @if let Some(allowed) = allowed {
                    div #notices role="log" aria-label="Notices" aria-live="polite" {}
                    (confirmation())
                    (help(allowed))
                }
            }
        }
    }
}

fn bar(viewer: Option<(&HttpPeer, bool)>, section: Section) -> Markup {
    html! {
        a.brand href="/" aria-label="Tenure" { img src=(assets::path("icon.svg")) alt="" width="26" height="26"; span { "Tenure" } }
        @if let Some((peer, has_keys)) = viewer {
            nav aria-label="Main" {
                @for (place, path, name) in NAVIGATION {
                    a href=(path) aria-current=[(place == section).then_some("page")] { (name) }
                }
            }
            form.search role="search" action="/tasks" {
                input #search type="search" name="search" maxlength="255" autocomplete="off"
                    aria-label="Search tasks by a part of the name or digits of the id" placeholder="Name or id of a task";
                kbd aria-hidden="true" { "/" }
            }
            div.status {
                @if peer.is_read_only { span.chip title="This address shows, and changes nothing" { "read-only" } }
                @else if !Allowed::of(peer).steer { span.chip title="The key does not allow acts on tasks" { "read-only" } }
                details.namespace {
                    summary title="Namespace" { (peer.namespace) }
                    form method="post" action="/namespace" {
                        label for="namespace" { "Namespace" }
                        input #namespace name="namespace" value=(peer.namespace) maxlength="255" autocomplete="off";
                        button type="submit" { "Enter" }
                    }
                }
                span #connection.connection role="status" data-state="waiting" { span.word { "connecting" } }
                button #allow-notifications.quiet type="button" hidden title="Show notices also outside of this page" {
                    "Notify me"
                }
                @if has_keys { button #log-out type="button" { "Log out" } }
            }
        }
    }
}

/// Asks before an act, and why.
fn confirmation() -> Markup {
    html! {
        dialog #confirm aria-labelledby="confirm-title" {
            form method="dialog" {
                h2 #confirm-title {}
                p #confirm-text {}
                div.field #confirm-reason-field {
                    label for="confirm-reason" { "Reason, for the submitter to read (optional)" }
                    input #confirm-reason maxlength="1000" autocomplete="off";
                }
                p.problem #confirm-problem role="alert" hidden {}
                div.buttons {
                    button type="button" #confirm-back { "Back" }
                    button.primary type="submit" #confirm-do {}
                }
            }
        }
    }
}

fn help(allowed: Allowed) -> Markup {
    let keys = [
        ("/", "search"),
        ("j  k", "next and previous row"),
        ("Enter", "open the row"),
        ("x", "select the row"),
        ("n", "next page"),
        ("g o", "overview"),
        ("g t", "tasks"),
        ("g w", "workers"),
        ("g q", "queues"),
        ("g h", "hooks"),
        ("g s", "schedules"),
        ("g p", "topics"),
        ("g e", "events"),
        ("?", "this help"),
    ];
    html! {
        dialog #help aria-labelledby="help-title" {
            form method="dialog" {
                h2 #help-title { "Keys" }
                dl.keys {
                    @for (key, what) in keys.into_iter().filter(|(key, _)| allowed.steer || *key != "x") {
                        dt { @for part in key.split_whitespace() { kbd { (part) } " " } }
                        dd { (what) }
                    }
                }
                div.buttons { button.primary type="submit" { "Close" } }
            }
        }
    }
}

/// The same in the namespace that the address of a page names.
pub(super) fn redirect_within(call: &HttpCall, to: &str) -> HttpResult {
    match call.query.namespace()? {
        Some(namespace) => redirect(&format!("{to}?namespace={}", escaped(namespace))),
        None => redirect(to),
    }
}

/// A page that is only there to redirect.
pub(super) fn redirect(to: &str) -> HttpResult {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_str(to).map_err(|_| ProblemDetails::unexpected())?;
    response.headers_mut().insert(http::header::LOCATION, to);
    Ok(response)
}
