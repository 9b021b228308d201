//! `/tasks`: search, filter and act on tasks, a page at a time.

use maud::{Markup, html};
use tenure_hub::wall_clock;
use tenure_hub::words::{Cursor, ListQuery, Query, Refusal, StateName, TaskId, Timestamp};

use super::arrays;
use super::format::{counted, escaped};
use super::frame::{self, Allowed, Section};
use super::paging::{TaskPage, gather};
use super::task_rows;
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::routes::Act;
use crate::translate;

const PAGE: usize = 50;
/// How long the text of a search may be, as long as a name.
const SEARCH_BYTES_MAX: usize = 255;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&["state", "queue", "tag", "worker", "parent", "search", "cursor"])?;
    let filter = Filter::of(&call)?;
    let now = wall_clock();
    let mut hub = call.hub()?;
    // The whole id of a task or an array leads there.
    if let Some(id) = filter.search.as_deref().and_then(|text| text.parse::<TaskId>().ok()) {
        let is_array = hub.query(Query::Array { array: id }).await.is_ok();
        let kind = if is_array { "arrays" } else { "tasks" };
        return frame::redirect_within(&call, &format!("/{kind}/{id}"));
    }
    let exact = match (&filter.search, &filter.cursor) {
        (Some(name), None) => hub.task(Query::Find { name: name.as_str().into() }).await.ok(),
        _ => None,
    };
    let mut found = gather(&mut hub, filter.query()?).await?;
    let arrays = match (&filter.search, &filter.cursor) {
        (Some(name), None) => arrays::named(&mut hub, name, now).await,
        _ if filter.is_plain() => arrays::unended(&mut hub, now).await?,
        _ => None,
    };
    if let Some(exact) = exact {
        found.tasks.retain(|task| task.id != exact.id);
        found.tasks.insert(0, exact);
    }
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head { h1 { "Tasks" } (filter.chips()) }
        (filter.form())
        @if allowed.steer { (submission(&filter)) (acts(&filter)) }
        div #arrays data-live { @if let Some(arrays) = &arrays { (array_card(arrays, allowed)) } }
        div #list.card data-live { (list(&filter, &found, arrays.is_some(), allowed, now)) }
    };
    frame::page(&call, Section::Tasks, "Tasks", &content)
}

/// Arrays have no boxes: an act on one is for all its elements, and its page says how many those are.
fn array_card(arrays: &Markup, allowed: Allowed) -> Markup {
    html! {
        section.card aria-labelledby="arrays-title" {
            h2 #arrays-title { "Arrays" @if allowed.steer { small { "open one to act on its elements" } } }
            (arrays)
        }
    }
}

/// A form that submits a task. A script sends it, because the API takes JSON.
fn submission(filter: &Filter) -> Markup {
    html! {
        details #submit.card.submission {
            summary { "Submit a task" }
            form.stack data-submit {
                div.columns {
                    div.field {
                        label for="submit-queue" { "Queue" }
                        input #submit-queue name="queue" required maxlength="255" autocomplete="off" value=[&filter.queue];
                    }
                    div.field {
                        label for="submit-name" { "Name (optional): a second task of this name is not submitted" }
                        input #submit-name name="name" maxlength="255" autocomplete="off";
                    }
                }
                div.field {
                    label for="submit-kind" { "What the worker gets" }
                    select #submit-kind name="kind" {
                        option value="body" { "This text as the body" }
                        option value="command" { "A command for a worker that runs commands, in a shell" }
                    }
                }
                div.field {
                    label for="submit-content" { "Body or command" }
                    textarea #submit-content name="content" rows="4" spellcheck="false" {}
                }
                p.problem role="alert" hidden {}
                div.buttons { button.primary type="submit" { "Submit" } p.submitted hidden { a {} } }
            }
        }
    }
}

/// Which tasks the page shows.
#[derive(Debug, Default)]
struct Filter {
    /// `None`: all that have not ended. `Some(None)`: all.
    state: Option<Option<StateName>>,
    queue: Option<String>,
    tag: Option<String>,
    worker: Option<String>,
    parent: Option<String>,
    search: Option<String>,
    cursor: Option<String>,
}

const UNENDED: [StateName; 8] = [
    StateName::Created,
    StateName::Waiting,
    StateName::Delayed,
    StateName::Ready,
    StateName::Assigned,
    StateName::Running,
    StateName::Suspended,
    StateName::Paused,
];

impl Filter {
    fn of(call: &HttpCall) -> Result<Filter, ProblemDetails> {
        let text = |key: &str| call.query.one(key).map(|text| text.map(str::to_owned));
        let state = match call.query.one("state")? {
            None => None,
            Some("all") => Some(None),
            Some(state) => Some(Some(translate::state(state).map_err(|no| translate::problem(&no))?)),
        };
        let search = text("search")?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if search.as_ref().is_some_and(|text| text.len() > SEARCH_BYTES_MAX) {
            return Err(ProblemDetails::bad_value("the text of the search is longer than 255 bytes"));
        }
        // A search is about all tasks, unless it names a state.
        let state = if search.is_some() && state.is_none() { Some(None) } else { state };
        Ok(Filter {
            state,
            queue: text("queue")?,
            tag: text("tag")?,
            worker: text("worker")?,
            parent: text("parent")?,
            search,
            cursor: text("cursor")?,
        })
    }

    fn query(&self) -> Result<ListQuery, ProblemDetails> {
        let name = |text: &Option<String>| text.as_deref().map(Into::into);
        let refused = |no: Refusal| translate::problem(&no);
        let parent = self.parent.as_deref().map(|id| translate::task_id("parent", id)).transpose();
        let cursor = self.cursor.as_deref().map(str::parse::<Cursor>).transpose();
        Ok(ListQuery {
            states: self.states(),
            queue: name(&self.queue),
            tag: name(&self.tag),
            worker: name(&self.worker),
            parent: parent.map_err(refused)?,
            search: self.search.as_deref().map(Into::into),
            newest_first: true,
            // The list shows each array as one row, above the tasks.
            without_elements: self.is_plain(),
            cursor: cursor.map_err(refused)?,
            limit: PAGE,
            ..ListQuery::default()
        })
    }

    /// The states that it shows; none for all of them.
    fn states(&self) -> Vec<StateName> {
        match self.state {
            Some(Some(state)) => vec![state],
            None if self.parent.is_none() => UNENDED.to_vec(),
            Some(None) | None => Vec::new(),
        }
    }

    /// Those of its states in which an act makes sense, for a script that acts on all tasks that match.
    fn states_for(&self, verb: &str) -> String {
        let shown = self.states();
        let fitting = Act::parse(verb).map(Act::states).unwrap_or_default();
        let both = fitting.into_iter().filter(|state| shown.is_empty() || shown.contains(state));
        both.map(StateName::as_str).collect::<Vec<_>>().join(",")
    }

    /// Whether it shows what has not ended, without a further choice.
    fn is_plain(&self) -> bool {
        let chosen = [&self.queue, &self.tag, &self.worker, &self.parent, &self.search];
        self.state.is_none() && chosen.iter().all(|choice| choice.is_none())
    }

    fn state_word(&self) -> &'static str {
        match self.state {
            None => "",
            Some(None) => "all",
            Some(Some(state)) => state.as_str(),
        }
    }

    /// The query string of the same page with another state or cursor.
    fn path(&self, state: &str, cursor: Option<String>) -> String {
        let fields = [
            ("state", Some(state.to_owned()).filter(|state| !state.is_empty())),
            ("queue", self.queue.clone()),
            ("tag", self.tag.clone()),
            ("worker", self.worker.clone()),
            ("parent", self.parent.clone()),
            ("search", self.search.clone()),
            ("cursor", cursor),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let parts: Vec<String> = fields.map(|(name, value)| format!("{name}={}", escaped(&value))).collect();
        if parts.is_empty() { "/tasks".to_owned() } else { format!("/tasks?{}", parts.join("&")) }
    }

    /// The states to choose from.
    fn chips(&self) -> Markup {
        let words = ["", "all"].into_iter().chain(StateName::ALL.into_iter().map(StateName::as_str));
        html! {
            nav.chips aria-label="States" {
                @for word in words {
                    a.pill data-state=[StateName::parse(word)] href=(self.path(word, None))
                        aria-current=[(word == self.state_word()).then_some("true")] {
                        (if word.is_empty() { "not ended" } else { word })
                    }
                }
            }
        }
    }

    fn form(&self) -> Markup {
        let field = |name: &str, label: &str, value: &Option<String>| {
            html! {
                div.field {
                    label for={ "filter-" (name) } { (label) }
                    input id={ "filter-" (name) } name=(name) value=[value.as_deref()] maxlength="255" autocomplete="off";
                }
            }
        };
        html! {
            form.filters action="/tasks" {
                @if !self.state_word().is_empty() { input type="hidden" name="state" value=(self.state_word()); }
                (field("search", "Part of the name, or digits of the id", &self.search))
                (field("queue", "Queue", &self.queue))
                (field("tag", "Tag", &self.tag))
                (field("worker", "Worker", &self.worker))
                @if let Some(parent) = &self.parent { input type="hidden" name="parent" value=(parent); }
                div.buttons {
                    button.primary type="submit" { "Filter" }
                    a.button href="/tasks" { "Clear" }
                }
            }
        }
    }
}

/// The acts on selected tasks. A script enables the buttons.
fn acts(filter: &Filter) -> Markup {
    let can_select_all = filter.search.is_none();
    html! {
        div #acts.acts role="group" aria-label="Act on selected tasks"
            data-where-plain=[filter.is_plain().then_some("true")] data-where-queue=[filter.queue.as_deref()]
            data-where-tag=[filter.tag.as_deref()] data-where-worker=[filter.worker.as_deref()]
            data-where-parent=[filter.parent.as_deref()] {
            span #selected role="status" { "none selected" }
            @for verb in ["cancel", "pause", "resume", "retry", "release"] {
                button type="button" data-bulk=(verb) data-states=(filter.states_for(verb)) disabled { (verb) }
            }
            @if can_select_all {
                label.check {
                    input #select-matching type="checkbox";
                    " all that match, not only this page"
                }
            }
        }
    }
}

fn list(filter: &Filter, found: &TaskPage, has_arrays: bool, allowed: Allowed, now: Timestamp) -> Markup {
    let is_first = filter.cursor.is_none();
    html! {
        @if found.tasks.is_empty() { (nothing(filter, found, has_arrays)) }
        @else { (task_rows::table("Tasks", &found.tasks, allowed.steer, now)) }
        @if !is_first || found.next.is_some() {
            nav.pages aria-label="Pages" {
                span.muted {
                    (counted(found.tasks.len() as u64, "task", "tasks")) " on this page"
                    @if found.is_short { "; there is more to look at" }
                }
                @if !is_first { a.button href=(filter.path(filter.state_word(), None)) { "First page" } }
                @if let Some(next) = found.next {
                    a.button.primary #next-page rel="next" href=(filter.path(filter.state_word(), Some(next.to_string()))) {
                        @if found.is_short { "Look on" } @else { "Next page" }
                    }
                }
            }
        }
    }
}

fn nothing(filter: &Filter, found: &TaskPage, has_arrays: bool) -> Markup {
    html! {
        p.empty {
            @if found.next.is_some() { "None of the tasks that were looked at so far match." }
            @else if has_arrays && filter.search.is_some() { "No task outside of this array matches." }
            @else if has_arrays { "No task outside of arrays waits or runs." }
            @else if let Some(text) = &filter.search { "No task has “" (text) "” in its name, or an id that begins or ends so." }
            @else if filter.state.is_none() && filter.queue.is_none() {
                "No task waits or runs. Submit one: " code { "tenure submit -- date" }
            }
            @else { "No task matches." }
        }
    }
}
