//! One page of tasks. The engine looks at a bounded number of tasks at a time, so a page may take several queries.

use std::time::Duration;

use tenure_hub::words::{Answer, Cursor, ListQuery, Query, TaskInfo};
use tokio::time::Instant;

use crate::problem::ProblemDetails;
use crate::session::HubAccess;

/// How long a page is gathered. What is left is on the next page.
const GATHERING_MAX: Duration = Duration::from_millis(40);
/// The same for a search, which looks at every task.
const SEARCHING_MAX: Duration = Duration::from_millis(400);

#[derive(Debug, Default)]
pub(super) struct TaskPage {
    pub(super) tasks: Vec<TaskInfo>,
    pub(super) next: Option<Cursor>,
    /// The time was over before the page was full.
    pub(super) is_short: bool,
}

pub(super) async fn gather(hub: &mut HubAccess, mut query: ListQuery) -> Result<TaskPage, ProblemDetails> {
    let wanted = query.limit;
    let time = if query.search.is_some() { SEARCHING_MAX } else { GATHERING_MAX };
    let deadline = Instant::now() + time;
    let mut page = TaskPage::default();
    loop {
        query.limit = wanted - page.tasks.len();
        let Answer::Tasks { tasks, next } = hub.query(Query::List(Box::new(query.clone()))).await? else {
            return Err(ProblemDetails::unexpected());
        };
        page.tasks.extend(tasks);
        page.next = next;
        query.cursor = next;
        if page.tasks.len() >= wanted || next.is_none() {
            return Ok(page);
        }
        if Instant::now() >= deadline {
            page.is_short = true;
            return Ok(page);
        }
    }
}
