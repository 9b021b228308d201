//! Submissions: single ones, and streams without waiting in between.

use std::collections::VecDeque;

use tenure_hub::limits::MANY_MAX;
use tenure_hub::words::{Refusal, Reply, TraceContext};
use tenure_hub::{Ask, Delivery, HubRefusal, Request, Response, Session, Submission};
use tonic::metadata::MetadataMap;
use tonic::{Status, Streaming};

use super::{GrpcCall, GrpcSession};
use crate::proto::tenure::v1 as pb;
use crate::translate::{self, SubmitTemplate};

/// How many requests of one stream may be unanswered.
const UNANSWERED_MAX: usize = 64;

/// What is wrong with some of the tasks, by their index in the request.
type Refused = Vec<(usize, Refusal)>;

/// The trace of the caller, from the metadata of its call, for tasks that name none.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallerTrace {
    parent: String,
    state: String,
}

impl CallerTrace {
    /// What is no trace is ignored, as the recommendation wants it.
    pub(crate) fn of(metadata: &MetadataMap) -> CallerTrace {
        let text = |key: &str| {
            metadata.get(key).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let (parent, state) = (text("traceparent"), text("tracestate"));
        let is_trace = TraceContext::parse(&parent, Some(&state)).is_ok();
        if is_trace { CallerTrace { parent, state } } else { CallerTrace::default() }
    }

    fn give_to(&self, request: &mut pb::SubmitRequest) {
        for task in request.tasks.iter_mut().filter(|task| task.traceparent.is_empty()) {
            task.traceparent.clone_from(&self.parent);
            task.tracestate.clone_from(&self.state);
        }
    }
}

/// The tasks of a request, and those that are invalid.
fn understand(request: pb::SubmitRequest) -> Result<(Vec<Submission>, Refused), HubRefusal> {
    if request.tasks.len() > MANY_MAX {
        return Err(Refusal::TooMany { what: "tasks", limit: MANY_MAX }.into());
    }
    let templates: Vec<SubmitTemplate> = request.terms.into_iter().map(SubmitTemplate::new).collect();
    let mut submissions = Vec::with_capacity(request.tasks.len());
    let mut refused = Vec::new();
    for (index, task) in request.tasks.into_iter().enumerate() {
        let submission = SubmitTemplate::submission(&templates, task).and_then(|mut submission| {
            submission.skip_refused(&refused)?;
            Ok(submission)
        });
        match submission {
            Ok(submission) => submissions.push(submission),
            Err(no) => refused.push((index, no)),
        }
    }
    Ok((submissions, refused))
}

/// The reply of the hub, with the door's own refusals inserted at their index.
fn answer(response: Response, refused: &Refused) -> Result<pb::SubmitResponse, Status> {
    let Response::Command(Reply::Submitted(each)) = response else { return Err(translate::unexpected()) };
    let mut tasks: Vec<pb::Verdict> = each.iter().map(translate::accepted).collect();
    for (index, no) in refused {
        tasks.insert((*index).min(tasks.len()), translate::accepted(&Err(no.clone())));
    }
    Ok(pb::SubmitResponse { tasks })
}

pub(crate) async fn submit(
    call: GrpcCall,
    trace: &CallerTrace,
    mut request: pb::SubmitRequest,
) -> Result<pb::SubmitResponse, Status> {
    trace.give_to(&mut request);
    let (submissions, refused) = understand(request).map_err(|no| translate::status(&no))?;
    let response = if submissions.is_empty() {
        Response::Command(Reply::Submitted(Vec::new()))
    } else {
        call.ask(Request::Submit(submissions)).await?
    };
    answer(response, &refused)
}

/// A stream of submissions.
pub(crate) struct Submitting {
    session: Session,
    trace: CallerTrace,
    requests: Streaming<pb::SubmitRequest>,
    /// The door's own refusals of each unanswered request; the hub replies in order.
    unanswered: VecDeque<Refused>,
    answers: VecDeque<pb::SubmitResponse>,
    heard_all: bool,
    /// The broker stops.
    is_goodbye: bool,
}

impl GrpcSession for Submitting {
    type Message = pb::SubmitResponse;

    async fn next(&mut self) -> Result<Option<pb::SubmitResponse>, Status> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(Some(answer));
            }
            if self.unanswered.is_empty() && self.is_goodbye {
                return Err(translate::unavailable());
            }
            if self.unanswered.is_empty() && self.heard_all {
                return Ok(None);
            }
            let may_read = !self.heard_all && !self.is_goodbye && self.unanswered.len() < UNANSWERED_MAX;
            tokio::select! {
                () = self.session.mailbox().arrived() => self.take_mail()?,
                request = self.requests.message(), if may_read => match request? {
                    Some(request) => self.ask(request).await?,
                    None => self.heard_all = true,
                },
            }
        }
    }
}

impl Submitting {
    pub(crate) fn new(
        session: Session,
        trace: CallerTrace,
        requests: Streaming<pb::SubmitRequest>,
    ) -> Submitting {
        Submitting {
            session,
            trace,
            requests,
            unanswered: VecDeque::new(),
            answers: VecDeque::new(),
            heard_all: false,
            is_goodbye: false,
        }
    }

    /// Asks the hub even if no task is left to submit, so that replies come in the order of the requests.
    async fn ask(&mut self, mut request: pb::SubmitRequest) -> Result<(), Status> {
        self.trace.give_to(&mut request);
        let (submissions, refused) = understand(request).map_err(|no| translate::status(&no))?;
        self.unanswered.push_back(refused);
        let ask = Ask { token: 0, request: Request::Submit(submissions) };
        self.session.send(vec![ask]).await.map_err(|_| translate::unavailable())
    }

    fn take_mail(&mut self) -> Result<(), Status> {
        let mut arrived = Vec::new();
        let is_closed = self.session.mailbox().is_closed();
        if !self.session.mailbox().take(&mut arrived) && is_closed {
            return Err(translate::unavailable());
        }
        for delivery in arrived {
            match delivery {
                Delivery::Reply { reply, .. } => {
                    let refused = self.unanswered.pop_front().unwrap_or_default();
                    let response = reply.map_err(|no| translate::status(&no))?;
                    self.answers.push_back(answer(response, &refused)?);
                }
                Delivery::Goodbye => self.is_goodbye = true,
                Delivery::Ended(why) => return Err(translate::status(&why)),
                // This session has asked for nothing else.
                _ => {}
            }
        }
        Ok(())
    }
}
