//! gRPC. The list of verbs is every method of every service in the descriptors, and every message of a worker's
//! conversation.

use bytes::Bytes;
use prost::Message;
use prost_types::FileDescriptorSet;
use tenure_door_grpc::proto::DESCRIPTORS;
use tenure_door_grpc::proto::sidecar;
use tenure_door_grpc::proto::tenure::v1 as pb;
use tenure_hub::words::{AttemptFailure, Blob, Command, Move, WaitOn, Wanted};
use tenure_hub::{Request, TopicAct};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::raw_codec::Raw;
use super::what::{HELD, TASK, What, log_piece};
use super::{Findings, Holder, Row, Verdict};
use crate::support::{Broker, TIMEOUT};

/// A method and its message.
struct Example {
    method: &'static str,
    message: Spelling,
}

/// The bytes of a message from this holder.
type Spelling = Box<dyn Fn(&Holder) -> Vec<u8>>;

pub(super) fn examine(broker: &Broker, findings: &mut Findings) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let address = format!("http://{}", broker.doors["grpc"].as_str().unwrap());
    let channel =
        runtime.block_on(Endpoint::from_shared(address).unwrap().connect()).expect("the door is open");
    findings.examine("gRPC", &verbs(), &rows(), |holder, example| {
        let asking = async { tokio::time::timeout(TIMEOUT, ask(channel.clone(), holder, example)).await };
        runtime.block_on(asking).unwrap_or_else(|_| Err("no answer".to_owned()))
    });
}

fn verbs() -> Vec<String> {
    let set = FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors");
    let mut verbs = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                verbs.push(format!("{}.{}/{}", file.package(), service.name(), method.name()));
            }
        }
        let conversation = file.message_type.iter().filter(|message| message.name() == "WorkerMessage");
        for field in
            conversation.flat_map(|message| &message.field).filter(|field| field.oneof_index.is_some())
        {
            verbs.push(format!("Work: {}", field.name()));
        }
    }
    verbs
}

async fn ask(channel: Channel, holder: &Holder, example: &Example) -> Result<Verdict, String> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| error.to_string())?;
    let message = Bytes::from((example.message)(holder));
    let mut request = tonic::Request::new(futures::stream::iter([message]));
    let bearer = format!("Bearer {}", holder.key).parse().expect("a value");
    request.metadata_mut().insert("authorization", bearer);
    let path = PathAndQuery::from_static(example.method);
    let answer = match client.streaming(request, path, Raw).await {
        Ok(answer) => answer.into_inner().message().await,
        Err(status) => Err(status),
    };
    match answer {
        Ok(None) => Ok(Verdict::Allowed),
        Ok(Some(said)) if is_worker(example) => in_conversation(&said),
        Ok(Some(_)) => Ok(Verdict::Allowed),
        Err(status) => refusal(&status),
    }
}

fn is_worker(example: &Example) -> bool {
    example.method == "/tenure.v1.Workers/Work"
}

/// A refusal in a worker's conversation does not end it.
fn in_conversation(said: &Bytes) -> Result<Verdict, String> {
    use pb::broker_message::Message::Refused;
    match pb::BrokerMessage::decode(said.clone()).map_err(|error| error.to_string())?.message {
        Some(Refused(no)) if no.code == "not-allowed" => Ok(Verdict::Refused),
        Some(Refused(no)) if ["bad-value", "bad-name"].contains(&&*no.code) => {
            Err(format!("this is no example: {}", no.message))
        }
        _ => Ok(Verdict::Allowed),
    }
}

fn refusal(status: &Status) -> Result<Verdict, String> {
    match status.code() {
        Code::PermissionDenied => Ok(Verdict::Refused),
        Code::NotFound | Code::FailedPrecondition | Code::DeadlineExceeded | Code::Unavailable => {
            Ok(Verdict::Allowed)
        }
        _ => Err(format!("this is no example: {status:?}")),
    }
}

fn rows() -> Vec<Row<Example>> {
    let task = || TASK.to_string();
    let one = || pb::TaskRequest { task: task() };
    let steer = || pb::SteerRequest { task: task(), reason: String::new(), terminate: false };
    let submit = || pb::SubmitRequest {
        terms: vec![pb::Terms { queue: "grpc".into(), ..Default::default() }],
        tasks: vec![pb::NewTask { body: "x".into(), ..Default::default() }],
    };
    let queue = || pb::QueueRequest { queue: "q".into() };
    let schedule = || pb::ScheduleRequest { schedule: "s".into() };
    let worker = || pb::WorkerRequest { worker: "w".into() };
    let publish =
        || sidecar::PublishRequest { topic: "news".into(), payload: "x".into(), ..Default::default() };
    let subscribe = |topic: &str| sidecar::SubscribeRequest {
        topics: vec![topic.to_owned()],
        client_id: "c".into(),
        ..Default::default()
    };
    let topic =
        |topic: &str| pb::TopicSubscription { subscription: Some(subscribe(topic)), ..Default::default() };
    let resume = |topic: &str| sidecar::ResumeSubscribeRequest {
        subscription_id: format!("again-{topic}"),
        topics: vec![topic.to_owned()],
        client_id: "c".into(),
        ..Default::default()
    };
    let other = || sidecar::ResumeSubscribeRequest { subscription_id: "events".into(), ..Default::default() };
    let read = || pb::AcknowledgeRequest { subscription_id: "nothing".into(), ..Default::default() };
    let end = |pause| sidecar::UnsubscribeRequest { subscription_id: "nothing".into(), pause };
    let topics = || What::Topic(TopicAct::Subscribe);
    let events = || What::Topic(TopicAct::SubscribeToEvents);
    let mut rows = vec![
        row("/tenure.v1.Tasks/Submit", &submit(), What::submit()),
        row("/tenure.v1.Tasks/SubmitStream", &submit(), What::submit()),
        row(
            "/tenure.v1.Tasks/SubmitArray",
            &pb::SubmitArrayRequest {
                terms: Some(pb::Terms { queue: "grpc".into(), ..pb::Terms::default() }),
                size: 1,
                ..pb::SubmitArrayRequest::default()
            },
            What::submit_array(),
        ),
        row(
            "/tenure.v1.Tasks/ShowArray",
            &pb::ArrayRequest { array: Some(pb::array_request::Array::Name("n".into())) },
            What::read(),
        ),
        row("/tenure.v1.Tasks/ListArrays", &pb::ListArraysRequest::default(), What::read()),
        row(
            "/tenure.v1.Tasks/LimitArray",
            &pb::LimitArrayRequest { array: TASK.to_string(), limit: None },
            What::command(Command::LimitArray { array: TASK, limit: None }),
        ),
        row("/tenure.v1.Tasks/Show", &one(), What::read()),
        row("/tenure.v1.Tasks/Find", &pb::FindRequest { name: "n".into() }, What::read()),
        row("/tenure.v1.Tasks/List", &pb::ListRequest::default(), What::read()),
        row("/tenure.v1.Tasks/Explain", &one(), What::read()),
        row("/tenure.v1.Tasks/Body", &one(), What::read()),
        row("/tenure.v1.Tasks/Result", &one(), What::read()),
        row("/tenure.v1.Tasks/Checkpoint", &one(), What::read()),
        row(
            "/tenure.v1.Tasks/Logs",
            &pb::LogsRequest { task: TASK.to_string(), after: 0 },
            What::Hub(Request::Logs { task: TASK, after: 0 }),
        ),
        row("/tenure.v1.Tasks/Release", &one(), What::command(Command::Release { task: TASK })),
        row("/tenure.v1.Tasks/Cancel", &steer(), What::command(Command::Cancel { task: TASK, reason: None })),
        row(
            "/tenure.v1.Tasks/Pause",
            &steer(),
            What::command(Command::Pause { task: TASK, reason: None, terminate: false }),
        ),
        row("/tenure.v1.Tasks/Resume", &one(), What::command(Command::Resume { task: TASK })),
        row("/tenure.v1.Tasks/Retry", &one(), What::command(Command::Retry { task: TASK })),
        row(
            "/tenure.v1.Tasks/Move",
            &pb::MoveRequest { task: task(), priority: Some(1), ..Default::default() },
            What::command(Command::Move { task: TASK, to: Move::default() }),
        ),
        row(
            "/tenure.v1.Tasks/Wait",
            &pb::WaitRequest { tasks: vec![task()], timeout_ms: Some(1), ..Default::default() },
            What::watch(),
        ),
        row(
            "/tenure.v1.Tasks/Watch",
            &pb::WatchRequest { from: Some(1), ..Default::default() },
            What::watch(),
        ),
        row("/tenure.v1.Workers/List", &pb::ListWorkersRequest {}, What::read()),
        row(
            "/tenure.v1.Workers/Drain",
            &worker(),
            What::command(Command::DrainWorker { worker: "w".into() }),
        ),
        row(
            "/tenure.v1.Workers/Clear",
            &worker(),
            What::command(Command::ClearWorker { worker: "w".into() }),
        ),
        row("/tenure.v1.Broker/Queues", &pb::QueuesRequest {}, What::read()),
        row(
            "/tenure.v1.Broker/PauseQueue",
            &queue(),
            What::command(Command::PauseQueue { queue: "q".into() }),
        ),
        row(
            "/tenure.v1.Broker/ResumeQueue",
            &queue(),
            What::command(Command::ResumeQueue { queue: "q".into() }),
        ),
        row(
            "/tenure.v1.Broker/SetThresholds",
            &pb::SetThresholdsRequest { queue: "q".into(), thresholds: None },
            What::command(Command::SetThresholds { queue: "q".into(), thresholds: None }),
        ),
        row("/tenure.v1.Broker/Shares", &pb::SharesRequest {}, What::read()),
        row(
            "/tenure.v1.Broker/SetRate",
            &pb::SetRateRequest { of: Some(pb::set_rate_request::Of::Tag("t".into())), rate: None },
            What::both(
                What::command(Command::SetTagRate { tag: "t".into(), rate: None }),
                What::command(Command::SetQueueRate { queue: "q".into(), rate: None }),
            ),
        ),
        row(
            "/tenure.v1.Broker/SetShare",
            &pb::SetShareRequest { share: "s".into(), weight: Some(2) },
            What::command(Command::SetShare { share: "s".into(), weight: None }),
        ),
        row("/tenure.v1.Broker/Limits", &pb::LimitsRequest {}, What::read()),
        row(
            "/tenure.v1.Broker/SetLimit",
            &pb::SetLimitRequest { tag: "t".into(), limit: Some(1) },
            What::command(Command::SetLimit { tag: "t".into(), limit: None }),
        ),
        row("/tenure.v1.Broker/Hooks", &pb::HooksRequest {}, What::Hub(Request::Hooks)),
        row(
            "/tenure.v1.Broker/Undelivered",
            &pb::UndeliveredRequest { hook: "h".into() },
            What::Hub(Request::Undelivered { hook: "h".into() }),
        ),
        row(
            "/tenure.v1.Broker/Redeliver",
            &pb::RedeliverRequest { hook: "h".into(), event: None },
            What::Hub(Request::Redeliver { hook: "h".into(), seq: None }),
        ),
        row(
            "/tenure.v1.Tasks/Reconcile",
            &pb::ReconcileRequest { prefix: "p/".into(), apply: true, ..pb::ReconcileRequest::default() },
            What::reconcile(),
        ),
        row(
            "/tenure.v1.Schedules/Set",
            &pb::SetScheduleRequest {
                schedule: "s".into(),
                when: "@yearly".into(),
                terms: Some(pb::Terms { queue: "q".into(), ..pb::Terms::default() }),
                ..pb::SetScheduleRequest::default()
            },
            What::command(What::new_schedule()),
        ),
        row("/tenure.v1.Schedules/List", &pb::ListSchedulesRequest {}, What::read()),
        row("/tenure.v1.Schedules/Show", &schedule(), What::read()),
        row(
            "/tenure.v1.Schedules/Pause",
            &schedule(),
            What::command(Command::PauseSchedule { schedule: "s".into() }),
        ),
        row(
            "/tenure.v1.Schedules/Resume",
            &schedule(),
            What::command(Command::ResumeSchedule { schedule: "s".into() }),
        ),
        row(
            "/tenure.v1.Schedules/Run",
            &schedule(),
            What::command(Command::RunSchedule { schedule: "s".into() }),
        ),
        row(
            "/tenure.v1.Schedules/Remove",
            &schedule(),
            What::command(Command::RemoveSchedule { schedule: "s".into() }),
        ),
        row("/tenure.v1.Broker/Counts", &pb::CountsRequest {}, What::read()),
        row("/tenure.v1.Broker/Stats", &pb::StatsRequest {}, What::Hub(Request::Stats)),
        row("/tenure.v1.Topics/Publish", &publish(), What::Topic(TopicAct::Publish)),
        row(
            "/tenure.v1.Topics/Request",
            &pb::TopicRequest { message: Some(publish()), timeout_ms: 1 },
            What::Topic(TopicAct::Request),
        ),
        row("/tenure.v1.Topics/Subscribe", &topic("news"), topics()),
        row("/tenure.v1.Topics/Subscribe", &topic("task.>"), events()),
        // Only a pattern that begins with the word hears events.
        row("/tenure.v1.Topics/Subscribe", &topic(">"), topics()),
        row("/tenure.v1.Topics/Acknowledge", &read(), What::Topic(TopicAct::ChangeSubscription)),
        row(
            "/tenure.v1.Topics/Subscriptions",
            &pb::SubscriptionsRequest::default(),
            What::Topic(TopicAct::List),
        ),
        row("/nexusd.sidecar.SidecarService/Publish", &publish(), What::Topic(TopicAct::Publish)),
        row("/nexusd.sidecar.SidecarService/Subscribe", &subscribe("news"), topics()),
        row("/nexusd.sidecar.SidecarService/Subscribe", &subscribe("worker.*"), events()),
        row("/nexusd.sidecar.SidecarService/ResumeSubscribe", &resume("news"), topics()),
        row("/nexusd.sidecar.SidecarService/ResumeSubscribe", &resume("queue.>"), events()),
        // The subscription of another key.
        row("/nexusd.sidecar.SidecarService/ResumeSubscribe", &other(), events()),
        row(
            "/nexusd.sidecar.SidecarService/Unsubscribe",
            &end(false),
            What::Topic(TopicAct::ChangeSubscription),
        ),
        row(
            "/nexusd.sidecar.SidecarService/Unsubscribe",
            &end(true),
            What::Topic(TopicAct::ChangeSubscription),
        ),
        row(
            "/nexusd.sidecar.SidecarService/GetTopics",
            &sidecar::GetTopicsRequest { include_counts: true },
            What::Topic(TopicAct::List),
        ),
        // A broker is alone, and says that it has no peers.
        row("/nexusd.sidecar.SidecarService/GetPeers", &sidecar::GetPeersRequest::default(), What::Protocol),
    ];
    rows.extend(conversation());
    rows
}

/// What a worker may say, each as its first message.
fn conversation() -> Vec<Row<Example>> {
    use pb::worker_message::Message as Said;
    let task = || TASK.to_string();
    let attempt = || pb::Attempt { task: task(), attempt: 1 };
    let failure = AttemptFailure {
        held: HELD,
        exit_code: 1,
        message: None,
        result: Blob::EMPTY,
        crashed: false,
        is_final: false,
    };
    // A worker belongs to the key that registered it, so each key has its own.
    let register = |holder: &Holder| {
        let queues = vec!["nothing".into()];
        let register = pb::Register { worker: format!("grpc-{}", holder.name), queues, ..Default::default() };
        pb::WorkerMessage { number: 1, message: Some(Said::Register(register)) }.encode_to_vec()
    };
    let done = pb::Completion { task: task(), attempt: 1, result: "x".into() };
    let said: Vec<(&'static str, Said, What)> = vec![
        (
            "Work: heartbeat",
            Said::Heartbeat(pb::Heartbeat::default()),
            What::command(Command::Heartbeat { held: None, stats: None }),
        ),
        (
            "Work: start",
            Said::Start(pb::Start { held: vec![attempt()] }),
            What::command(Command::Start(vec![HELD])),
        ),
        (
            "Work: progress",
            Said::Progress(pb::Progress { task: task(), attempt: 1, ..Default::default() }),
            What::command(Command::Progress { held: HELD, percent: None, note: None }),
        ),
        ("Work: complete", Said::Complete(pb::Complete { done: vec![done] }), What::complete()),
        (
            "Work: fail",
            Said::Fail(pb::Fail { task: task(), attempt: 1, ..Default::default() }),
            What::Hub(Request::Fail { failure, result: Bytes::new() }),
        ),
        (
            "Work: confirm",
            Said::Confirm(pb::Confirm {
                task: task(),
                attempt: 1,
                wanted: "cancel".into(),
                result: Bytes::new(),
            }),
            What::Hub(Request::Confirm { held: HELD, wanted: Wanted::Cancel, result: Bytes::new() }),
        ),
        (
            "Work: give_back",
            Said::GiveBack(pb::GiveBack { task: task(), attempt: 1, reason: String::new() }),
            What::command(Command::GiveBack { held: HELD, reason: None }),
        ),
        ("Work: ask", Said::Ask(pb::Ask { queues: vec!["nothing".into()] }), What::take()),
        ("Work: unask", Said::Unask(pb::Unask {}), What::command(Command::Unask)),
        ("Work: drain", Said::Drain(pb::DrainMe {}), What::command(Command::Drain)),
        ("Work: leave", Said::Leave(pb::Leave {}), What::command(Command::Leave)),
        (
            "Work: append_log",
            Said::AppendLog(pb::AppendLog {
                task: task(),
                attempt: 1,
                stream: 1,
                offset: 0,
                bytes: "x".into(),
            }),
            What::Hub(Request::AppendLog { held: HELD, piece: log_piece() }),
        ),
        (
            "Work: save_checkpoint",
            Said::SaveCheckpoint(pb::SaveCheckpoint { task: task(), attempt: 1, checkpoint: "x".into() }),
            What::Hub(Request::Checkpoint { held: HELD, checkpoint: Bytes::new() }),
        ),
        (
            "Work: suspend",
            Said::Suspend(pb::Suspend {
                task: task(),
                attempt: 1,
                on: Vec::new(),
                children: true,
                resume: false,
            }),
            What::command(Command::Suspend { held: HELD, on: WaitOn::Children }),
        ),
    ];
    let leave = pb::WorkerMessage { number: 1, message: Some(Said::Leave(pb::Leave {})) };
    let method = row("/tenure.v1.Workers/Work", &leave, What::command(Command::Leave));
    let each = said.into_iter().map(|(verb, message, what)| {
        let message = pb::WorkerMessage { number: 1, message: Some(message) };
        Row { verb, ..row("/tenure.v1.Workers/Work", &message, what) }
    });
    let example = Example { method: "/tenure.v1.Workers/Work", message: Box::new(register) };
    let first = Row { verb: "Work: register", what: What::register(), example };
    [method, first].into_iter().chain(each).collect()
}

fn row(method: &'static str, message: &impl Message, what: What) -> Row<Example> {
    let message = message.encode_to_vec();
    Row { verb: &method[1..], what, example: Example { method, message: Box::new(move |_| message.clone()) } }
}
