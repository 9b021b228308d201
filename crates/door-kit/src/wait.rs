//! Waiting until tasks and arrays have ended.

use std::collections::HashSet;
use std::time::Duration;

use foldhash::fast::RandomState;
use tenure_hub::limits::MANY_MAX;
use tenure_hub::words::{
    Answer, ArrayInfo, Event, EventData, EventFilter, EventSubject, Query, Refusal, TaskId, TaskInfo,
};
use tenure_hub::{Ask, Delivery, HubRefusal, Request, Response, Session, Watch};

/// The kind of the event that ends an array.
const ARRAY_ENDED: &str = "array-ended";

/// What a wait has seen to be over.
pub enum EndedItem<'a> {
    /// A task that has ended.
    Task(&'a TaskInfo),
    /// An array whose elements have all ended.
    Array(&'a ArrayInfo),
}

/// A wait for the ends of tasks and arrays. It has a session of its own, and asks it for nothing else.
pub struct WaitForEnds {
    session: Session,
    ids: Vec<TaskId>,
    left: HashSet<TaskId, RandomState>,
    /// Those of the ids that are no tasks.
    arrays: HashSet<TaskId, RandomState>,
}

impl WaitForEnds {
    /// A wait for these ids; the same id may be there more than once.
    ///
    /// # Errors
    /// There are too many.
    pub fn new(session: Session, ids: Vec<TaskId>) -> Result<Self, Refusal> {
        if ids.len() > MANY_MAX {
            return Err(Refusal::TooMany { what: "tasks waited for", limit: MANY_MAX });
        }
        let left = ids.iter().copied().collect();
        Ok(WaitForEnds { session, ids, left, arrays: HashSet::default() })
    }

    /// Waits until all have ended, or for this long, and tells of each end once. Afterwards `left` says what has not
    /// ended.
    ///
    /// # Errors
    /// The broker refuses an id, or stops.
    pub async fn run(
        &mut self,
        timeout: Option<Duration>,
        on_end: impl FnMut(EndedItem<'_>),
    ) -> Result<(), HubRefusal> {
        let all_ended = self.until_all_ended(on_end);
        match timeout {
            None => all_ended.await,
            Some(timeout) => tokio::time::timeout(timeout, all_ended).await.unwrap_or(Ok(())),
        }
    }

    /// Those that have not ended, in the order in which they were given.
    pub fn left(&self) -> impl Iterator<Item = TaskId> {
        self.ids.iter().copied().filter(|id| self.left.contains(id))
    }

    /// The session of this wait.
    pub fn session(&self) -> &Session {
        &self.session
    }

    async fn until_all_ended(&mut self, mut on_end: impl FnMut(EndedItem<'_>)) -> Result<(), HubRefusal> {
        self.watch_and_look().await?;
        let mut arrived = Vec::new();
        while !self.left.is_empty() {
            self.session.mailbox().arrived().await;
            let is_closed = self.session.mailbox().is_closed();
            if !self.session.mailbox().take(&mut arrived) && is_closed {
                return Err(HubRefusal::Draining);
            }
            let mut look_at = Vec::new();
            let mut asks = Vec::new();
            for delivery in arrived.drain(..) {
                match delivery {
                    Delivery::Reply { reply: Ok(Response::Answer(Answer::Task(info))), .. } => {
                        if info.state.end().is_some() && self.left.remove(&info.id) {
                            on_end(EndedItem::Task(&info));
                        }
                    }
                    Delivery::Reply { reply: Ok(Response::Answer(Answer::Array(info))), .. } => {
                        if info.ended_at.is_some() && self.left.remove(&info.id) {
                            on_end(EndedItem::Array(&info));
                        }
                    }
                    // It may be the id of an array.
                    Delivery::Reply {
                        token,
                        reply: Err(HubRefusal::Engine(Refusal::UnknownTask { task })),
                    } if token > 0 => {
                        if self.arrays.insert(task) {
                            asks.extend(watch_and_look_at_array(token - 1, task));
                        }
                    }
                    Delivery::Reply { reply: Ok(_), .. } | Delivery::Live { .. } => {}
                    Delivery::Reply { reply: Err(no), .. } | Delivery::Ended(no) => return Err(no),
                    Delivery::Event { event, .. } => look_at.extend(ended_by(&event)),
                    // Events may have been missed.
                    Delivery::Gap { .. } => look_at.extend(&self.left),
                    Delivery::Goodbye => return Err(HubRefusal::Draining),
                    Delivery::Notice(_)
                    | Delivery::Call { .. }
                    | Delivery::CallAnswered { .. }
                    | Delivery::CallGivenUp { .. }
                    | Delivery::Broadcast(_) => {}
                }
            }
            look_at.retain(|id| self.left.contains(id));
            asks.extend(look_at.into_iter().map(|id| match self.arrays.contains(&id) {
                true => look_at_array(id),
                false => show_task(0, id),
            }));
            self.send(asks).await?;
        }
        Ok(())
    }

    /// First the watches, then a query for each: an end in between is seen twice, and counted once.
    async fn watch_and_look(&self) -> Result<(), HubRefusal> {
        let kinds: Vec<_> = EventData::KINDS_OF_ENDS.iter().map(|kind| (*kind).into()).collect();
        let mut asks = Vec::with_capacity(2 * self.ids.len());
        for (watch, id) in (0..).zip(&self.ids) {
            let filter = EventFilter { task: Some(*id), kinds: kinds.clone(), ..EventFilter::default() };
            let watch = Watch { watch, filter, from: None };
            asks.push(Ask { token: 0, request: Request::Watch(watch) });
        }
        // The token says which watch belongs to an id that is no task.
        asks.extend((1..).zip(&self.ids).map(|(token, id)| show_task(token, *id)));
        self.send(asks).await
    }

    async fn send(&self, asks: Vec<Ask>) -> Result<(), HubRefusal> {
        self.session.send(asks).await.map_err(|_| HubRefusal::Draining)
    }
}

fn show_task(token: u64, task: TaskId) -> Ask {
    Ask { token, request: Request::Query(Query::Show { task }) }
}

fn look_at_array(array: TaskId) -> Ask {
    Ask { token: 0, request: Request::Query(Query::Array { array }) }
}

/// Replaces the watch of a task by that of an array, so that the ends of its elements do not come here.
fn watch_and_look_at_array(watch: u64, array: TaskId) -> [Ask; 3] {
    let kinds = vec![ARRAY_ENDED.into()];
    let filter = EventFilter { task: Some(array), kinds, ..EventFilter::default() };
    let again = Watch { watch, filter, from: None };
    [
        Ask { token: 0, request: Request::Unwatch { watch } },
        Ask { token: 0, request: Request::Watch(again) },
        look_at_array(array),
    ]
}

/// The task or array that an event ends.
fn ended_by(event: &Event) -> Option<TaskId> {
    match (&event.about, &event.kind) {
        (EventSubject::Array { id, .. }, EventData::ArrayEnded { .. }) => Some(*id),
        (_, kind) => event.task().filter(|_| kind.is_end()),
    }
}
