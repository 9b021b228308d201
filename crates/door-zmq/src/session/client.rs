//! The client side of a Majordomo session.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::limits::MANY_MAX;
use tenure_hub::words::{Answer, Blob, Event, EventData, Name, Query, Refusal, Reply, TaskId, Timestamp};
use tenure_hub::{Broadcast, CallAnswer, HubRefusal, Request, Response, Submission};

use super::jobs::{JOBS_MAX, Jobs};
use super::majordomo::{ReplyPurpose, SessionTurn};
use super::mmi_request::{MmiRequest, MmiStep};
use super::pending_notices::PendingNotices;
use crate::body;
use crate::mdp::{
    ClientRequest, KeyTable, MdpAddress, MdpDialect, MdpError, Mmi, ReturnPath, expand, is_mmi,
    text_parameter,
};
use crate::rights::Verb;
use crate::translate;

/// The watch for notices. Its number is the lowest, so an event becomes a notice before it ends the job.
pub(super) const NOTICES: u64 = 1;
/// The watch for the ends of jobs.
pub(super) const ENDS: u64 = 2;
/// The watch that reads what a client has missed.
pub(super) const MISSED: u64 = 3;

/// The subject of the broadcast that tells `_PL` workers that a batch is done.
pub(super) const FINISHED_SUBJECT: &str = "mdp.finished";

/// Maximum number of unanswered `mmi.*` requests of one connection, and of those that collect every running call.
const MMI_REQUESTS_MAX: usize = 64;
const LISTS_MAX: usize = 2;

/// Where parts of results for this client are sent.
pub(super) fn partial_address(client: &Name) -> Name {
    format!("mdp.partial/{client}").into()
}

#[derive(Debug, Default)]
pub(super) struct ClientSession {
    jobs: Jobs,
    watches_ends: bool,
    /// The return path to a `_PL` client with its own identity, for jobs that it did not submit on this connection.
    returned: Option<ReturnPath>,
    hears_parts: bool,
    pub(super) pending_notices: PendingNotices,
    mmi_requests: HashMap<u64, MmiRequest>,
    next_mmi_request: u64,
}

impl ClientSession {
    pub(super) fn receive(&mut self, request: ClientRequest, turn: &mut SessionTurn<'_>) {
        if is_mmi(&request.service) {
            return self.inquire(request, turn);
        }
        if let Err(refusal) = turn.me.check("submit", Verb::Submit, turn.out) {
            return self.refuse(&request, &Refused::from(refusal), turn);
        }
        self.mark_active(&request.path, turn);
        let submitted = match request.path.dialect {
            MdpDialect::Pl => self.submit_batch(&request, turn),
            MdpDialect::V1 | MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered => {
                self.submit(&request, turn).map_err(Refused::from)
            }
        };
        if let Err(refused) = submitted {
            self.refuse(&request, &refused, turn);
        }
    }

    fn submit(&mut self, request: &ClientRequest, turn: &mut SessionTurn<'_>) -> Result<(), HubRefusal> {
        self.check_room(1)?;
        let task = translate::job(&request.service, turn.now.wall, turn.me.may_return(), turn.settings);
        let submission = translate::submission(task, body::pack(&request.body))?;
        let (path, service) = (Arc::new(request.path.clone()), Arc::from(request.service.as_str()));
        self.jobs.add(submission.task.id, &path, &service);
        self.send(vec![submission], &path, service, turn);
        Ok(())
    }

    fn submit_batch(&mut self, request: &ClientRequest, turn: &mut SessionTurn<'_>) -> Result<(), Refused> {
        let [table, calls @ ..] = &request.body[..] else {
            return Err(bad_call(MdpError::FrameCount).into());
        };
        if calls.is_empty() {
            return Err(bad_call(MdpError::FrameCount).into());
        }
        if calls.len() > MANY_MAX {
            return Err(Refusal::TooMany { what: "calls in a batch", limit: MANY_MAX }.into());
        }
        self.check_room(calls.len())?;
        let table = KeyTable::parse(table).map_err(bad_call)?;
        let mut submissions = Vec::with_capacity(calls.len());
        for (number, call) in calls.iter().enumerate() {
            let refused =
                |job_id, refusal: Refusal| Refused { refusal: refusal.into(), call: Some(number), job_id };
            let body = expand(call, &table).map_err(|error| refused(None, bad_call(error)))?;
            let mut task =
                translate::job(&request.service, turn.now.wall, turn.me.may_return(), turn.settings);
            // So calls of one project can be limited together, and monitors see the project.
            task.tags.extend(text_parameter(&body, "Project").filter(|tag| !tag.is_empty()).map(Name::from));
            let job_id = text_parameter(&body, "JobID");
            let submission = translate::submission(task, body);
            submissions.push(submission.map_err(|refusal| refused(job_id, refusal))?);
        }
        let (path, service) = (Arc::new(request.path.clone()), Arc::from(request.service.as_str()));
        let commit = text_parameter(&submissions[0].body, "CommitName").unwrap_or_default();
        let batch = self.jobs.open_batch(commit, submissions.len());
        for Submission { task, body } in &submissions {
            self.jobs.add_call(task.id, &path, &service, text_parameter(body, "JobID"), Some(batch));
        }
        self.send(submissions, &path, service, turn);
        Ok(())
    }

    /// Sends submissions to the hub, and first opens the watch for their ends.
    fn send(
        &mut self,
        submissions: Vec<Submission>,
        path: &ReturnPath,
        service: Arc<str>,
        turn: &mut SessionTurn<'_>,
    ) {
        self.watch_ends(turn);
        if path.dialect.has_parts() && !self.hears_parts {
            self.hears_parts = true;
            turn.ask(Request::Listen { address: partial_address(&turn.me.name) }, ReplyPurpose::Nothing);
        }
        let tasks = submissions.iter().map(|submission| submission.task.id).collect();
        turn.ask(Request::Submit(submissions), ReplyPurpose::Submitted { service, tasks });
    }

    /// A `_PL` client gets notices about its jobs. One with its own identity also gets the replies to what it
    /// submitted on an earlier connection; its first message shows the return path.
    fn mark_active(&mut self, path: &ReturnPath, turn: &mut SessionTurn<'_>) {
        if path.dialect != MdpDialect::Pl || !turn.me.may(Verb::Notices) {
            return;
        }
        self.pending_notices.begin_unless_muted(path, turn);
        if turn.me.may_hear_earlier_replies() {
            self.returned = Some(path.clone());
            self.watch_ends(turn);
        }
    }

    fn watch_ends(&mut self, turn: &mut SessionTurn<'_>) {
        if !self.watches_ends {
            self.watches_ends = true;
            turn.ask(translate::watch_ends(ENDS, &turn.me.name), ReplyPurpose::Nothing);
        }
    }

    fn check_room(&self, more: usize) -> Result<(), HubRefusal> {
        if self.jobs.len() + more > JOBS_MAX {
            return Err(Refusal::TooMany { what: "jobs of one connection", limit: JOBS_MAX }.into());
        }
        Ok(())
    }

    /// Refuses a request. Majordomo has no message for it, so only a client that accepts notices learns of it.
    fn refuse(&mut self, request: &ClientRequest, refused: &Refused, turn: &mut SessionTurn<'_>) {
        let Refused { refusal, call, job_id } = refused;
        turn.drop(refusal.code());
        let job_id = job_id.as_deref().unwrap_or_default();
        self.pending_notices
            .add(translate::refused(turn.now.wall, &request.service, job_id, *call, refusal), turn);
    }

    /// The hub has answered a submission.
    pub(super) fn submitted(
        &mut self,
        service: &str,
        tasks: &[TaskId],
        reply: Result<Response, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let each = match reply {
            Ok(Response::Command(Reply::Submitted(each))) => {
                each.into_iter().map(|answer| answer.err().map(HubRefusal::Engine)).collect()
            }
            Ok(_) => return,
            Err(refusal) => vec![Some(refusal); tasks.len()],
        };
        for (task, refusal) in tasks.iter().zip(each) {
            if let Some(refusal) = refusal {
                turn.drop(refusal.code());
                let job = self.jobs.forget(*task);
                let job_id = job.and_then(|job| job.job_id).unwrap_or_default();
                self.pending_notices
                    .add(translate::refused(turn.now.wall, service, &job_id, None, &refusal), turn);
            }
        }
    }

    /// Whether the result of this event goes to the client.
    pub(super) fn awaits_result(&self, watch: u64, event: &Event) -> bool {
        let is_mine = |task| self.returned.is_some() || self.jobs.get(task).is_some();
        watch == ENDS && event.task().is_some_and(is_mine)
    }

    pub(super) fn event(
        &mut self,
        watch: u64,
        event: &Arc<Event>,
        result: Result<Bytes, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let Some(task) = event.task() else { return };
        if watch == ENDS {
            if event.kind.is_end() {
                self.ended(task, event, result, turn);
            }
            return;
        }
        let job_id = self.jobs.get(task).map(|job| job.job_id.as_deref());
        self.pending_notices.event(watch, event, job_id, turn);
    }

    fn ended(
        &mut self,
        task: TaskId,
        event: &Event,
        result: Result<Bytes, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let Some((job, commit)) = self.jobs.end(task) else {
            return self.ended_elsewhere(event, result, turn);
        };
        if let EventData::Completed { .. } = event.kind {
            match result {
                // A plugin worker reports an end without a result, and its client asks `mmi.status`.
                Ok(result) if result.is_empty() && job.path.dialect == MdpDialect::Pl => {}
                Ok(result) => turn.send(job.path.reply(&job.service, &body::unpack(&result))),
                Err(refusal) => turn.drop(refusal.code()),
            }
        }
        if let Some(commit) = commit {
            let body = Bytes::from(String::from(commit));
            let subject = Some(FINISHED_SUBJECT.into());
            let finished = Broadcast { sender: None, subject, correlation: None, body };
            turn.ask(Request::Broadcast(finished), ReplyPurpose::Nothing);
        }
    }

    /// A job of an earlier connection.
    fn ended_elsewhere(&self, event: &Event, result: Result<Bytes, HubRefusal>, turn: &mut SessionTurn<'_>) {
        let (Some(path), EventData::Completed { .. }) = (&self.returned, &event.kind) else { return };
        match result {
            Ok(result) if result.is_empty() => {}
            Ok(result) => turn.send(path.reply("", &body::unpack(&result))),
            Err(refusal) => turn.drop(refusal.code()),
        }
    }

    /// A part of a result.
    pub(super) fn part(&mut self, call: u64, packed: &Bytes, turn: &mut SessionTurn<'_>) {
        let answer = CallAnswer::Result(Bytes::new());
        turn.ask(Request::CallAnswer { call, answer }, ReplyPurpose::Nothing);
        let frames = body::unpack(packed);
        let Some((address, part)) = frames.split_first() else { return };
        let held = MdpAddress::parse(address).map(|address| translate::held_of(&address));
        let Some(job) = held.and_then(|held| self.jobs.get(held.task)) else { return turn.drop("part") };
        match job.path.partial(&job.service, part) {
            Some(message) => turn.send(message),
            None => turn.drop("part"),
        }
    }

    pub(super) fn gap(&mut self, watch: u64, from: u64, oldest: u64, turn: &mut SessionTurn<'_>) {
        self.pending_notices.gap(watch, from, oldest, turn);
    }

    pub(super) fn live(&mut self, watch: u64, next: u64, turn: &mut SessionTurn<'_>) {
        self.pending_notices.live(watch, next, turn);
    }

    /// The body of a task whose `JobID` is wanted.
    pub(super) fn body_wanted(&self, answer: &Answer) -> Option<Blob> {
        match answer {
            Answer::Task(info) if self.pending_notices.looks_up(info.id) => Some(info.body),
            _ => None,
        }
    }

    pub(super) fn looked_up(
        &mut self,
        task: TaskId,
        reply: &Result<Response, HubRefusal>,
        body: Result<Bytes, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        // A task that is no longer kept has lost its client's name.
        let job_id =
            if reply.is_ok() { body.ok().and_then(|body| text_parameter(&body, "JobID")) } else { None };
        self.pending_notices.looked_up(task, job_id.as_deref(), turn);
    }

    fn inquire(&mut self, request: ClientRequest, turn: &mut SessionTurn<'_>) {
        self.mark_active(&request.path, turn);
        let question = Mmi::parse(&request.service, &request.body);
        let lists = self.mmi_requests.values().filter(|request| request.is_list()).count();
        if self.mmi_requests.len() >= MMI_REQUESTS_MAX || question == Mmi::Workers && lists >= LISTS_MAX {
            turn.drop("inquiries");
            return turn.send(request.path.mmi_reply(&request.service, &[Bytes::from_static(b"503")]));
        }
        if turn.me.check("mmi", Verb::Question(&question), turn.out).is_err() {
            return turn.send(request.path.mmi_reply(&request.service, &[Bytes::from_static(b"403")]));
        }
        if let Mmi::Notify(notify) = question {
            return self.pending_notices.ask(notify, request.path, turn);
        }
        let (request, step) = MmiRequest::new(request, question, &mut self.jobs, turn);
        self.next_mmi_request += 1;
        self.mmi_requests.insert(self.next_mmi_request, request);
        self.step(self.next_mmi_request, step, turn);
    }

    pub(super) fn mmi_replied(
        &mut self,
        number: u64,
        reply: Result<Response, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let Some(request) = self.mmi_requests.get_mut(&number) else { return };
        let step = request.answered(reply, turn);
        self.step(number, step, turn);
    }

    fn step(&mut self, number: u64, step: MmiStep, turn: &mut SessionTurn<'_>) {
        match step {
            MmiStep::Ask(requests) => {
                for request in requests {
                    turn.ask(request, ReplyPurpose::MmiRequest(number));
                }
            }
            MmiStep::Wait => {}
            MmiStep::Answer(frames) => {
                if let Some(request) = self.mmi_requests.remove(&number) {
                    turn.send(request.path().mmi_reply(request.service(), &frames));
                }
            }
        }
    }

    /// Sends the collected notices, if it is time.
    pub(super) fn send_notices(&mut self, turn: &mut SessionTurn<'_>) {
        self.pending_notices.send_notices(turn);
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.pending_notices.deadline()
    }

    /// The connection is gone. A client without its own identity cannot return for its replies.
    pub(super) fn end(&self, turn: &mut SessionTurn<'_>) {
        if turn.me.may_return() {
            return;
        }
        for request in translate::abandon(self.jobs.tasks()) {
            turn.ask(request, ReplyPurpose::Nothing);
        }
    }

    /// How many replies can no longer be delivered.
    pub(super) fn waiting_jobs(&self) -> usize {
        self.jobs.len()
    }
}

/// Asks for the task of an event.
pub(super) fn lookup(task: TaskId, turn: &mut SessionTurn<'_>) {
    turn.ask(Request::Query(Query::Show { task }), ReplyPurpose::Lookup(task));
}

/// A refused request, and which call of it caused that, if one did.
struct Refused {
    refusal: HubRefusal,
    call: Option<usize>,
    job_id: Option<String>,
}

impl<R: Into<HubRefusal>> From<R> for Refused {
    fn from(refusal: R) -> Refused {
        Refused { refusal: refusal.into(), call: None, job_id: None }
    }
}

fn bad_call(error: MdpError) -> Refusal {
    Refusal::BadValue {
        what: "batch",
        why: match error {
            MdpError::FrameCount => "has no table of names or no calls",
            _ => "has a table or parameters that are not one CBOR map within the limits",
        },
    }
}
