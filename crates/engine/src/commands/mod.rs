//! One file per verb, holding what each command does.

mod abandon;
mod array;
mod ask;
mod assign;
mod broker_stalled;
mod cancel;
mod checkpoint;
mod complete;
mod confirm;
mod continue_attempt;
mod crash;
mod depend;
mod drain;
mod expire;
mod fail;
mod give_back;
mod heartbeat;
mod inherit;
mod leave;
mod limit;
mod lost;
mod mark_sent;
mod move_task;
mod pause;
mod pause_queue;
mod presence;
mod progress;
mod rate;
mod register;
mod release;
mod resume;
mod retention;
mod retry;
mod schedule;
mod schedule_fire;
mod share;
mod start;
mod submit;
mod submit_array;
mod suspend;
mod thresholds;

pub(crate) use depend::progress_of;

use crate::command::{Command, Peer, Reply};
use crate::engine::Engine;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;

impl Engine {
    /// From the command to its file.
    pub(crate) fn dispatch(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        command: Command,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        if let Some(array) = self.array_in(peer, &command) {
            return self.apply_to_elements(now, peer, array, &command, out);
        }
        match command {
            Command::SubmitArray(new) => self.submit_array(now, peer, *new, out),
            Command::LimitArray { array, limit } => self.limit_array(now, peer, array, limit, out),
            Command::Submit(tasks) => Ok(self.submit(now, peer, &tasks, out)),
            Command::Release { task } => self.release(now, peer, task, out),
            Command::Cancel { task, reason } => self.cancel(now, peer, task, reason.as_deref(), out),
            Command::Pause { task, reason, terminate } => self.pause(now, peer, task, reason, terminate, out),
            Command::Resume { task } => self.resume(now, peer, task, out),
            Command::Retry { task } => self.retry(now, peer, task, out),
            Command::Move { task, to } => self.move_task(now, peer, task, to, out),
            Command::Abandon(tasks) => Ok(self.abandon(now, peer, &tasks, out)),
            Command::SetLimit { tag, limit } => self.set_limit(now, peer, &tag, limit, out),
            Command::SetTagRate { tag, rate } => self.set_tag_rate(now, peer, &tag, rate, out),
            Command::SetQueueRate { queue, rate } => self.set_queue_rate(now, peer, &queue, rate, out),
            Command::SetShare { share, weight } => self.set_share(now, peer, &share, weight, out),
            Command::PauseQueue { queue } => self.pause_queue(now, peer, &queue, out),
            Command::ResumeQueue { queue } => self.resume_queue(now, peer, &queue, out),
            Command::SetThresholds { queue, thresholds } => {
                self.set_thresholds(now, peer, &queue, thresholds, out)
            }
            Command::SetSchedule(new) => self.set_schedule(now, peer, *new, out),
            Command::PauseSchedule { schedule } => self.pause_schedule(now, peer, &schedule, out),
            Command::ResumeSchedule { schedule } => self.resume_schedule(now, peer, &schedule, out),
            Command::RemoveSchedule { schedule } => self.remove_schedule(now, peer, &schedule, out),
            Command::RunSchedule { schedule } => self.run_schedule(now, peer, &schedule, out),
            Command::DrainWorker { worker } => self.drain_worker(now, peer, &worker, out),
            Command::ClearWorker { worker } => self.clear_worker(now, peer, &worker, out),
            Command::Register(spec) => self.register(now, peer, *spec, out),
            Command::Heartbeat { held, stats } => self.heartbeat(now, peer, held, stats, out),
            Command::Start(held) => self.start(now, peer, &held, out),
            Command::Progress { held, percent, note } => self.progress(now, peer, held, percent, note, out),
            Command::Checkpoint { held, checkpoint } => self.checkpoint(now, peer, held, checkpoint, out),
            Command::Suspend { held, on } => self.suspend(now, peer, held, &on, out),
            Command::Complete(completions) => self.complete(now, peer, &completions, out),
            Command::Fail(failure) => self.fail(now, peer, failure, out),
            Command::Confirm { held, wanted, result } => self.confirm(now, peer, held, wanted, result, out),
            Command::GiveBack { held, reason } => self.give_back(now, peer, held, reason, out),
            Command::Forgotten(held) => self.forgotten(now, peer, &held, out),
            Command::Undelivered { held, reason } => self.undelivered(now, peer, held, reason, out),
            Command::Ask { queues } => self.take_ask(now, peer, &queues, out),
            Command::Unask => self.unask(peer),
            Command::Drain => self.drain_self(now, peer, out),
            Command::Leave => self.leave(now, peer, out),
            Command::SessionClosed => self.session_closed(now, peer, out),
        }
    }
}
