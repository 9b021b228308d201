//! One request, as its handler gets it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tenure_door_kit::Charge;
use tenure_hub::HubRefusal;
use tenure_hub::words::{Blob, Name, Query, TaskId};

use crate::authentication::HttpPeer;
use crate::codec::{self, PathValues, QueryString, SharedBody};
use crate::problem::ProblemDetails;
use crate::server::{HttpConnection, HttpDoor};
use crate::session::HubAccess;
use crate::translate;

/// Longer bytes are read in turns.
const LONG_BYTES: u32 = 256 << 10;

pub(crate) struct HttpCall {
    pub(crate) door: Arc<HttpDoor>,
    pub(crate) connection: Arc<HttpConnection>,
    /// `None` if the endpoint needs no key.
    pub(crate) peer: Option<HttpPeer>,
    pub(crate) path: PathValues,
    pub(crate) query: QueryString,
    pub(crate) head: Parts,
    pub(crate) body: SharedBody,
    /// The room that the body takes until this request is handled: it may wait long for the journal.
    pub(crate) body_charge: Option<Charge>,
}

impl HttpCall {
    /// The peer, which was authenticated before the handler was called.
    pub(crate) fn peer(&self) -> Result<&HttpPeer, ProblemDetails> {
        self.peer.as_ref().ok_or_else(ProblemDetails::unexpected)
    }

    /// A session with the hub for single requests.
    pub(crate) fn hub(&self) -> Result<HubAccess, ProblemDetails> {
        HubAccess::open(self.peer()?, &self.connection)
    }

    /// The same for figures of the whole broker, which has them for every namespace.
    pub(crate) fn hub_of_broker(&self) -> Result<HubAccess, ProblemDetails> {
        HubAccess::open(&self.peer()?.about_broker(), &self.connection)
    }

    /// The whole body of the request.
    pub(crate) async fn bytes(&mut self, bytes_max: usize) -> Result<Bytes, ProblemDetails> {
        let (bytes, charge) = codec::read_body(&self.body, &self.door, bytes_max).await?;
        self.body_charge = Some(charge);
        Ok(bytes)
    }

    /// Gives back the room of the body. For requests that wait and need little of it.
    pub(crate) fn release_body(&mut self) {
        self.body_charge = None;
    }

    /// The body as JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&mut self) -> Result<T, ProblemDetails> {
        let bytes = self.bytes(self.door.settings.request_bytes_max).await?;
        codec::read_json(&self.head.headers, &bytes)
    }

    /// The same for a body that may be missing.
    pub(crate) async fn json_or_default<T: DeserializeOwned + Default>(
        &mut self,
    ) -> Result<T, ProblemDetails> {
        let bytes = self.bytes(self.door.settings.request_bytes_max).await?;
        if bytes.is_empty() { Ok(T::default()) } else { codec::read_json(&self.head.headers, &bytes) }
    }

    /// Reads bytes of tasks. The caller has reserved memory for them.
    pub(crate) async fn read_blobs(&self, blobs: Vec<Blob>) -> Vec<Result<Bytes, HubRefusal>> {
        let is_long = blobs.iter().any(|blob| blob.bytes() > LONG_BYTES);
        let _turn = if is_long { self.door.long_reads.acquire().await.ok() } else { None };
        self.door.hub.read_many(blobs).await
    }

    /// A name in the path.
    pub(crate) fn name(&self, key: &str) -> Result<Name, ProblemDetails> {
        self.path.get(key).map(Name::from)
    }

    /// The task in the path, by its id or by `name:NAME`. A name is looked up.
    pub(crate) async fn task(&self, hub: &mut HubAccess) -> Result<TaskId, ProblemDetails> {
        let text = self.path.get("task")?;
        match text.strip_prefix("name:") {
            Some(name) => Ok(hub.task(Query::Find { name: name.into() }).await?.id),
            None => translate::task_id("task", text).map_err(|no| translate::problem(&no)),
        }
    }

    /// How many entries a page may have: `limit=COUNT`, not more than `max`.
    pub(crate) fn page_limit(&self, default: usize, max: usize) -> Result<usize, ProblemDetails> {
        match self.query.number("limit")? {
            Some(0) => Err(ProblemDetails::bad_value("limit is 0, and a page has at least one entry")),
            limit => Ok(limit.unwrap_or(default).min(max)),
        }
    }

    /// How long the request may wait: `wait=SECONDS`, not longer than the door allows.
    pub(crate) fn wait(&self, default: Duration) -> Result<Duration, ProblemDetails> {
        let wait = self.query.one("wait")?.map(codec::seconds).transpose()?;
        Ok(wait.unwrap_or(default).min(self.door.settings.wait_max))
    }
}
