//! A conversation with the running hub, as a door has it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::words::{NewTask, Reply, Settings, StateName};
use tenure_hub::{
    Ask, Delivery, Hub, HubHandle, Keys, Principal, Request, Response, Session, Submission, fresh_id,
};

use super::TIMEOUT;

pub(crate) fn start_hub(disk: &MemoryDisk) -> Hub {
    start_hub_with(disk, StoreSettings::default())
}

pub(crate) fn start_hub_with(disk: &MemoryDisk, store: StoreSettings) -> Hub {
    let disk = Arc::new(disk.clone());
    Hub::start(disk, store, Settings::default(), Keys::default()).expect("the disk opens")
}

/// A session with its mail in order.
pub(crate) struct TestClient {
    pub(crate) session: Session,
    mail: VecDeque<Delivery>,
}

impl TestClient {
    pub(crate) fn new(hub: &HubHandle, identity: &str) -> TestClient {
        let session =
            hub.open(Principal::trusted("test"), "default".into(), identity.into()).expect("there is room");
        TestClient { session, mail: VecDeque::new() }
    }

    pub(crate) async fn ask(&self, token: u64, request: Request) {
        self.session.send(vec![Ask { token, request }]).await.expect("the hub is there");
    }

    pub(crate) async fn next(&mut self) -> Delivery {
        while self.mail.is_empty() {
            tokio::time::timeout(TIMEOUT, self.session.mailbox().arrived()).await.expect("something arrives");
            let mut taken = Vec::new();
            self.session.mailbox().take(&mut taken);
            self.mail.extend(taken);
        }
        self.mail.pop_front().expect("it is not empty")
    }

    pub(crate) async fn submit(&mut self, count: usize) {
        let task = || Submission::new(NewTask::new(fresh_id(), "q"), Bytes::from_static(b"body"));
        self.ask(1, Request::Submit((0..count).map(|_| task()).collect())).await;
        match self.next().await {
            Delivery::Reply { reply: Ok(Response::Command(Reply::Submitted(each))), .. } => {
                assert!(
                    each.iter().all(|answer| answer
                        .as_ref()
                        .is_ok_and(|accepted| accepted.state == StateName::Ready))
                );
            }
            other => panic!("{other:?}"),
        }
    }

    /// The numbers of the next `count` events of a watch.
    pub(crate) async fn events(&mut self, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            match self.next().await {
                Delivery::Event { event, .. } => numbers.push(event.seq),
                Delivery::Live { .. } | Delivery::Reply { reply: Ok(Response::Done), .. } => {}
                other => panic!("{other:?}"),
            }
        }
        numbers
    }
}
