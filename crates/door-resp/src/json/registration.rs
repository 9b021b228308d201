//! `WORKER.REGISTER`: a worker's id and what it can do.

use bytes::Bytes;
use serde_json::Value;
use tenure_hub::words::Resource;
use tenure_plans::{Document, SchemaError, is_name};

use super::error::DocumentError;
use super::identifier::check_worker_id;
use super::options::resources;

const WHAT: &str = "Invalid worker registration";
const REGISTRATION_BYTES_MAX: usize = 128 * 1024;
pub(crate) const CAPABILITIES_MAX: usize = 4096;
const CAPABILITY_BYTES_MAX: usize = 128;
/// The door adds capabilities with this prefix to single out one worker, so workers may not offer them.
const RESERVED: &str = "worker=";
const INSTANCE_BYTES_MAX: usize = 128;
const TAGS_MAX: usize = 64;
const TAG_BYTES_MAX: usize = 128;
pub(crate) const SLOTS_MAX: i64 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerRegistration {
    pub worker: String,
    pub hostname: String,
    pub platform: Option<String>,
    pub version: String,
    pub capabilities: Capabilities,
    pub slots: u32,
    /// What it has for jobs that need quantities.
    pub resources: Vec<Resource>,
    /// Labels of the worker; a task selects by them with `needs`.
    pub tags: Vec<(String, String)>,
    /// Distinguishes processes with the same id.
    pub instance: Option<String>,
    /// The jobs it still works on, if it names them.
    pub jobs: Option<Vec<String>>,
    /// As the worker sent it, for `GET worker:<id>:metadata`.
    pub json: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub tools: Vec<String>,
    pub agentic_units: Vec<String>,
}

impl WorkerRegistration {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, DocumentError> {
        let mut object = Document::parse(WHAT, json, REGISTRATION_BYTES_MAX)?;
        // The id is read with a generous limit, so that its own check can report what is wrong.
        let worker = object.required_text("worker_id", REGISTRATION_BYTES_MAX)?;
        check_worker_id(&worker)?;
        let hostname = object.required_text("hostname", 255)?;
        let version = object.required_text("agw_version", 64)?;
        let platform = object.text("platform", 64)?;
        let capabilities = Capabilities::parse(object.take("capabilities"))?;
        let slots = object.integer("max_concurrent_jobs", 1..=SLOTS_MAX)?.unwrap_or(1);
        let slots = u32::try_from(slots).expect("within the limit");
        let resources = resources(&mut object)?;
        let tags = tags(&mut object)?;
        let instance = instance(&mut object)?;
        let jobs = jobs(&mut object)?;
        // Workers add fields of their own; they are stored in the metadata and otherwise ignored.
        let json = Bytes::copy_from_slice(json);
        Ok(Self {
            worker,
            hostname,
            platform,
            version,
            capabilities,
            slots,
            resources,
            tags,
            instance,
            jobs,
            json,
        })
    }

    /// Everything a task may ask for: tools, agentic units, and each tag as `key=value`. A tag that is
    /// simply true is also offered by its bare key.
    pub(crate) fn offers(&self) -> Vec<String> {
        let mut offers: Vec<String> = self.capabilities.all().map(str::to_owned).collect();
        for (key, value) in &self.tags {
            offers.push(format!("{key}={value}"));
            if value == "true" {
                offers.push(key.clone());
            }
        }
        offers.sort_unstable();
        offers.dedup();
        offers
    }
}

impl Capabilities {
    /// An object with `tools` and perhaps `agentic_units`, or a plain list of tools.
    fn parse(value: Option<Value>) -> Result<Self, DocumentError> {
        let capabilities = match value {
            Some(Value::Array(items)) => Self { tools: names(items)?, agentic_units: Vec::new() },
            Some(Value::Object(mut fields)) => {
                let Some(Value::Array(tools)) = fields.remove("tools") else {
                    return Err(DocumentError::Capabilities);
                };
                let agentic_units = match fields.remove("agentic_units") {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(units)) => units,
                    Some(_) => return Err(DocumentError::Capabilities),
                };
                Self { tools: names(tools)?, agentic_units: names(agentic_units)? }
            }
            _ => return Err(DocumentError::Capabilities),
        };
        if capabilities.all().count() > CAPABILITIES_MAX {
            return Err(DocumentError::Capabilities);
        }
        Ok(capabilities)
    }

    /// The comma-separated list that the oldest workers set as `worker:<id>:tools`.
    pub(crate) fn from_list(list: &[u8]) -> Result<Self, DocumentError> {
        let list = std::str::from_utf8(list).map_err(|_| DocumentError::Capabilities)?;
        let mut tools = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name.starts_with(RESERVED) {
                return Err(DocumentError::CapabilityReserved);
            }
            if !is_name(name, CAPABILITY_BYTES_MAX) || tools.len() == CAPABILITIES_MAX {
                return Err(DocumentError::Capabilities);
            }
            tools.push(name.to_owned());
        }
        Ok(Self { tools, agentic_units: Vec::new() })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().chain(&self.agentic_units).map(String::as_str)
    }
}

fn names(items: Vec<Value>) -> Result<Vec<String>, DocumentError> {
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        // A program may be named, or described as it describes itself.
        let item = match item {
            Value::Object(mut described) => described.remove("name").ok_or(DocumentError::Capabilities)?,
            other => other,
        };
        match item {
            Value::String(name) if name.starts_with(RESERVED) => {
                return Err(DocumentError::CapabilityReserved);
            }
            Value::String(name) if is_name(&name, CAPABILITY_BYTES_MAX) => names.push(name),
            _ => return Err(DocumentError::Capabilities),
        }
    }
    Ok(names)
}

/// A text or a number by which the worker distinguishes its processes.
fn instance(object: &mut Document) -> Result<Option<String>, SchemaError> {
    match object.take("instance") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::String(text)) if !text.is_empty() && text.len() <= INSTANCE_BYTES_MAX => Ok(Some(text)),
        Some(_) => Err(object.invalid("instance is not a number or a short text")),
    }
}

/// `jobs` and `running` mean the same.
fn jobs(object: &mut Document) -> Result<Option<Vec<String>>, SchemaError> {
    let mut jobs: Option<Vec<String>> = None;
    for field in ["jobs", "running"] {
        let items = match object.take(field) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(items)) => items,
            Some(_) => return Err(object.invalid(format!("{field} is not a list of job ids"))),
        };
        for item in items {
            let Value::String(job) = item else {
                return Err(object.invalid(format!("{field} is not a list of job ids")));
            };
            jobs.get_or_insert_default().push(job);
        }
        jobs.get_or_insert_default();
    }
    Ok(jobs)
}

fn tags(object: &mut Document) -> Result<Vec<(String, String)>, SchemaError> {
    let fields = match object.take("tags") {
        None => return Ok(Vec::new()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(object.invalid("tags is not an object")),
    };
    if fields.len() > TAGS_MAX {
        return Err(object.invalid(format!("tags has more than {TAGS_MAX} entries")));
    }
    let mut tags = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        let value = match value {
            Value::String(text) => text,
            Value::Bool(yes) => yes.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(object.invalid("tags has a value that is not a string, number or boolean"));
            }
        };
        if !is_name(&key, TAG_BYTES_MAX) || value.len() > TAG_BYTES_MAX {
            return Err(object.invalid("tags has an entry that is not a name"));
        }
        if format!("{key}=").starts_with(RESERVED) {
            return Err(object.invalid("tags has the name worker, which is reserved"));
        }
        tags.push((key, value));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<WorkerRegistration, String> {
        WorkerRegistration::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn good() -> Value {
        json!({
            "worker_id": "worker-macbook-001", "hostname": "macbook-pro.local", "platform": "darwin-arm64",
            "agw_version": "0.1.0",
            "capabilities": {"tools": ["sort", "uniq"], "agentic_units": ["agx-ocr"]},
            "max_concurrent_jobs": 4,
            "tags": {"environment": "local", "gpu": true, "cores": 8},
        })
    }

    fn with(field: &str, value: Value) -> Value {
        let mut registration = good();
        registration[field] = value;
        registration
    }

    #[test]
    fn a_full_registration_is_understood() {
        let registration = parse(&good()).unwrap();
        assert_eq!(registration.worker, "worker-macbook-001");
        assert_eq!(registration.slots, 4);
        assert_eq!(
            registration.offers(),
            ["agx-ocr", "cores=8", "environment=local", "gpu", "gpu=true", "sort", "uniq"]
        );
    }

    #[test]
    fn the_least_a_worker_must_say() {
        let least = json!({"worker_id": "w", "hostname": "h", "agw_version": "1", "capabilities": []});
        let registration = parse(&least).unwrap();
        assert_eq!((registration.slots, registration.platform, registration.tags.len()), (1, None, 0));
        for field in ["worker_id", "hostname", "agw_version"] {
            let error = parse(&with(field, Value::Null)).unwrap_err();
            assert_eq!(error, format!("Invalid worker registration: Missing required field {field}"));
        }
    }

    #[test]
    fn capabilities_have_two_forms_and_no_third() {
        assert_eq!(parse(&with("capabilities", json!(["a", "b"]))).unwrap().capabilities.tools, ["a", "b"]);
        for wrong in [
            json!(null),
            json!("sort"),
            json!(1),
            json!({}),
            json!({"tools": "sort"}),
            json!([1]),
            json!([""]),
            json!({"agentic_units": []}),
            json!({"tools": [], "agentic_units": "x"}),
            json!(["a b"]),
            json!(vec!["x"; CAPABILITIES_MAX + 1]),
        ] {
            assert_eq!(parse(&with("capabilities", wrong)).unwrap_err(), "Invalid capabilities format");
        }
    }

    #[test]
    fn an_agentic_unit_may_come_with_its_description() {
        let units = json!({"tools": ["sort"], "agentic_units": [
            {"name": "agx-ocr", "version": "0.1.0", "description": "Reads scanned pages", "inputs": [], "outputs": []},
        ]});
        let registration = parse(&with("capabilities", units)).unwrap();
        assert_eq!(registration.capabilities.agentic_units, ["agx-ocr"]);
        assert!(parse(&with("capabilities", json!([{"version": "1"}]))).is_err());
    }

    #[test]
    fn an_id_that_could_forge_a_key_is_refused() {
        assert_eq!(parse(&with("worker_id", json!("w:alive"))).unwrap_err(), "Invalid worker ID characters");
        assert_eq!(parse(&with("worker_id", json!("w".repeat(65)))).unwrap_err(), "Worker ID too long");
    }

    #[test]
    fn slots_and_tags_are_checked() {
        assert_eq!(
            parse(&with("max_concurrent_jobs", json!(0))).unwrap_err(),
            "Invalid worker registration: max_concurrent_jobs is not between 1 and 10000"
        );
        assert_eq!(
            parse(&with("tags", json!(["gpu"]))).unwrap_err(),
            "Invalid worker registration: tags is not an object"
        );
        assert_eq!(
            parse(&with("tags", json!({"a": {"b": 1}}))).unwrap_err(),
            "Invalid worker registration: tags has a value that is not a string, number or boolean"
        );
    }

    #[test]
    fn resources_are_numbers_or_texts_with_a_unit() {
        let registration =
            parse(&with("resources", json!({"gpus": 2, "mem": "8GB", "licence": 0.5}))).unwrap();
        let said: Vec<String> =
            registration.resources.iter().map(|of| format!("{} {}", of.name, of.quantity.0)).collect();
        assert_eq!(said, ["gpus 2000", "licence 500", "mem 8000000000000"]);
        assert_eq!(parse(&good()).unwrap().resources, []);
        for wrong in [json!(["gpus"]), json!({"gpus": "many"}), json!({"gpus": {"count": 2}})] {
            let error = parse(&with("resources", wrong)).unwrap_err();
            assert!(error.starts_with("Invalid worker registration: resources"), "{error}");
        }
    }

    #[test]
    fn no_worker_can_offer_another_workers_id() {
        for tags in [json!({"worker": "honest"}), json!({"worker=honest": true})] {
            assert_eq!(
                parse(&with("tags", tags)).unwrap_err(),
                "Invalid worker registration: tags has the name worker, which is reserved"
            );
        }
        let reserved = "Invalid capabilities: names that begin with worker= are reserved";
        for capabilities in
            [json!(["worker=honest"]), json!({"tools": [], "agentic_units": ["worker=honest"]})]
        {
            assert_eq!(parse(&with("capabilities", capabilities)).unwrap_err(), reserved);
        }
        assert_eq!(Capabilities::from_list(b"a,worker=honest"), Err(DocumentError::CapabilityReserved));
        assert!(parse(&with("tags", json!({"worker_pool": "a", "workers": 3}))).is_ok());
    }

    #[test]
    fn what_is_not_a_json_object_is_named() {
        let error = WorkerRegistration::parse(b"[]").unwrap_err();
        assert_eq!(error.to_string(), "Invalid worker registration: not a JSON object");
        assert!(WorkerRegistration::parse(b"{").unwrap_err().to_string().contains("Invalid JSON"));
        assert!(
            WorkerRegistration::parse(&[b'['; 60_000]).is_err(),
            "deep nesting does not overflow the stack"
        );
        assert!(WorkerRegistration::parse(&[b' '; 140_000]).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn the_oldest_workers_send_a_comma_separated_list() {
        assert_eq!(Capabilities::from_list(b"sort, uniq,,jq").unwrap().tools, ["sort", "uniq", "jq"]);
        assert_eq!(Capabilities::from_list(b"a b"), Err(DocumentError::Capabilities));
    }
}
