//! What can happen. Numbers choose among what is there at that moment, so that a shortened story still makes sense.

use std::fmt;

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Submit {
        client: usize,
        wishes: Vec<Wish>,
    },
    SubmitArray {
        client: usize,
        wish: Wish,
        size: u32,
        limit: Option<u32>,
        shares_body: bool,
    },
    LimitArray {
        client: usize,
        array: usize,
        limit: Option<u32>,
    },
    OnArray {
        client: usize,
        array: usize,
        verb: Verb,
    },
    OnTask {
        client: usize,
        task: usize,
        verb: Verb,
    },
    Limit {
        client: usize,
        tag: usize,
        limit: Option<u32>,
    },
    /// A count, a period in milliseconds and a burst.
    Rate {
        client: usize,
        of_queue: bool,
        index: usize,
        rate: Option<(u32, u64, u32)>,
    },
    Share {
        client: usize,
        share: u8,
        weight: Option<u32>,
    },
    PauseQueue {
        client: usize,
        queue: usize,
    },
    ResumeQueue {
        client: usize,
        queue: usize,
    },
    Thresholds {
        client: usize,
        queue: usize,
        thresholds: Option<(Option<u32>, Option<u64>)>,
    },
    DrainWorker {
        client: usize,
        worker: usize,
    },
    ClearWorker {
        client: usize,
        worker: usize,
    },
    Register {
        worker: usize,
        shape: Shape,
        forgets: u8,
    },
    Report {
        worker: usize,
        held: usize,
        report: Report,
        stale: bool,
    },
    Heartbeat {
        worker: usize,
        lists: bool,
        forgets: u8,
    },
    Ask {
        worker: usize,
        queues: Vec<usize>,
    },
    Unask {
        worker: usize,
    },
    Drain {
        worker: usize,
    },
    Leave {
        worker: usize,
    },
    Close {
        worker: usize,
    },
    Wait {
        millis: u64,
    },
    Restart {
        millis: u64,
    },
}

#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) queue: usize,
    pub(crate) priority: Option<i32>,
    pub(crate) needs: u8,
    pub(crate) tags: u8,
    /// Which demand: see `world::demand`.
    pub(crate) demand: u8,
    pub(crate) share: Option<u8>,
    pub(crate) parent: Option<usize>,
    /// Which task it waits for, and how that has to end. A number beyond the tasks chooses one of the same submission.
    pub(crate) after: Vec<(usize, u8)>,
    pub(crate) on_broken: u8,
    pub(crate) name: Option<u8>,
    pub(crate) hold: bool,
    pub(crate) not_before: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) on_lost: u8,
    pub(crate) crash_budget: u16,
    pub(crate) retries: u16,
    pub(crate) accept_timeout: Option<u64>,
    pub(crate) run_limit: Option<u64>,
    /// Chooses the id of a task that was there before.
    pub(crate) old_id: Option<usize>,
}

/// In one line, with only what is unusual, so that a failing story can be read.
impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q{} needs {} tags {} demand {}", self.queue, self.needs, self.tags, self.demand)?;
        write!(f, " lost {} budget {} retries {}", self.on_lost, self.crash_budget, self.retries)?;
        let numbers = [
            ("priority", self.priority.map(i64::from)),
            ("share", self.share.map(i64::from)),
            ("parent", self.parent.map(|parent| parent as i64)),
            ("old id", self.old_id.map(|id| id as i64)),
            ("name", self.name.map(i64::from)),
            ("hold", self.hold.then_some(1)),
            ("not before", self.not_before.map(|at| at as i64)),
            ("expires", self.expires.map(|at| at as i64)),
            ("accept", self.accept_timeout.map(|span| span as i64)),
            ("run limit", self.run_limit.map(|span| span as i64)),
        ];
        if !self.after.is_empty() {
            write!(f, " after {:?} broken {}", self.after, self.on_broken)?;
        }
        for (what, number) in numbers {
            if let Some(number) = number {
                write!(f, " {what} {number}")?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Release,
    Cancel,
    Pause { terminate: bool },
    Resume,
    Retry,
    Move { queue: Option<usize>, priority: Option<i32>, tags: Option<u8> },
}

/// How a worker presents itself.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) queues: u8,
    pub(crate) capabilities: u8,
    pub(crate) slots: u32,
    /// Which resources: see `world::resources`.
    pub(crate) resources: u8,
    pub(crate) pulls: bool,
    pub(crate) starts_on_assign: bool,
    pub(crate) tasks_die: bool,
    pub(crate) busy: bool,
    pub(crate) same_process: bool,
    pub(crate) same_session: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    Start,
    Complete,
    Fail {
        is_final: bool,
    },
    Crash,
    Progress,
    Checkpoint {
        empty: bool,
    },
    ConfirmCancel,
    ConfirmPause,
    GiveBack,
    /// Waits for its children, or for up to two tasks or arrays.
    Suspend {
        on: Option<(usize, usize)>,
    },
    /// Stops in place, whether or not a client wants it paused.
    StopInPlace,
}

pub(crate) fn acts() -> impl Strategy<Value = Act> {
    let client = 0..3usize;
    let worker = 0..5usize;
    prop_oneof![
        8 => (client.clone(), prop::collection::vec(wish(), 1..4))
            .prop_map(|(client, wishes)| Act::Submit { client, wishes }),
        2 => (client.clone(), wish(), 1..5u32, prop::option::of(0..3u32), any::<bool>()).prop_map(
            |(client, wish, size, limit, shares_body)| Act::SubmitArray { client, wish, size, limit, shares_body }
        ),
        1 => (client.clone(), 0..8usize, prop::option::of(0..3u32))
            .prop_map(|(client, array, limit)| Act::LimitArray { client, array, limit }),
        2 => (client.clone(), 0..8usize, verb()).prop_map(|(client, array, verb)| Act::OnArray { client, array, verb }),
        6 => (client.clone(), 0..64usize, verb()).prop_map(|(client, task, verb)| Act::OnTask { client, task, verb }),
        2 => (client.clone(), 0..2usize, prop::option::of(0..3u32))
            .prop_map(|(client, tag, limit)| Act::Limit { client, tag, limit }),
        2 => (client.clone(), any::<bool>(), 0..2usize, prop::option::of((1..4u32, 1..20_000u64, 1..4u32)))
            .prop_map(|(client, of_queue, index, rate)| Act::Rate { client, of_queue, index, rate }),
        1 => (client.clone(), 0..3u8, prop::option::of(1..5u32))
            .prop_map(|(client, share, weight)| Act::Share { client, share, weight }),
        1 => (client.clone(), 0..3usize).prop_map(|(client, queue)| Act::PauseQueue { client, queue }),
        2 => (client.clone(), 0..3usize).prop_map(|(client, queue)| Act::ResumeQueue { client, queue }),
        2 => (client.clone(), 0..3usize, prop::option::of((prop::option::of(1..6u32), prop::option::of(1..40_000u64))))
            .prop_map(|(client, queue, thresholds)| Act::Thresholds { client, queue, thresholds }),
        1 => (client.clone(), worker.clone()).prop_map(|(client, worker)| Act::DrainWorker { client, worker }),
        1 => (client, worker.clone()).prop_map(|(client, worker)| Act::ClearWorker { client, worker }),
        7 => (worker.clone(), shape(), any::<u8>())
            .prop_map(|(worker, shape, forgets)| Act::Register { worker, shape, forgets }),
        20 => (worker.clone(), 0..64usize, report(), prop::bool::weighted(0.1))
            .prop_map(|(worker, held, report, stale)| Act::Report { worker, held, report, stale }),
        4 => (worker.clone(), any::<bool>(), any::<u8>())
            .prop_map(|(worker, lists, forgets)| Act::Heartbeat { worker, lists, forgets }),
        4 => (worker.clone(), prop::collection::vec(0..3usize, 0..3))
            .prop_map(|(worker, queues)| Act::Ask { worker, queues }),
        1 => worker.clone().prop_map(|worker| Act::Unask { worker }),
        1 => worker.clone().prop_map(|worker| Act::Drain { worker }),
        1 => worker.clone().prop_map(|worker| Act::Leave { worker }),
        3 => worker.prop_map(|worker| Act::Close { worker }),
        6 => prop_oneof![0..3000u64, 0..60_000u64].prop_map(|millis| Act::Wait { millis }),
        1 => (0..30_000u64).prop_map(|millis| Act::Restart { millis }),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let rare_span = || prop::option::weighted(0.15, 0..40_000u64);
    let place =
        (0..3usize, prop::option::of(-2..3i32), 0..4u8, 0..4u8, prop::option::weighted(0.3, 0..64usize));
    let share = prop::option::weighted(0.4, 0..3u8);
    let identity = (prop::option::weighted(0.15, 0..4u8), prop::option::weighted(0.05, 0..64usize));
    let times = (prop::bool::weighted(0.1), rare_span(), rare_span(), rare_span(), rare_span());
    let policy = (0..3u8, 0..4u16, 0..3u16, 0..10u8);
    let after = (prop::collection::vec((0..80usize, 0..3u8), 0..3), 0..3u8, prop::bool::weighted(0.4));
    (place, share, identity, times, policy, after).prop_map(
        |(place, share, identity, times, policy, after)| {
            let (queue, priority, needs, tags, parent) = place;
            let (name, old_id) = identity;
            let (hold, not_before, expires, accept_timeout, run_limit) = times;
            let (on_lost, crash_budget, retries, demand) = policy;
            let (after, on_broken, has_after) = after;
            let after = if has_after { after } else { Vec::new() };
            // Most tasks need nothing.
            let needs = if needs == 3 { 0 } else { needs };
            Wish {
                queue,
                priority,
                needs,
                tags,
                share,
                demand,
                parent,
                after,
                on_broken,
                name,
                hold,
                not_before,
                expires,
                on_lost,
                crash_budget,
                retries,
                accept_timeout,
                run_limit,
                old_id,
            }
        },
    )
}

fn verb() -> impl Strategy<Value = Verb> {
    let moved = (prop::option::of(0..3usize), prop::option::of(-2..3i32), prop::option::of(0..4u8))
        .prop_map(|(queue, priority, tags)| Verb::Move { queue, priority, tags });
    prop_oneof![
        1 => Just(Verb::Release),
        2 => Just(Verb::Cancel),
        3 => prop::bool::weighted(0.3).prop_map(|terminate| Verb::Pause { terminate }),
        2 => Just(Verb::Resume),
        1 => Just(Verb::Retry),
        2 => moved,
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let offers = (1..8u8, 0..4u8, 1..4u32, 0..4u8);
    let habits = (
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
        any::<bool>(),
        prop::bool::weighted(0.2),
    );
    (offers, habits).prop_map(|((queues, capabilities, slots, resources), habits)| {
        let (pulls, starts_on_assign, tasks_die, busy, same_process, same_session) = habits;
        Shape {
            queues,
            capabilities,
            slots,
            resources,
            pulls,
            starts_on_assign,
            tasks_die,
            busy,
            same_process,
            same_session,
        }
    })
}

fn report() -> impl Strategy<Value = Report> {
    prop_oneof![
        8 => Just(Report::Start),
        6 => Just(Report::Complete),
        3 => any::<bool>().prop_map(|is_final| Report::Fail { is_final }),
        1 => Just(Report::Crash),
        1 => Just(Report::Progress),
        2 => prop::bool::weighted(0.2).prop_map(|empty| Report::Checkpoint { empty }),
        2 => Just(Report::ConfirmCancel),
        1 => Just(Report::ConfirmPause),
        2 => Just(Report::StopInPlace),
        1 => Just(Report::GiveBack),
        6 => prop::option::weighted(0.6, (0..64usize, 0..64usize)).prop_map(|on| Report::Suspend { on }),
    ]
}
