//! Arrays: many tasks that are submitted, shown, limited, waited for and cancelled as one.

use std::time::Duration;

use bytes::Bytes;
use tenure_wire::array::{
    ArrayAccepted, ArrayInfo, Arrays, ArraysQuery, Bodies, LimitArray, OneArray, SubmitArray,
};
use tenure_wire::event::EventKind;
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::request::OneName;
use tenure_wire::{Name, Reply, Request, TaskId};
use tokio::time::Instant;

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;
use crate::submission::Submission;
use crate::watch::Watch;

/// How many bytes the bodies of one array may have together, with what each takes besides.
pub const ARRAY_BODIES_BYTES_MAX: usize = FRAME_BYTES_MAX - (1 << 20);
/// How many bytes a body of an array takes besides its own.
pub const ARRAY_BODY_OVERHEAD: usize = 5;
/// How long a wait relies on an event before it looks again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// An array to submit.
///
/// ```
/// use tenure_client::{ArraySubmission, Submission};
///
/// // Elements 1 to 400 share one body; at most 20 of them run at once.
/// let sweep = ArraySubmission::new(Submission::to("simulations").body("{}"), 400).first(1).limit(20);
/// // One element for each item.
/// let scans = ArraySubmission::of_items(Submission::to("images").name("scans"), ["a.tif", "b.tif"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySubmission {
    submission: Submission,
    size: u32,
    first: u32,
    step: u32,
    limit: Option<u32>,
    bodies: Vec<Bytes>,
}

impl ArraySubmission {
    /// Creates an array of this many elements, which share the body of the submission. Its name is that of the array.
    pub fn new(submission: Submission, size: u32) -> ArraySubmission {
        ArraySubmission { submission, size, first: 0, step: 1, limit: None, bodies: Vec::new() }
    }

    /// Creates an array with one element for each body.
    pub fn of_items<B: Into<Bytes>>(
        submission: Submission,
        bodies: impl IntoIterator<Item = B>,
    ) -> ArraySubmission {
        let bodies: Vec<Bytes> = bodies.into_iter().map(Into::into).collect();
        let size = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
        ArraySubmission { bodies, ..ArraySubmission::new(submission, size) }
    }

    /// Sets the index of the first element (0).
    #[must_use]
    pub fn first(mut self, index: u32) -> ArraySubmission {
        self.first = index;
        self
    }

    /// Sets the distance from one index to the next (1).
    #[must_use]
    pub fn step(mut self, step: u32) -> ArraySubmission {
        self.step = step;
        self
    }

    /// Sets how many elements workers may hold at once. Default: no limit.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> ArraySubmission {
        self.limit = Some(limit);
        self
    }

    /// Chooses the id of the array, so that it can be watched before it is submitted.
    #[must_use]
    pub fn id(mut self, id: TaskId) -> ArraySubmission {
        self.submission.task.id = Some(id);
        self
    }

    /// Returns how many bytes the bodies take, of at most [`ARRAY_BODIES_BYTES_MAX`].
    pub fn body_bytes(&self) -> usize {
        let each = self.bodies.iter().map(|body| body.len() + ARRAY_BODY_OVERHEAD);
        each.sum::<usize>() + self.submission.task.body.len()
    }

    fn request(self) -> SubmitArray {
        let Submission { terms, task } = self.submission;
        SubmitArray {
            id: task.id,
            size: self.size,
            first: self.first,
            step: self.step,
            limit: self.limit,
            terms,
            body: if self.bodies.is_empty() { task.body } else { Bytes::new() },
            bodies: Bodies(self.bodies),
            priority: task.priority,
            hold: task.hold,
            name: task.name,
            parent: task.parent,
            not_before: task.not_before,
            expires_at: task.expires_at,
            after: task.after,
            traceparent: task.traceparent,
            tracestate: task.tracestate,
        }
    }
}

impl Client {
    /// Submits an array: all of its elements, or none. Returns when they are on the broker's disk.
    pub async fn submit_array(&self, array: ArraySubmission) -> Result<ArrayAccepted, Error> {
        let bytes = array.body_bytes();
        if bytes > ARRAY_BODIES_BYTES_MAX {
            let what = "the bodies of the array together";
            return Err(Error::TooLarge { what, bytes, limit: ARRAY_BODIES_BYTES_MAX });
        }
        let repeat = if array.submission.task.name.is_some() { Repeat::Safe } else { Repeat::Unsafe };
        match self.ask("submit-array", Request::SubmitArray(Box::new(array.request())), repeat).await? {
            Reply::ArraySubmitted(accepted) => Ok(*accepted),
            other => Err(unexpected("submit-array", &other)),
        }
    }

    /// Returns an array with the counts of its elements.
    pub async fn array(&self, array: TaskId) -> Result<ArrayInfo, Error> {
        match self.query("array", Request::Array(OneArray { array })).await? {
            Reply::Array(info) => Ok(*info),
            other => Err(unexpected("array", &other)),
        }
    }

    /// Returns the array that was submitted under this name.
    pub async fn find_array(&self, name: impl Into<Name>) -> Result<ArrayInfo, Error> {
        match self.query("find-array", Request::FindArray(OneName { name: name.into() })).await? {
            Reply::Array(info) => Ok(*info),
            other => Err(unexpected("find-array", &other)),
        }
    }

    /// Returns at most this many arrays, newest first.
    pub async fn arrays(&self, limit: usize) -> Result<Vec<ArrayInfo>, Error> {
        let mut all: Vec<ArrayInfo> = Vec::new();
        let mut cursor = None;
        loop {
            let page = limit.saturating_sub(all.len()).clamp(1, 1_000);
            let query = ArraysQuery { cursor, limit: page as u32 };
            match self.query("arrays", Request::Arrays(query)).await? {
                Reply::Arrays(Arrays { arrays, next }) => {
                    all.extend(arrays);
                    cursor = next;
                }
                other => return Err(unexpected("arrays", &other)),
            }
            if cursor.is_none() || all.len() >= limit {
                all.truncate(limit);
                return Ok(all);
            }
        }
    }

    /// Sets how many elements of an array workers may hold at once; `None` removes the limit.
    pub async fn limit_array(&self, array: TaskId, limit: Option<u32>) -> Result<(), Error> {
        self.command("limit-array", Request::LimitArray(LimitArray { array, limit })).await
    }

    /// Waits until an array has ended or the timeout has passed. Returns the array as it then is.
    pub async fn wait_array(&self, array: TaskId, timeout: Option<Duration>) -> Result<ArrayInfo, Error> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut watcher = self.watch(Watch::default().task(array).kinds([EventKind::ArrayEnded])).await?;
        loop {
            let info = self.array(array).await?;
            let left =
                deadline.map_or(LOOK_EVERY, |deadline| deadline.saturating_duration_since(Instant::now()));
            if info.ended_at.is_some() || left.is_zero() {
                return Ok(info);
            }
            // Whatever the watch brings, the array itself says what it is like.
            let _ = tokio::time::timeout(left.min(LOOK_EVERY), watcher.next()).await;
        }
    }
}
