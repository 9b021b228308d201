//! A connection's side of the key space: it runs commands at once and gets each answer when its records are
//! on disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_engine::{Name, Timestamp};
use tenure_keyspace::{
    Blocking, Command, CommandOutcome, KeyAct, KeyWatch, ListCommand, Record, Reply, Timestamp as KeyTime,
    Transaction, UnblockedCommand, WaiterId,
};
use tokio::sync::{mpsc, watch};

use super::pending::WriteProgress;
use super::{Keyspaces, NamespaceKeys, locked};
use crate::clock::monotonic_clock;

/// A call of a connection.
#[allow(missing_docs, reason = "the fields are words of the glossary")]
#[derive(Debug)]
pub enum KeyspaceCall {
    /// Run one command.
    Run(Command),
    /// EXEC: all commands without others in between, unless a watched key changed.
    Transaction(Vec<Command>),
    /// Blocks until there is an element or the call is given up.
    Wait(Blocking),
    /// The call with this token has timed out.
    GiveUp { waiting: u64 },
    /// Watch keys, for a transaction.
    Watch(Vec<bytes::Bytes>),
    /// End all watches of the connection.
    Unwatch,
}

/// The answer to a request.
#[derive(Debug, PartialEq)]
pub enum KeyspaceAnswer {
    /// The reply of the command.
    Reply(Reply),
    /// The replies of a transaction; `None` if a watched key changed.
    Transaction(Option<Vec<Reply>>),
    /// The request cannot be answered.
    Failed(KeyspaceFailure),
}

/// Why a call failed, or its outcome is unknown.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyspaceFailure {
    #[error("the disk is full: nothing is written until space is free")]
    DiskFull,
    #[error("the disk became full: this change may or may not be kept")]
    Unwritten,
    #[error("the broker is stopping")]
    Stopping,
    #[error("keys are in use in {} namespaces, which is the limit", super::NAMESPACES_MAX)]
    TooManyNamespaces,
}

/// How soon an answer looks again whether the lease was renewed.
const LEASE_LOOK: Duration = Duration::from_millis(10);

/// Where to send the answer of a blocked call.
#[derive(Debug)]
pub(super) struct Sink {
    token: u64,
    answers: mpsc::UnboundedSender<PendingAnswer>,
    command: Blocking,
}

/// An answer that waits for the disk.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    token: u64,
    /// The answer may leave when the records up to this place are on disk.
    place: u64,
    answer: KeyspaceAnswer,
    /// The push that restores the popped element if the answer is never delivered.
    popped: Option<ListCommand>,
}

/// One connection in one namespace.
#[derive(Debug)]
pub struct KeyspaceClient {
    keyspaces: Keyspaces,
    state: Arc<Mutex<NamespaceKeys>>,
    progress: watch::Receiver<WriteProgress>,
    under_way: VecDeque<PendingAnswer>,
    /// The bytes of these answers.
    under_way_bytes: usize,
    served: mpsc::UnboundedReceiver<PendingAnswer>,
    sender: mpsc::UnboundedSender<PendingAnswer>,
    waiting: Vec<(u64, WaiterId)>,
    watches: Vec<KeyWatch>,
}

impl Keyspaces {
    /// Connects to a namespace. Doors check rights before they run anything: see `KeyspaceAct`.
    pub fn connect(&self, namespace: &Name) -> Result<KeyspaceClient, KeyspaceFailure> {
        let (sender, served) = mpsc::unbounded_channel();
        Ok(KeyspaceClient {
            state: self.space(namespace)?,
            progress: self.shared.pending.progress(),
            keyspaces: self.clone(),
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            served,
            sender,
            waiting: Vec::new(),
            watches: Vec::new(),
        })
    }
}

impl KeyspaceClient {
    /// Runs calls in order. [`KeyspaceClient::answered`] returns their answers, each with its token.
    pub fn run(&mut self, now: Timestamp, calls: impl IntoIterator<Item = (u64, KeyspaceCall)>) {
        self.run_up_to(now, calls.into_iter().by_ref(), usize::MAX);
    }

    /// Runs calls in order until their answers hold this many bytes. Calls that it does not take may run later.
    pub fn run_up_to(
        &mut self,
        now: Timestamp,
        calls: &mut impl Iterator<Item = (u64, KeyspaceCall)>,
        bytes_max: usize,
    ) {
        let now = KeyTime(now.millis());
        let (state, keyspaces) = (Arc::clone(&self.state), self.keyspaces.clone());
        let mut state = locked(&state);
        while self.under_way_bytes < bytes_max
            && let Some((token, call)) = calls.next()
        {
            let answer = if call.writes() { keyspaces.refuses_writes() } else { None };
            let answer = match answer {
                Some(failure) => Some((KeyspaceAnswer::Failed(failure), None)),
                None => self.run_one(&mut state, token, call, now),
            };
            if let Some((answer, popped)) = answer {
                let place = if matches!(answer, KeyspaceAnswer::Failed(_)) { 0 } else { state.last };
                self.push_under_way(PendingAnswer { token, place, answer, popped });
            }
        }
    }

    fn push_under_way(&mut self, pending: PendingAnswer) {
        self.under_way_bytes += pending.answer.bytes();
        self.under_way.push_back(pending);
    }

    /// Waits until the backlog for the disk is below its limit.
    pub async fn room(&self) {
        self.keyspaces.shared.pending.room().await;
    }

    /// Waits for answers whose records are on disk. Cancel-safe: it may be dropped and called again.
    pub async fn answered(&mut self) -> Vec<(u64, KeyspaceAnswer)> {
        loop {
            let answers = self.take_answered();
            if !answers.is_empty() {
                return answers;
            }
            let waits_for_lease = !self.under_way.is_empty() && !self.keyspaces.may_answer();
            tokio::select! {
                Ok(()) = self.progress.changed(), if !self.under_way.is_empty() => {}
                () = tokio::time::sleep(LEASE_LOOK), if waits_for_lease => {}
                Some(served) = self.served.recv() => self.push_under_way(served),
            }
        }
    }

    /// The answers that may leave now.
    pub fn take_answered(&mut self) -> Vec<(u64, KeyspaceAnswer)> {
        while let Ok(served) = self.served.try_recv() {
            self.push_under_way(served);
        }
        let WriteProgress { durable, full } = *self.progress.borrow_and_update();
        if !self.under_way.is_empty() && !self.keyspaces.may_answer() {
            return Vec::new();
        }
        let mut answers = Vec::new();
        self.under_way.retain_mut(|under_way| {
            let is_durable = under_way.place <= durable;
            if is_durable || full {
                self.waiting.retain(|(token, _)| *token != under_way.token);
                let failed = KeyspaceAnswer::Failed(KeyspaceFailure::Unwritten);
                let answer = std::mem::replace(&mut under_way.answer, failed);
                self.under_way_bytes -= answer.bytes();
                let answer =
                    if is_durable { answer } else { KeyspaceAnswer::Failed(KeyspaceFailure::Unwritten) };
                answers.push((under_way.token, answer));
            }
            !(is_durable || full)
        });
        answers
    }

    fn run_one(
        &mut self,
        state: &mut NamespaceKeys,
        token: u64,
        call: KeyspaceCall,
        now: KeyTime,
    ) -> Option<(KeyspaceAnswer, Option<ListCommand>)> {
        let answer = match call {
            KeyspaceCall::Run(command) => {
                let CommandOutcome { reply, record, served } = state.space.run(&command, now);
                self.keyspaces.record(state, record, served);
                KeyspaceAnswer::Reply(reply)
            }
            KeyspaceCall::Transaction(commands) => {
                let watches = std::mem::take(&mut self.watches);
                let done = state.space.run_all(&commands, &watches, now);
                watches.iter().for_each(|watch| state.space.unwatch(watch));
                match done {
                    Transaction::Aborted => KeyspaceAnswer::Transaction(None),
                    Transaction::CommandOutcome { replies, record, served } => {
                        self.keyspaces.record(state, record, served);
                        KeyspaceAnswer::Transaction(Some(replies))
                    }
                }
            }
            KeyspaceCall::Wait(command) => match state.space.run_or_wait(&command, now) {
                Ok(CommandOutcome { reply, record, served }) => {
                    self.keyspaces.record(state, record, served);
                    let popped = put_back(&command, &reply);
                    return Some((KeyspaceAnswer::Reply(reply), popped));
                }
                Err(waiter) => {
                    let sink = Sink { token, answers: self.sender.clone(), command };
                    state.sinks.insert(waiter, sink);
                    self.waiting.push((token, waiter));
                    return None;
                }
            },
            KeyspaceCall::GiveUp { waiting } => {
                let (_, waiter) = *self.waiting.iter().find(|(known, _)| *known == waiting)?;
                if !state.space.give_up(waiter) {
                    // Its answer is already on its way.
                    return None;
                }
                state.sinks.remove(&waiter);
                self.waiting.retain(|(known, _)| *known != waiting);
                let answer = KeyspaceAnswer::Reply(Reply::NullArray);
                self.push_under_way(PendingAnswer { token: waiting, place: 0, answer, popped: None });
                return None;
            }
            KeyspaceCall::Watch(keys) => {
                let mut reply = Reply::Ok;
                for key in &keys {
                    match state.space.watch(key) {
                        Ok(watch) => self.watches.push(watch),
                        Err(refusal) => reply = Reply::Refused(refusal),
                    }
                }
                KeyspaceAnswer::Reply(reply)
            }
            KeyspaceCall::Unwatch => {
                self.watches.drain(..).for_each(|watch| state.space.unwatch(&watch));
                KeyspaceAnswer::Reply(Reply::Ok)
            }
        };
        Some((answer, None))
    }
}

impl KeyspaceAnswer {
    /// About how many bytes of memory the answer holds.
    fn bytes(&self) -> usize {
        match self {
            KeyspaceAnswer::Reply(reply) => reply.bytes(),
            KeyspaceAnswer::Transaction(replies) => replies.iter().flatten().map(Reply::bytes).sum(),
            KeyspaceAnswer::Failed(_) => 0,
        }
    }
}

impl KeyspaceCall {
    fn writes(&self) -> bool {
        match self {
            KeyspaceCall::Run(command) => command.act() == KeyAct::Write,
            KeyspaceCall::Transaction(commands) => {
                commands.iter().any(|command| command.act() == KeyAct::Write)
            }
            KeyspaceCall::Wait(Blocking::Pop { .. } | Blocking::Move { .. }) => true,
            KeyspaceCall::Wait(Blocking::ReadStreams { .. })
            | KeyspaceCall::GiveUp { .. }
            | KeyspaceCall::Watch(_)
            | KeyspaceCall::Unwatch => false,
        }
    }
}

impl Keyspaces {
    /// A value that needs no record leaves only while no other broker can lead.
    fn may_answer(&self) -> bool {
        self.shared.lease.as_ref().is_none_or(|lease| lease.holds(monotonic_clock()))
    }

    fn refuses_writes(&self) -> Option<KeyspaceFailure> {
        if self.shared.pending.is_full() {
            return Some(KeyspaceFailure::DiskFull);
        }
        self.shared.pending.is_over().then_some(KeyspaceFailure::Stopping)
    }

    /// Appends a record, and queues the answers that it gives to blocked calls.
    pub(super) fn record(&self, state: &mut NamespaceKeys, record: Record, served: Vec<UnblockedCommand>) {
        if !record.0.is_empty() {
            let bytes = record.0.iter().map(tenure_keyspace::Effect::weight).sum();
            state.last = self.shared.pending.add(&state.name, record, bytes);
        }
        for UnblockedCommand { waiter, reply } in served {
            let Some(Sink { token, answers, command }) = state.sinks.remove(&waiter) else { continue };
            let popped = put_back(&command, &reply);
            let answer = KeyspaceAnswer::Reply(reply);
            let _ = answers.send(PendingAnswer { token, place: state.last, answer, popped });
        }
    }
}

/// The push that undoes a pop. A move needs none: its element is in another list.
fn put_back(command: &Blocking, reply: &Reply) -> Option<ListCommand> {
    let (Blocking::Pop { end, .. }, Reply::Array(parts)) = (command, reply) else { return None };
    let [Reply::Bulk(key), Reply::Bulk(element)] = parts.as_slice() else { return None };
    Some(ListCommand::Push { key: key.clone(), end: *end, elements: vec![element.clone()] })
}

/// The connection is closed. Elements that it popped without receiving the answer go back.
impl Drop for KeyspaceClient {
    fn drop(&mut self) {
        let state = Arc::clone(&self.state);
        let mut state = locked(&state);
        for (_, waiter) in std::mem::take(&mut self.waiting) {
            if state.space.give_up(waiter) {
                state.sinks.remove(&waiter);
            }
        }
        for watch in std::mem::take(&mut self.watches) {
            state.space.unwatch(&watch);
        }
        self.served.close();
        while let Ok(served) = self.served.try_recv() {
            self.under_way.push_back(served);
        }
        let now = KeyTime(crate::clock::wall_clock().millis());
        for under_way in self.under_way.drain(..).rev() {
            if let Some(push) = under_way.popped {
                let CommandOutcome { record, served, .. } = state.space.run(&Command::List(push), now);
                self.keyspaces.record(&mut state, record, served);
            }
        }
    }
}
