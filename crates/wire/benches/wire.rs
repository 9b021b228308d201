//! What one entry costs on the wire: encoded and decoded again, in a frame of many and in a frame of its own.
//! Goals: a submission entry with a body of 256 bytes at most 300 ns, a completion at most 150 ns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tenure_wire::event::{Event, EventKind};
use tenure_wire::notice::{Assign, EventBatch};
use tenure_wire::reply::{HeldReply, Submitted};
use tenure_wire::request::{Complete, Start, Submit};
use tenure_wire::task::{Accepted, Assignment, Completion, Held, NewTask, Terms};
use tenure_wire::verdict::Verdict;
use tenure_wire::words::StateName;
use tenure_wire::{
    Notice, Reply, Request, TaskId, Timestamp, decode_from_broker, decode_to_broker, encode_notice,
    encode_reply, encode_request, split_frames,
};

const ROUND: Duration = Duration::from_millis(200);
const MANY: u64 = 100;

fn main() {
    println!("{:<34} {:>12} {:>12} {:>12}", "one entry", "in a frame", "of its own", "bytes");
    let submits =
        |count| Request::Submit(Submit { terms: vec![terms()], tasks: (0..count).map(new_task).collect() });
    requests("submit, body of 256 bytes", submits);
    requests("start", |count| Request::Start(Start { held: (0..count).map(held).collect() }));
    requests("complete, result of 16 bytes", |count| {
        Request::Complete(Complete { done: (0..count).map(completion).collect() })
    });
    replies("reply to submit", |count| {
        Reply::Submitted(Submitted { tasks: (0..count).map(accepted).collect() })
    });
    replies("reply to complete", |_| Reply::Held(HeldReply::default()));
    notices("assign, body of 256 bytes", |count| {
        Notice::Assign(Assign { terms: vec![terms()], tasks: (0..count).map(assignment).collect() })
    });
    notices("event", |count| {
        Notice::Events(EventBatch { watch: 1, events: (0..count).map(event).collect() })
    });
}

fn requests(what: &str, make: impl Fn(u64) -> Request) {
    report(
        what,
        |count, out| encode_request(out, 7, &make(count)),
        |request, out| encode_request(out, 7, request),
        &make,
        |frame| {
            black_box(decode_to_broker(&frame).unwrap());
        },
    );
}

fn replies(what: &str, make: impl Fn(u64) -> Reply) {
    report(
        what,
        |count, out| encode_reply(out, 7, &make(count)),
        |reply, out| encode_reply(out, 7, reply),
        &make,
        |frame| {
            black_box(decode_from_broker(&frame).unwrap());
        },
    );
}

fn notices(what: &str, make: impl Fn(u64) -> Notice) {
    report(
        what,
        |count, out| encode_notice(out, &make(count)),
        |notice, out| encode_notice(out, notice),
        &make,
        |frame| {
            black_box(decode_from_broker(&frame).unwrap());
        },
    );
}

fn report<M>(
    what: &str,
    size: impl Fn(u64, &mut BytesMut),
    encode: impl Fn(&M, &mut BytesMut),
    make: impl Fn(u64) -> M,
    decode: impl Fn(Bytes),
) {
    let many = make(MANY);
    let one = make(1);
    let in_many = round(|out| encode(&many, out), &decode).as_secs_f64() * 1e9 / MANY as f64;
    let alone = round(|out| encode(&one, out), &decode).as_secs_f64() * 1e9;
    let mut bytes = BytesMut::new();
    size(MANY, &mut bytes);
    println!("{what:<34} {in_many:>9.0} ns {alone:>9.0} ns {:>12}", bytes.len() / MANY as usize);
}

/// The best mean of several rounds, as if out of a socket's buffer: written, cut into frames, read.
fn round(encode: impl Fn(&mut BytesMut), decode: &impl Fn(Bytes)) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let mut times = 0;
        while start.elapsed() < ROUND {
            for _ in 0..20 {
                let mut out = BytesMut::with_capacity(64 << 10);
                encode(&mut out);
                split_frames(&mut out, 1 << 20).unwrap().for_each(decode);
                times += 1;
            }
        }
        best = best.min(start.elapsed() / times);
    }
    best
}

fn terms() -> Terms {
    Terms { tags: vec!["gpu".into()], ..Terms::new("images.analysis") }
}

fn id(number: u64) -> TaskId {
    let mut id = [7; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    TaskId(id)
}

fn new_task(number: u64) -> NewTask {
    NewTask { id: Some(id(number)), body: Bytes::from(vec![1; 256]), ..NewTask::default() }
}

fn held(number: u64) -> Held {
    Held { task: id(number), attempt: 1 }
}

fn completion(number: u64) -> Completion {
    Completion { task: id(number), attempt: 1, result: Bytes::from(vec![1; 16]) }
}

fn accepted(number: u64) -> Verdict<Accepted> {
    Verdict(Ok(Accepted { task: id(number), state: StateName::Ready, known: false, unserved: None }))
}

fn assignment(number: u64) -> Assignment {
    Assignment {
        task: id(number),
        attempt: 1,
        body: Bytes::from(vec![1; 256]),
        terms: 0,
        priority: 0,
        submitted_at: Timestamp(1_800_000_000_000),
        name: None,
        parent: None,
        crashes: 0,
        failures: 0,
        checkpoint_bytes: 0,
        after: Vec::new(),
        cpus: Vec::new(),
        gpus: Vec::new(),
        traceparent: None,
        tracestate: None,
        array: None,
        index: 0,
    }
}

fn event(number: u64) -> Event {
    Event {
        seq: 1_000_000 + number,
        at: Timestamp(1_800_000_000_000),
        kind: EventKind::Completed,
        task: Some(id(number)),
        attempt: 1,
        queue: Some("images.analysis".into()),
        submitter: Some("client-1".into()),
        worker: Some("worker-7".into()),
        more: None,
    }
}
