//! What waits takes memory by the task. This file has one test, because it measures the process.

use tenure_engine::{
    Blob, Change, Command, Engine, Event, NewArray, NewTask, Notice, Output, Peer, SessionId, Settings,
    TaskId, Timestamp, limits,
};

const SIZE: u32 = limits::ARRAY_SIZE_MAX as u32;
/// A task has at most 88 bytes; finding it by its id and its place in its queue take the rest.
const BYTES_MAX: u64 = 200;

/// Counts the records.
#[derive(Default)]
struct Records(u64);

impl Output for Records {
    fn record(&mut self, _: Event, _: Change<'_>) {
        self.0 += 1;
    }

    fn notice(&mut self, _: SessionId, _: Notice) {}

    fn body(&mut self, _: &[u8]) -> Blob {
        Blob::EMPTY
    }

    fn freed(&mut self, _: Blob) {}
}

fn task(number: u128) -> NewTask {
    // The ids are spread like random ones.
    NewTask::new(TaskId::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)), "q")
}

fn submit(engine: &mut Engine, command: Command) -> u64 {
    let mut out = Records::default();
    let client = Peer { session: SessionId(1), namespace: "default".into(), identity: "ann".into() };
    engine.handle(Timestamp(1), &client, command, &mut out).expect("accepted");
    out.0
}

/// Bytes of memory that the process has, where the system says so.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

#[test]
fn an_element_of_the_largest_array_takes_no_more_than_a_plain_task() {
    let mut engine = Engine::new(Settings::default());
    let before = resident_bytes();
    let array = NewArray { task: task(1), size: SIZE, first: 0, step: 1, limit: None, bodies: Vec::new() };
    let records = submit(&mut engine, Command::SubmitArray(Box::new(array)));
    assert_eq!(records, u64::from(SIZE) + 1, "one for each element, and one for the array");
    let between = resident_bytes();
    // Both engines stay, so that no memory is used twice.
    let mut plain = Engine::new(Settings::default());
    for first in (1..=u128::from(SIZE)).step_by(1_000) {
        submit(&mut plain, Command::Submit((first..first + 1_000).map(task).collect()));
    }
    let (Some(before), Some(between), Some(after)) = (before, between, resident_bytes()) else { return };
    let each = |bytes: u64| bytes / u64::from(SIZE);
    let (element, task) = (each(between - before), each(after - between));
    assert!(element <= BYTES_MAX, "{element} bytes an element");
    // Pages and tables that grow by doubling are not exact.
    assert!(element <= task + task / 10, "{element} bytes an element, {task} bytes a task");
    drop((engine, plain));
}
