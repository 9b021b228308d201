//! Spans, with a real hub in memory and a collector that decodes what it is sent.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use support::{PATIENCE, Receiver, new_task};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::words::{Command, Held, Notice, Settings, TraceContext, WorkerSpec};
use tenure_hub::{
    Ask, Delivery, Done, Hub, HubHandle, HubSettings, Keys, Principal, Request, Session, Submission,
};
use tenure_outbound::{HttpTarget, SpanExport, SpanExportSettings};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The part of OTLP that the test reads.
#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, optional, tag = "15")]
    status: Option<OtlpStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpStatus {
    #[prost(int32, tag = "3")]
    code: i32,
}

struct Peer(Session);

impl Peer {
    fn of(hub: &HubHandle, name: &str) -> Peer {
        Peer(hub.open(Principal::trusted("test"), "default".into(), name.into()).expect("a session"))
    }

    async fn ask(&self, request: Request) {
        self.0.send(vec![Ask { token: 1, request }]).await.expect("the hub runs");
    }

    /// The first delivery that this is.
    async fn hears<T>(&self, what: impl Fn(Delivery) -> Option<T>) -> T {
        let mut taken = Vec::new();
        let hearing = async {
            loop {
                self.0.mailbox().arrived().await;
                self.0.mailbox().take(&mut taken);
                if let Some(found) = taken.drain(..).find_map(&what) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.expect("it comes in time")
    }

    async fn replied(&self) {
        let reply = |delivery| match delivery {
            Delivery::Reply { reply, .. } => Some(reply),
            _ => None,
        };
        self.hears(reply).await.expect("it is accepted");
    }
}

struct World {
    hub: HubHandle,
    client: Peer,
    worker: Peer,
    collector: Receiver,
    counters: Arc<tenure_hub::Counters>,
}

async fn world(statuses: &[u16]) -> World {
    let collector = Receiver::start(statuses).await;
    let (sink, export) = SpanExport::new(SpanExportSettings {
        target: HttpTarget::parse(&collector.url).expect("an address"),
        roots: None,
        headers: vec![("x-tenant".to_owned(), "lab".to_owned())],
        service: "tenure".to_owned(),
        timeout: PATIENCE,
    });
    let counters = Arc::clone(sink.counters());
    let settings = HubSettings { spans: Some(sink), ..HubSettings::default() };
    let disk = Arc::new(MemoryDisk::new());
    let hub = Hub::start_with(disk, StoreSettings::default(), Settings::default(), settings, Keys::default());
    let hub = hub.expect("the hub starts");
    let handle = hub.handle().clone();
    tokio::spawn(hub.ended());
    tokio::spawn(export.run(handle.clone()));
    let worker = Peer::of(&handle, "worker");
    let spec = WorkerSpec::new("w1", vec!["gpu".into()], 1);
    worker.ask(Request::Command(Command::Register(Box::new(spec)))).await;
    worker.replied().await;
    World { client: Peer::of(&handle, "client"), hub: handle, worker, collector, counters }
}

impl World {
    /// Submits a task of this trace, and lets the worker run it. Returns the trace that the worker got.
    async fn run(&self, trace: Option<&str>, fails: bool) -> Option<TraceContext> {
        let mut task = new_task("gpu");
        task.trace = trace.map(|parent| Box::new(TraceContext::parse(parent, Some("v=1")).expect("a trace")));
        self.client.ask(Request::Submit(vec![Submission::new(task, Bytes::new())])).await;
        self.client.replied().await;
        let assigned = |delivery| match delivery {
            Delivery::Notice(Notice::Assign(assignment)) => Some(assignment),
            _ => None,
        };
        let assignment = self.worker.hears(assigned).await;
        let held = Held { task: assignment.task, attempt: assignment.attempt };
        self.worker.ask(Request::Command(Command::Start(vec![held]))).await;
        self.worker.replied().await;
        if fails {
            let refusal = tenure_hub::HubRefusal::DiskFull;
            self.worker.ask(Request::cannot_be_run(&assignment, &refusal)).await;
        } else {
            self.worker.ask(Request::Complete(vec![Done { held, result: Bytes::new() }])).await;
        }
        self.worker.replied().await;
        assignment.trace.map(|trace| *trace)
    }

    /// The next spans that arrive, until there are as many.
    async fn spans(&mut self, count: usize) -> Vec<OtlpSpan> {
        let mut spans = Vec::new();
        while spans.len() < count {
            let received = self.collector.next().await;
            assert_eq!(received.header("content-type"), "application/x-protobuf");
            assert_eq!(received.header("x-tenant"), "lab");
            let request = ExportRequest::decode(received.body).expect("it is OTLP");
            let scopes = request.resources.into_iter().flat_map(|resource| resource.scopes);
            spans.extend(scopes.flat_map(|scope| scope.spans));
        }
        spans
    }
}

fn find<'a>(spans: &'a [OtlpSpan], name: &str) -> &'a OtlpSpan {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:?}"))
}

#[tokio::test]
async fn a_traced_task_has_a_span_for_its_submission_its_wait_and_its_attempt() {
    let mut world = world(&[]).await;
    let given = world.run(Some(PARENT), false).await.expect("the worker gets the trace");
    let spans = world.spans(3).await;
    let trace = TraceContext::parse(PARENT, None).expect("a trace");
    assert!(spans.iter().all(|span| span.trace_id == trace.trace_id), "{spans:?}");
    let (submit, wait, attempt) =
        (find(&spans, "submit gpu"), find(&spans, "wait gpu"), find(&spans, "attempt gpu"));
    assert_eq!(submit.parent, trace.parent);
    assert_eq!((&wait.parent, &attempt.parent), (&submit.span_id, &submit.span_id));
    assert_eq!(given.parent.to_vec(), attempt.span_id, "the worker's spans belong to the attempt");
    assert_eq!((given.trace_id, given.state.as_deref()), (trace.trace_id, Some("v=1")));
    assert!(submit.start <= wait.end && wait.end <= attempt.end);
    assert_eq!(attempt.status.as_ref().map(|status| status.code), Some(1));
}

#[tokio::test]
async fn a_failed_attempt_is_an_error_and_tasks_without_a_recorded_trace_have_no_spans() {
    let mut world = world(&[]).await;
    assert_eq!(world.run(None, false).await, None);
    let unsampled = PARENT.replace("-01", "-00");
    let given = world.run(Some(&unsampled), false).await.expect("it is carried all the same");
    assert_eq!(given.to_string(), unsampled);
    world.run(Some(PARENT), true).await;
    let spans = world.spans(3).await;
    assert_eq!(spans.len(), 3, "{spans:?}");
    assert_eq!(find(&spans, "attempt gpu").status.as_ref().map(|status| status.code), Some(2));
}

#[tokio::test]
async fn what_the_collector_refuses_is_counted_and_delays_no_task() {
    let mut world = world(&[400]).await;
    world.run(Some(PARENT), false).await;
    world.collector.next().await;
    let counted = async {
        while world.counters.get("spans_refused") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("it is counted");
    world.run(Some(PARENT), false).await;
    assert!(!world.spans(1).await.is_empty());
    world.hub.stop();
}
