//! `/openapi.json`: the description of the API (OpenAPI 3.1), made from a table with one line for each endpoint.
//!
//! A test compares the table with the routes, and the schemas with what the table names.

use http::header::HeaderValue;
use serde_json::{Map, Value, json};

use crate::call::HttpCall;
use crate::reply::{self, HttpResult};

/// The schemas that bodies and answers have.
const SCHEMAS: &str = include_str!("../../assets/openapi-schemas.json");

/// One endpoint: method and path, what it does, its query parameters, its body, and its answers.
///
/// A body is the name of a schema, with `?` if it may be missing, or `bytes`. An answer is a status with a schema,
/// `bytes`, `text`, `events` or nothing.
struct Operation(&'static str, &'static str, &'static str, &'static str, &'static str);

const OPERATIONS: &[Operation] = &[
    Operation("GET /healthz", "Say that the process answers", "", "", "200 Health"),
    Operation(
        "GET /readyz",
        "Say whether the broker takes new tasks",
        "",
        "",
        "200 Readiness, 503 Readiness",
    ),
    Operation("GET /openapi.json", "Describe this API", "", "", "200 Anything"),
    Operation("GET /metrics", "Show all figures for Prometheus", "", "", "200 text"),
    Operation("POST /v1/login", "Log a browser in", "", "LoginInput", "204, 303"),
    Operation("POST /v1/logout", "Log a browser out", "", "", "204"),
    Operation(
        "GET /v1/tasks",
        "List tasks",
        "state queue tag worker parent array submitter submitted_after submitted_before cursor limit",
        "",
        "200 TaskPage",
    ),
    Operation("POST /v1/tasks", "Submit a task", "", "TaskInput", "201 Accepted, 200 Accepted"),
    Operation("POST /v1/tasks/batch", "Submit many tasks", "", "BatchInput", "200 BatchVerdicts"),
    Operation("GET /v1/tasks/{task}", "Show a task", "", "", "200 Task"),
    Operation("GET /v1/tasks/{task}/explain", "Say why a task is not running", "", "", "200 Why"),
    Operation("GET /v1/tasks/{task}/body", "Get the body of a task", "", "", "200 bytes"),
    Operation("GET /v1/tasks/{task}/result", "Get the result of a task", "wait", "", "200 bytes"),
    Operation("GET /v1/tasks/{task}/checkpoint", "Get the checkpoint of a task", "", "", "200 bytes"),
    Operation(
        "GET /v1/tasks/{task}/logs",
        "Read or follow what a task prints",
        "after",
        "",
        "200 LogPage, 200 events",
    ),
    Operation(
        "GET /v1/tasks/{task}/wait",
        "Wait for the end of a task or an array",
        "wait",
        "",
        "200 TaskOrArray, 204",
    ),
    Operation("POST /v1/tasks/{task}/release", "Release a held task", "", "Nothing?", "204"),
    Operation("POST /v1/tasks/{task}/cancel", "Cancel a task", "", "ReasonInput?", "204"),
    Operation("POST /v1/tasks/{task}/pause", "Pause a task", "", "PauseInput?", "204"),
    Operation("POST /v1/tasks/{task}/resume", "Resume a task", "", "Nothing?", "204"),
    Operation("POST /v1/tasks/{task}/retry", "Retry an ended task", "", "Nothing?", "204"),
    Operation("POST /v1/tasks/{task}/move", "Change a waiting task", "", "MoveInput", "204"),
    Operation(
        "POST /v1/reconcile",
        "Compare a page of tasks with another store",
        "",
        "ReconcileInput",
        "200 Reconciled",
    ),
    Operation("POST /v1/wait", "Wait for the ends of many tasks", "", "WaitInput", "200 WaitAnswer"),
    Operation("POST /v1/bulk/{verb}", "Act on many tasks", "", "BulkInput", "200 BulkAnswer"),
    Operation("GET /v1/queues", "List queues", "", "", "200 QueueList"),
    Operation("GET /v1/queues/{queue}", "Show a queue", "", "", "200 Queue"),
    Operation(
        "GET /v1/queues/{queue}/scaling",
        "Say how many slots a queue needs",
        "wait",
        "",
        "200 Scaling",
    ),
    Operation(
        "POST /v1/queues/{queue}/tasks",
        "Submit bytes as they are",
        "id name priority need tag slots resource share parent after_task on_broken hold not_before expires_at on_lost crash_budget \
         retries backoff_first_ms backoff_max_ms accept_timeout_ms run_limit_ms cancel_timeout_ms",
        "bytes",
        "201 Accepted, 200 Accepted",
    ),
    Operation("POST /v1/queues/{queue}/pause", "Pause a queue", "", "Nothing?", "204"),
    Operation("POST /v1/queues/{queue}/resume", "Resume a queue", "", "Nothing?", "204"),
    Operation("PUT /v1/queues/{queue}/thresholds", "Set the thresholds of a queue", "", "Thresholds", "204"),
    Operation(
        "DELETE /v1/queues/{queue}/thresholds",
        "Return to the default thresholds",
        "",
        "Nothing?",
        "204",
    ),
    Operation("GET /v1/arrays", "List arrays, newest first", "cursor limit", "", "200 ArrayPage"),
    Operation("POST /v1/arrays", "Submit an array", "", "ArrayInput", "201 ArrayAccepted, 200 ArrayAccepted"),
    Operation("GET /v1/arrays/{array}", "Show an array", "", "", "200 Array"),
    Operation("PUT /v1/arrays/{array}/limit", "Limit how many elements run at once", "", "LimitInput", "204"),
    Operation("DELETE /v1/arrays/{array}/limit", "Remove the limit of an array", "", "", "204"),
    Operation("GET /v1/limits", "List the limits of tags", "", "", "200 LimitList"),
    Operation("PUT /v1/limits/{tag}", "Limit a tag", "", "LimitInput", "204"),
    Operation("DELETE /v1/limits/{tag}", "Remove the limit of a tag", "", "", "204"),
    Operation("GET /v1/schedules", "List schedules", "", "", "200 ScheduleList"),
    Operation("GET /v1/schedules/{schedule}", "Show a schedule", "", "", "200 Schedule"),
    Operation("PUT /v1/schedules/{schedule}", "Set a schedule", "", "ScheduleInput", "204"),
    Operation("DELETE /v1/schedules/{schedule}", "Remove a schedule", "", "", "204"),
    Operation("POST /v1/schedules/{schedule}/pause", "Pause a schedule", "", "Nothing?", "204"),
    Operation("POST /v1/schedules/{schedule}/resume", "Resume a schedule", "", "Nothing?", "204"),
    Operation(
        "POST /v1/schedules/{schedule}/run",
        "Submit the task of a schedule now",
        "",
        "Nothing?",
        "201 Accepted, 200 Accepted",
    ),
    Operation("GET /v1/hooks", "List hooks", "", "", "200 HookList"),
    Operation(
        "GET /v1/hooks/{hook}/undelivered",
        "List the events that a hook has given up",
        "",
        "",
        "200 UndeliveredList",
    ),
    Operation(
        "POST /v1/hooks/{hook}/redeliver",
        "Send the events that a hook has given up again",
        "",
        "RedeliverInput?",
        "200 Redelivered",
    ),
    Operation("PUT /v1/queues/{queue}/rate", "Set the rate of a queue", "", "RateInput", "204"),
    Operation("DELETE /v1/queues/{queue}/rate", "Remove the rate of a queue", "", "Nothing?", "204"),
    Operation("PUT /v1/limits/{tag}/rate", "Set the rate of a tag", "", "RateInput", "204"),
    Operation("DELETE /v1/limits/{tag}/rate", "Remove the rate of a tag", "", "", "204"),
    Operation("GET /v1/shares", "List share keys", "", "", "200 ShareList"),
    Operation("PUT /v1/shares/{share}", "Set the weight of a share key", "", "ShareInput", "204"),
    Operation("DELETE /v1/shares/{share}", "Reset the weight of a share key", "", "", "204"),
    Operation("GET /v1/workers", "List workers", "", "", "200 WorkerList"),
    Operation("GET /v1/workers/{worker}", "Show a worker", "", "", "200 Worker"),
    Operation("POST /v1/workers/{worker}/drain", "Drain a worker", "", "Nothing?", "204"),
    Operation("POST /v1/workers/{worker}/clear", "Lift the quarantine of a worker", "", "Nothing?", "204"),
    Operation("PUT /v1/work/{worker}", "Register as a worker", "", "WorkerInput", "200 Registered"),
    Operation("DELETE /v1/work/{worker}", "Leave as a worker", "", "", "204"),
    Operation(
        "POST /v1/work/{worker}/heartbeat",
        "Send a sign of life",
        "",
        "HeartbeatInput?",
        "200 WorkerNews",
    ),
    Operation(
        "POST /v1/work/{worker}/fetch",
        "Fetch a task",
        "wait",
        "Nothing?",
        "200 Assignment, 200 bytes, 204",
    ),
    Operation("POST /v1/work/{worker}/drain", "Take nothing new", "", "Nothing?", "204"),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/start",
        "Start an attempt",
        "",
        "Nothing?",
        "200 Continues",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/progress",
        "Report progress",
        "",
        "ProgressInput?",
        "200 Continues",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/checkpoint",
        "Save a checkpoint",
        "",
        "bytes",
        "200 Continues",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/logs",
        "Append to what an attempt prints",
        "stream offset",
        "bytes",
        "200 Continues",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/suspend",
        "Wait for other tasks without a slot",
        "wait",
        "SuspendInput",
        "200 Suspended",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/complete",
        "Complete a task",
        "",
        "bytes",
        "204",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/fail",
        "Report a failure",
        "",
        "FailInput?",
        "204",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/confirm",
        "Confirm that a task was stopped",
        "",
        "ConfirmInput",
        "204",
    ),
    Operation(
        "POST /v1/work/{worker}/tasks/{task}/{attempt}/give-back",
        "Give a task back",
        "",
        "ReasonInput?",
        "204",
    ),
    Operation("GET /v1/topics", "List topics", "match next limit", "", "200 TopicPage"),
    Operation("GET /v1/topics/{topic}", "Show a topic", "", "", "200 Topic"),
    Operation(
        "POST /v1/topics/{topic}",
        "Publish a message",
        "retain ttl_ms correlation source",
        "bytes",
        "200 Published",
    ),
    Operation(
        "POST /v1/topics/{topic}/request",
        "Publish a request and wait for its answer",
        "correlation source wait",
        "bytes",
        "200 bytes",
    ),
    Operation(
        "GET /v1/messages",
        "Follow messages",
        "topic subscription group policy retained queue_limit",
        "",
        "200 events",
    ),
    Operation("GET /v1/subscriptions", "List subscriptions", "next limit", "", "200 SubscriptionPage"),
    Operation("DELETE /v1/subscriptions/{subscription}", "End a subscription", "", "", "204"),
    Operation(
        "GET /v1/events",
        "Read or follow events",
        "task queue submitter worker kind from limit wait",
        "",
        "200 EventPage, 200 events",
    ),
    Operation("GET /v1/counts", "Count the tasks of the namespace", "", "", "200 Counts"),
    Operation("GET /v1/stats", "Show the figures of the broker", "", "", "200 Figures"),
];

pub(crate) async fn openapi(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    Ok(reply::text(document().to_string(), HeaderValue::from_static("application/json")))
}

/// The whole document.
fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let (method, path) = operation.0.split_once(' ').unwrap_or_default();
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method.to_ascii_lowercase()] = operation.json();
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tenure",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tasks, workers, queues and topics of a Tenure broker. See spec/http.md.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }, { "login": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {
                "query-namespace": shared("namespace", "query", "The namespace, unless the key is bound to one"),
                "header-Tenure-Namespace": shared("Tenure-Namespace", "header", "The same as `namespace`"),
                "header-Tenure-Identity": shared("Tenure-Identity", "header", "The submitter of the tasks of this request"),
            },
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer" },
                "login": { "type": "apiKey", "in": "cookie", "name": "tenure-login" },
            },
        },
    })
}

/// A parameter of many paths. A header field is visible ASCII; an empty value in the query counts as missing.
fn shared(name: &str, place: &str, description: &str) -> Value {
    let schema = match place {
        "header" => json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" }),
        _ => json!({ "type": "string" }),
    };
    json!({ "name": name, "in": place, "description": description, "schema": schema })
}

impl Operation {
    fn json(&self) -> Value {
        let Operation(line, summary, query, body, answers) = self;
        let path = line.split_once(' ').map_or("", |(_, path)| path);
        let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = in_path.map(|name| {
            let schema = match name {
                "attempt" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
                "verb" => json!({ "enum": ["cancel", "pause", "resume", "retry", "release", "move"] }),
                _ => json!({ "type": "string", "minLength": 1 }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        });
        // Every path that needs a key is about one namespace.
        let shared = needs_key(path).then(shared_parameters).into_iter().flatten();
        let in_query = query.split_whitespace().map(parameter).chain(shared);
        let mut operation = json!({
            "summary": summary,
            "operationId": operation_id(line),
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": responses(answers),
        });
        if !body.is_empty() {
            operation["requestBody"] = request_body(body);
        }
        operation
    }
}

/// Whether requests to this path have a key, if the broker has keys.
fn needs_key(path: &str) -> bool {
    !["/healthz", "/readyz", "/openapi.json", "/v1/login", "/v1/logout"].contains(&path)
}

/// The parameters that all paths with a key have in common.
fn shared_parameters() -> impl Iterator<Item = Value> {
    let named =
        |name: &str, place: &str| json!({ "$ref": format!("#/components/parameters/{place}-{name}") });
    [named("namespace", "query"), named("Tenure-Namespace", "header"), named("Tenure-Identity", "header")]
        .into_iter()
}

fn parameter(name: &str) -> Value {
    let number = |minimum: u64| json!({ "type": "integer", "minimum": minimum });
    let schema = match name {
        "state" | "kind" | "tag" | "need" | "topic" | "after_task" | "resource" => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        "limit" => number(1),
        "slots" | "from" | "after" | "offset" | "next" | "crash_budget" | "retries" | "queue_limit" => {
            number(0)
        }
        "priority" => json!({ "type": "integer" }),
        "wait" => json!({ "type": "number", "minimum": 0 }),
        "hold" | "retain" | "retained" => json!({ "type": "boolean" }),
        name if name.ends_with("_ms") => number(0),
        _ => json!({ "type": "string" }),
    };
    // A task is named there, and elsewhere a place in a log.
    let name = if name == "after_task" { "after" } else { name };
    json!({ "name": name, "in": "query", "schema": schema })
}

fn operation_id(line: &str) -> String {
    let words = line.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

fn request_body(body: &str) -> Value {
    let (name, is_optional) = body.strip_suffix('?').map_or((body, false), |name| (name, true));
    let content = if name == "bytes" {
        json!({ "application/octet-stream": {} })
    } else {
        json!({ "application/json": { "schema": reference(name) } })
    };
    json!({ "required": !is_optional && name != "bytes", "content": content })
}

fn responses(answers: &str) -> Value {
    let mut responses = json!({
        "default": {
            "description": "A problem",
            "content": { "application/problem+json": { "schema": reference("Problem") } },
        },
    });
    for answer in answers.split(", ") {
        let (status, kind) = answer.split_once(' ').unwrap_or((answer, ""));
        let response = &mut responses[status];
        if response.is_null() {
            *response = json!({ "description": if kind.is_empty() { "Done" } else { kind } });
        }
        if let Some(fields) = header_fields(kind) {
            response["headers"] = fields;
        }
        let (media_type, schema) = match kind {
            "" => continue,
            "bytes" => ("application/octet-stream", json!({})),
            "text" => ("text/plain", json!({ "type": "string" })),
            "events" => ("text/event-stream", json!({ "type": "string" })),
            name => ("application/json", reference(name)),
        };
        response["content"][media_type] = json!({ "schema": schema });
    }
    responses
}

/// The header fields of an answer that say more than its body.
fn header_fields(kind: &str) -> Option<Value> {
    let field = |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    match kind {
        "Assignment" => Some(json!({
            "Tenure-Task": field("The id of the task"),
            "Tenure-Attempt": field("The number of the attempt"),
            "Tenure-Queue": field("The queue of the task"),
            "Tenure-Array": field("The array of an element"),
            "Tenure-Index": field("The index of an element"),
        })),
        _ => None,
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tenure_hub::words::StateName;

    use super::*;
    use crate::routes::{Endpoint, endpoints};
    use crate::translate::TaskInput;

    #[test]
    fn the_description_has_every_endpoint_and_no_other() {
        let routes = endpoints().into_iter().filter(Endpoint::is_api);
        let routes: BTreeSet<String> =
            routes.map(|endpoint| format!("{} {}", endpoint.method, endpoint.path)).collect();
        let described: BTreeSet<String> = OPERATIONS.iter().map(|operation| operation.0.to_owned()).collect();
        assert_eq!(described, routes);
        assert_eq!(OPERATIONS.len(), described.len(), "an endpoint is described once");
    }

    #[test]
    fn a_submission_has_the_fields_that_are_described() {
        let refusal =
            serde_json::from_value::<TaskInput>(json!({ "unknown": 1 })).expect_err("no such field");
        let refusal = refusal.to_string();
        let known: BTreeSet<&str> = refusal.split('`').skip(3).step_by(2).collect();
        let document = document();
        let described = &document["components"]["schemas"]["TaskInput"]["properties"];
        let described: BTreeSet<&str> =
            described.as_object().expect("properties").keys().map(String::as_str).collect();
        assert_eq!(described, known);
    }

    #[test]
    fn a_state_is_one_of_those_that_are_described() {
        let document = document();
        let described = &document["components"]["schemas"]["Task"]["properties"]["state"]["enum"];
        let states: Vec<&str> = StateName::ALL.into_iter().map(StateName::as_str).collect();
        assert_eq!(described, &json!(states));
    }

    #[test]
    fn every_schema_that_is_named_exists_and_every_one_that_exists_is_named() {
        let document = document();
        let text = document.to_string();
        let named: BTreeSet<&str> = text
            .split("#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default())
            .collect();
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let exist: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
        assert_eq!(named, exist);
    }
}
