//! The machine that the broker runs on, by which a peer learns whether it is its own.

use std::sync::OnceLock;

use tenure_hub::words::Name;
use tenure_wire::hello::machine_name;

/// The name of this machine since its last boot, where the kernel tells it.
pub(crate) fn machine() -> Option<Name> {
    static MACHINE: OnceLock<Option<Name>> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    MACHINE.get_or_init(|| read().map(|id| machine_name(&id))).clone()
}
