//! Limit: how many tasks of a tag may be held at once. A client can set, change and remove it while tasks
//! run; lowering it stops no running task.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::limits::LIMITED_TAGS_MAX;
use crate::name::{self, Name};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn set_limit(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        tag: &Name,
        limit: Option<u32>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        name::check("tag", tag)?;
        name::check("namespace", &peer.namespace)?;
        if limit.is_some()
            && self.tags.len() >= LIMITED_TAGS_MAX
            && self.tags.find(&peer.namespace, tag).is_none()
        {
            return Err(Refusal::Full { what: "limits", limit: LIMITED_TAGS_MAX as u64 });
        }
        let key = self.tags.open(&peer.namespace, tag);
        self.tags.at_mut(key).limit = limit;
        self.emit_tag_record(now, key, EventData::LimitSet { limit }, out);
        self.dirty.tags.push(key);
        self.dirty.reservations = true;
        self.tags.close_if_unused(key);
        Ok(Reply::Done)
    }
}
