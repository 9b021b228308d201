//! What the tests share: a hub in memory, and a receiver of a few lines whose answers the test sets.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tenure_hub::store::{Disk, MemoryDisk, StoreSettings};
use tenure_hub::words::{Name, NewTask, Settings};
use tenure_hub::{Ask, Delivery, Hub, HubHandle, Keys, Principal, Request, Session, Submission, fresh_id};
use tenure_outbound::HttpTarget;
use tenure_outbound::hooks::{HookSettings, HookTarget, WebhookSettings};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Broker {
    pub(crate) hub: HubHandle,
    ended: tokio::task::JoinHandle<()>,
    session: Session,
}

impl Broker {
    pub(crate) fn start() -> Broker {
        Broker::on(Arc::new(MemoryDisk::new()))
    }

    pub(crate) fn on(disk: Arc<dyn Disk>) -> Broker {
        let hub = Hub::start(disk, StoreSettings::default(), Settings::default(), Keys::default());
        let hub = hub.expect("the hub starts");
        let handle = hub.handle().clone();
        let session = handle.open(Principal::trusted("test"), "default".into(), "client".into());
        let session = session.expect("a session");
        let ended = tokio::spawn(async move {
            let _ = hub.ended().await;
        });
        Broker { hub: handle, ended, session }
    }

    /// Submits a task to a queue, and waits until it is on disk.
    pub(crate) async fn submit(&self, queue: &str) {
        let task = new_task(queue);
        self.ask(Request::Submit(vec![Submission::new(task, Bytes::new())])).await;
    }

    pub(crate) async fn ask(&self, request: Request) {
        self.session.send(vec![Ask { token: 1, request }]).await.expect("the hub runs");
        let mut taken = Vec::new();
        loop {
            self.session.mailbox().arrived().await;
            self.session.mailbox().take(&mut taken);
            if let Some(Delivery::Reply { reply, .. }) =
                taken.drain(..).find(|delivery| matches!(delivery, Delivery::Reply { .. }))
            {
                reply.expect("it is accepted");
                return;
            }
        }
    }

    pub(crate) async fn stop(self) {
        self.hub.stop();
        let _ = self.ended.await;
    }
}

pub(crate) fn new_task(queue: &str) -> NewTask {
    NewTask::new(fresh_id(), queue)
}

/// A webhook for `submitted` that is quick to give up.
pub(crate) fn webhook(target: &str) -> HookSettings {
    HookSettings {
        name: "ops".into(),
        namespace: "default".into(),
        events: vec!["submitted".into()],
        queues: Vec::new(),
        timeout: PATIENCE,
        attempts: 3,
        backoff_first: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        concurrency: 4,
        target: HookTarget::Webhook(WebhookSettings {
            target: HttpTarget::parse(target).expect("an address"),
            secret: None,
            roots: None,
        }),
    }
}

/// Waits until the hook's own view of itself is so.
pub(crate) async fn until(hub: &HubHandle, is_so: impl Fn(&tenure_hub::HookInfo) -> bool) {
    let namespace: Name = "default".into();
    let waiting = async {
        while !hub.hooks().list(&namespace).first().is_some_and(&is_so) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let over = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(over.is_ok(), "{:?}", hub.hooks().list(&namespace));
}

/// What a receiver was sent.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    pub(crate) fn event(&self) -> Value {
        self.json()["event"].clone()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A receiver that answers with the statuses it is given, and then with 204.
pub(crate) struct Receiver {
    pub(crate) url: String,
    received: mpsc::UnboundedReceiver<Received>,
}

impl Receiver {
    pub(crate) async fn start(statuses: &[u16]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/in?x=1", listener.local_addr().expect("an address"));
        let (sender, received) = mpsc::unbounded_channel();
        let statuses: Arc<Mutex<Vec<u16>>> = Arc::new(Mutex::new(statuses.iter().rev().copied().collect()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&statuses), sender.clone()));
            }
        });
        Receiver { url, received }
    }

    pub(crate) async fn next(&mut self) -> Received {
        let next = tokio::time::timeout(PATIENCE, self.received.recv()).await;
        next.expect("it comes in time").expect("the receiver runs")
    }

    pub(crate) fn next_now(&mut self) -> Option<Received> {
        self.received.try_recv().ok()
    }
}

pub(crate) async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    statuses: Arc<Mutex<Vec<u16>>>,
    sender: mpsc::UnboundedSender<Received>,
) {
    let Some(received) = read_request(&mut stream).await else { return };
    let status = statuses.lock().expect("no panic").pop().unwrap_or(204);
    let _ = sender.send(received);
    let head = format!("HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let mut piece = vec![0; length - body.len()];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&piece[..count]);
    }
    Some(Received { path, headers, body: body.into() })
}
