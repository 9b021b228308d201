//! Pulling: a question for each pop that does not wait, and one for all that do.

use tenure_hub::Request;
use tenure_hub::words::{Assignment, Command, Held, Name, Query, Timestamp};

use super::claims::Claim;
use super::{CallAnswer, Caller, Kind, Output, Pending, Pop, Standing, Worker};
use crate::key::QueueKey;

/// A pop that has not been answered.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) caller: Caller,
    queues: Vec<Name>,
    whole: bool,
    list: Option<QueueKey>,
    /// None for ever.
    pub(super) until: Option<Timestamp>,
    /// The hub has been asked since it came.
    asked: bool,
    /// It does not wait: it is over when the hub has answered the question after the one for it.
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    ToBeAsked,
    Asked(u64),
}

impl Worker {
    pub(super) fn pop(&mut self, now: Timestamp, caller: Caller, pop: Pop, out: &mut Output) {
        if self.standing == Standing::Out {
            if self.kind == Kind::Registered {
                return out.answers.push((caller, CallAnswer::NotRegistered));
            }
            // It never registers, so popping is how it joins. The pop goes on when it has.
            self.calls.push((caller, super::Call::Pop(pop)));
            self.registrar.get_or_insert(caller.connection);
            self.join(now, None, out);
            return;
        }
        self.came_back = false;
        self.give_back_unread(now, out);
        if self.waiting.len() >= self.free_slots() {
            self.doubt_unmentioned(now);
        }
        if let Some(queue) = pop.queues.first() {
            self.put_questions(queue, out);
        }
        let at_once = pop.wait.is_some_and(|wait| wait.is_zero());
        self.waiting.push(Waiting {
            caller,
            queues: pop.queues,
            whole: pop.whole,
            list: pop.list,
            until: if at_once { None } else { pop.wait.map(|wait| now + wait) },
            asked: false,
            probe: at_once.then_some(Probe::ToBeAsked),
        });
    }

    /// A queue from which somebody waits to pop.
    pub(super) fn awaited_queue(&self) -> Option<Name> {
        self.waiting.iter().find_map(|waiting| waiting.queues.first().cloned())
    }

    /// Asks the hub for what the waiting pops want, if that has changed. A question is good for one task, so there is one
    /// for each pop that has just come: pops that come together are served together.
    pub(super) fn settle(&mut self, out: &mut Output) {
        if self.standing != Standing::Active {
            return;
        }
        // The hub keeps the last question only.
        let must_repeat = self.ask_at_once(out);
        let waits = || self.waiting.iter().filter(|waiting| waiting.probe.is_none());
        let mut wanted: Vec<Name> = Vec::new();
        for queue in waits().flat_map(|waiting| &waiting.queues) {
            if !wanted.contains(queue) {
                wanted.push(queue.clone());
            }
        }
        let have_just_come = waits().filter(|waiting| !waiting.asked).count();
        if wanted == self.asked.as_deref().unwrap_or_default() && have_just_come == 0 && !must_repeat {
            return;
        }
        if wanted.is_empty() {
            self.asked = None;
            self.command(Command::Unask, Pending::Nothing, out);
            return;
        }
        for _ in 0..have_just_come.min(self.free_slots()).max(1) {
            self.question(wanted.clone(), out);
        }
        self.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        self.asked = Some(wanted);
    }

    /// Asks for the pops that do not wait, one by one. Says whether there was any.
    fn ask_at_once(&mut self, out: &mut Output) -> bool {
        let at_once = |waiting: &&Waiting| waiting.probe == Some(Probe::ToBeAsked);
        let most = self.free_slots().max(1);
        let pops = self.waiting.iter().filter(at_once).take(most);
        let questions: Vec<Vec<Name>> = pops.map(|waiting| waiting.queues.clone()).collect();
        if questions.is_empty() {
            return false;
        }
        for queues in questions {
            self.question(queues, out);
        }
        // A task that is there comes after the answer to its question and before the answer to the next one.
        let token = self.ask(Request::Query(Query::Counts), Pending::Probe, out);
        for waiting in &mut self.waiting {
            if waiting.probe == Some(Probe::ToBeAsked) {
                waiting.probe = Some(Probe::Asked(token));
            }
        }
        true
    }

    fn question(&mut self, queues: Vec<Name>, out: &mut Output) {
        self.asking += 1;
        self.command(Command::Ask { queues }, Pending::Ask, out);
    }

    /// How many more jobs it may hold. One whose end is on its way to the hub is not held any more.
    fn free_slots(&self) -> usize {
        let held = self.claims.values().filter(|claim| !claim.ending).count();
        (self.slots as usize).saturating_sub(held)
    }

    /// Whatever the hub had at once has come before this.
    pub(super) fn probed(&mut self, token: u64, out: &mut Output) {
        let in_vain = |waiting: &Waiting| waiting.probe == Some(Probe::Asked(token));
        self.tell_nothing(in_vain, out);
    }

    pub(super) fn give_up_waiting(&mut self, now: Timestamp, out: &mut Output) {
        self.tell_nothing(|waiting| waiting.until.is_some_and(|until| until <= now), out);
    }

    pub(super) fn assigned(&mut self, now: Timestamp, assignment: Box<Assignment>, out: &mut Output) {
        // This was the last question, unless there are more on their way to the hub.
        if self.asking == 0 {
            self.asked = None;
        }
        let wants = |waiting: &Waiting| waiting.queues.contains(&assignment.terms.queue);
        match self.waiting.iter().position(wants) {
            Some(index) => {
                let waiting = self.waiting.remove(index);
                let mut claim = Claim::new(&assignment, waiting.caller.connection, now, waiting.whole);
                claim.list = waiting.list;
                self.claims.insert(claim.held.task, claim);
                out.answers.push((waiting.caller, CallAnswer::Popped(assignment)));
            }
            None => {
                // Whoever asked has given up meanwhile.
                let held = Held { task: assignment.task, attempt: assignment.attempt };
                self.return_undelivered(held, "nobody waited for it any more", out);
            }
        }
        self.settle(out);
    }

    fn tell_nothing(&mut self, over: impl Fn(&Waiting) -> bool, out: &mut Output) {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| {
            if over(waiting) {
                out.answers.push((waiting.caller, CallAnswer::Nothing));
            }
            !over(waiting)
        });
        if self.waiting.len() != before {
            self.settle(out);
        }
    }
}
