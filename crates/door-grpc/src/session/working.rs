//! A worker's session: passes its reports to the hub and the hub's deliveries to it, both at the same time.

use std::collections::VecDeque;

use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::limits::{SESSION_REQUESTS_MAX, UNSENT_BYTES_MAX};
use tenure_hub::words::{Blob, Command, Name, Notice, Refusal, Reply};
use tenure_hub::{Ask, Delivery, Grant, HubRefusal, Request, Response, Session};
use tonic::{Status, Streaming};

use super::GrpcSession;
use crate::flow::{Flow, FlowPermit};
use crate::proto::tenure::v1 as pb;
use crate::proto::tenure::v1::{broker_message, worker_message};
use crate::translate;

/// The number of the door's own requests. A worker may not use it.
const OWN_NUMBER: u64 = u64::MAX;

pub(crate) struct Working {
    session: Session,
    messages: Streaming<pb::WorkerMessage>,
    /// What the key of this worker allows.
    grant: Arc<Grant>,
    /// The queues it registered with: those it pulls from if it names none.
    queues: Vec<Name>,
    /// Asked and not answered yet.
    unanswered: usize,
    /// Taken from the mailbox, not yet sent.
    deliveries: VecDeque<Delivery>,
    out: VecDeque<pb::BrokerMessage>,
    flow: Flow,
    /// What the bodies in `out` hold of the byte budget, until the connection takes more.
    bodies: Option<FlowPermit>,
    /// The worker has closed its sending side.
    heard_all: bool,
    /// The broker stops.
    is_goodbye: bool,
    /// Another session has taken over.
    is_replaced: bool,
}

impl GrpcSession for Working {
    type Message = pb::BrokerMessage;

    async fn next(&mut self) -> Result<Option<pb::BrokerMessage>, Status> {
        loop {
            if let Some(message) = self.out.pop_front() {
                return Ok(Some(message));
            }
            self.bodies = None;
            if !self.deliveries.is_empty() {
                self.deliver().await?;
                continue;
            }
            if self.unanswered == 0 && self.is_goodbye {
                return Err(translate::unavailable());
            }
            if self.unanswered == 0 && (self.heard_all || self.is_replaced) {
                return Ok(None);
            }
            let may_read = !self.heard_all
                && !self.is_goodbye
                && !self.is_replaced
                && self.unanswered < SESSION_REQUESTS_MAX;
            tokio::select! {
                () = self.session.mailbox().arrived() => self.take_mail()?,
                message = self.messages.message(), if may_read => match message? {
                    Some(message) => self.receive(message).await?,
                    None => self.heard_all = true,
                },
            }
        }
    }
}

impl Working {
    pub(crate) fn new(
        session: Session,
        messages: Streaming<pb::WorkerMessage>,
        grant: Arc<Grant>,
        flow: Flow,
    ) -> Working {
        Working {
            session,
            messages,
            grant,
            queues: Vec::new(),
            unanswered: 0,
            deliveries: VecDeque::new(),
            out: VecDeque::new(),
            flow,
            bodies: None,
            heard_all: false,
            is_goodbye: false,
            is_replaced: false,
        }
    }

    async fn receive(&mut self, message: pb::WorkerMessage) -> Result<(), Status> {
        let number = message.number;
        match self.understand(message) {
            Ok(request) => self.ask(number, request).await,
            Err(no) => {
                self.refuse(number, &no);
                Ok(())
            }
        }
    }

    fn understand(&mut self, message: pb::WorkerMessage) -> Result<Request, HubRefusal> {
        use worker_message::Message;
        if message.number == OWN_NUMBER {
            return Err(Refusal::BadValue { what: "number", why: "is reserved for the broker" }.into());
        }
        let empty = Refusal::BadValue {
            what: "message",
            why: "is empty, or of a kind that this version of the broker does not know",
        };
        let command = match message.message.ok_or(empty)? {
            Message::Register(spec) => {
                self.session.hub().may_work_as(&self.grant, &spec.worker)?;
                let spec = translate::worker_spec(spec)?;
                self.queues.clone_from(&spec.queues);
                Command::Register(Box::new(spec))
            }
            Message::Heartbeat(beat) => Command::Heartbeat {
                held: beat.held.map(|list| translate::held(&list.held)).transpose()?,
                stats: beat.stats.map(translate::worker_stats).transpose()?.map(Box::new),
            },
            Message::Start(start) => Command::Start(translate::held(&start.held)?),
            Message::Progress(report) => translate::progress(report)?,
            Message::Complete(complete) => {
                let done = complete.done.into_iter().map(translate::about_end);
                return Ok(Request::Complete(done.collect::<Result<_, _>>()?));
            }
            Message::Fail(failed) => {
                let (failure, result) = translate::failure(failed)?;
                return Ok(Request::Fail { failure, result });
            }
            Message::Confirm(confirm) => {
                let (held, wanted) = translate::confirmed(&confirm)?;
                return Ok(Request::Confirm { held, wanted, result: confirm.result });
            }
            Message::SaveCheckpoint(saved) => {
                let (held, checkpoint) = translate::saved_checkpoint(saved)?;
                return Ok(Request::Checkpoint { held, checkpoint });
            }
            Message::Suspend(suspend) => translate::suspended(&suspend)?,
            Message::AppendLog(appended) => {
                let (held, piece) = translate::log_piece(appended)?;
                return Ok(Request::AppendLog { held, piece });
            }
            Message::GiveBack(back) => translate::given_back(back)?,
            Message::Ask(ask) if ask.queues.is_empty() => Command::Ask { queues: self.queues.clone() },
            Message::Ask(ask) => {
                Command::Ask { queues: ask.queues.into_iter().map(translate::name).collect() }
            }
            Message::Unask(_) => Command::Unask,
            Message::Drain(_) => Command::Drain,
            Message::Leave(_) => Command::Leave,
        };
        Ok(Request::Command(command))
    }

    async fn ask(&mut self, number: u64, request: Request) -> Result<(), Status> {
        self.unanswered += 1;
        let ask = Ask { token: number, request };
        self.session.send(vec![ask]).await.map_err(|_| translate::unavailable())
    }

    fn take_mail(&mut self) -> Result<(), Status> {
        let is_closed = self.session.mailbox().is_closed();
        let mut taken = Vec::new();
        if !self.session.mailbox().take(&mut taken) && is_closed {
            return Err(translate::unavailable());
        }
        self.deliveries.extend(taken);
        Ok(())
    }

    /// Sends the deliveries, as much as may wait to be sent.
    async fn deliver(&mut self) -> Result<(), Status> {
        let mut bytes = 0;
        let fits = |delivery: &&Delivery| {
            let first = bytes == 0;
            bytes += body_of(delivery).map_or(0, |body| body.bytes() as usize);
            first || bytes <= UNSENT_BYTES_MAX
        };
        let count = self.deliveries.iter().take_while(fits).count();
        let bodies: Vec<Blob> = self.deliveries.iter().take(count).filter_map(body_of).collect();
        let body_bytes: usize = bodies.iter().map(|body| body.bytes() as usize).sum();
        self.bodies = Some(self.flow.charge(FlowPermit::NONE, body_bytes)?);
        let mut bodies = self.session.hub().read_many(bodies).await.into_iter();
        let told: Vec<Delivery> = self.deliveries.drain(..count).collect();
        for delivery in told {
            let body = body_of(&delivery).and_then(|_| bodies.next());
            self.send_delivery(delivery, body).await?;
        }
        Ok(())
    }

    async fn send_delivery(
        &mut self,
        delivery: Delivery,
        body: Option<Result<Bytes, HubRefusal>>,
    ) -> Result<(), Status> {
        match delivery {
            Delivery::Reply { token, reply } => self.reply(token, reply),
            Delivery::Notice(Notice::Assign(assignment)) => match body.unwrap_or(Ok(Bytes::new())) {
                Ok(body) => self.news(translate::assign(&assignment, body)),
                Err(no) => self.ask(OWN_NUMBER, Request::cannot_be_run(&assignment, &no)).await?,
            },
            Delivery::Notice(Notice::Wanted { task, attempt, wanted, in_place, reason }) => {
                self.news(translate::wanted(task, attempt, wanted, in_place, reason.as_deref()));
            }
            Delivery::Notice(Notice::Continue { task, attempt, ends }) => {
                self.news(translate::continued(task, attempt, &ends));
            }
            Delivery::Notice(Notice::Stop { task, attempt, why }) => {
                self.news(translate::stop(task, attempt, why));
            }
            Delivery::Notice(Notice::Drain) => {
                self.news(broker_message::Message::Drain(pb::DrainNotice {}));
            }
            Delivery::Notice(Notice::Replaced { worker }) => {
                self.is_replaced = true;
                let worker = worker.to_string();
                self.news(broker_message::Message::Replaced(pb::Replaced { worker }));
            }
            Delivery::Goodbye => self.is_goodbye = true,
            Delivery::Ended(why) => return Err(translate::status(&why)),
            // This session has asked for nothing else.
            Delivery::Event { .. }
            | Delivery::Gap { .. }
            | Delivery::Live { .. }
            | Delivery::Call { .. }
            | Delivery::CallAnswered { .. }
            | Delivery::CallGivenUp { .. }
            | Delivery::Broadcast(_) => {}
        }
        Ok(())
    }

    fn reply(&mut self, number: u64, reply: Result<Response, HubRefusal>) {
        use broker_message::Message;
        self.unanswered = self.unanswered.saturating_sub(1);
        if number == OWN_NUMBER {
            return;
        }
        let (refused, message) = match reply {
            Err(no) => return self.refuse(number, &no),
            Ok(Response::Command(Reply::Held(each))) => {
                let refused = translate::refused(&each);
                (!refused.is_empty(), Message::Held(pb::HeldReply { refused }))
            }
            Ok(Response::Command(Reply::Registered { held, returned })) => {
                let refused = translate::refused(&held);
                (!refused.is_empty(), Message::Registered(pb::Registered { returned, refused }))
            }
            Ok(_) => (false, Message::Done(pb::Done {})),
        };
        // A refusal is sent even if no reply is wanted.
        if number != 0 || refused {
            self.out.push_back(pb::BrokerMessage { number, message: Some(message) });
        }
    }

    fn refuse(&mut self, number: u64, no: &HubRefusal) {
        let message = Some(broker_message::Message::Refused(translate::refusal(no)));
        self.out.push_back(pb::BrokerMessage { number, message });
    }

    fn news(&mut self, message: broker_message::Message) {
        self.out.push_back(pb::BrokerMessage { number: 0, message: Some(message) });
    }
}

/// The body that goes out with a delivery.
fn body_of(delivery: &Delivery) -> Option<Blob> {
    match delivery {
        Delivery::Notice(Notice::Assign(assignment)) if !assignment.body.is_empty() => Some(assignment.body),
        _ => None,
    }
}
