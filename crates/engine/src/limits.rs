//! Every limit the engine enforces, by name.

use std::time::Duration;

/// The longest name of a queue, capability, tag, worker, namespace or task.
pub const NAME_BYTES_MAX: usize = 255;
/// How many namespaces one broker may hold.
pub const NAMESPACES_MAX: usize = 10_000;
/// How many capabilities one task may need, and how many tags it may carry.
pub const NEEDS_MAX: usize = 100;
pub const TAGS_MAX: usize = 32;
/// How many tasks one task may wait for.
pub const AFTER_MAX: usize = 1_000;
/// How many of them an explanation names.
pub const AFTER_NAMED_MAX: usize = 5;
/// The most slots one worker may register.
pub const SLOTS_MAX: u32 = 65_536;
pub const WORKER_QUEUES_MAX: usize = 256;
pub const WORKER_CAPABILITIES_MAX: usize = 4_096;
/// The shortest silence limit: below it, healthy workers on a busy machine would count as lost.
pub const LOST_AFTER_MIN: Duration = Duration::from_millis(100);
/// The longest texts that go with a progress report and with a failure.
pub const NOTE_BYTES_MAX: usize = 4 * 1024;
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// How many of the workers that crashed on it a task remembers.
pub const CRASHED_ON_MAX: usize = 8;
/// How many tags may have a limit.
pub const LIMITED_TAGS_MAX: usize = 100_000;
/// The longest `tracestate`.
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// The longest reason that goes with a cancellation, a pause or a task given back.
pub const REASON_BYTES_MAX: usize = 4 * 1024;
/// The largest description of a worker, in its registration and in each heartbeat.
pub const ABOUT_BYTES_MAX: usize = 160 * 1024;
/// The largest page of a list.
pub const PAGE_MAX: usize = 1_000;
/// A page ends after the task that takes it to this size. Like every short page, it then has a cursor.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// How many queues the metrics show one by one; the others are summed.
pub const QUEUES_SHOWN_MAX: usize = 500;
/// The most slots one task may weigh.
pub const TASK_SLOTS_MAX: u32 = SLOTS_MAX;
/// How many tasks that weigh no slot a worker holds at once, unless it says otherwise, and the most it may
/// say.
pub const LIGHT_SLOTS_DEFAULT: u32 = 1_000;
pub const LIGHT_SLOTS_MAX: u32 = 65_536;
/// How many resources one task may need, and one worker may declare.
pub const RESOURCES_MAX: usize = 32;
/// The largest quantity of a resource. Sums of what one worker holds stay far below 2^64.
pub const QUANTITY_MAX: crate::demand::Quantity = crate::demand::Quantity(1_000_000_000_000_000_000);
/// The most cpus, or gpus, of one worker.
pub const DEVICES_MAX: usize = 4_096;
/// How many different demands the tasks of one namespace may have. Every assignment looks at those that its
/// worker serves.
pub const DEMANDS_MAX: usize = 1_000;
