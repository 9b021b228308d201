//! Large bodies: however many clients send them at once, they take no more memory than the door allows.

mod support;

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use support::{Broker, Client};
use tenure_door_http::Settings;
use tenure_door_kit::{ByteBudget, DoorSettings};
use tenure_hub::Keys;
use tenure_hub::store::{Disk, DiskFile, DiskLock, MemoryDisk, StoreError};

const MIB: usize = 1 << 20;
const LONG: usize = 15 * MIB;
const SUBMIT: &str = "/v1/queues/images/tasks";
const TIMEOUT: Duration = Duration::from_secs(60);

/// Room for two long bodies, and not for three.
fn little_room() -> (Settings, Arc<ByteBudget>) {
    let budget = ByteBudget::new(40 * MIB);
    let door = DoorSettings { budget: Arc::clone(&budget), ..DoorSettings::default() };
    (Settings { door, ..Settings::default() }, budget)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn submit(client: &mut Client) -> (u16, Option<String>) {
    let head = format!("POST {SUBMIT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {LONG}\r\n\r\n");
    client.raw(head.as_bytes()).await;
    client.raw_unless_refused(&vec![b'x'; LONG]).await;
    let answer = tokio::time::timeout(TIMEOUT, client.answer("POST")).await.expect("an answer in time");
    (answer.status, (answer.status >= 400).then(|| answer.code()))
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_arrive_slowly_share_the_room_of_all_connections() {
    let (settings, budget) = little_room();
    let broker = Broker::with(settings, Keys::default()).await;
    // Two clients send almost all of their bodies, one of them in chunks, and stop.
    let mut slow = [broker.client().await, broker.client().await];
    let head = format!("POST {SUBMIT} HTTP/1.1\r\nhost: localhost\r\n");
    slow[0].raw(format!("{head}content-length: {LONG}\r\n\r\n").as_bytes()).await;
    slow[0].raw(&vec![b'x'; LONG - 1]).await;
    slow[1].raw(format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n", LONG - 1).as_bytes()).await;
    slow[1].raw(&vec![b'x'; LONG - 1]).await;
    until("both bodies have arrived", || budget.used() > 2 * LONG - MIB).await;
    let refused = submit(&mut broker.client().await).await;
    assert_eq!(refused, (503, Some("full".to_owned())));
    assert!(budget.used() <= 40 * MIB);

    slow[0].raw(b"x").await;
    assert_eq!(slow[0].answer("POST").await.status, 201);
    slow[1].raw(b"\r\n1\r\nx\r\n0\r\n\r\n").await;
    assert_eq!(slow[1].answer("POST").await.status, 201);
    until("the room is free", || budget.used() == 0).await;
    assert_eq!(submit(&mut broker.client().await).await.0, 201);
    until("the room is free again", || budget.used() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_wait_for_the_disk_still_take_their_room() {
    let (settings, budget) = little_room();
    let disk = StallingDisk::default();
    let broker = Broker::on(Arc::new(disk.clone()), "127.0.0.1:0", settings, Keys::default()).await;
    disk.stall(true);
    let mut waiting = [broker.client().await, broker.client().await];
    for client in &mut waiting {
        client.send("POST", SUBMIT, &[], &vec![b'x'; LONG]).await;
    }
    until("both wait for the disk", || budget.used() > 2 * LONG - MIB).await;
    let refused = submit(&mut broker.client().await).await;
    assert_eq!(refused, (503, Some("full".to_owned())));
    disk.stall(false);
    for client in &mut waiting {
        assert_eq!(client.answer("POST").await.status, 201);
    }
    until("the room is free", || budget.used() == 0).await;
}

/// A disk whose syncs take as long as the test wants.
#[derive(Clone, Default)]
struct StallingDisk {
    inner: Arc<MemoryDisk>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl StallingDisk {
    fn stall(&self, is_stalled: bool) {
        *self.gate.0.lock().unwrap() = is_stalled;
        self.gate.1.notify_all();
    }

    fn file(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(StallingFile { inner, gate: Arc::clone(&self.gate) })
    }
}

impl fmt::Debug for StallingDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StallingDisk")
    }
}

impl Disk for StallingDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.create(name).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.inner.open(name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn lock(&self) -> Result<DiskLock, StoreError> {
        self.inner.lock()
    }
}

#[derive(Debug)]
struct StallingFile {
    inner: Arc<dyn DiskFile>,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl DiskFile for StallingFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let (stalled, changed) = &*self.gate;
        drop(changed.wait_while(stalled.lock().unwrap(), |is_stalled| *is_stalled).unwrap());
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
}
