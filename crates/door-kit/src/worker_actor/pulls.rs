//! Pulling: one hub request for each pull that does not wait, and one for all that do.

use tenure_hub::Request;
use tenure_hub::words::{Assignment, Command, Held, Name, Query, Timestamp};

use super::claims::Claim;
use super::requests::PendingRequest;
use super::{
    ActorOutput, ActorState, CallReply, Caller, Dialect, Pull, WorkerActor, WorkerKind, WorkerRequest,
};

/// A pull that has not been answered.
#[derive(Debug)]
struct WaitingPull<L> {
    caller: Caller,
    queues: Vec<Name>,
    whole: bool,
    list: Option<L>,
    /// `None`: no limit.
    until: Option<Timestamp>,
    /// The hub has been asked since it arrived.
    asked: bool,
    /// Set if it does not wait: it ends when the hub has answered the request after its own.
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    ToBeAsked,
    Asked(u64),
}

/// The pulls of one worker.
#[derive(Debug)]
pub(super) struct Pulls<L> {
    waiting: Vec<WaitingPull<L>>,
    /// The queues that the waiting pulls have asked the hub for without getting a task.
    asked: Option<Vec<Name>>,
    /// How many of these requests the hub has not received yet.
    asking: usize,
}

impl<L> Default for Pulls<L> {
    fn default() -> Self {
        Pulls { waiting: Vec::new(), asked: None, asking: 0 }
    }
}

impl<L> Pulls<L> {
    fn push(&mut self, now: Timestamp, caller: Caller, pull: Pull<L>) {
        let at_once = pull.wait.is_some_and(|wait| wait.is_zero());
        self.waiting.push(WaitingPull {
            caller,
            queues: pull.queues,
            whole: pull.whole,
            list: pull.list,
            until: if at_once { None } else { pull.wait.map(|wait| now + wait) },
            asked: false,
            probe: at_once.then_some(Probe::ToBeAsked),
        });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A queue from which a connection waits to pull.
    pub(super) fn awaited_queue(&self) -> Option<Name> {
        self.waiting.iter().find_map(|waiting| waiting.queues.first().cloned())
    }

    /// The hub has received one of the requests.
    pub(super) fn has_been_heard(&mut self) {
        self.asking -= 1;
    }

    /// Earlier hub requests no longer count: the worker has other terms, or none.
    pub(super) fn forget_questions(&mut self) {
        self.asked = None;
    }

    /// The hub session ends, and its replies with it.
    pub(super) fn end_session(&mut self) {
        (self.asked, self.asking) = (None, 0);
    }

    pub(super) fn detach(&mut self, connection: u64) {
        self.waiting.retain(|waiting| waiting.caller.connection != connection);
    }

    /// Removes all pulls: no task will come.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Caller> + use<L> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.caller)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.waiting.iter().filter_map(|waiting| waiting.until).min()
    }

    fn that_wait(&self) -> impl Iterator<Item = &WaitingPull<L>> {
        self.waiting.iter().filter(|waiting| waiting.probe.is_none())
    }

    /// The queues of all waiting pulls, each once.
    fn wanted(&self) -> Vec<Name> {
        let mut wanted: Vec<Name> = Vec::new();
        for queue in self.that_wait().flat_map(|waiting| &waiting.queues) {
            if !wanted.contains(queue) {
                wanted.push(queue.clone());
            }
        }
        wanted
    }
}

impl<D: Dialect> WorkerActor<D> {
    pub(super) fn pull(
        &mut self,
        now: Timestamp,
        caller: Caller,
        pull: Pull<D::List>,
        out: &mut ActorOutput<D>,
    ) {
        if self.presence.state == ActorState::Out {
            if self.presence.kind == WorkerKind::Registered {
                return out.answers.push((caller, CallReply::NotRegistered));
            }
            // It never registers, so it joins by pulling. The pull continues after the join.
            self.early.push((caller, WorkerRequest::Pull(pull)));
            self.presence.registrar.get_or_insert(caller.connection);
            self.join(now, None, out);
            return;
        }
        self.presence.came_back = false;
        self.give_back_unread(now, out);
        self.give_back_interrupted(now, caller.connection, out);
        if self.pulls.len() >= self.free_slots() {
            self.doubt_unmentioned(now);
        }
        if let Some(queue) = pull.queues.first() {
            D::before_pull(self, queue, out);
        }
        self.pulls.push(now, caller, pull);
    }

    /// A queue from which a connection waits to pull.
    pub fn awaited_queue(&self) -> Option<Name> {
        self.pulls.awaited_queue()
    }

    /// Asks the hub for what the waiting pulls want, if that has changed. A request yields one task, so each new pull
    /// has its own: pulls that arrive together are served together.
    pub(super) fn request_tasks(&mut self, out: &mut ActorOutput<D>) {
        if !self.presence.is_active() {
            return;
        }
        // The hub keeps only the last request.
        let must_repeat = self.ask_at_once(out);
        let wanted = self.pulls.wanted();
        let have_just_come = self.pulls.that_wait().filter(|waiting| !waiting.asked).count();
        let asked = self.pulls.asked.as_deref().unwrap_or_default();
        if wanted == asked && have_just_come == 0 && !must_repeat {
            return;
        }
        if wanted.is_empty() {
            self.pulls.forget_questions();
            self.command(Command::Unask, PendingRequest::Nothing, out);
            return;
        }
        for _ in 0..have_just_come.min(self.free_slots()).max(1) {
            self.question(wanted.clone(), out);
        }
        self.pulls.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        self.pulls.asked = Some(wanted);
    }

    /// Asks for the pulls that do not wait, one by one. Returns whether there were any.
    fn ask_at_once(&mut self, out: &mut ActorOutput<D>) -> bool {
        let at_once = |waiting: &&WaitingPull<D::List>| waiting.probe == Some(Probe::ToBeAsked);
        let most = self.free_slots().max(1);
        let pulls = self.pulls.waiting.iter().filter(at_once).take(most);
        let questions: Vec<Vec<Name>> = pulls.map(|waiting| waiting.queues.clone()).collect();
        if questions.is_empty() {
            return false;
        }
        for queues in questions {
            self.question(queues, out);
        }
        // An available task arrives after the reply to its request and before the reply to the next one.
        let token = self.ask(Request::Query(Query::Counts), PendingRequest::Probe, out);
        for waiting in &mut self.pulls.waiting {
            if waiting.probe == Some(Probe::ToBeAsked) {
                waiting.probe = Some(Probe::Asked(token));
            }
        }
        true
    }

    fn question(&mut self, queues: Vec<Name>, out: &mut ActorOutput<D>) {
        self.pulls.asking += 1;
        self.command(Command::Ask { queues }, PendingRequest::Ask, out);
    }

    /// How many slots its tasks leave free: the hub charges each task what it needs.
    fn free_slots(&self) -> usize {
        (self.terms.slots as usize).saturating_sub(self.claims.slots())
    }

    /// Everything that the hub had available has arrived before this.
    pub(super) fn probed(&mut self, token: u64, out: &mut ActorOutput<D>) {
        self.answer_pulls(|waiting| waiting.probe == Some(Probe::Asked(token)), out);
    }

    pub(super) fn give_up_waiting(&mut self, now: Timestamp, out: &mut ActorOutput<D>) {
        self.answer_pulls(|waiting| waiting.until.is_some_and(|until| until <= now), out);
    }

    pub(super) fn assigned(&mut self, now: Timestamp, assignment: Box<Assignment>, out: &mut ActorOutput<D>) {
        // This was the last request, unless more are on their way to the hub.
        if self.pulls.asking == 0 {
            self.pulls.asked = None;
        }
        let wants = |waiting: &WaitingPull<D::List>| waiting.queues.contains(&assignment.terms.queue);
        match self.pulls.waiting.iter().position(wants) {
            Some(index) => {
                let waiting = self.pulls.waiting.remove(index);
                let mut claim = Claim::new(&assignment, waiting.caller.connection, now, waiting.whole);
                claim.list = waiting.list;
                self.claims.insert(claim);
                out.answers.push((waiting.caller, CallReply::Pulled(assignment)));
            }
            None => {
                // The connection has given up meanwhile.
                let held = Held { task: assignment.task, attempt: assignment.attempt };
                self.return_undelivered(held, "no request was waiting for a task any more", out);
            }
        }
        self.request_tasks(out);
    }

    /// Answers all waiting pulls: no task will come.
    pub(super) fn answer_all_pulls(&mut self, answer: &CallReply<D>, out: &mut ActorOutput<D>) {
        out.answers.extend(self.pulls.drain().map(|caller| (caller, answer.clone())));
    }

    fn answer_pulls(&mut self, over: impl Fn(&WaitingPull<D::List>) -> bool, out: &mut ActorOutput<D>) {
        let before = self.pulls.len();
        self.pulls.waiting.retain(|waiting| {
            let is_over = over(waiting);
            if is_over {
                out.answers.push((waiting.caller, CallReply::Nothing));
            }
            !is_over
        });
        if self.pulls.len() != before {
            self.request_tasks(out);
        }
    }
}
