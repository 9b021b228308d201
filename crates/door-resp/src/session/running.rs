//! Runs the flow of a command: sends its steps and continues with their answers.

use std::sync::Arc;

use tenure_hub::keyspace::KeyspaceCall as KeysCall;
use tenure_hub::words::Timestamp;
use tenure_hub::{Ask, ClockReading, Request};

use super::{Expectation, RespAuthenticator, Session, SessionOutput};
use crate::codec::Reply;
use crate::command::{ActionCommand, Command, EventsCommand, RespListCommand, ViewCommand};
use crate::flow::{CommandFlow, FlowOutcome, FlowStep, Input};
use crate::rights::{JobReader, Need};
use crate::translate::{self, CallerInfo, refusal};

/// A flow that waits for a time.
#[derive(Debug)]
pub(super) struct Later {
    place: u64,
    /// By the steady clock.
    pub(super) at: Timestamp,
    flow: CommandFlow,
}

impl Session {
    pub(super) fn begin(
        &mut self,
        now: ClockReading,
        authenticator: &dyn RespAuthenticator,
        place: u64,
        command: Command,
        out: &mut SessionOutput,
    ) {
        self.note_worker_alive(now, out);
        self.identity.note(&command);
        if let Some(reply) = self.forbidden(authenticator, &command, out) {
            return self.fill(place, reply);
        }
        match command {
            Command::Connection(command) => self.connection(now, authenticator, place, command, out),
            Command::Keyspace(command) => self.keyspace(now, place, command, out),
            Command::Events(
                command @ (EventsCommand::Subscribe(_)
                | EventsCommand::Unsubscribe(_)
                | EventsCommand::SubscribePattern(_)
                | EventsCommand::UnsubscribePattern(_)
                | EventsCommand::Publish { .. }),
            ) => self.subscription(place, command, out),
            mut command => {
                if let Command::List(RespListCommand::Remove { element, .. }) = &mut command
                    && let Some(job) = self.elements.take(element)
                {
                    *element = job.into();
                }
                let speaker = self.caller_info(now, !authenticator.wants_keys(), &command);
                let step = translate::start(command, &speaker);
                self.run(now, place, step, out);
            }
        }
    }

    /// What `translate` needs to know about this connection.
    fn caller_info(&self, now: ClockReading, may_claim: bool, command: &Command) -> CallerInfo {
        CallerInfo {
            now: now.wall,
            version: self.version,
            is_library: self.client.is_library,
            is_introduced: self.identity.introduced,
            may_read_jobs_only: self.settings.pulls_whole_job && self.identity.may_read_jobs_only(),
            worker: self.identity.worker.as_ref().or(self.identity.hinted.as_ref()).cloned(),
            is_nameless: self.identity.worker.as_ref() == Some(&self.identity.unnamed),
            may_claim,
            settings: Arc::clone(&self.settings),
            reader: JobReader::of(self.identity.grant.as_deref()),
            tidies: matches!(command, Command::Action(ActionCommand::Submit(_)))
                && self.namespace_timer.is_due(now.steady, &self.identity.namespace),
        }
    }

    /// A view that is part of a longer answer.
    pub(super) fn start_view(
        &mut self,
        now: ClockReading,
        place: u64,
        view: ViewCommand,
        out: &mut SessionOutput,
    ) {
        let command = Command::View(view);
        let speaker = self.caller_info(now, false, &command);
        let step = translate::start(command, &speaker);
        self.run(now, place, step, out);
    }

    /// The refusal, if the key does not allow the command or another group serves the namespace.
    pub(super) fn forbidden(
        &self,
        authenticator: &dyn RespAuthenticator,
        command: &Command,
        out: &mut SessionOutput,
    ) -> Option<Reply> {
        if !matches!(command, Command::Connection(_))
            && let Err(reason) = authenticator.check_placement(&self.identity.namespace)
        {
            return Some(refusal(&reason));
        }
        let grant = self.identity.grant.as_ref()?;
        match Need::of(command, self.identity.worker.as_deref()).check(grant.rights) {
            Ok(()) => self.refuse_foreign_key(authenticator, command, out),
            Err(reason) => {
                out.asks.push(Ask::refused(command.subject(), &reason));
                Some(refusal(&reason))
            }
        }
    }

    /// Runs a flow as far as it goes without waiting.
    pub(super) fn run(&mut self, now: ClockReading, place: u64, step: FlowStep, out: &mut SessionOutput) {
        match step {
            FlowStep::Reply(reply) => {
                let reply = self.with_listed(place, reply);
                self.fill(place, reply);
            }
            FlowStep::Last(request, last) => {
                self.flows.end(place);
                self.ask(request, Expectation::Last { reply: place, last }, out);
            }
            FlowStep::Push { queue, submissions } => {
                self.flows.end(place);
                self.push(place, queue, submissions, out);
            }
            FlowStep::Ask(request, flow) => {
                self.ask(request, Expectation::Flow { reply: place, flow }, out);
            }
            FlowStep::Read(blobs, flow) => {
                let token = self.token();
                self.pending.insert(token, Expectation::Flow { reply: place, flow });
                out.reads.push_back((token, blobs));
            }
            FlowStep::Keys(command, flow) => {
                self.call_keys(KeysCall::Run(command), Expectation::Flow { reply: place, flow }, out);
            }
            FlowStep::Call(whom, call, flow) => {
                self.call_worker(now, place, whom, call, flow, out);
            }
            FlowStep::Calls(calls, flow) => {
                self.call_workers(now, place, calls, flow, out);
            }
            FlowStep::Handed { job, element } => {
                self.elements.keep(job, &element);
                self.fill(place, Reply::Bulk(element));
            }
            FlowStep::Follow(follow) => {
                self.follow(now, place, follow, out);
            }
            FlowStep::Later(wait, flow) => {
                self.later = Some(Later { place, at: now.steady + wait, flow });
            }
        }
    }

    /// Continues a flow whose time has come.
    pub(super) fn continue_later(&mut self, now: ClockReading, out: &mut SessionOutput) {
        if let Some(Later { place, flow, .. }) = self.later.take_if(|later| later.at <= now.steady) {
            let step = flow.resume(now.wall, Input::Later);
            self.run(now, place, step, out);
        }
    }

    pub(super) fn answered(
        &mut self,
        now: ClockReading,
        token: u64,
        outcome: FlowOutcome,
        out: &mut SessionOutput,
    ) {
        match self.pending.take(token) {
            Some(Expectation::Last { reply, last }) => self.fill(reply, last.reply(now.wall, outcome)),
            Some(Expectation::Flow { reply, flow }) => {
                let step = flow.resume(now.wall, Input::Answer(outcome));
                self.run(now, reply, step, out);
            }
            Some(Expectation::Submitted) => self.submitted(token, outcome),
            Some(Expectation::Counted) => self.counted(token, outcome),
            Some(Expectation::Watch) => {
                if let Err(reason) = outcome {
                    self.cannot_watch(&reason, out);
                }
            }
            Some(Expectation::Channel(channel)) => self.handle_lookup(&channel, &outcome, out),
            Some(
                Expectation::Call { .. }
                | Expectation::Published { .. }
                | Expectation::Nothing
                | Expectation::Keys { .. }
                | Expectation::Listed { .. }
                | Expectation::Exec { .. },
            )
            | None => {}
        }
    }

    pub(super) fn ask(&mut self, request: Request, expect: Expectation, out: &mut SessionOutput) -> u64 {
        let token = self.token();
        self.pending.insert(token, expect);
        out.asks.push(Ask { token, request });
        token
    }
}
