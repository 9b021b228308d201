//! The doors of a member: they forward to the leader while it stands by, and serve while it leads, on the same sockets.

use std::sync::Arc;

use tenure_door_kit::forward::{
    DoorAddresses, DoorGroup, Forwarder, GroupMember, GroupSecret, GroupView, StandbyDoor,
};
use tenure_door_kit::{Authenticator, DoorListener, DoorSettings};
use tenure_door_msgpack::NativeStandby;
use tenure_hub::{Audit, Counters, Keys, StandbyBackup};
use tenure_journal_postgres::LiveMember;
use tenure_store::GroupState;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::config::cluster::ClusterSettings;
use crate::exit::Failure;
use crate::serve::doors::{self, BoundDoor, BoundDoors, Door};
use crate::serve::open_audit_log;
use crate::serve::status::{Answering, Status};

/// How many backups may wait for this standby to begin them.
const BACKUPS_WAITING_MAX: usize = 4;

pub(super) struct GroupDoors<'a> {
    config: &'a Config,
    forwards: bool,
    bound: BoundDoors,
    settings: DoorSettings,
    group: DoorGroup,
    view: watch::Sender<GroupView>,
    /// The status of this standby.
    pub(super) status: Status,
    keys: watch::Sender<Keys>,
    orders: mpsc::Sender<StandbyBackup>,
    /// Backups that peers want from this standby.
    pub(super) backup_orders: mpsc::Receiver<StandbyBackup>,
}

/// Forwarding doors, until they are stopped.
pub(super) struct Forwarding {
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

impl GroupDoors<'_> {
    /// A port that is taken shows now, and not when this member has to take over.
    pub(super) async fn open<'a>(
        config: &'a Config,
        cluster: &ClusterSettings,
        secret: &str,
    ) -> Result<GroupDoors<'a>, Failure> {
        let secret =
            GroupSecret::new(secret.as_bytes()).map_err(|error| Failure::system(error.to_string()))?;
        let (view, seen) = watch::channel(GroupView::default());
        let group =
            DoorGroup { group: cluster.group.clone(), name: cluster.name.clone(), secret, view: seen };
        let settings = DoorSettings { group: Some(group.clone()), ..doors::shared_settings(config) };
        let (orders, backup_orders) = mpsc::channel(BACKUPS_WAITING_MAX);
        let mut doors = GroupDoors {
            config,
            forwards: cluster.forwards,
            bound: BoundDoors::default(),
            settings,
            group,
            view,
            status: Status::recovering(config),
            keys: watch::channel(config.access.keys()).0,
            orders,
            backup_orders,
        };
        drop(doors.serving().await?);
        if !doors.forwards {
            doors.close();
        }
        Ok(doors)
    }

    /// The doors of a leader.
    pub(super) async fn serving(&mut self) -> Result<Vec<Door>, Failure> {
        let has_keys = self.config.access.count() > 0;
        doors::open_with(self.config, has_keys, self.settings.clone(), Some(&mut self.bound)).await
    }

    /// Where others reach the doors that are open: `native=HOST:PORT resp=HOST:PORT`.
    pub(super) fn advertised(&self) -> String {
        let host = self.config.cluster.as_ref().and_then(|cluster| cluster.advertise.as_deref());
        let mut addresses = DoorAddresses::default();
        for door in self.bound.iter() {
            let DoorListener::Tcp(listener) = &door.listener else { continue };
            let Ok(address) = listener.local_addr() else { continue };
            let shown = match host {
                Some(host) if host.contains(':') => format!("[{host}]:{}", address.port()),
                Some(host) => format!("{host}:{}", address.port()),
                None => address.to_string(),
            };
            if let Err(error) = addresses.set(door.advertised, &shown) {
                tracing::warn!(%error, "a door is not advertised; set `advertise` to a host name or address of this machine");
            }
        }
        addresses.to_string()
    }

    /// Refuses connections from now on, if the doors of a standby are closed.
    pub(super) fn stand_by(&mut self) {
        if !self.forwards {
            self.close();
        }
    }

    fn close(&mut self) {
        self.bound = BoundDoors::default();
        doors::leave(self.config);
    }

    pub(super) fn leave(&self) {
        doors::leave(self.config);
    }

    /// The configuration was read again.
    pub(super) fn set_keys(&self, config: &Config) {
        self.status.set_keys(config);
        self.keys.send_replace(config.access.keys());
    }

    /// What a standby answers itself.
    fn itself(
        &self,
        door: &BoundDoor,
        audit: Option<&Audit>,
        counters: &Arc<Counters>,
    ) -> Result<Option<Arc<dyn StandbyDoor>>, Failure> {
        if !door.name.starts_with("native") {
            return self.status.door(self.config, door.name);
        }
        let [tls, _] = doors::tls(self.config)?;
        let tls = tls.filter(|_| door.name == "native");
        let settings = DoorSettings { tls, ..self.settings.clone() };
        let authenticator =
            Authenticator::of_standby(self.keys.subscribe(), audit.cloned(), door.name, Arc::clone(counters));
        Ok(Some(Arc::new(NativeStandby::new(door.name, settings, authenticator, self.orders.clone()))))
    }

    /// Forwards what arrives to the leader.
    pub(super) fn forward(&self) -> Result<Forwarding, Failure> {
        let (stop, stopped) = watch::channel(false);
        let audit = open_audit_log(self.config)?;
        let mut running = Vec::new();
        for door in self.bound.iter().filter(|_| self.forwards) {
            let to = if door.advertised == "native_unix" { "native" } else { door.advertised };
            let counters = Arc::new(Counters::new(door.name));
            let mut forwarder =
                Forwarder::new(door.name, to, self.group.clone(), self.settings.clone(), counters);
            forwarder.itself = self.itself(door, audit.as_ref(), &forwarder.counters)?;
            let (listener, mut stopped) = (door.listener.duplicate()?, stopped.clone());
            running.push(tokio::spawn(async move {
                let stopped = async move {
                    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
                };
                forwarder.run(listener, stopped).await;
            }));
        }
        Ok(Forwarding { stop, running })
    }

    /// Passes on the group as this standby sees it.
    pub(super) fn see(&self, state: &GroupState, members: &[LiveMember]) {
        let leader = state.holder.as_ref().map(|name| GroupMember {
            name: name.clone(),
            instance: state.instance,
            doors: state.doors.parse().unwrap_or_default(),
        });
        self.show(leader, members);
    }

    /// Answers that a leader drains, from the moment that its hub takes no more requests.
    pub(super) fn answer_after(
        &self,
        draining: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Option<Answering>, Failure> {
        self.status.answer_after(self.config, &self.bound, draining)
    }

    /// Shows who leads to the doors and, through them, to clients.
    pub(super) fn show(&self, leader: Option<GroupMember>, members: &[LiveMember]) {
        let members = members.iter().filter(|member| !member.doors.is_empty()).map(|member| GroupMember {
            name: member.name.clone(),
            instance: member.instance,
            doors: member.doors.parse().unwrap_or_default(),
        });
        let view = GroupView { leader, members: members.collect() };
        self.view.send_if_modified(|known| {
            let is_new = *known != view;
            if is_new {
                known.clone_from(&view);
            }
            is_new
        });
    }
}

impl Forwarding {
    /// Closes what is forwarded, and leaves the sockets to the doors of a leader.
    pub(super) async fn stop(self) {
        let _ = self.stop.send(true);
        for running in self.running {
            let _ = running.await;
        }
    }
}
