//! Every limit the engine enforces, by name.

use std::time::Duration;

/// The longest name of a queue, capability, tag, worker, namespace or task.
pub const NAME_BYTES_MAX: usize = 255;
/// How many namespaces one broker may hold.
pub const NAMESPACES_MAX: usize = 10_000;
/// How many capabilities one task may need, and how many tags it may carry.
pub const NEEDS_MAX: usize = 100;
/// The most tags of a task.
pub const TAGS_MAX: usize = 32;
/// How many tasks one task may wait for.
pub const AFTER_MAX: usize = 1_000;
/// How many of them an explanation names.
pub const AFTER_NAMED_MAX: usize = 5;
/// How many elements one array may have, and how many arrays one broker may hold.
pub const ARRAY_SIZE_MAX: usize = 1_000_000;
/// The most arrays of a broker.
pub const ARRAYS_MAX: usize = 100_000;
/// The most slots one worker may register.
pub const SLOTS_MAX: u32 = 65_536;
/// The most queues that a worker serves.
pub const WORKER_QUEUES_MAX: usize = 256;
/// The most capabilities that a worker offers.
pub const WORKER_CAPABILITIES_MAX: usize = 4_096;
/// The shortest silence limit: below it, healthy workers on a busy machine would count as lost.
pub const LOST_AFTER_MIN: Duration = Duration::from_millis(100);
/// The longest texts that go with a progress report and with a failure.
pub const NOTE_BYTES_MAX: usize = 4 * 1024;
/// The longest message, reason or note.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// How many of the workers that crashed on it a task remembers.
pub const CRASHED_ON_MAX: usize = 8;
/// How many tags may have a limit.
pub const LIMITED_TAGS_MAX: usize = 100_000;
/// The longest `tracestate`.
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// How many share keys may have a weight, and the largest weight.
pub const SHARES_MAX: usize = 100_000;
/// The greatest weight of a share key.
pub const WEIGHT_MAX: u32 = 1_000;
/// The most tasks that a rate may name for one period, the longest period, and the largest burst.
pub const RATE_COUNT_MAX: u32 = 1_000_000;
/// The longest period of a rate.
pub const RATE_PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// The greatest burst of a rate.
pub const BURST_MAX: u32 = 1_000_000;
/// The longest reason that goes with a cancellation, a pause or a task given back.
pub const REASON_BYTES_MAX: usize = 4 * 1024;
/// The largest description of a worker, in its registration and in each heartbeat.
pub const ABOUT_BYTES_MAX: usize = 160 * 1024;
/// How many schedules one broker may hold.
pub const SCHEDULES_MAX: usize = 10_000;
/// The longest name of a schedule: the names of its tasks add the time.
pub const SCHEDULE_NAME_BYTES_MAX: usize = 200;
/// The largest body of a scheduled task, and of all of them together. They are kept in memory.
pub const SCHEDULE_BODY_BYTES_MAX: usize = 64 * 1024;
/// The bodies of all schedules together.
pub const SCHEDULE_BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest text that says when a schedule is due.
pub const SCHEDULE_TIMING_BYTES_MAX: usize = 1024;
/// The greatest jitter of a schedule.
pub const SCHEDULE_JITTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// How many missed due times `catch-up: all` makes up for.
pub const CATCH_UP_MAX: usize = 100;
/// A due time that passed this long ago is still on time.
pub const ON_TIME: Duration = Duration::from_secs(60);
/// How many due times one tick handles, so that many schedules at midnight do not delay everything else.
pub const FIRINGS_PER_TICK: usize = 64;
/// How many of its next due times a schedule shows.
pub const NEXT_SHOWN: usize = 5;
/// The largest page of a list.
pub const PAGE_MAX: usize = 1_000;
/// A page ends after the task that takes it to this size. Like every short page, it then has a cursor.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// How many queues the metrics show one by one; the others are summed.
pub const QUEUES_SHOWN_MAX: usize = 500;
/// How many priorities of a queue are shown with their ready tasks.
pub const PRIORITIES_SHOWN_MAX: usize = 20;
/// The most slots one task may weigh.
pub const TASK_SLOTS_MAX: u32 = SLOTS_MAX;
/// How many tasks that weigh no slot a worker holds at once, unless it says otherwise, and the most it may
/// say.
pub const LIGHT_SLOTS_DEFAULT: u32 = 1_000;
/// The most light slots of a worker.
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
