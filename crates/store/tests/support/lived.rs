//! A broker with a history, for stories about its files.

use tenure_store::{Disk, MemoryDisk};

use super::{Broker, body};

/// Snapshots, old segments that hold live bodies, files of events, a long journal, tasks that wait and tasks that ended.
pub fn lived() -> Broker {
    let disk = MemoryDisk::new();
    let mut broker = Broker::open(&disk).unwrap();
    broker.register_worker();
    for round in 0..60 {
        broker.submit(&body(round, 120));
        if round % 2 == 0 {
            broker.start();
            broker.complete(&body(round, 40));
        }
        broker.commit().unwrap();
        broker.rest();
    }
    broker
}

pub fn copy(disk: &MemoryDisk) -> MemoryDisk {
    let copy = MemoryDisk::new();
    for name in disk.list().unwrap() {
        copy.put(&name, &disk.content(&name).unwrap());
    }
    copy
}
