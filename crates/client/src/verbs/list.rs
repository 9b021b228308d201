//! Listing tasks, page by page.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tenure_wire::reply::TaskList;
use tenure_wire::request::ListQuery;
use tenure_wire::task::TaskInfo;
use tenure_wire::words::StateName;
use tenure_wire::{Name, Reply, Request, TaskId};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::submission::When;

/// Which tasks to list. An option that is not set matches all tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query(ListQuery);

impl Query {
    /// Only tasks in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = StateName>) -> Query {
        self.0.states = states.into_iter().collect();
        self
    }

    /// Only tasks of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Query {
        self.0.queue = Some(queue.into());
        self
    }

    /// Only tasks with this tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Name>) -> Query {
        self.0.tag = Some(tag.into());
        self
    }

    /// Held by this worker.
    #[must_use]
    pub fn worker(mut self, worker: impl Into<Name>) -> Query {
        self.0.worker = Some(worker.into());
        self
    }

    /// Only children of this task.
    #[must_use]
    pub fn parent(mut self, parent: TaskId) -> Query {
        self.0.parent = Some(parent);
        self
    }

    /// Only the elements of this array, in the order of their indexes.
    #[must_use]
    pub fn array(mut self, array: TaskId) -> Query {
        self.0.array = Some(array);
        self
    }

    /// Leave out the elements of arrays.
    #[must_use]
    pub fn without_elements(mut self) -> Query {
        self.0.without_elements = true;
        self
    }

    /// Only tasks that a client of this identity submitted.
    #[must_use]
    pub fn submitter(mut self, identity: impl Into<Name>) -> Query {
        self.0.submitter = Some(identity.into());
        self
    }

    /// Only tasks submitted after this time.
    #[must_use]
    pub fn submitted_after(mut self, time: impl Into<When>) -> Query {
        self.0.submitted_after = Some(time.into().0);
        self
    }

    /// Only tasks submitted before this time.
    #[must_use]
    pub fn submitted_before(mut self, time: impl Into<When>) -> Query {
        self.0.submitted_before = Some(time.into().0);
        self
    }

    /// Sets how many tasks one page returns at most (100). The listing as a whole has no limit.
    #[must_use]
    pub fn page(mut self, tasks: u32) -> Query {
        self.0.limit = tasks;
        self
    }
}

impl Client {
    /// Lists tasks. Pages are fetched as they are needed.
    ///
    /// ```no_run
    /// use tenure_client::{Client, Query, StateName};
    ///
    /// # async fn example(client: Client) -> Result<(), tenure_client::Error> {
    /// let mut failed = client.list(Query::default().states([StateName::Failed]));
    /// while let Some(task) = failed.next().await {
    ///     println!("{}", task?.id);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn list(&self, query: Query) -> Listing {
        Listing { client: self.clone(), query: query.0, tasks: VecDeque::new(), fetching: None, done: false }
    }
}

type Fetching = Pin<Box<dyn Future<Output = Result<TaskList, Error>> + Send>>;

/// Tasks one after another; also a [`Stream`].
pub struct Listing {
    client: Client,
    query: ListQuery,
    tasks: VecDeque<TaskInfo>,
    fetching: Option<Fetching>,
    done: bool,
}

impl Listing {
    /// Returns the next task; `None` at the end. An error ends the listing.
    pub async fn next(&mut self) -> Option<Result<TaskInfo, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the next page as a whole; `None` at the end.
    pub async fn next_page(&mut self) -> Result<Option<Vec<TaskInfo>>, Error> {
        match self.next().await {
            None => Ok(None),
            Some(Err(error)) => Err(error),
            Some(Ok(first)) => {
                let mut page = vec![first];
                page.extend(self.tasks.drain(..));
                Ok(Some(page))
            }
        }
    }
}

impl Stream for Listing {
    type Item = Result<TaskInfo, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(task) = this.tasks.pop_front() {
                return Poll::Ready(Some(Ok(task)));
            }
            if this.done {
                return Poll::Ready(None);
            }
            let fetching = this.fetching.get_or_insert_with(|| {
                let (client, query) = (this.client.clone(), this.query.clone());
                Box::pin(async move { fetch(&client, query).await })
            });
            let fetched = ready!(fetching.as_mut().poll(context));
            this.fetching = None;
            match fetched {
                Ok(page) => {
                    this.done = page.next.is_none();
                    this.query.cursor = page.next;
                    this.tasks = page.tasks.into();
                }
                Err(error) => {
                    this.done = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing")
            .field("query", &self.query)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

async fn fetch(client: &Client, query: ListQuery) -> Result<TaskList, Error> {
    match client.query("list", Request::List(Box::new(query))).await? {
        Reply::Tasks(tasks) => Ok(tasks),
        other => Err(unexpected("list", &other)),
    }
}
