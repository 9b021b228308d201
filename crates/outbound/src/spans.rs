//! Spans of traced tasks, sent to an OpenTelemetry collector with OTLP over HTTP, in batches. What the collector does not take
//! in time is dropped and counted: the broker does not wait for it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, Response};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tenure_hub::words::Timestamp;
use tenure_hub::{AttemptOutcome, Counters, HubHandle, SpanRecord, SpanSink, TaskSpan};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::http_client::Post;
use crate::roots::TrustedRoots;
use crate::target::HttpTarget;

/// How many spans one request carries, and how long the first of them waits for others.
const BATCH_SPANS: usize = 512;
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// Where spans go.
#[derive(Clone, Debug)]
pub struct SpanExportSettings {
    /// The address for traces, such as `http://localhost:4318/v1/traces`.
    pub target: HttpTarget,
    /// For `https`.
    pub roots: Option<TrustedRoots>,
    /// Sent with every request: names and values.
    pub headers: Vec<(String, String)>,
    /// The name under which the collector shows the broker: the attribute `service.name`.
    pub service: String,
    /// How long one request may take.
    pub timeout: Duration,
}

/// The part that exports.
#[derive(Debug)]
pub struct SpanExport {
    settings: SpanExportSettings,
    spans: mpsc::Receiver<SpanRecord>,
    counters: Arc<Counters>,
}

impl SpanExport {
    /// The sink for the hub, and what exports its spans.
    pub fn new(settings: SpanExportSettings) -> (SpanSink, SpanExport) {
        let (sink, spans) = SpanSink::new();
        let counters = Arc::clone(sink.counters());
        (sink, SpanExport { settings, spans, counters })
    }

    /// Exports until the hub stops, and then what is left, once.
    pub async fn run(mut self, hub: HubHandle) {
        let exporter = match self.exporter() {
            Ok(exporter) => exporter,
            Err(error) => {
                tracing::error!(error, "spans cannot be exported");
                return;
            }
        };
        let stopped = hub.stopped();
        tokio::pin!(stopped);
        loop {
            let batch = tokio::select! {
                batch = batch(&mut self.spans) => batch,
                () = &mut stopped => break,
            };
            if batch.is_empty() {
                return;
            }
            self.export(&exporter, batch).await;
        }
        let mut last = Vec::new();
        while last.len() < BATCH_SPANS
            && let Ok(span) = self.spans.try_recv()
        {
            last.push(span);
        }
        if !last.is_empty() {
            self.export(&exporter, last).await;
        }
    }

    async fn export(&self, exporter: &opentelemetry_otlp::SpanExporter, batch: Vec<SpanRecord>) {
        let count = batch.len() as u64;
        match exporter.export(batch.into_iter().map(|span| span_data(&span)).collect()).await {
            Ok(()) => self.counters.add("spans_exported", count),
            Err(error) => {
                self.counters.add("spans_refused", count);
                tracing::warn!(%error, spans = count, "spans could not be exported and are dropped");
            }
        }
    }

    fn exporter(&self) -> Result<opentelemetry_otlp::SpanExporter, String> {
        let SpanExportSettings { target, roots, headers, service, timeout } = &self.settings;
        let client = CollectorClient { target: target.clone(), roots: roots.clone(), within: *timeout };
        let headers: HashMap<String, String> = headers.iter().cloned().collect();
        let mut exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(target.without_secrets())
            .with_timeout(*timeout)
            .with_headers(headers)
            .build()
            .map_err(|error| error.to_string())?;
        exporter.set_resource(&Resource::builder_empty().with_service_name(service.clone()).build());
        Ok(exporter)
    }
}

/// Waits for spans, and a moment longer for more of them.
async fn batch(spans: &mut mpsc::Receiver<SpanRecord>) -> Vec<SpanRecord> {
    let mut batch = Vec::new();
    if spans.recv_many(&mut batch, BATCH_SPANS).await == 0 {
        return batch;
    }
    let deadline = Instant::now() + BATCH_WAIT;
    while batch.len() < BATCH_SPANS {
        let room = BATCH_SPANS - batch.len();
        match timeout_at(deadline, spans.recv_many(&mut batch, room)).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    batch
}

/// Sends what the exporter has encoded with the client of the webhooks.
#[derive(Debug)]
struct CollectorClient {
    target: HttpTarget,
    roots: Option<TrustedRoots>,
    within: Duration,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let mut headers = Vec::new();
        let mut media_type = HeaderValue::from_static("application/x-protobuf");
        for (name, value) in &head.headers {
            match name.as_str() {
                "content-type" => media_type = value.clone(),
                "content-length" | "host" | "user-agent" => {}
                _ => headers.push((name.clone(), value.clone())),
            }
        }
        let post = Post {
            target: &self.target,
            roots: self.roots.as_ref(),
            media_type,
            headers,
            body,
            within: self.within,
        };
        let answer = post.send().await?;
        Ok(Response::builder().status(answer.status).body(answer.body)?)
    }
}

fn span_data(span: &SpanRecord) -> SpanData {
    let state = span.state.as_deref().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    let trace_id = TraceId::from_bytes(span.trace_id);
    let context = SpanContext::new(trace_id, SpanId::from_bytes(span.id), TraceFlags::SAMPLED, false, state);
    let mut attributes = vec![
        KeyValue::new("messaging.system", "tenure"),
        KeyValue::new("messaging.destination.name", span.queue.to_string()),
        KeyValue::new("messaging.message.id", span.task.to_string()),
        KeyValue::new("tenure.namespace", span.namespace.to_string()),
    ];
    if span.attempt > 0 {
        attributes.push(KeyValue::new("tenure.attempt", i64::from(span.attempt)));
    }
    if let Some(worker) = &span.worker {
        attributes.push(KeyValue::new("tenure.worker", worker.to_string()));
    }
    if let Some(outcome) = span.outcome {
        attributes.push(KeyValue::new("tenure.outcome", outcome.as_str()));
    }
    let status = match span.outcome {
        Some(outcome @ (AttemptOutcome::Failed | AttemptOutcome::Crashed)) => Status::error(outcome.as_str()),
        Some(AttemptOutcome::Completed) => Status::Ok,
        _ => Status::Unset,
    };
    SpanData {
        span_context: context,
        parent_span_id: SpanId::from_bytes(span.parent),
        parent_span_is_remote: span.parent_is_remote,
        span_kind: match span.kind {
            TaskSpan::Submit => SpanKind::Producer,
            TaskSpan::Wait => SpanKind::Internal,
            TaskSpan::Attempt => SpanKind::Consumer,
        },
        name: Cow::Owned(format!("{} {}", span.kind.as_str(), span.queue)),
        start_time: time(span.begun),
        end_time: time(span.ended),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: InstrumentationScope::builder("tenure")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.millis())
}
