//! The dashboard: pages for people, rendered here and kept up to date by small scripts in `assets/`.
//!
//! Pages ask the hub as the JSON API does, so rights and namespaces are the same. A script fetches the page again when
//! something has happened and replaces the parts that are marked `data-live`: only the server turns names, bodies and
//! results of untrusted clients into HTML.

mod arrays;
mod assets;
mod attempts;
mod attention;
mod error;
mod event_rows;
mod events;
mod family;
mod format;
mod frame;
mod group;
mod hooks;
mod live;
mod namespace;
mod overview;
mod paging;
mod preview;
mod queues;
mod recent;
mod sample_history;
mod schedules;
mod task;
mod task_rows;
mod tasks;
mod timeline;
mod topics;
mod workers;

pub(crate) use error::{is_for_a_person, problem_page};
pub(crate) use namespace::{chosen_namespace, namespace_cookie};
pub(crate) use sample_history::SampleTable;

use futures::future::BoxFuture;
use http::Method;

use crate::call::HttpCall;
use crate::reply::HttpResult;
use crate::routes::{Access, Endpoint};

/// The endpoints of the dashboard. The API has its own table.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        page("/", |call| Box::pin(overview::page(call))),
        page("/tasks", |call| Box::pin(tasks::page(call))),
        page("/tasks/{task}", |call| Box::pin(task::page(call))),
        page("/arrays/{array}", |call| Box::pin(arrays::page(call))),
        page("/workers", |call| Box::pin(workers::list(call))),
        page("/workers/{worker}", |call| Box::pin(workers::show(call))),
        page("/queues", |call| Box::pin(queues::list(call))),
        page("/queues/{queue}", |call| Box::pin(queues::show(call))),
        page("/schedules", |call| Box::pin(schedules::page(call))),
        page("/hooks", |call| Box::pin(hooks::page(call))),
        page("/topics", |call| Box::pin(topics::page(call))),
        page("/events", |call| Box::pin(events::page(call))),
        page("/live/events", |call| Box::pin(events::stream(call))),
        page("/live", |call| Box::pin(live::stream(call))),
        Endpoint {
            method: Method::POST,
            access: Access::Key,
            ..page("/namespace", |call| Box::pin(namespace::choose(call)))
        },
        Endpoint {
            access: Access::Anyone,
            ..page("/assets/{version}/{file}", |call| Box::pin(assets::file(call)))
        },
    ]
}

fn page(path: &'static str, handle: fn(HttpCall) -> BoxFuture<'static, HttpResult>) -> Endpoint {
    Endpoint { method: Method::GET, path, access: Access::Key, handle }
}
