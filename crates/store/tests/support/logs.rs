//! What the stories of the logs beside the journal share.
#![allow(dead_code, unreachable_pub, reason = "each story uses a part of it")]

use std::sync::Arc;

use tenure_engine::{Settings, Timestamp};
use tenure_store::{Disk as _, MemoryDisk, Opened, Reader, Store, StoreError, StoreSettings};

/// How many states a disk may be in after one power failure.
const SEEDS: u64 = 3;

pub fn reader(disk: &MemoryDisk) -> Result<Reader, StoreError> {
    let disk = Arc::new(disk.clone());
    let Opened { store, .. } =
        Store::open(disk, StoreSettings::default(), Settings::default(), Timestamp(1))?;
    Ok(store.split().reader)
}

pub fn files(disk: &MemoryDisk, prefix: &str) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

/// Tells a story that makes a number of changes on a whole disk, with a power failure after each of them.
pub fn at_every_write<T>(
    changes: u64,
    tell: impl Fn(&MemoryDisk) -> T,
    check: impl Fn(u64, &T, &MemoryDisk),
) {
    assert!(changes > 100, "{changes}");
    for cut in 0..changes {
        let disk = MemoryDisk::new();
        disk.fail_power_after(cut);
        let told = tell(&disk);
        for seed in 0..SEEDS {
            check(cut, &told, &disk.crash(seed));
        }
    }
}
