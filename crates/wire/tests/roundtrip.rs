//! What is written is read back the same, however the stream is cut, and by strangers too.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tenure_wire::event::{Detail, Event, EventKind};
use tenure_wire::hello::{Hello, Key};
use tenure_wire::notice::{Assign, EventBatch, Gap};
use tenure_wire::refusal::{Code, Refusal};
use tenure_wire::reply::{HeldReply, RefusedEntry, Submitted};
use tenure_wire::request::{Complete, Heartbeat, ListQuery, Move, Start, Submit, Watch};
use tenure_wire::task::{
    Accepted, After, Assignment, Completion, DependencyInfo, Held, NewTask, Resource, Terms,
};
use tenure_wire::verdict::Verdict;
use tenure_wire::why::{Why, WhyCode};
use tenure_wire::words::{
    Condition, DependencyProgress, LostReason, Next, OnBroken, OnLost, Role, StateName, Threshold,
};
use tenure_wire::worker::{FailureReport, WorkerSpec, WorkerStats};
use tenure_wire::{
    FromBroker, Name, Notice, Reply, Request, TaskId, Timestamp, decode_from_broker, decode_to_broker,
    encode_notice, encode_reply, encode_request, split_frames,
};

const LIMIT: usize = 1 << 20;

fn id() -> impl Strategy<Value = TaskId> {
    any::<[u8; 16]>().prop_map(TaskId)
}

fn name() -> impl Strategy<Value = Name> {
    "[a-zé:.]{0,40}".prop_map(Name::from)
}

fn text() -> impl Strategy<Value = Box<str>> {
    "\\PC{0,300}".prop_map(Box::from)
}

fn body() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn word<T: Clone + std::fmt::Debug + 'static>(
    known: &'static [T],
    other: fn(&str) -> T,
) -> impl Strategy<Value = T> {
    prop_oneof![4 => proptest::sample::select(known), 1 => Just(other("from-the-future"))]
}

fn state() -> impl Strategy<Value = StateName> {
    word(StateName::KNOWN, |text| StateName::from(text))
}

fn terms() -> impl Strategy<Value = Terms> {
    let on_broken = word(OnBroken::KNOWN, |text| OnBroken::from(text));
    let on_lost = word(OnLost::KNOWN, |text| OnLost::from(text));
    let policy = (on_lost, 0_u16..5, any::<u16>(), on_broken, option::of(name()));
    let span = || option::of(any::<u64>());
    let spans = (any::<u64>(), any::<u64>(), span(), span(), span());
    let resource = (name(), any::<u64>()).prop_map(|(name, quantity)| Resource { name, quantity });
    let demand = (0_u32..5, vec(resource, 0..3));
    (name(), vec(name(), 0..3), vec(name(), 0..3), policy, spans, option::of(name()), demand).prop_map(
        |(queue, needs, tags, policy, spans, submitter, (slots, resources))| Terms {
            queue,
            needs,
            tags,
            on_lost: policy.0,
            crash_budget: policy.1,
            retries: policy.2,
            backoff_first_ms: spans.0,
            backoff_max_ms: spans.1,
            accept_timeout_ms: spans.2,
            run_limit_ms: spans.3,
            cancel_timeout_ms: spans.4,
            on_broken: policy.3,
            slots,
            resources,
            share: policy.4,
            submitter,
        },
    )
}

fn condition() -> impl Strategy<Value = Condition> {
    word(Condition::KNOWN, |text| Condition::from(text))
}

fn after() -> impl Strategy<Value = After> {
    (option::of(id()), condition(), option::of(name()), option::of(any::<u32>()))
        .prop_map(|(task, condition, name, index)| After { task, condition, name, index })
}

fn dependency() -> impl Strategy<Value = DependencyInfo> {
    let progress = word(DependencyProgress::KNOWN, |text| DependencyProgress::from(text));
    (id(), condition(), progress, option::of(state()), option::of(name()), any::<u64>()).prop_map(
        |(task, condition, progress, state, name, result_bytes)| DependencyInfo {
            task,
            condition,
            progress,
            state,
            name,
            result_bytes,
        },
    )
}

fn new_task() -> impl Strategy<Value = NewTask> {
    let rest = (any::<bool>(), option::of(name()), option::of(id()), option::of(time()), option::of(time()));
    (
        option::of(id()),
        body(),
        0_u32..300,
        option::of(any::<i32>()),
        rest,
        vec(after(), 0..3),
        option::of(text()),
    )
        .prop_map(
            |(id, body, terms, priority, (hold, name, parent, not_before, expires_at), after, trace)| {
                NewTask {
                    id,
                    body,
                    terms,
                    priority,
                    hold,
                    name,
                    parent,
                    not_before,
                    expires_at,
                    after,
                    traceparent: trace.clone(),
                    tracestate: trace,
                }
            },
        )
}

fn assignment() -> impl Strategy<Value = Assignment> {
    let rest = (time(), option::of(name()), option::of(id()), any::<u16>(), any::<u16>(), any::<u64>());
    let devices = (
        vec(any::<u16>(), 0..3),
        vec(any::<u16>(), 0..3),
        option::of(text()),
        option::of(id()),
        any::<u32>(),
    );
    (id(), any::<u32>(), body(), any::<u32>(), any::<i32>(), rest, vec(dependency(), 0..3), devices).prop_map(
        |(task, attempt, body, terms, priority, rest, after, (cpus, gpus, trace, array, index))| {
            let (submitted_at, name, parent, crashes, failures, checkpoint_bytes) = rest;
            Assignment {
                task,
                attempt,
                body,
                terms,
                priority,
                submitted_at,
                name,
                parent,
                crashes,
                failures,
                checkpoint_bytes,
                after,
                cpus,
                gpus,
                traceparent: trace.clone(),
                tracestate: trace,
                array,
                index,
            }
        },
    )
}

fn held() -> impl Strategy<Value = Held> {
    (id(), any::<u32>()).prop_map(|(task, attempt)| Held { task, attempt })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    (
        word(Code::KNOWN, |text| Code::from(text)),
        text(),
        option::of(id()),
        option::of(any::<u32>()),
        option::of(state()),
    )
        .prop_map(|(code, message, task, attempt, state)| Refusal {
            task,
            attempt,
            state,
            ..Refusal::new(code, message)
        })
}

fn why() -> impl Strategy<Value = Why> {
    (word(WhyCode::KNOWN, |text| WhyCode::from(text)), text(), vec(name(), 0..3), option::of(any::<u32>()))
        .prop_map(|(code, message, missing, workers)| Why { missing, workers, ..Why::new(code, message) })
}

fn accepted() -> impl Strategy<Value = Accepted> {
    (id(), state(), any::<bool>(), option::of(why())).prop_map(|(task, state, known, unserved)| Accepted {
        task,
        state,
        known,
        unserved,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let detail = (
        option::of(why()),
        option::of(any::<u8>()),
        option::of(word(LostReason::KNOWN, |text| LostReason::from(text))),
        option::of(word(Next::KNOWN, |text| Next::from(text))),
        any::<u64>(),
        option::of(word(Threshold::KNOWN, |text| Threshold::from(text))),
        option::of(any::<u64>()),
        option::of(any::<u64>()),
    )
        .prop_map(|(unserved, percent, lost, next, result_bytes, threshold, depth, age_ms)| {
            let backlog = Detail { threshold, depth, age_ms, ..Detail::default() };
            Box::new(Detail { unserved, percent, lost, next, result_bytes, ..backlog })
        });
    let names = (option::of(name()), option::of(name()), option::of(name()));
    (
        any::<u64>(),
        time(),
        word(EventKind::KNOWN, |text| EventKind::from(text)),
        option::of(id()),
        any::<u32>(),
        names,
        option::of(detail),
    )
        .prop_map(|(seq, at, kind, task, attempt, (queue, submitter, worker), more)| Event {
            seq,
            at,
            kind,
            task,
            attempt,
            queue,
            submitter,
            worker,
            more,
        })
}

fn stats() -> impl Strategy<Value = WorkerStats> {
    (
        option::of(0.0_f32..100.0),
        option::of(any::<u64>()),
        proptest::collection::btree_map(text(), text(), 0..3),
    )
        .prop_map(|(cpu_percent, memory_used, more): (_, _, BTreeMap<_, _>)| WorkerStats {
            cpu_percent,
            memory_used,
            memory_total: None,
            more,
        })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (vec(terms(), 0..3), vec(new_task(), 0..20))
            .prop_map(|(terms, tasks)| Request::Submit(Submit { terms, tasks })),
        vec(held(), 0..20).prop_map(|held| Request::Start(Start { held })),
        vec((held(), body()), 0..20).prop_map(|done| {
            let completion =
                |(held, result): (Held, Bytes)| Completion { task: held.task, attempt: held.attempt, result };
            Request::Complete(Complete { done: done.into_iter().map(completion).collect() })
        }),
        (option::of(vec(held(), 0..20)), option::of(stats().prop_map(Box::new)))
            .prop_map(|(held, stats)| Request::Heartbeat(Heartbeat { held, stats })),
        (name(), option::of(name()), vec(word(Role::KNOWN, |text| Role::from(text)), 0..3)).prop_map(
            |(secret, identity, roles)| {
                let key = Some(Key::new(&*secret));
                Request::Hello(Box::new(Hello { version: 1, identity, roles, key, ..Hello::default() }))
            }
        ),
        (id(), option::of(name()), option::of(any::<i32>()), option::of(vec(name(), 0..3)))
            .prop_map(|(task, queue, priority, tags)| Request::Move(Move { task, queue, priority, tags })),
        (vec(state(), 0..9), option::of(name()), option::of(text()), any::<u32>()).prop_map(
            |(states, queue, cursor, limit)| {
                Request::List(Box::new(ListQuery { states, queue, cursor, limit, ..ListQuery::default() }))
            }
        ),
        (option::of(any::<u64>()), option::of(id()))
            .prop_map(|(from, task)| Request::Watch(Box::new(Watch { from, task, ..Watch::default() }))),
        (name(), vec(name(), 0..3), any::<u32>(), vec(held(), 0..3)).prop_map(
            |(worker, queues, slots, held)| {
                Request::Register(Box::new(WorkerSpec { held, ..WorkerSpec::new(worker, queues, slots) }))
            }
        ),
        (held(), any::<i32>(), option::of(text()), body(), any::<bool>()).prop_map(
            |(held, exit_code, message, result, crashed)| Request::Fail(Box::new(FailureReport {
                task: held.task,
                attempt: held.attempt,
                exit_code,
                message,
                result,
                crashed,
                is_final: !crashed,
            }))
        ),
        Just(Request::Queues),
        Just(Request::Leave),
    ]
}

fn from_broker() -> impl Strategy<Value = FromBroker> {
    let reply = prop_oneof![
        Just(Reply::Done),
        refusal().prop_map(|refusal| Reply::Refused(Box::new(refusal))),
        vec(prop_oneof![accepted().prop_map(Ok), refusal().prop_map(Err)], 0..20).prop_map(|tasks| {
            Reply::Submitted(Submitted { tasks: tasks.into_iter().map(Verdict).collect() })
        }),
        vec((any::<u32>(), refusal()), 0..5).prop_map(|refused| {
            let refused =
                refused.into_iter().map(|(index, refusal)| RefusedEntry { index, refusal }).collect();
            Reply::Held(HeldReply { refused })
        }),
        why().prop_map(|why| Reply::Why(Box::new(why))),
    ];
    let notice = prop_oneof![
        (vec(terms(), 0..3), vec(assignment(), 0..20))
            .prop_map(|(terms, tasks)| Notice::Assign(Assign { terms, tasks })),
        (any::<u64>(), vec(event(), 0..20))
            .prop_map(|(watch, events)| Notice::Events(EventBatch { watch, events })),
        (any::<u64>(), any::<u64>()).prop_map(|(from, to)| Notice::Gap(Gap { watch: 1, from, to })),
        Just(Notice::Drain),
    ];
    prop_oneof![
        (1_u64.., reply).prop_map(|(number, reply)| FromBroker::Reply { number, reply }),
        notice.prop_map(FromBroker::Notice),
    ]
}

fn encode(out: &mut BytesMut, message: &FromBroker) {
    match message {
        FromBroker::Reply { number, reply } => encode_reply(out, *number, reply),
        FromBroker::Notice(notice) => encode_notice(out, notice),
    }
}

/// Feeds a stream in pieces of these sizes, over and over, and collects the frames.
fn in_pieces(stream: &[u8], sizes: &[usize]) -> Vec<Bytes> {
    let mut arrived = BytesMut::new();
    let mut frames = Vec::new();
    let mut rest = stream;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        arrived.extend_from_slice(piece);
        frames.extend(split_frames(&mut arrived, LIMIT).unwrap());
        rest = later;
    }
    assert!(arrived.is_empty(), "nothing is left over");
    frames
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn requests_come_back_as_they_were_however_the_stream_is_cut(
        requests in vec((any::<u64>(), request()), 1..8),
        sizes in vec(1_usize..2000, 1..6),
    ) {
        let mut stream = BytesMut::new();
        for (number, request) in &requests {
            encode_request(&mut stream, *number, request);
        }
        let read: Vec<_> = in_pieces(&stream, &sizes)
            .iter()
            .map(|frame| decode_to_broker(frame).map(|message| (message.number, message.request)).unwrap())
            .collect();
        prop_assert_eq!(read, requests);
    }

    #[test]
    fn replies_and_notices_come_back_as_they_were(
        messages in vec(from_broker(), 1..8),
        sizes in vec(1_usize..2000, 1..6),
    ) {
        let mut stream = BytesMut::new();
        for message in &messages {
            encode(&mut stream, message);
        }
        let read: Vec<_> = in_pieces(&stream, &sizes).iter().map(|frame| decode_from_broker(frame).unwrap()).collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn a_third_party_codec_and_ours_read_each_others_frames(number: u64, request in request()) {
        let mut stream = BytesMut::new();
        encode_request(&mut stream, number, &request);
        let mut rest = &stream[4..];
        let value = rmpv::decode::read_value(&mut rest).unwrap();
        prop_assert!(rest.is_empty());
        let mut theirs = Vec::new();
        rmpv::encode::write_value(&mut theirs, &value).unwrap();
        prop_assert_eq!(&theirs[..], &stream[4..], "our encoding is the canonical one");
        prop_assert_eq!(decode_to_broker(&Bytes::from(theirs)).unwrap().request, request);
    }

    #[test]
    fn any_cut_or_flipped_message_is_refused_or_understood_but_never_panics(
        message in from_broker(), request in request(), at in any::<prop::sample::Index>(), flip: u8,
    ) {
        let mut stream = BytesMut::new();
        encode(&mut stream, &message);
        encode_request(&mut stream, 7, &request);
        let mut bytes = stream[4..].to_vec();
        let index = at.index(bytes.len());
        tenure_wire::fuzz(&bytes[..index]);
        bytes[index] ^= flip;
        tenure_wire::fuzz(&bytes);
    }
}

#[test]
fn a_body_is_a_slice_of_its_frame_and_not_a_copy() {
    let mut stream = BytesMut::new();
    let task = NewTask { body: Bytes::from(vec![7; 1000]), ..NewTask::default() };
    encode_request(
        &mut stream,
        1,
        &Request::Submit(Submit { terms: vec![Terms::new("q")], tasks: vec![task] }),
    );
    let frame = split_frames(&mut stream, LIMIT).unwrap().next().unwrap();
    let Request::Submit(submit) = decode_to_broker(&frame).unwrap().request else {
        panic!("not a submission")
    };
    let body = &submit.tasks[0].body;
    assert_eq!(body.len(), 1000);
    assert!(frame.as_ptr_range().contains(&body.as_ptr()));
}

#[test]
fn defaults_cost_nothing_on_the_wire() {
    let mut stream = BytesMut::new();
    let task = NewTask { id: Some(TaskId([1; 16])), body: Bytes::from_static(b"x"), ..NewTask::default() };
    encode_request(
        &mut stream,
        1,
        &Request::Submit(Submit { terms: vec![Terms::new("q")], tasks: vec![task] }),
    );
    let frame = stream.split_off(4).freeze();
    let value = tenure_wire::value::Value::read(&frame).unwrap();
    let id = "01".repeat(16);
    assert_eq!(
        value.to_string().replace(&"\\u0001".repeat(16), &id),
        format!(r#"[1, "submit", {{"terms": [{{"queue": "q"}}], "tasks": [[x"{id}", b"x"]]}}]"#)
    );
}
