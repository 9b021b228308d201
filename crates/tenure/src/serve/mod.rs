//! A broker: hub and doors, from the check of the data directory to the last snapshot.

mod banner;
pub(crate) mod check;
pub(crate) mod cluster;
mod doors;
mod hub_parts;
mod logging;
mod memory;
mod reload;
mod status;
mod stop_signals;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_hub::{Audit, Hub, HubEnd};
use tenure_store::{Disk, RealDisk, StoreError};

use crate::config::{Config, random_seed};
use crate::exit::{Failure, OK, Outcome};
use crate::verbs::config::read;
use crate::verbs::serve::Serve;
use banner::Banner;
use hub_parts::HubParts;
use reload::Reload;
use status::Status;
use stop_signals::StopSignals;

/// How many threads read bodies and events from the disk, or copy the store. More would wait for the same disk, and
/// each takes a stack of 2 MiB.
const READING_THREADS_MAX: usize = 32;

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
    let outcome = runtime.block_on(async {
        match &config.cluster {
            None => broker(serve, &config, reload).await,
            Some(cluster) => cluster::member(serve, &config, cluster, reload).await,
        }
    });
    runtime.shutdown_timeout(hub_parts::DOOR_CLOSE_TIMEOUT);
    outcome
}

/// Reports all problems at once.
pub(crate) fn refuse(faults: &[Failure]) -> Result<(), Failure> {
    let Some(first) = faults.first() else { return Ok(()) };
    let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    Err(Failure::new(first.code, messages.join("\n")))
}

/// A broker with its journal on the local disk.
async fn broker(serve: &Serve, config: &Config, mut reload: Reload) -> Outcome {
    let begun = Instant::now();
    // Signals are caught before anything is opened, so that an early one drains too.
    let mut signals = StopSignals::catch()?;
    let disk = open_directory(config)?;
    cluster::identity::refuse_copy(&config.data_dir)?;
    let keys = config.access.keys();
    let mut bound = doors::BoundDoors::default();
    let shared = doors::shared_settings(config);
    let doors = doors::open_with(config, !keys.is_empty(), shared, Some(&mut bound)).await?;
    // Probes learn at once that the broker recovers. Peers of the other doors wait until it serves.
    let status = Status::recovering(config);
    let answering = status.answer(config, &bound)?;
    let parts = HubParts::new(config)?;
    let settings = parts.settings.clone();
    let hub = Hub::start_with(disk, config.store.clone(), config.engine.clone(), settings, keys)
        .map_err(|error| explain(config, &error))?;
    if let Some(answering) = answering {
        answering.stop().await;
    }
    let handle = hub.handle().clone();
    let draining = status.answer_after(config, &bound, async move { handle.stopped().await })?;
    drop(bound);
    let banner = Banner { config, doors: &doors, report: hub.report(), took: begun.elapsed(), epoch: None };
    banner.print(serve)?;
    let result = parts.serve(config, hub, doors, &mut signals, &mut reload, std::future::pending()).await;
    if let Some(draining) = draining {
        draining.stop().await;
    }
    if let Some(file) = &serve.ready_file {
        let _ = std::fs::remove_file(file);
    }
    match result? {
        HubEnd::Deposed { .. } => unreachable!("a broker without a group is not replaced"),
        HubEnd::Stopped => {
            tracing::info!("the broker has stopped");
            Ok(OK)
        }
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

/// The failure of the store, in words for the operator.
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
