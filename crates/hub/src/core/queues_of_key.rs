//! Counts how many queues each key uses, for keys with a limit: one key must not use up all queues of a
//! namespace.

use std::collections::{BTreeSet, HashMap, HashSet};

use tenure_engine::{Answer, Command, Engine, Name, Peer, Query, Refusal, Timestamp};

use crate::keys::KeyId;
use crate::refusal::HubRefusal;
use crate::request::Request;

/// The existing queues that the sessions of each key have named.
#[derive(Debug, Default)]
pub(super) struct QueuesOfKeys {
    of_key: HashMap<KeyId, Used>,
}

#[derive(Debug, Default)]
struct Used {
    queues: BTreeSet<(Name, Name)>,
    /// When closed queues were last removed.
    looked_at: Timestamp,
}

impl QueuesOfKeys {
    /// Refuses a request that would take its key over its limit of queues.
    pub(super) fn check(
        &mut self,
        now: Timestamp,
        engine: &Engine,
        peer: &Peer,
        key: KeyId,
        limit: usize,
        request: &Request,
    ) -> Result<(), HubRefusal> {
        let used = self.of_key.entry(key).or_default();
        queues(request).into_iter().try_for_each(|queue| used.add(now, engine, peer, queue, limit))
    }

    /// Removes keys that are no longer used.
    pub(super) fn forget(&mut self, keys: &HashSet<KeyId>) {
        self.of_key.retain(|key, _| !keys.contains(key));
    }
}

impl Used {
    fn add(
        &mut self,
        now: Timestamp,
        engine: &Engine,
        peer: &Peer,
        queue: &Name,
        limit: usize,
    ) -> Result<(), HubRefusal> {
        let pair = (peer.namespace.clone(), queue.clone());
        if self.queues.contains(&pair) {
            return Ok(());
        }
        if self.queues.len() >= limit && self.looked_at < now {
            self.looked_at = now;
            self.queues.retain(|(namespace, queue)| exists(engine, peer, namespace, queue));
        }
        if self.queues.len() >= limit {
            return Err(Refusal::Full { what: "queues of this key", limit: limit as u64 }.into());
        }
        self.queues.insert(pair);
        Ok(())
    }
}

/// The engine closes empty queues.
fn exists(engine: &Engine, peer: &Peer, namespace: &Name, queue: &Name) -> bool {
    let peer = Peer { namespace: namespace.clone(), ..peer.clone() };
    let found = engine.ask(&peer, &Query::Queue { queue: queue.clone() });
    matches!(found, Ok(Answer::Queues(queues)) if !queues.is_empty())
}

/// The queues that a request may create.
fn queues(request: &Request) -> Vec<&Name> {
    match request {
        Request::Submit(submissions) => {
            let mut queues: Vec<&Name> =
                submissions.iter().map(|submission| &submission.task.queue).collect();
            queues.sort_unstable();
            queues.dedup();
            queues
        }
        Request::SubmitArray(submission) => vec![&submission.array.task.queue],
        Request::Reconcile(page) if page.apply => {
            let declared = page.declared.iter().filter_map(|one| one.submission.as_ref());
            let mut queues: Vec<&Name> = declared.map(|submission| &submission.task.queue).collect();
            queues.sort_unstable();
            queues.dedup();
            queues
        }
        Request::Command(Command::Register(spec)) => spec.queues.iter().collect(),
        Request::Command(Command::SetSchedule(new)) => vec![&new.task.queue],
        Request::Command(Command::Ask { queues }) => queues.iter().collect(),
        Request::Command(Command::Move { to, .. }) => to.queue.iter().collect(),
        Request::Command(
            Command::PauseQueue { queue }
            | Command::SetThresholds { queue, .. }
            | Command::SetQueueRate { queue, .. },
        ) => vec![queue],
        _ => Vec::new(),
    }
}
