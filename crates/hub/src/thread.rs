//! The threads of the hub.

use std::thread;

pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    // A machine that cannot start a thread cannot run a broker.
    thread::Builder::new().name(name.into()).spawn(work).expect("a thread starts");
}
