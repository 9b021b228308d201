//! Speaking with the desks of workers, and knowing which worker speaks here.

use tenure_hub::words::{Name, Timestamp};

use super::{DeskCall, Needs, Output, Session};
use crate::codec::Reply;
use crate::command::{ActionCommand, Command, JobCommand, PlanCommand, ViewCommand, WorkerCommand};
use crate::errand::{Then, Whom};
use crate::key::Key;
use crate::shapes::Challenge;
use crate::worker::{Call, CallAnswer, Kind};

/// Words with one or more desks, until all have answered.
pub(super) struct Group {
    place: u64,
    tokens: Vec<u64>,
    answers: Vec<Option<CallAnswer>>,
    then: Then<Vec<CallAnswer>>,
    /// The worker this connection speaks for if the answer is good.
    becomes: Option<Name>,
    waits: bool,
}

impl Group {
    /// Whether it waits for a task to come.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

impl Session {
    pub(super) fn speak_with(
        &mut self,
        now: Timestamp,
        place: u64,
        calls: Vec<(Whom, Call)>,
        then: Then<Vec<CallAnswer>>,
        out: &mut Output,
    ) {
        let waits = calls.iter().any(|(_, call)| matches!(call, Call::Pop(_)));
        let mut group = Group { place, tokens: Vec::new(), answers: Vec::new(), then, becomes: None, waits };
        for (whom, call) in calls {
            let (worker, open_as) = match whom {
                Whom::Own => (self.worker.clone().or_else(|| self.hinted.clone()), None),
                Whom::Puller => self.puller(),
                Whom::Known(name) => {
                    if self.worker.is_none() && !matches!(call, Call::Challenge { .. }) {
                        group.becomes = Some(name.clone());
                    }
                    (Some(name), None)
                }
                Whom::Become(name) => {
                    group.becomes = Some(name.clone());
                    (Some(name), Some(Kind::Implied))
                }
            };
            let token = self.token();
            group.tokens.push(token);
            match worker {
                Some(worker) => {
                    group.answers.push(None);
                    out.calls.push(DeskCall { token, worker, open_as, call });
                }
                None => group.answers.push(Some(CallAnswer::NotHeld)),
            }
        }
        self.group = Some(group);
        self.go_on_when_all_answered(now, out);
    }

    pub(super) fn collect(&mut self, now: Timestamp, token: u64, answer: CallAnswer, out: &mut Output) {
        let Some(group) = &mut self.group else { return };
        let Some(index) = group.tokens.iter().position(|known| *known == token) else { return };
        if !matches!(answer, CallAnswer::NotRegistered | CallAnswer::Taken | CallAnswer::Refused(_))
            && let Some(name) = group.becomes.take()
        {
            let before = self.worker.replace(name);
            self.hinted = None;
            // Now that it has a name, the worker that was this connection alone is not needed any more.
            out.leaves.extend(before.filter(|before| *before == self.nameless()));
        }
        let group = self.group.as_mut().expect("as above");
        group.answers[index] = Some(answer);
        self.go_on_when_all_answered(now, out);
    }

    /// A key that is bound to one worker speaks for that worker only.
    pub(super) fn not_its_key(&self, command: &Command) -> Option<Reply> {
        let bound = self.grant.as_ref()?.worker.as_ref()?;
        let named = match command {
            Command::Worker(WorkerCommand::Register(registration)) => &registration.worker,
            Command::Worker(
                WorkerCommand::Heartbeat { worker, .. } | WorkerCommand::Unregister { worker },
            ) => worker,
            Command::Worker(WorkerCommand::Verify { challenge: Challenge::Ask { .. }, .. }) => {
                return Some(Reply::error("NOPERM a worker's key does not allow to challenge others"));
            }
            Command::View(ViewCommand::Set { key: Key::Worker { id, .. }, .. }) => id,
            _ => return None,
        };
        (**named != **bound).then(|| Reply::error(format!("ERR This key belongs to worker {bound}")))
    }

    /// Who pops here: the worker that spoke, the one a ping named, or the connection itself.
    fn puller(&mut self) -> (Option<Name>, Option<Kind>) {
        if let Some(worker) = &self.worker {
            let nameless = *worker == self.nameless();
            return (Some(worker.clone()), Some(if nameless { Kind::Nameless } else { Kind::Implied }));
        }
        let (worker, kind) = match self.hinted.take() {
            Some(hinted) => (hinted, Kind::Implied),
            None => (self.nameless(), Kind::Nameless),
        };
        self.worker = Some(worker.clone());
        (Some(worker), Some(kind))
    }

    fn go_on_when_all_answered(&mut self, now: Timestamp, out: &mut Output) {
        let all = self.group.as_ref().is_some_and(|group| group.answers.iter().all(Option::is_some));
        if all && let Some(group) = self.group.take() {
            let step = (group.then)(now, group.answers.into_iter().flatten().collect());
            self.run(now, group.place, step, out);
        }
    }
}

pub(super) fn job_needs(command: &JobCommand) -> Needs {
    match command {
        JobCommand::Submit(_) | JobCommand::Steer { .. } => Needs::Submit,
        JobCommand::Update { .. } => Needs::Work,
        JobCommand::Get { .. }
        | JobCommand::Status { .. }
        | JobCommand::Ids { .. }
        | JobCommand::List { .. }
        | JobCommand::Search { .. } => Needs::Nothing,
    }
}

pub(super) fn plan_needs(command: &PlanCommand) -> Needs {
    match command {
        PlanCommand::Submit { .. } | PlanCommand::Delete { .. } => Needs::Submit,
        PlanCommand::Get { .. } | PlanCommand::List { .. } => Needs::Nothing,
    }
}

pub(super) fn action_needs(command: &ActionCommand) -> Needs {
    match command {
        ActionCommand::Submit(_) => Needs::Submit,
        ActionCommand::Get { .. } | ActionCommand::Status { .. } | ActionCommand::List { .. } => {
            Needs::Nothing
        }
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Group")
            .field("place", &self.place)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}
