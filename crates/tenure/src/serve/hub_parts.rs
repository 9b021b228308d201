//! The parts around a hub: the doors, the hooks, the audit log and the export of spans, from its start to its end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_hub::{Audit, Hub, HubEnd, HubSettings};
use tenure_outbound::SpanExport;
use tenure_outbound::hooks::HookRunner;
use tenure_store::StoreError;
use tokio::task::JoinHandle;

use super::doors::{self, Door};
use super::reload::Reload;
use super::stop_signals::{SignalRequest, StopSignals};
use super::{explain, open_audit_log};
use crate::config::Config;
use crate::exit::Failure;

/// How long doors may take to send what is left once the hub has ended.
pub(super) const DOOR_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct HubParts {
    pub(super) settings: HubSettings,
    audit: Option<Audit>,
    export: Option<SpanExport>,
}

impl HubParts {
    pub(super) fn new(config: &Config) -> Result<HubParts, Failure> {
        let (spans, export) = config.otlp.clone().map(SpanExport::new).unzip();
        let settings = HubSettings {
            topics: config.topics.clone(),
            keyspace: config.keyspace,
            task_log: config.task_log.clone(),
            unread: config.unread,
            namespaces_per_key_max: config.namespaces_per_key_max,
            audit: open_audit_log(config)?,
            spans,
        };
        Ok(HubParts { audit: settings.audit.clone(), settings, export })
    }

    /// Serves until the hub has ended. `leave` asks it to stop, as a signal does.
    pub(super) async fn serve(
        self,
        config: &Config,
        hub: Hub,
        doors: Vec<Door>,
        signals: &mut StopSignals,
        reload: &mut Reload,
        leave: impl Future<Output = ()>,
    ) -> Result<HubEnd, Failure> {
        let HubParts { settings, audit, export } = self;
        tracing::info!(pid = std::process::id(), doors = doors.len(), "the broker is ready");
        let handle = hub.handle().clone();
        handle.set_backup_dir(config.backup_dir.clone());
        if let Some(audit) = &audit {
            audit.started(crate::args::VERSION);
            handle.show(Arc::clone(audit.counters())).await;
        }
        if let Some(spans) = &settings.spans {
            handle.show(Arc::clone(spans.counters())).await;
        }
        let exporting = export.map(|export: SpanExport| tokio::spawn(export.run(handle.clone())));
        let mut hooks = HookRunner::start(handle.clone(), config.hooks.clone());
        // Before the doors open, so that a new hook gets the first event.
        hooks.opened().await;
        let mut standing: Vec<_> = doors.into_iter().map(|door| door.serve(handle.clone())).collect();
        let mut ended = tokio::spawn(hub.ended());
        let mut leave = std::pin::pin!(leave);
        let mut is_leaving = false;
        let result = loop {
            tokio::select! {
                result = &mut ended => break result,
                asked = signals.next() => match asked {
                    SignalRequest::Reload => {
                        if let Some(changed) = reload.run(&handle) {
                            hooks.replace(changed).await;
                        }
                    }
                    SignalRequest::Stop => {
                        tracing::info!("draining: the broker accepts no new requests; the same signal again stops at once");
                        handle.stop();
                    }
                },
                () = &mut leave, if !is_leaving => {
                    is_leaving = true;
                    tracing::info!("draining: another broker will lead");
                    handle.stop();
                }
            }
        };
        drop(handle);
        let closing = async {
            for door in &mut standing {
                let _ = door.await;
            }
            hooks.ended().await;
            if let Some(exporting) = exporting {
                let _ = exporting.await;
            }
        };
        let _ = tokio::time::timeout(DOOR_CLOSE_TIMEOUT, closing).await;
        // A connection may wait for an answer that never comes, because another broker leads. As long as it is open, it
        // keeps the store.
        standing.iter().for_each(JoinHandle::abort);
        if let Some(audit) = audit {
            audit.stopped();
        }
        doors::leave(config);
        match result {
            Ok(Ok(end)) => Ok(end),
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
}
