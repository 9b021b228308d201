//! The routes: every method and path of the door, with its handler. One file per resource.

mod acts;
mod arrays;
mod bulk;
mod content;
mod description;
mod events;
mod health;
mod hooks;
mod limits;
mod login;
mod logs;
mod messages;
mod metrics;
mod queues;
mod reconcile;
mod reports;
mod schedules;
mod shares;
mod stats;
mod tasks;
mod topics;
mod waiting;
mod work;
mod workers;

use std::collections::BTreeMap;
use std::fmt;

use futures::future::BoxFuture;
use http::Method;

use crate::call::HttpCall;
use crate::codec::{PathValues, percent};
use crate::dashboard;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;

pub(crate) use bulk::Act;
pub(crate) use health::Readiness;

/// One method of one path.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) handle: fn(HttpCall) -> BoxFuture<'static, HttpResult>,
}

impl Endpoint {
    /// Whether it is for programs; the other ones are pages and files for browsers.
    #[cfg(test)]
    pub(crate) fn is_api(&self) -> bool {
        let is_for_programs =
            |path: &str| ["/healthz", "/readyz", "/metrics", "/openapi.json"].contains(&path);
        self.path.starts_with("/v1/") || is_for_programs(self.path)
    }
}

/// Who may use an endpoint, before the hub checks the rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No key is needed.
    Anyone,
    /// A key is needed, if the broker has keys.
    Key,
}

/// `METHOD "/path" => function`, one line for each endpoint.
macro_rules! endpoints {
    ($($access:ident $method:ident $path:literal => $handle:path;)*) => {
        vec![$(Endpoint {
            method: Method::$method,
            path: $path,
            access: Access::$access,
            handle: |call| Box::pin($handle(call)),
        }),*]
    };
}

/// All endpoints.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn endpoints() -> Vec<Endpoint> {
    endpoints! {
        Anyone GET "/healthz" => health::live;
        Anyone GET "/readyz" => health::ready;
        Anyone GET "/openapi.json" => description::openapi;
        Key GET "/metrics" => metrics::metrics;
        Anyone POST "/v1/login" => login::begin;
        Anyone POST "/v1/logout" => login::end;
        Key GET "/v1/tasks" => tasks::list;
        Key POST "/v1/tasks" => tasks::submit;
        Key POST "/v1/tasks/batch" => tasks::submit_many;
        Key GET "/v1/tasks/{task}" => tasks::show;
        Key GET "/v1/tasks/{task}/explain" => tasks::explain;
        Key GET "/v1/tasks/{task}/body" => content::body;
        Key GET "/v1/tasks/{task}/result" => content::result;
        Key GET "/v1/tasks/{task}/checkpoint" => content::checkpoint;
        Key GET "/v1/tasks/{task}/logs" => logs::logs;
        Key GET "/v1/tasks/{task}/wait" => waiting::one;
        Key POST "/v1/tasks/{task}/release" => acts::release;
        Key POST "/v1/tasks/{task}/cancel" => acts::cancel;
        Key POST "/v1/tasks/{task}/pause" => acts::pause;
        Key POST "/v1/tasks/{task}/resume" => acts::resume;
        Key POST "/v1/tasks/{task}/retry" => acts::retry;
        Key POST "/v1/tasks/{task}/move" => acts::change;
        Key POST "/v1/reconcile" => reconcile::page;
        Key POST "/v1/wait" => waiting::many;
        Key POST "/v1/bulk/{verb}" => bulk::act;
        Key GET "/v1/queues" => queues::list;
        Key GET "/v1/queues/{queue}" => queues::show;
        Key GET "/v1/queues/{queue}/scaling" => metrics::scaling;
        Key POST "/v1/queues/{queue}/tasks" => queues::submit;
        Key POST "/v1/queues/{queue}/pause" => queues::pause;
        Key POST "/v1/queues/{queue}/resume" => queues::resume;
        Key PUT "/v1/queues/{queue}/thresholds" => queues::set_thresholds;
        Key DELETE "/v1/queues/{queue}/thresholds" => queues::clear_thresholds;
        Key GET "/v1/arrays" => arrays::list;
        Key POST "/v1/arrays" => arrays::submit;
        Key GET "/v1/arrays/{array}" => arrays::show;
        Key PUT "/v1/arrays/{array}/limit" => arrays::set_limit;
        Key DELETE "/v1/arrays/{array}/limit" => arrays::remove_limit;
        Key GET "/v1/limits" => limits::list;
        Key PUT "/v1/limits/{tag}" => limits::set;
        Key DELETE "/v1/limits/{tag}" => limits::remove;
        Key GET "/v1/schedules" => schedules::list;
        Key GET "/v1/schedules/{schedule}" => schedules::show;
        Key PUT "/v1/schedules/{schedule}" => schedules::set;
        Key DELETE "/v1/schedules/{schedule}" => schedules::remove;
        Key POST "/v1/schedules/{schedule}/pause" => schedules::pause;
        Key POST "/v1/schedules/{schedule}/resume" => schedules::resume;
        Key POST "/v1/schedules/{schedule}/run" => schedules::run;
        Key GET "/v1/hooks" => hooks::list;
        Key GET "/v1/hooks/{hook}/undelivered" => hooks::undelivered;
        Key POST "/v1/hooks/{hook}/redeliver" => hooks::redeliver;
        Key PUT "/v1/queues/{queue}/rate" => queues::set_rate;
        Key DELETE "/v1/queues/{queue}/rate" => queues::remove_rate;
        Key PUT "/v1/limits/{tag}/rate" => limits::set_rate;
        Key DELETE "/v1/limits/{tag}/rate" => limits::remove_rate;
        Key GET "/v1/shares" => shares::list;
        Key PUT "/v1/shares/{share}" => shares::set;
        Key DELETE "/v1/shares/{share}" => shares::reset;
        Key GET "/v1/workers" => workers::list;
        Key GET "/v1/workers/{worker}" => workers::show;
        Key POST "/v1/workers/{worker}/drain" => workers::drain;
        Key POST "/v1/workers/{worker}/clear" => workers::clear;
        Key PUT "/v1/work/{worker}" => work::register;
        Key DELETE "/v1/work/{worker}" => work::leave;
        Key POST "/v1/work/{worker}/heartbeat" => work::heartbeat;
        Key POST "/v1/work/{worker}/fetch" => work::fetch;
        Key POST "/v1/work/{worker}/drain" => work::drain;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/start" => reports::start;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/progress" => reports::progress;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/checkpoint" => reports::checkpoint;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/logs" => reports::logs;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/suspend" => reports::suspend;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/complete" => reports::complete;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/fail" => reports::fail;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/confirm" => reports::confirm;
        Key POST "/v1/work/{worker}/tasks/{task}/{attempt}/give-back" => reports::give_back;
        Key GET "/v1/topics" => topics::list;
        Key GET "/v1/topics/{topic}" => topics::show;
        Key POST "/v1/topics/{topic}" => topics::publish;
        Key POST "/v1/topics/{topic}/request" => topics::request;
        Key GET "/v1/messages" => messages::messages;
        Key GET "/v1/events" => events::events;
        Key GET "/v1/subscriptions" => topics::subscriptions;
        Key DELETE "/v1/subscriptions/{subscription}" => topics::unsubscribe;
        Key GET "/v1/counts" => stats::counts;
        Key GET "/v1/stats" => stats::all;
    }
}

/// The method and the path of every endpoint and every page, and whether it needs a key. For tests.
pub fn endpoint_list() -> Vec<(String, &'static str, bool)> {
    let needs_key = |endpoint: &Endpoint| endpoint.access == Access::Key;
    let all = endpoints().into_iter().chain(dashboard::endpoints());
    all.map(|one| (one.method.to_string(), one.path, needs_key(&one))).collect()
}

/// Finds the endpoint of a request.
pub(crate) struct Router {
    paths: matchit::Router<BTreeMap<&'static str, Endpoint>>,
}

impl Router {
    pub(crate) fn new() -> Router {
        let mut by_path: BTreeMap<&'static str, BTreeMap<&'static str, Endpoint>> = BTreeMap::new();
        for endpoint in endpoints().into_iter().chain(dashboard::endpoints()) {
            let method = method_name(&endpoint.method);
            let before = by_path.entry(endpoint.path).or_default().insert(method, endpoint);
            assert!(before.is_none(), "an endpoint stands in the table once");
        }
        let mut paths = matchit::Router::new();
        for (path, methods) in by_path {
            paths.insert(path, methods).expect("the paths of the table do not conflict");
        }
        Router { paths }
    }

    /// The endpoint and the values in its path. `HEAD` is answered like `GET`; the server leaves the body out.
    pub(crate) fn find(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<(&Endpoint, PathValues), ProblemDetails> {
        let found = self.paths.at(path).map_err(|_| ProblemDetails::not_found(path))?;
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some(endpoint) = found.value.get(method.as_str()) else {
            let known: Vec<&str> = found.value.keys().copied().collect();
            return Err(ProblemDetails::method_not_allowed(&known.join(", ")));
        };
        let mut values = Vec::new();
        for (key, value) in found.params.iter() {
            values.push((key.to_owned(), percent(value)?));
        }
        Ok((endpoint, PathValues::new(values)))
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Router")
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => unreachable!("the table has no other method"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_methods_and_its_values() {
        let router = Router::new();
        let (endpoint, values) = router.find(&Method::GET, "/v1/tasks/name:a%20b").unwrap();
        assert_eq!((endpoint.path, values.get("task").unwrap()), ("/v1/tasks/{task}", "name:a b"));
        assert_eq!(router.find(&Method::HEAD, "/v1/tasks").unwrap().0.method, Method::GET);
        let problem = router.find(&Method::DELETE, "/v1/tasks").unwrap_err();
        assert_eq!((problem.code, problem.allow.as_deref()), ("method-not-allowed", Some("GET, POST")));
        assert_eq!(router.find(&Method::GET, "/v2").unwrap_err().code, "not-found");
    }
}
