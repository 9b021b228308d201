//! Pushes that arrive together go to the hub together, and each gets its own reply.

use tenure_hub::words::{Name, Query};
use tenure_hub::{Ask, Request, Submission};

use super::{Expectation, Session, SessionOutput};
use crate::flow::FlowOutcome;
use crate::translate::{pushed, refusal};

/// Maximum number of tasks in one submission of several pushes.
const TOGETHER_MAX: usize = 1000;

/// Pushes to one queue that are under way together.
#[derive(Debug)]
pub(super) struct Pushing {
    /// The token of the submission; the query for the queue's length has the next one.
    submit: u64,
    queue: Name,
    places: Vec<u64>,
    counts: Vec<usize>,
    submitted: Option<FlowOutcome>,
}

impl Pushing {
    /// The submission that these pushes can join, if it has not been sent and nothing came after it.
    fn open<'a>(&self, queue: &Name, count: usize, asks: &'a mut [Ask]) -> Option<&'a mut Vec<Submission>> {
        let [.., Ask { token, request: Request::Submit(tasks) }, _] = asks else { return None };
        let fits = *token == self.submit && self.queue == *queue && tasks.len() + count <= TOGETHER_MAX;
        fits.then_some(tasks)
    }
}

impl Session {
    pub(super) fn push(
        &mut self,
        place: u64,
        queue: Name,
        submissions: Vec<Submission>,
        out: &mut SessionOutput,
    ) {
        let count = submissions.len();
        if let Some(pushing) = self.pushes.back_mut()
            && let Some(tasks) = pushing.open(&queue, count, &mut out.asks)
        {
            tasks.extend(submissions);
            pushing.places.push(place);
            pushing.counts.push(count);
            return;
        }
        let submit = self.ask(Request::Submit(submissions), Expectation::Submitted, out);
        self.ask(Request::Query(Query::Queue { queue: queue.clone() }), Expectation::Counted, out);
        self.pushes.push_back(Pushing {
            submit,
            queue,
            places: vec![place],
            counts: vec![count],
            submitted: None,
        });
    }

    pub(super) fn submitted(&mut self, token: u64, outcome: FlowOutcome) {
        let Some(index) = self.pushes.iter().position(|pushing| pushing.submit == token) else { return };
        match outcome {
            Ok(_) => self.pushes[index].submitted = Some(outcome),
            // The length is not needed, and while the replicated journal is away its reply waits for the journal.
            Err(reason) => {
                let places = self.pushes.remove(index).map(|pushing| pushing.places);
                for place in places.into_iter().flatten() {
                    self.fill(place, refusal(&reason));
                }
            }
        }
    }

    /// The hub replies in order, so the first pushes are answered first.
    pub(super) fn counted(&mut self, token: u64, outcome: FlowOutcome) {
        let Some(index) = self.pushes.iter().position(|pushing| pushing.submit + 1 == token) else { return };
        let Some(Pushing { places, counts, submitted: Some(submitted), .. }) = self.pushes.remove(index)
        else {
            return;
        };
        for (place, reply) in places.into_iter().zip(pushed(&counts, submitted, outcome)) {
            self.fill(place, reply);
        }
    }
}
