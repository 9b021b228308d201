//! What workers do.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_engine::command::{AttemptFailure, Completion, OnClose};
use tenure_engine::state::Wanted;
use tenure_engine::{Blob, Command, Held, Name, Reply, Resource, TaskId, WaitOn, WorkerSpec};

use super::super::act::{Report, Shape};
use super::super::promises::is_paused;
use super::{World, chosen, is_yes, listed, queue_name};

impl World {
    pub(super) fn register(&mut self, index: usize, shape: &Shape, forgets: u8) {
        let worker = &self.workers[index];
        let name = worker.name.to_string();
        let peer = match &worker.session {
            Some(peer) if shape.same_session => peer.clone(),
            _ => self.broker.peer(&worker.namespace.clone(), &name),
        };
        let worker = &mut self.workers[index];
        let before = (worker.instance, worker.believes.clone());
        if !shape.same_process {
            self.next_instance += 1;
            worker.instance = if index == 0 { 0 } else { self.next_instance };
            worker.believes.clear();
        }
        let held = presented(&worker.believes, forgets);
        let spec = WorkerSpec {
            instance: worker.instance,
            capabilities: chosen(shape.capabilities, "c"),
            pulls: shape.pulls,
            starts_on_assign: shape.starts_on_assign,
            busy_lost_after: shape.busy.then_some(Duration::from_secs(40)),
            on_close: if shape.tasks_die { OnClose::TasksDie } else { OnClose::MayStillRun },
            held: held.clone(),
            light_slots: 2,
            resources: resources(shape.resources),
            ..WorkerSpec::new(name.as_str(), chosen(shape.queues, "q"), shape.slots)
        };
        match self.does(&peer, &Command::Register(Box::new(spec.clone()))) {
            Ok(Reply::Registered { held: answers, .. }) => {
                let worker = &mut self.workers[index];
                worker.session = Some(peer);
                worker.spec = Some(spec);
                worker.asking = None;
                let kept = held.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
                worker.believes = kept.map(|(held, _)| (held.task, held.attempt)).collect();
            }
            Ok(reply) => panic!("{reply:?}"),
            Err(refusal) => {
                assert_eq!(refusal.code(), "worker-taken");
                // The process that has the name goes on.
                (self.workers[index].instance, self.workers[index].believes) = before;
            }
        }
        self.absorb(None);
    }

    pub(super) fn report(&mut self, index: usize, held: usize, report: Report, stale: bool) {
        let worker = &self.workers[index];
        let presented = if stale && !self.tasks.is_empty() {
            let task = self.tasks[held % self.tasks.len()];
            let attempt = self.mirror.tasks.get(&task).map_or(1, |(task, _)| task.attempt);
            Held { task, attempt: if held.is_multiple_of(2) { attempt } else { attempt.wrapping_sub(1) } }
        } else {
            let Some((task, attempt)) = worker.believes.iter().nth(held % worker.believes.len().max(1))
            else {
                return;
            };
            Held { task: *task, attempt: *attempt }
        };
        let Some(peer) = worker.session.clone() else { return };
        let name = worker.name.clone();
        self.broker.tries(&peer, Command::Heartbeat { held: None, stats: None }).ok();
        self.absorb(None);
        let holding = self.mirror.tasks.get(&presented.task).and_then(|(task, terms)| {
            let is_mine = task.attempt == presented.attempt && terms.namespace == peer.namespace;
            task.state.holding().filter(|holding| is_mine && holding.worker == name)
        });
        let is_held = holding.is_some();
        let is_paused = is_held && is_paused(&self.mirror.tasks[&presented.task].0);
        let intent = holding.and_then(|holding| holding.intent.as_ref()).map(|intent| intent.wanted);
        let wanted = intent.or(is_paused.then_some(Wanted::Pause));
        let result = self.new_blob();
        let command = match report {
            Report::Start => Command::Start(vec![presented]),
            Report::Progress => Command::Progress { held: presented, percent: Some(50), note: None },
            Report::Checkpoint { empty } => {
                let checkpoint = if empty { Blob::EMPTY } else { result };
                Command::Checkpoint { held: presented, checkpoint }
            }
            Report::GiveBack => Command::GiveBack { held: presented, reason: None },
            Report::StopInPlace => Command::Suspend { held: presented, on: WaitOn::Resume },
            Report::Suspend { on: None } => Command::Suspend { held: presented, on: WaitOn::Children },
            Report::Suspend { on: Some((one, other)) } => {
                let all: Vec<TaskId> = self.tasks.iter().chain(&self.arrays).copied().collect();
                let on = [one, other].map(|index| all[index % all.len()]).to_vec();
                Command::Suspend { held: presented, on: WaitOn::Tasks(on) }
            }
            Report::Complete => Command::Complete(vec![Completion { held: presented, result }]),
            Report::Fail { is_final } => {
                Command::Fail(AttemptFailure { is_final, ..failure(presented, result) })
            }
            Report::Crash => Command::Fail(AttemptFailure { crashed: true, ..failure(presented, result) }),
            Report::ConfirmCancel => Command::Confirm { held: presented, wanted: Wanted::Cancel, result },
            Report::ConfirmPause => Command::Confirm { held: presented, wanted: Wanted::Pause, result },
        };
        let expected = is_held
            && match report {
                Report::ConfirmCancel => wanted == Some(Wanted::Cancel),
                Report::ConfirmPause => wanted.is_some(),
                _ => true,
            };
        let brings_bytes = !matches!(
            report,
            Report::Start
                | Report::Progress
                | Report::GiveBack
                | Report::Checkpoint { empty: true }
                | Report::Suspend { .. }
                | Report::StopInPlace
        );
        let keeps = matches!(
            report,
            Report::Start
                | Report::Progress
                | Report::Checkpoint { .. }
                | Report::Suspend { .. }
                | Report::StopInPlace
        );
        let answer = self.does(&peer, &command);
        // What it wants to wait for may be gone, elsewhere, or wait for the task itself.
        let may_be_refused = matches!(report, Report::Suspend { on: Some(_) });
        assert!(
            is_yes(&answer) == expected || expected && may_be_refused,
            "{report:?} of {presented:?}: {answer:?}"
        );
        if expected && brings_bytes {
            self.accepted.insert(result.at());
        }
        if !keeps && expected || !is_held {
            self.workers[index].believes.remove(&presented.task);
        }
        self.absorb(None);
    }

    pub(super) fn heartbeat(&mut self, index: usize, lists: bool, forgets: u8) {
        let held = presented(&self.workers[index].believes, if lists { forgets } else { 0 });
        let list = lists.then(|| held.clone());
        let answer = self.worker_does(index, &Command::Heartbeat { held: list, stats: None });
        if let Some(Ok(Reply::Held(answers))) = answer
            && lists
        {
            let kept = held.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
            let kept: BTreeMap<TaskId, u32> = kept.map(|(held, _)| (held.task, held.attempt)).collect();
            self.workers[index].believes.retain(|task, attempt| kept.get(task) == Some(attempt));
        }
    }

    pub(super) fn ask(&mut self, index: usize, queues: &[usize]) {
        let queues: Vec<Name> = queues.iter().map(|queue| queue_name(*queue)).collect();
        let Some(peer) = self.workers[index].session.clone() else { return };
        self.broker.tries(&peer, Command::Heartbeat { held: None, stats: None }).ok();
        self.absorb(None);
        if self.does(&peer, &Command::Ask { queues: queues.clone() }).is_ok() {
            let worker = &mut self.workers[index];
            let spec = worker.spec.as_mut().expect("it has registered");
            spec.queues.extend(queues.iter().cloned());
            worker.asking = Some(queues);
        }
        self.absorb(Some(index));
    }
}

fn failure(held: Held, result: Blob) -> AttemptFailure {
    AttemptFailure { held, exit_code: 7, message: None, result, crashed: false, is_final: false }
}

fn presented(believes: &BTreeMap<TaskId, u32>, forgets: u8) -> Vec<Held> {
    let all = believes.iter().map(|(task, attempt)| Held { task: *task, attempt: *attempt });
    all.enumerate().filter(|(index, _)| forgets >> (index % 8) & 1 == 0).map(|(_, held)| held).collect()
}

fn resources(number: u8) -> Vec<Resource> {
    listed(match number {
        0 => &[],
        1 => &[("gpus", 1000)],
        2 => &[("licence", 1000), ("gpus", 2000)],
        _ => &[("gpus", 2000), ("licence", 2500)],
    })
}
