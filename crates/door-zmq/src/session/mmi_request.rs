//! A request to the broker itself (`mmi.*`), from the first hub request to the reply.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_hub::words::{
    Answer, Command, Cursor, ListQuery, Name, PresenceName, Query, StateName, TaskId, TaskInfo, WorkerInfo,
};
use tenure_hub::{HubRefusal, Request, Response};

use super::jobs::Jobs;
use super::majordomo::SessionTurn;
use crate::mdp::{ClientRequest, Mmi, PendingCall, ReturnPath, RunningCall};
use crate::rights::Verb;
use crate::translate;

/// Maximum number of pages of a list that one request reads. With more tasks, the reply counts what it saw.
const PAGES_MAX: usize = 200;
const PAGE: usize = 1_000;
/// Maximum number of cancellations in flight.
const CANCELS_AT_ONCE: usize = 1_000;

const WAITING: [StateName; 5] =
    [StateName::Created, StateName::Waiting, StateName::Delayed, StateName::Ready, StateName::Paused];
const HELD: [StateName; 3] = [StateName::Assigned, StateName::Running, StateName::Suspended];

/// What is to be done next.
#[derive(Debug)]
pub(super) enum MmiStep {
    Ask(Vec<Request>),
    Wait,
    Answer(Vec<Bytes>),
}

#[derive(Debug)]
pub(super) struct MmiRequest {
    path: ReturnPath,
    service: String,
    question: Question,
    /// The submitter of the listed tasks; `None` for all.
    submitter: Option<Name>,
    pages: usize,
}

/// How many calls wait, by path, client, project and priority.
type Calls = BTreeMap<(String, String, String, i32), u64>;

#[derive(Debug)]
enum Question {
    /// Answered without a request to the hub.
    Nothing,
    Service,
    List,
    Status {
        finished: u64,
        waiting: u64,
        running: u64,
    },
    /// First lists what can be cancelled, then cancels each.
    Cancel {
        found: Vec<TaskId>,
        under_way: usize,
        cancelled: u64,
    },
    Job {
        /// It was submitted on this connection.
        is_mine: bool,
    },
    ListServices,
    Workers {
        calls: Calls,
        running: Vec<RunningCall>,
    },
    Health,
}

impl MmiRequest {
    pub(super) fn new(
        request: ClientRequest,
        question: Mmi,
        jobs: &mut Jobs,
        turn: &mut SessionTurn<'_>,
    ) -> (MmiRequest, MmiStep) {
        let mine = turn.me.name.clone();
        let mut submitter = None;
        let (question, step) = match question {
            Mmi::Service { name } => (Question::Service, ask(Query::Queue { queue: name.into() })),
            Mmi::List { name: None } => (Question::List, ask(Query::Queues)),
            Mmi::List { name: Some(name) } => {
                let record = turn.registry.record(&turn.me.namespace(), &name);
                (Question::Nothing, MmiStep::Answer(record.into_iter().collect()))
            }
            Mmi::Status => {
                submitter = Some(mine);
                let states = [&WAITING[..], &HELD[..]].concat();
                let finished = jobs.take_finished();
                (Question::Status { finished, waiting: 0, running: 0 }, list(states, submitter.clone(), None))
            }
            Mmi::Job { id } => match id.parse().ok().or_else(|| jobs.named(&id)) {
                Some(task) => {
                    (Question::Job { is_mine: jobs.get(task).is_some() }, ask(Query::Show { task }))
                }
                None => (Question::Nothing, code("404")),
            },
            Mmi::Cancel { client } => {
                let client = client.map_or(mine.clone(), Name::from);
                if client == mine || turn.me.check("cancel", Verb::CancelForOthers, turn.out).is_ok() {
                    let question = Question::Cancel { found: Vec::new(), under_way: 0, cancelled: 0 };
                    submitter = Some(client);
                    (question, list(WAITING.to_vec(), submitter.clone(), None))
                } else {
                    (Question::Nothing, code("403"))
                }
            }
            Mmi::ListServices => (Question::ListServices, ask(Query::Workers)),
            Mmi::Workers => {
                let states = [&WAITING[..], &HELD[..]].concat();
                let question = Question::Workers { calls: BTreeMap::new(), running: Vec::new() };
                (question, list(states, None, None))
            }
            Mmi::Health => (Question::Health, ask(Query::Workers)),
            Mmi::Malformed | Mmi::Notify(_) => (Question::Nothing, code("400")),
            Mmi::Unknown => (Question::Nothing, code("501")),
        };
        (MmiRequest { path: request.path, service: request.service, question, submitter, pages: 0 }, step)
    }

    /// Whether it collects every running call, which takes memory.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.question, Question::Workers { .. })
    }

    pub(super) fn path(&self) -> &ReturnPath {
        &self.path
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }

    /// The hub has answered one of the requests.
    pub(super) fn answered(
        &mut self,
        reply: Result<Response, HubRefusal>,
        turn: &SessionTurn<'_>,
    ) -> MmiStep {
        let answer = match (reply, &mut self.question) {
            // One of many cancellations; a task that ended meanwhile is not counted.
            (reply, Question::Cancel { found, under_way, cancelled }) if *under_way > 0 => {
                *under_way -= 1;
                *cancelled += u64::from(reply.is_ok());
                return cancel_more(found, under_way, *cancelled);
            }
            (Ok(Response::Answer(answer)), _) => answer,
            (Ok(_), _) => return code("500"),
            (Err(refusal), _) => return code(translate::status(&refusal)),
        };
        match answer {
            Answer::Queues(queues) => {
                let mut served: Vec<&str> =
                    queues.iter().filter(|queue| queue.live_workers > 0).map(|queue| &*queue.queue).collect();
                served.sort_unstable();
                match &self.question {
                    Question::Service if served.is_empty() => code("404"),
                    Question::Service => code("200"),
                    _ => MmiStep::Answer(
                        served.into_iter().map(|name| Bytes::copy_from_slice(name.as_bytes())).collect(),
                    ),
                }
            }
            Answer::Tasks { tasks, next } => self.page(&tasks, next),
            Answer::Workers(workers) => self.workers(&workers, turn),
            Answer::Task(info) => match self.question {
                Question::Job { is_mine } if is_mine || may_see(&info, turn) => {
                    MmiStep::Answer(translate::job_frames(&info))
                }
                _ => code("404"),
            },
            Answer::Why { .. }
            | Answer::ScannedTasks { .. }
            | Answer::ScannedWorkers { .. }
            | Answer::Limits(_)
            | Answer::Schedules(_)
            | Answer::Array(_)
            | Answer::Arrays { .. }
            | Answer::Shares(_)
            | Answer::Counts(_) => code("500"),
        }
    }

    fn page(&mut self, tasks: &[TaskInfo], next: Option<Cursor>) -> MmiStep {
        self.pages += 1;
        let next = next.filter(|_| self.pages < PAGES_MAX);
        match &mut self.question {
            Question::Status { waiting, running, .. } => {
                for task in tasks {
                    let count = if task.state.name().is_held() { &mut *running } else { &mut *waiting };
                    *count += 1;
                }
            }
            Question::Cancel { found, .. } => found.extend(tasks.iter().map(|task| task.id)),
            Question::Workers { calls, running } => {
                tasks.iter().for_each(|task| count_call(task, calls, running));
            }
            _ => {}
        }
        if let Some(cursor) = next {
            let states = match &self.question {
                Question::Cancel { .. } => WAITING.to_vec(),
                _ => [&WAITING[..], &HELD[..]].concat(),
            };
            return list(states, self.submitter.clone(), Some(cursor));
        }
        match &mut self.question {
            Question::Status { finished, waiting, running } => {
                numbers(&[*finished, *waiting + *running, *running])
            }
            Question::Cancel { found, under_way, cancelled } => cancel_more(found, under_way, *cancelled),
            _ => ask(Query::Workers),
        }
    }

    fn workers(&mut self, workers: &[WorkerInfo], turn: &SessionTurn<'_>) -> MmiStep {
        let live: Vec<&WorkerInfo> =
            workers.iter().filter(|worker| worker.presence == PresenceName::Live).collect();
        match &mut self.question {
            Question::Health => {
                MmiStep::Answer(live.iter().map(|worker| translate::health(worker).line()).collect())
            }
            Question::Workers { calls, running } => {
                let mut lines: Vec<Bytes> = Vec::new();
                for ((path, client, project, priority), calls) in std::mem::take(calls) {
                    lines.push(PendingCall { path, client, project, calls, priority }.line());
                }
                lines.extend(running.iter().map(RunningCall::line));
                for worker in &live {
                    lines.extend(translate::slots(worker).map(|slot| slot.worker_line()));
                }
                for worker in &live {
                    lines.extend(translate::free_slots(worker).map(|slot| slot.waiting_line()));
                }
                MmiStep::Answer(lines)
            }
            _ => MmiStep::Answer(live.iter().map(|worker| services_line(worker, turn)).collect()),
        }
    }
}

/// Whether the client may see a job that it does not wait for on this connection. No other client has its identity
/// while it is connected.
fn may_see(info: &TaskInfo, turn: &SessionTurn<'_>) -> bool {
    let is_of_this_connection = info.terms.submitter == turn.me.name && info.submitted_at >= turn.since;
    is_of_this_connection
        || info.terms.submitter == turn.me.name && turn.me.may_hear_earlier_replies()
        || turn.me.may(Verb::JobsOfOthers)
}

fn services_line(worker: &WorkerInfo, turn: &SessionTurn<'_>) -> Bytes {
    let namespace = turn.me.namespace();
    let version = |queue: &Name| turn.registry.version(&namespace, &worker.worker, queue);
    let versions: Vec<(&str, String)> =
        worker.queues.iter().map(|queue| (&**queue, version(queue))).collect();
    let name = worker.about.host.as_deref().unwrap_or_default();
    Mmi::services_line(&worker.worker, name, versions.iter().map(|(path, version)| (*path, version.as_str())))
}

fn count_call(task: &TaskInfo, calls: &mut Calls, running: &mut Vec<RunningCall>) {
    let (path, client) = (task.terms.queue.to_string(), task.terms.submitter.to_string());
    let project = task.terms.tags.first().map(ToString::to_string).unwrap_or_default();
    match task.state.holding() {
        Some(holding) => {
            let worker = holding.worker.to_string();
            running.push(RunningCall { path, client, project, worker, priority: task.priority });
        }
        None => *calls.entry((path, client, project, task.priority)).or_default() += 1,
    }
}

fn cancel_more(found: &mut Vec<TaskId>, under_way: &mut usize, cancelled: u64) -> MmiStep {
    if *under_way > 0 {
        return MmiStep::Wait;
    }
    if found.is_empty() {
        return numbers(&[cancelled]);
    }
    let some = found.split_off(found.len().saturating_sub(CANCELS_AT_ONCE));
    *under_way = some.len();
    let reason: Option<Box<str>> = Some("mmi.cancel".into());
    let cancel = |task| Request::Command(Command::Cancel { task, reason: reason.clone() });
    MmiStep::Ask(some.into_iter().map(cancel).collect())
}

fn ask(query: Query) -> MmiStep {
    MmiStep::Ask(vec![Request::Query(query)])
}

fn list(states: Vec<StateName>, submitter: Option<Name>, cursor: Option<Cursor>) -> MmiStep {
    ask(Query::List(Box::new(ListQuery { states, submitter, cursor, limit: PAGE, ..ListQuery::default() })))
}

fn code(code: &'static str) -> MmiStep {
    MmiStep::Answer(vec![Bytes::from_static(code.as_bytes())])
}

fn numbers(numbers: &[u64]) -> MmiStep {
    MmiStep::Answer(numbers.iter().map(|number| Bytes::from(number.to_string())).collect())
}
