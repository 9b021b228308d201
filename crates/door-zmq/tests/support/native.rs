//! A peer that talks to the hub directly, in place of any other door.

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{Answer, Command, Held, Notice, Query, Reply, TaskInfo, WorkerInfo, WorkerSpec};
use tenure_hub::{
    Ask, Delivery, Done, HubHandle, Principal, Request, Response, Session, Submission, Watch, fresh_id,
};
use tokio::runtime::Runtime;

pub(crate) struct Native {
    runtime: Runtime,
    hub: HubHandle,
    session: Session,
    arrived: Vec<Delivery>,
}

impl Native {
    pub(crate) fn open(hub: &HubHandle, identity: &str) -> Native {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let session =
            hub.open(Principal::trusted("test"), "default".into(), identity.into()).expect("a session");
        Native { runtime, hub: hub.clone(), session, arrived: Vec::new() }
    }

    pub(crate) fn ask(&mut self, request: Request) -> Response {
        let ask = Ask { token: 7, request };
        self.runtime.block_on(self.session.send(vec![ask])).expect("sent");
        match self.wait(|delivery| matches!(delivery, Delivery::Reply { .. })) {
            Delivery::Reply { reply, .. } => reply.expect("not refused"),
            other => panic!("{other:?}"),
        }
    }

    /// Submits a task and waits for its result.
    pub(crate) fn submit(&mut self, queue: &str, body: &[u8]) {
        let task = tenure_hub::words::NewTask::new(fresh_id(), queue);
        let filter = tenure_hub::words::EventFilter { task: Some(task.id), ..Default::default() };
        self.ask(Request::Watch(Watch { watch: 1, filter, from: None }));
        self.ask(Request::Submit(vec![Submission::new(task, Bytes::copy_from_slice(body))]));
    }

    pub(crate) fn result(&mut self) -> Bytes {
        use tenure_hub::words::EventData;
        let ended = self.wait(|delivery| {
            matches!(delivery, Delivery::Event { event, .. } if matches!(event.kind, EventData::Completed { .. }))
        });
        let Delivery::Event { event, .. } = ended else { panic!("{ended:?}") };
        let EventData::Completed { result, .. } = event.kind else { panic!("{event:?}") };
        self.runtime.block_on(self.hub.read(result)).expect("a result")
    }

    pub(crate) fn work(&mut self, name: &str, queue: &str) {
        self.ask(Request::Command(Command::Register(Box::new(WorkerSpec::new(name, vec![queue.into()], 1)))));
    }

    /// The next assignment and its body.
    pub(crate) fn assignment(&mut self) -> (Held, Bytes) {
        let notice = self.wait(|delivery| matches!(delivery, Delivery::Notice(Notice::Assign(_))));
        let Delivery::Notice(Notice::Assign(assignment)) = notice else { panic!("{notice:?}") };
        let body = self.runtime.block_on(self.hub.read(assignment.body)).expect("a body");
        (Held { task: assignment.task, attempt: assignment.attempt }, body)
    }

    pub(crate) fn complete(&mut self, held: Held, result: &[u8]) {
        let done = Done { held, result: Bytes::copy_from_slice(result) };
        match self.ask(Request::Complete(vec![done])) {
            Response::Command(Reply::Held(each)) => assert!(each.iter().all(Result::is_ok), "{each:?}"),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn tasks(&mut self) -> Vec<TaskInfo> {
        let query = tenure_hub::words::ListQuery { limit: 1000, ..Default::default() };
        match self.ask(Request::Query(Query::List(Box::new(query)))) {
            Response::Answer(Answer::Tasks { tasks, .. }) => tasks,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn workers(&mut self) -> Vec<WorkerInfo> {
        match self.ask(Request::Query(Query::Workers)) {
            Response::Answer(Answer::Workers(workers)) => workers,
            other => panic!("{other:?}"),
        }
    }

    fn wait(&mut self, wanted: impl Fn(&Delivery) -> bool) -> Delivery {
        loop {
            if let Some(at) = self.arrived.iter().position(&wanted) {
                return self.arrived.remove(at);
            }
            let arrived = self.session.mailbox().arrived();
            let timeout = Duration::from_secs(5);
            self.runtime
                .block_on(async { tokio::time::timeout(timeout, arrived).await })
                .expect("something arrives");
            self.session.mailbox().take(&mut self.arrived);
        }
    }
}
