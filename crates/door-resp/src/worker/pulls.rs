//! Pulling: pops that wait, and the one question the hub is asked for all of them.

use tenure_hub::Request;
use tenure_hub::words::{Assignment, Command, Name, Query, Timestamp};

use super::claims::Claim;
use super::{CallAnswer, Caller, Kind, Output, Pending, Pop, Standing, Worker};

/// A pop that has not been answered.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) caller: Caller,
    queues: Vec<Name>,
    whole: bool,
    /// None for ever.
    pub(super) until: Option<Timestamp>,
    /// The hub has been asked for it.
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
        self.give_back_unread(now, out);
        let at_once = pop.wait.is_some_and(|wait| wait.is_zero());
        self.waiting.push(Waiting {
            caller,
            queues: pop.queues,
            whole: pop.whole,
            until: if at_once { None } else { pop.wait.map(|wait| now + wait) },
            asked: false,
            probe: at_once.then_some(Probe::ToBeAsked),
        });
    }

    /// Asks the hub for what the waiting pops want, if that has changed. A question is good for one task, so there is one
    /// for each pop that has just come: pops that come together are served together.
    pub(super) fn settle(&mut self, out: &mut Output) {
        if self.standing != Standing::Active {
            return;
        }
        let mut wanted: Vec<Name> = Vec::new();
        for queue in self.waiting.iter().flat_map(|waiting| &waiting.queues) {
            if !wanted.contains(queue) {
                wanted.push(queue.clone());
            }
        }
        let asked = self.asked.as_deref().unwrap_or_default();
        let must_probe = self.waiting.iter().any(|waiting| waiting.probe == Some(Probe::ToBeAsked));
        let have_just_come = self.waiting.iter().filter(|waiting| !waiting.asked).count();
        if wanted == asked && !must_probe && have_just_come == 0 {
            return;
        }
        if wanted.is_empty() {
            self.asked = None;
            self.command(Command::Unask, Pending::Nothing, out);
            return;
        }
        let free = (self.slots as usize).saturating_sub(self.claims.len());
        for _ in 0..have_just_come.min(free).max(1) {
            self.asking += 1;
            self.command(Command::Ask { queues: wanted.clone() }, Pending::Ask, out);
        }
        self.waiting.iter_mut().for_each(|waiting| waiting.asked = true);
        self.asked = Some(wanted);
        if must_probe {
            // A task that is there comes after the answer to the question and before the answer to the next one.
            let token = self.ask(Request::Query(Query::Counts), Pending::Probe, out);
            for waiting in &mut self.waiting {
                if waiting.probe == Some(Probe::ToBeAsked) {
                    waiting.probe = Some(Probe::Asked(token));
                }
            }
        }
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
                let claim = Claim::new(&assignment, waiting.caller.connection, now, waiting.whole);
                self.claims.insert(claim.held.task, claim);
                out.answers.push((waiting.caller, CallAnswer::Popped(assignment)));
            }
            None => {
                // Whoever asked has given up meanwhile.
                let claim = Claim::new(&assignment, 0, now, false);
                let task = claim.held.task;
                self.claims.insert(task, claim);
                self.give_back(task, "nobody waited for it any more", out);
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
