//! A broker: hub and doors, from the check of the data directory to the last snapshot.

mod banner;
pub(crate) mod check;
mod doors;
mod logging;
mod memory;
mod reload;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_hub::store::{Disk, RealDisk, StoreError};
use tenure_hub::{Audit, Hub, HubHandle, HubSettings};
use tenure_outbound::SpanExport;
use tenure_outbound::hooks::HookRunner;
use tokio::signal::unix::{Signal, SignalKind};
use tokio::sync::Mutex;

use crate::config::{Config, random_seed};
use crate::exit::{self, Failure, OK, Outcome};
use crate::signals;
use crate::verbs::config::read;
use crate::verbs::serve::Serve;
use banner::Banner;
use reload::Reload;

/// How many threads read bodies and events from the disk, or copy the store. More would wait for the same disk, and
/// each takes a stack of 2 MiB.
const READING_THREADS_MAX: usize = 32;
/// How long doors may take to say their last words once the hub has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(crate) fn run(serve: &Serve) -> Outcome {
    let loaded = read(&serve.flags)?;
    let mut config = Config::build(&loaded, random_seed());
    refuse(&check::faults(&config))?;
    check::directory(&config)?;
    let filter = logging::start(&config.log)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    memory::fit(&mut config);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(Hub::threads())
        .max_blocking_threads(READING_THREADS_MAX)
        .thread_name("tenure")
        .build()
        .map_err(|error| Failure::system(format!("cannot start threads: {error}")))?;
    let reload = Reload::new(serve.flags.clone(), loaded, config.clone(), filter);
    let outcome = runtime.block_on(broker(serve, &config, reload));
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

/// Reports all problems at once.
pub(crate) fn refuse(faults: &[Failure]) -> Result<(), Failure> {
    let Some(first) = faults.first() else { return Ok(()) };
    let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    Err(Failure::new(first.code, messages.join("\n")))
}

async fn broker(serve: &Serve, config: &Config, reload: Reload) -> Outcome {
    let begun = Instant::now();
    // Signals are caught before anything is opened, so that an early one drains too.
    let signals = Signals::catch()?;
    let disk = open_directory(config)?;
    let keys = config.access.keys();
    let doors = doors::open(config, !keys.is_empty()).await?;
    let (spans, export) = config.otlp.clone().map(SpanExport::new).unzip();
    let settings = HubSettings {
        topics: config.topics.clone(),
        keyspace: config.keyspace,
        task_log: config.task_log.clone(),
        unread: config.unread,
        namespaces_per_key_max: config.namespaces_per_key_max,
        audit: open_audit_log(config)?,
        spans: spans.clone(),
    };
    let audit = settings.audit.clone();
    let hub = Hub::start_with(disk, config.store.clone(), config.engine.clone(), settings, keys)
        .map_err(|error| explain(config, &error))?;
    let banner = Banner { config, doors: &doors, report: hub.report(), took: begun.elapsed() };
    banner.print(serve)?;
    tracing::info!(pid = std::process::id(), doors = doors.len(), "the broker is ready");
    let handle = hub.handle().clone();
    handle.set_backup_dir(config.backup_dir.clone());
    if let Some(audit) = &audit {
        audit.started(crate::args::VERSION);
        handle.show(Arc::clone(audit.counters())).await;
    }
    if let Some(spans) = &spans {
        handle.show(Arc::clone(spans.counters())).await;
    }
    let exporting = export.map(|export: SpanExport| tokio::spawn(export.run(handle.clone())));
    let hooks = HookRunner::start(handle.clone(), config.hooks.clone());
    let hooks = Arc::new(Mutex::new(hooks));
    let standing: Vec<_> = doors.into_iter().map(|door| door.serve(handle.clone())).collect();
    let ended = tokio::spawn(hub.ended());
    let stopping = tokio::spawn(signals.handle_signals(handle, reload, Arc::clone(&hooks)));
    let result = ended.await;
    stopping.abort();
    let last_words = async {
        for door in standing {
            let _ = door.await;
        }
        hooks.lock().await.ended().await;
        if let Some(exporting) = exporting {
            let _ = exporting.await;
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    if let Some(audit) = audit {
        audit.stopped();
    }
    doors::leave(config);
    if let Some(file) = &serve.ready_file {
        let _ = std::fs::remove_file(file);
    }
    match result {
        Ok(Ok(())) => {
            tracing::info!("the broker has stopped");
            Ok(OK)
        }
        Ok(Err(StoreError::Damaged(damage))) => Err(Failure::system(format!(
            "in {0}: {damage}\nThe broker has stopped. Everything that was acknowledged before is on disk as it was; \
             `tenure journal verify --data-dir {0}` lists what is damaged",
            config.data_dir.display()
        ))),
        Ok(Err(error)) => Err(explain(config, &error)),
        Err(_) => Err(Failure::internal(
            "the broker has found itself in an impossible state and stopped; what was acknowledged is on disk. \
             Start it again, and report what the log says",
        )),
    }
}

/// Makes the directory and sees whether it is free, before any port is opened or anything is read.
fn open_directory(config: &Config) -> Result<Arc<RealDisk>, Failure> {
    let dir = config.data_dir.display();
    let disk = RealDisk::new(&config.data_dir).map_err(|error| {
        Failure::system(format!(
            "the data directory {dir} cannot be used: {error}. Choose another with --data-dir"
        ))
    })?;
    lock(&disk).map_err(|error| explain(config, &error))?;
    if let Ok(Some(mode)) = disk.open_to_others() {
        tracing::warn!(
            directory = %dir,
            mode = format!("{mode:o}"),
            "other users of this machine may be able to read the data directory; close it with chmod 700"
        );
    }
    Ok(Arc::new(disk))
}

fn open_audit_log(config: &Config) -> Result<Option<Audit>, Failure> {
    let Some(settings) = &config.audit else { return Ok(None) };
    let opened = Audit::open(settings).map_err(|error| {
        Failure::system(format!(
            "audit_log: {} cannot be written: {error}. Choose another with --audit-log",
            settings.path.display()
        ))
    });
    opened.map(Some)
}

/// A broker that was killed lets go of its directory when the system has tidied up after it: that may take a moment.
fn lock(disk: &RealDisk) -> Result<(), StoreError> {
    let since = Instant::now();
    loop {
        match disk.lock() {
            Err(StoreError::Locked { .. }) if since.elapsed() < check::LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other.map(drop),
        }
    }
}

/// What a failing store means for the person who runs the broker.
fn explain(config: &Config, error: &StoreError) -> Failure {
    let dir = config.data_dir.display();
    match error {
        StoreError::Locked { pid } => check::in_use(&config.data_dir, pid),
        StoreError::Damaged(damage) => Failure::system(format!(
            "in {dir}: {damage}\nNothing was changed. `tenure journal verify --data-dir {dir}` tells what is damaged; \
             restore a backup, or let `tenure journal repair` save what can be saved"
        )),
        StoreError::Version { .. } => {
            Failure::system(format!("in {dir}: {error}. Use a newer program, or another directory"))
        }
        StoreError::Sync { .. } => Failure::system(format!(
            "in {dir}: {error}\nEverything that was acknowledged before is safe. Look at the disk (dmesg), then start again"
        )),
        other => Failure::system(format!("in {dir}: {other}")),
    }
}

struct Signals {
    stop: signals::Signals,
    hang_up: Signal,
}

impl Signals {
    fn catch() -> Result<Signals, Failure> {
        Ok(Signals { stop: signals::Signals::catch()?, hang_up: signals::catch(SignalKind::hangup())? })
    }

    /// Reloads at a hang-up, drains at the first signal to stop, and leaves at the second.
    async fn handle_signals(mut self, hub: HubHandle, mut reload: Reload, hooks: Arc<Mutex<HookRunner>>) {
        let mut draining = false;
        loop {
            tokio::select! {
                Some(()) = self.hang_up.recv() => {
                    if let Some(changed) = reload.run(&hub) {
                        hooks.lock().await.replace(changed).await;
                    }
                    continue;
                }
                () = self.stop.next() => {}
            }
            if draining {
                tracing::warn!("stopping at once; everything acknowledged is on disk");
                std::process::exit(i32::from(exit::TASK_CANCELLED));
            }
            draining = true;
            tracing::info!("draining: no new requests are taken; the same signal again stops at once");
            hub.stop();
        }
    }
}
