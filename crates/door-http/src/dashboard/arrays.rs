//! `/arrays/{array}`: an array with its counts and its elements; and arrays as rows above the list of tasks.

use maud::{Markup, html};
use tenure_hub::wall_clock;
use tenure_hub::words::{Answer, ArrayInfo, ListQuery, Query, StateName, Timestamp};

use super::format::{ago, count, counted, escaped, short};
use super::frame::{self, Allowed, Section};
use super::paging::gather;
use super::task_rows;
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::session::HubAccess;
use crate::translate;

/// How many of the newest arrays the list of tasks looks at, and how many elements a page shows.
const ARRAYS_SHOWN: usize = 50;
const ELEMENTS_SHOWN: usize = 50;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&["state", "cursor"])?;
    let now = wall_clock();
    let mut hub = call.hub()?;
    let id = translate::task_id("array", call.path.get("array")?).map_err(|no| translate::problem(&no))?;
    let Answer::Array(array) = hub.query(Query::Array { array: id }).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let state = call.query.one("state")?.map(translate::state).transpose();
    let cursor = call.query.one("cursor")?.map(str::parse).transpose();
    let query = ListQuery {
        states: state.map_err(|no| translate::problem(&no))?.into_iter().collect(),
        array: Some(id),
        cursor: cursor.map_err(|no| translate::problem(&no))?,
        limit: ELEMENTS_SHOWN,
        ..ListQuery::default()
    };
    let elements = gather(&mut hub, query).await?;
    let allowed = Allowed::of(call.peer()?);
    let title = label(&array);
    let content = html! {
        div.head {
            h1 { "Array " (title) }
            div #state data-live { (task_rows::badge(array.state)) }
            div #acts-of-array.buttons data-live { @if allowed.steer { (acts(&array)) } }
        }
        p.mono.muted { (array.id) }
        p #summary data-live {
            (counted(u64::from(array.size), "element", "elements")) " of queue "
            a href={ "/queues/" (escaped(&array.queue)) } { (array.queue) }
            @if let Some(limit) = array.limit { ", at most " (limit) " at once" }
            ", submitted " (ago(array.submitted_at, now))
            @if let Some(ended) = array.ended_at { ", ended " (ago(ended, now)) }
        }
        div #counts.card data-live { (counts(&array)) }
        div #list.card data-live {
            @if elements.tasks.is_empty() { p.empty { "No element in this state." } }
            @else { (task_rows::table("Elements", &elements.tasks, false, now)) }
            @if let Some(next) = &elements.next {
                p { a href={ "/arrays/" (array.id) "?cursor=" (escaped(&next.to_string())) } { "More elements" } }
            }
        }
    };
    frame::page(&call, Section::Tasks, &format!("Array {title}"), &content)
}

/// The newest arrays that have not ended, as a table.
pub(super) async fn unended(hub: &mut HubAccess, now: Timestamp) -> Result<Option<Markup>, ProblemDetails> {
    let Answer::Arrays { arrays, .. } =
        hub.query(Query::Arrays { cursor: None, limit: ARRAYS_SHOWN }).await?
    else {
        return Err(ProblemDetails::unexpected());
    };
    let arrays: Vec<&ArrayInfo> = arrays.iter().filter(|array| array.ended_at.is_none()).collect();
    Ok((!arrays.is_empty()).then(|| table(&arrays, now)))
}

/// The array of a name, as a table.
pub(super) async fn named(hub: &mut HubAccess, name: &str, now: Timestamp) -> Option<Markup> {
    match hub.query(Query::FindArray { name: name.into() }).await {
        Ok(Answer::Array(array)) => Some(table(&[&*array], now)),
        _ => None,
    }
}

fn table(arrays: &[&ArrayInfo], now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards.tasks {
                caption.sr { "Arrays" }
                thead { tr {
                    th scope="col" { "State" } th scope="col" { "Array" } th scope="col" { "Queue" }
                    th.n scope="col" { "Elements" } th scope="col" { "Counts" } th scope="col" { "Submitted" }
                } }
                tbody { @for array in arrays { (row(array, now)) } }
            }
        }
    }
}

fn row(array: &ArrayInfo, now: Timestamp) -> Markup {
    html! {
        tr data-href={ "/arrays/" (array.id) } {
            td { (task_rows::badge(array.state)) }
            td.task { a href={ "/arrays/" (array.id) } { (label(array)) } }
            td.queue { a.quiet href={ "/queues/" (escaped(&array.queue)) } { (array.queue) } }
            td.n { (count(u64::from(array.size))) }
            td.note { (counts(array)) }
            td.submitted { (ago(array.submitted_at, now)) }
        }
    }
}

/// How many elements are in each state.
fn counts(array: &ArrayInfo) -> Markup {
    let of = |state: StateName| array.counts[state as usize];
    let present = StateName::ALL.into_iter().filter(|state| of(*state) > 0);
    html! {
        @for state in present {
            a.quiet href={ "/arrays/" (array.id) "?state=" (state) } { (task_rows::badge(state)) " " (count(of(state))) }
            " "
        }
    }
}

fn acts(array: &ArrayInfo) -> Markup {
    let button = |verb: &str, text: &str| {
        html! {
            button type="button" data-act=(verb) data-path={ "/v1/tasks/" (array.id) "/" (verb) }
                data-what={ "array " (label(array)) } data-text=(text) { (verb) }
        }
    };
    html! {
        @if array.ended_at.is_none() {
            (button("pause", "No element runs until it is resumed."))
            (button("resume", "Its paused elements may run again."))
            (button("cancel", "Its elements end, those that run when their workers have stopped them."))
        } @else {
            (button("retry", "The elements that failed or were cancelled run again."))
        }
    }
}

fn label(array: &ArrayInfo) -> String {
    array.name.as_deref().map_or_else(|| short(array.id), str::to_owned)
}
