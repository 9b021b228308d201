//! Requests to the broker itself: the `mmi.*` services.

use bytes::Bytes;

use super::{MdpStats, decimal};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mmi {
    /// Whether a worker serves this name now.
    Service { name: String },
    /// The available services; with a name, the data of this plugin.
    List { name: Option<String> },
    /// The state of the client's jobs.
    Status,
    /// The state of one job.
    Job { id: String },
    /// Cancels what is still queued, of this client or of the named one.
    Cancel { client: Option<String> },
    /// The services of each worker.
    ListServices,
    /// Waiting and running jobs, and the workers.
    Workers,
    /// The health of the workers.
    Health,
    /// Controls notices about the client's jobs.
    Notify(Notify),
    /// A known request with invalid arguments: `400`.
    Malformed,
    /// An unknown request: `501`.
    Unknown,
}

/// Which notices a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// All from now on; with a number, also those after that event.
    On { after: Option<u64> },
    /// None any more.
    Off,
    /// Those after this event, once.
    After(u64),
}

impl Mmi {
    /// Reads a question. Only names that begin with `mmi.` come here.
    pub fn parse(service: &str, body: &[Bytes]) -> Mmi {
        match service {
            "mmi.service" => match text(body.first()) {
                Some(name) => Mmi::Service { name },
                None => Mmi::Malformed,
            },
            "mmi.list" => Mmi::List { name: text(body.first()) },
            "mmi.status" => Mmi::Status,
            "mmi.job" => match text(body.first()) {
                Some(id) => Mmi::Job { id },
                None => Mmi::Malformed,
            },
            "mmi.cancel" => Mmi::Cancel { client: text(body.first()) },
            "mmi.list_services" => Mmi::ListServices,
            "mmi.workers" => Mmi::Workers,
            "mmi.health" => Mmi::Health,
            "mmi.notify" => notify(body).map_or(Mmi::Malformed, Mmi::Notify),
            _ => Mmi::Unknown,
        }
    }
}

/// Calls that wait, as `mmi.workers` shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCall {
    pub path: String,
    pub client: String,
    pub project: String,
    pub calls: u64,
    pub priority: i32,
}

/// A call that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCall {
    pub path: String,
    pub client: String,
    pub project: String,
    pub worker: String,
    pub priority: i32,
}

/// One thread of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerThread {
    pub thread: u32,
    pub identity: String,
    pub name: String,
}

/// A worker and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmiWorkerHealth {
    pub identity: String,
    pub name: String,
    pub threads: u32,
    pub stats: MdpStats,
    /// How often it crashed in the time the broker remembers.
    pub crashes: u32,
    /// From 0 (crashes all the time) to 100 (never did).
    pub score: u32,
}

impl PendingCall {
    pub fn line(&self) -> Bytes {
        let (path, client, project) = (plain(&self.path), plain(&self.client), plain(&self.project));
        format!("Pending: {path}|{client}|{project}|{}|{}", self.calls, self.priority).into()
    }
}

impl RunningCall {
    pub fn line(&self) -> Bytes {
        let (path, client, project) = (plain(&self.path), plain(&self.client), plain(&self.project));
        format!("Running: {path}|{client}|{project}|{}|{}", plain(&self.worker), self.priority).into()
    }
}

impl WorkerThread {
    pub fn worker_line(&self) -> Bytes {
        self.line("Workers")
    }

    pub fn waiting_line(&self) -> Bytes {
        self.line("Waiting")
    }

    fn line(&self, what: &str) -> Bytes {
        let identity = plain(&self.identity);
        format!("{what}: {}|{identity}|{}", self.thread, plain(&self.name)).into()
    }
}

impl MmiWorkerHealth {
    /// Monitors read every figure as a number and expect all of them, so an unknown one is 0.
    pub fn line(&self) -> Bytes {
        let known = |figure: Option<f64>| figure.unwrap_or(0.0);
        format!(
            "{}|{}|NumberThreads:{}#TotalPhysicalMemory:{}#PhysicalMemoryUsed:{}#PhenoLinkMemoryUsage:{}\
             #TotalWorkerCPULoad:{}#PhenoLinkWorkerCPULoad:{}#Crashes:{}#HealthScore:{}",
            plain(&self.identity),
            plain(&self.name),
            self.threads,
            known(self.stats.total_memory),
            known(self.stats.used_memory),
            known(self.stats.process_memory),
            known(self.stats.total_cpu),
            known(self.stats.process_cpu),
            self.crashes,
            self.score,
        )
        .into()
    }
}

impl Mmi {
    /// One line of `mmi.list_services`: a worker and every service it has, with versions.
    pub fn services_line<'a>(
        identity: &str,
        name: &str,
        services: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Bytes {
        let mut line = format!("{}|{}", plain(identity), plain(name));
        for (path, version) in services {
            line.push('#');
            line.push_str(&plain(path));
            line.push('|');
            line.push_str(&plain(version));
        }
        line.into()
    }
}

/// A field of a line: the characters that separate fields become `_`.
fn plain(field: &str) -> String {
    field.replace(['|', '#'], "_")
}

/// The text of a frame; an empty frame is like none.
fn text(frame: Option<&Bytes>) -> Option<String> {
    let text = std::str::from_utf8(frame?).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn notify(body: &[Bytes]) -> Option<Notify> {
    match body {
        [word] if word.as_ref() == b"on" => Some(Notify::On { after: None }),
        [word, after] if word.as_ref() == b"on" => Some(Notify::On { after: Some(decimal(after)?) }),
        [word] if word.as_ref() == b"off" => Some(Notify::Off),
        [after] => Some(Notify::After(decimal(after)?)),
        _ => None,
    }
}
