//! Submitting: one task, or many in as few frames as the limits allow.

use tenure_wire::limits::ENTRIES_MAX;
use tenure_wire::request::Submit;
use tenure_wire::task::Accepted;
use tenure_wire::{Refusal, Reply, Request, TaskId};

use crate::client::{Client, unexpected};
use crate::error::Error;
use crate::in_flight::Repeat;
use crate::submission::Submission;

/// A frame of many tasks is closed at this size, so that the broker can start while the client builds the next one.
const FRAME_BYTES: usize = 4 << 20;

impl Client {
    /// Submits a task. Returns when the task is on the broker's disk.
    pub async fn submit(&self, submission: Submission) -> Result<Accepted, Error> {
        check(&submission, self.body_bytes_max())?;
        let mut accepted = self.submit_frame(vec![submission]).await?;
        match accepted.pop() {
            Some(verdict) => Ok(verdict?),
            None => Err(Error::protocol("a submission was answered with an empty list")),
        }
    }

    /// Submits many tasks and returns an answer for each, in order. They travel in few frames; a refused task does not
    /// affect the others. If a whole frame fails, the error says so, and the frames before it are done.
    pub async fn submit_many(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Result<Vec<Result<Accepted, Box<Refusal>>>, Error> {
        let limit = self.body_bytes_max();
        let mut verdicts = Vec::new();
        let mut frame: Vec<Submission> = Vec::new();
        let mut bytes = 0;
        for mut submission in submissions {
            check(&submission, limit)?;
            let size = submission.bytes();
            if frame.len() == ENTRIES_MAX || (!frame.is_empty() && bytes + size > FRAME_BYTES) {
                verdicts.append(&mut self.submit_frame(std::mem::take(&mut frame)).await?);
                bytes = 0;
            }
            bytes += size;
            place_indexes(&mut submission, &verdicts);
            frame.push(submission);
        }
        if !frame.is_empty() {
            verdicts.append(&mut self.submit_frame(frame).await?);
        }
        Ok(verdicts)
    }

    async fn submit_frame(
        &self,
        submissions: Vec<Submission>,
    ) -> Result<Vec<Result<Accepted, Box<Refusal>>>, Error> {
        let count = submissions.len();
        let all_named = submissions.iter().all(|submission| submission.task.name.is_some());
        let repeat = if all_named { Repeat::Safe } else { Repeat::Unsafe };
        let mut submit = Submit::default();
        submit.tasks.reserve_exact(count);
        for Submission { terms, task } in submissions {
            submit.push(&terms, task);
        }
        match self.ask("submit", Request::Submit(submit), repeat).await? {
            Reply::Submitted(submitted) if submitted.tasks.len() == count => {
                Ok(submitted.tasks.into_iter().map(|verdict| verdict.0.map_err(Box::new)).collect())
            }
            Reply::Submitted(submitted) => {
                let answers = submitted.tasks.len();
                Err(Error::protocol(format!("{count} submissions were answered with {answers} answers")))
            }
            other => Err(unexpected("submit", &other)),
        }
    }

    fn body_bytes_max(&self) -> usize {
        usize::try_from(self.welcome().limits.body_bytes).unwrap_or(usize::MAX)
    }
}

/// The index of an earlier task counts from the first of all frames; on the wire, from the first of its own. A task of
/// an earlier frame has an id by now.
fn place_indexes(submission: &mut Submission, answered: &[Result<Accepted, Box<Refusal>>]) {
    for after in &mut submission.task.after {
        let Some(index) = after.index else { continue };
        match answered.get(index as usize) {
            None => after.index = Some(index - answered.len() as u32),
            Some(verdict) => {
                after.index = None;
                // The broker knows no task of this id, and so refuses one that waits for a refused task.
                after.task = Some(verdict.as_ref().map_or(TaskId([0; 16]), |accepted| accepted.task));
            }
        }
    }
}

/// Refuses here what would make the broker close the connection.
fn check(submission: &Submission, limit: usize) -> Result<(), Error> {
    let bytes = submission.task.body.len();
    if bytes > limit { Err(Error::TooLarge { what: "the task's body", bytes, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use tenure_wire::words::StateName;

    use super::*;
    use crate::After;

    #[test]
    fn an_index_is_that_of_its_frame_or_the_id_of_a_task_of_an_earlier_one() {
        let task = TaskId::new();
        let accepted = Accepted { task, state: StateName::Ready, known: false, unserved: None };
        let refused = Refusal::new(tenure_wire::Code::Full, "full");
        let answered = [Ok(accepted), Err(Box::new(refused))];
        let mut submission =
            Submission::to("q").after(After::index(0)).after(After::index(1)).after(After::index(5));
        place_indexes(&mut submission, &answered);
        let after: Vec<_> = submission.task.after.iter().map(|after| (after.task, after.index)).collect();
        assert_eq!(after, [(Some(task), None), (Some(TaskId([0; 16])), None), (None, Some(3))]);
    }
}
