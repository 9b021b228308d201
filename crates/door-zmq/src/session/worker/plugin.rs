//! A `_PL` worker: which job is in which thread, and which threads may still run attempts that are over.
//!
//! A `_PL` worker reports a client and a thread and no job. So a job goes only to a thread that is known to be free;
//! otherwise the report of the previous job would count as its own.

use std::collections::VecDeque;

use bytes::Bytes;
use tenure_door_kit::worker_actor::starts_on_assignment;
use tenure_hub::HubRefusal;
use tenure_hub::words::{Assignment, Blob, Command, Held, Name, Timestamp};

use super::super::majordomo::{ReplyPurpose, SessionTurn};
use super::replies::Replies;
use super::{Running, THREAD_NOTE, Unsent, send};
use crate::mdp::{MdpCall, MdpDialect, ToWorker, for_worker};
use crate::registry::ServiceListing;
use crate::translate;

#[derive(Debug)]
pub(in crate::session) struct Plugin {
    pub(super) listing: ServiceListing,
    pub(super) threads: Threads,
    /// Jobs that arrived while no thread was free, because one still runs an attempt that is over. The broker takes
    /// them back in time if another worker can have them.
    unplaced: VecDeque<JobWithoutThread>,
    /// The last reply for each client whose job is not finished yet.
    replies: Replies,
    pub(super) beat_at: Timestamp,
}

/// What runs where.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// By thread.
    pub(super) jobs: Vec<Option<Running>>,
    pub(super) earlier: EarlierThreads,
}

/// Threads that compute jobs from an earlier connection of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EarlierThreads {
    /// The worker has reported that there are none.
    None,
    /// It has registered and sent no heartbeat yet. It may be new, or have opened a new socket while it computes.
    #[default]
    NoHeartbeatYet,
    /// This many, in unknown threads.
    Some(u32),
    /// It continued as if it was known, so it is not new, and has not reported yet how many of its threads are free.
    NotReported,
}

/// A job without a thread.
#[derive(Debug)]
struct JobWithoutThread {
    job: Running,
    service: Name,
    body: Body,
}

/// The body of a job without a thread.
#[derive(Debug)]
enum Body {
    Here(Bytes),
    /// The body stays on disk until the start of the job is on disk too.
    OnDisk(Blob),
}

impl Threads {
    /// A worker that is new, or computed nothing when it was last seen.
    pub(super) fn idle() -> Threads {
        Threads { jobs: Vec::new(), earlier: EarlierThreads::None }
    }

    /// Whether any thread may compute something.
    pub(super) fn may_compute(&self) -> bool {
        self.earlier != EarlierThreads::None || self.jobs.iter().flatten().any(|job| job.unsent.is_none())
    }

    /// The jobs of a worker that had to register again. `free` comes from its last heartbeat.
    pub(super) fn returned(jobs: Vec<Option<Running>>, free: Option<u32>, count: u32) -> Threads {
        let mut threads = Threads { jobs, earlier: EarlierThreads::NotReported };
        if let Some(free) = free {
            threads.count_earlier(free, count);
        }
        threads
    }

    /// The worker has reported how many of its threads are free.
    pub(super) fn count_earlier(&mut self, free: u32, count: u32) {
        let known = self.jobs.iter().flatten().count() as u32;
        self.earlier = match count.saturating_sub(free).saturating_sub(known) {
            0 => EarlierThreads::None,
            more => EarlierThreads::Some(more),
        };
    }

    /// A thread has finished a job of an earlier connection.
    fn earlier_finished(&mut self) {
        self.earlier = match self.earlier {
            EarlierThreads::None | EarlierThreads::Some(0 | 1) => EarlierThreads::None,
            EarlierThreads::Some(more) => EarlierThreads::Some(more - 1),
            EarlierThreads::NoHeartbeatYet | EarlierThreads::NotReported => self.earlier,
        };
    }

    /// Removes the job that a report means.
    pub(super) fn finish(&mut self, client: &Bytes, thread: u32) -> Option<Running> {
        let place = self.jobs.get_mut(thread as usize)?;
        place.take_if(|job| job.client.as_bytes() == client && job.unsent.is_none())
    }

    fn thread_of(&self, held: Held) -> Option<usize> {
        self.jobs.iter().position(|place| place.as_ref().is_some_and(|job| job.held == held))
    }

    /// The attempts that the worker holds and the broker waits for.
    pub(super) fn held(&self) -> Vec<Held> {
        self.jobs.iter().flatten().filter(|job| !job.is_over).map(|job| job.held).collect()
    }

    /// The broker waits for none of these jobs, but the worker still computes them.
    pub(super) fn give_up(mut self) -> Vec<Option<Running>> {
        for place in &mut self.jobs {
            place.take_if(|job| job.unsent.is_some());
        }
        self.jobs.iter_mut().flatten().for_each(|job| job.is_over = true);
        self.jobs
    }

    fn free(&mut self, count: u32) -> Option<usize> {
        let free = self.jobs.iter().position(Option::is_none).unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        (free < count as usize).then_some(free)
    }
}

impl Plugin {
    pub(super) fn new(listing: ServiceListing, threads: Threads, turn: &mut SessionTurn<'_>) -> Plugin {
        let beat_at = turn.now.steady + turn.settings.heartbeat;
        let plugin =
            Plugin { listing, threads, unplaced: VecDeque::new(), replies: Replies::default(), beat_at };
        plugin.register(turn);
        plugin
    }

    /// Registers this worker at the hub. It gets nothing while it is unknown which of its threads are free.
    fn register(&self, turn: &mut SessionTurn<'_>) {
        let registration = self.listing.registration();
        let mut spec =
            translate::plugin_worker(self.listing.worker(), registration, self.threads.held(), turn.settings);
        spec.pulls = self.threads.earlier != EarlierThreads::None;
        turn.command(Command::Register(Box::new(spec)), ReplyPurpose::Known);
    }

    /// Another worker has its name: it works under the name that the door assigned.
    pub(super) fn rename(&mut self, turn: &mut SessionTurn<'_>) {
        let registration = self.listing.registration().clone();
        self.listing = turn.registry.enter(turn.me.namespace(), &turn.me.name, registration);
        self.register(turn);
    }

    /// A heartbeat says how many threads are free. Returns false if that was needed and missing.
    pub(super) fn beats(&mut self, free: Option<u32>, turn: &mut SessionTurn<'_>) -> bool {
        if self.threads.earlier == EarlierThreads::None {
            return true;
        }
        match (free, self.threads.earlier) {
            (Some(free), _) => self.threads.count_earlier(free, self.listing.registration().threads),
            (None, EarlierThreads::NoHeartbeatYet) => self.threads.earlier = EarlierThreads::None,
            (None, _) => return false,
        }
        self.open_if_known(turn);
        true
    }

    pub(super) fn assigned(&mut self, assignment: &Assignment, body: Bytes, turn: &mut SessionTurn<'_>) {
        let held = Held { task: assignment.task, attempt: assignment.attempt };
        let job = Running::new(held, assignment.terms.submitter.clone());
        let body =
            if starts_on_assignment(assignment) { Body::OnDisk(assignment.body) } else { Body::Here(body) };
        self.unplaced.push_back(JobWithoutThread { job, service: assignment.terms.queue.clone(), body });
        self.place(turn);
    }

    /// The job of this attempt, if its message has not been sent yet.
    pub(super) fn unsent(&self, held: Held) -> Option<&Unsent> {
        let mut jobs = self.threads.jobs.iter().flatten();
        jobs.find(|job| job.held == held).and_then(|job| job.unsent.as_ref())
    }

    /// The start of a job is on disk. Sends its message if that waited.
    pub(super) fn started(
        &mut self,
        held: Held,
        body: Result<Bytes, HubRefusal>,
        turn: &mut SessionTurn<'_>,
    ) {
        let Some(thread) = self.threads.thread_of(held) else { return };
        let Some(job) = self.threads.jobs[thread].as_mut() else { return };
        let Some(Unsent { service, .. }) = job.unsent.take() else { return };
        match body {
            Ok(body) => send_call(&service, thread, job, &body, turn),
            Err(refusal) => {
                turn.ask(translate::given_up(held, &refusal), ReplyPurpose::Nothing);
                self.threads.jobs[thread] = None;
                self.place(turn);
            }
        }
    }

    /// An attempt is over. If the worker has it, its thread stays taken.
    pub(super) fn stopped(&mut self, held: Held, turn: &mut SessionTurn<'_>) {
        self.unplaced.retain(|unplaced| unplaced.job.held != held);
        for place in &mut self.threads.jobs {
            if place.take_if(|job| job.held == held && job.unsent.is_some()).is_some() {
                return self.place(turn);
            }
        }
        for job in self.threads.jobs.iter_mut().flatten().filter(|job| job.held == held) {
            job.is_over = true;
        }
    }

    /// Kept until the job is finished, when it becomes its result. A reply names only a client, so one that may belong
    /// to an attempt that is over is dropped. Returns false if the worker has too many unfinished replies.
    pub(super) fn replied(&mut self, client: Bytes, reply: Vec<Bytes>, turn: &mut SessionTurn<'_>) -> bool {
        let mut jobs = self.threads.jobs.iter().flatten().filter(|job| job.client.as_bytes() == client);
        let is_certain = self.threads.earlier == EarlierThreads::None && !jobs.clone().any(|job| job.is_over);
        if jobs.next().is_some() && is_certain {
            return self.replies.insert(client, reply);
        }
        turn.drop("stale");
        true
    }

    /// A thread is free again. Returns the job that ends with this and its result.
    pub(super) fn finished(
        &mut self,
        client: &Bytes,
        thread: u32,
        result: &[Bytes],
        turn: &mut SessionTurn<'_>,
    ) -> Option<(Held, Vec<Bytes>)> {
        let Some(job) = self.threads.finish(client, thread) else {
            turn.drop("stale");
            if self.threads.earlier != EarlierThreads::None {
                self.threads.earlier_finished();
                self.open_if_known(turn);
            }
            return None;
        };
        let reply = self.replies.remove(client);
        self.place(turn);
        if job.is_over {
            turn.drop("stale");
            return None;
        }
        Some((job.held, if result.is_empty() { reply } else { result.to_vec() }))
    }

    fn open_if_known(&self, turn: &mut SessionTurn<'_>) {
        if self.threads.earlier == EarlierThreads::None {
            self.register(turn);
        }
    }

    /// Gives jobs to free threads.
    fn place(&mut self, turn: &mut SessionTurn<'_>) {
        while !self.unplaced.is_empty() {
            let Some(thread) = self.threads.free(self.listing.registration().threads) else { return };
            let Some(unplaced) = self.unplaced.pop_front() else { return };
            let JobWithoutThread { mut job, service, body } = unplaced;
            let held = job.held;
            turn.command(Command::Start(vec![held]), ReplyPurpose::Started(held));
            match body {
                Body::Here(body) => send_call(&service, thread, &job, &body, turn),
                Body::OnDisk(body) => job.unsent = Some(Unsent { service, body }),
            }
            self.threads.jobs[thread] = Some(job);
            // Durable, so that the job can be matched with its thread after a restart of the broker.
            let note = Some(format!("{THREAD_NOTE}{thread}").into());
            turn.command(Command::Progress { held, percent: None, note }, ReplyPurpose::Nothing);
        }
    }
}

fn send_call(service: &Name, thread: usize, job: &Running, body: &Bytes, turn: &mut SessionTurn<'_>) {
    let id = job.held.task.to_string();
    let call = MdpCall { thread: thread as u32, client: &job.client, job: &id, attempt: job.held.attempt };
    let parameters = for_worker(body, &call);
    send(&ToWorker::Call { service: service.to_string(), parameters }, MdpDialect::Pl, turn);
}
