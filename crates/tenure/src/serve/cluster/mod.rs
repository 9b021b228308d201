//! A member of a group: stands by, takes over, leads until another member does, and stands by again, all in one process.

mod backups;
mod group_doors;
pub(crate) mod identity;
mod membership;
mod placement;
mod standby;
pub(crate) mod start;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_door_kit::forward::GroupMember;
use tenure_hub::{Hub, HubEnd, LeaderStatus, StandbyLag};
use tenure_journal_postgres::{ClusterPlacement, LiveMember, PostgresJournal};
use tenure_store::{
    Member, RealDisk, Replica, ReplicaSettings, ReplicatedJournal, ReplicationError, StoreError,
};

use super::banner::Banner;
use super::hub_parts::HubParts;
use super::reload::Reload;
use super::stop_signals::StopSignals;
use super::{explain, open_directory};
use crate::config::cluster::ClusterSettings;
use crate::config::{Config, random_seed};
use crate::exit::{Failure, OK, Outcome};
use crate::verbs::serve::Serve;
use group_doors::GroupDoors;
use membership::Membership;
use standby::{NewLeader, Standby, StandbyEnd};

/// How long another process may take to let go of the data directory.
const DIRECTORY_WITHIN: Duration = Duration::from_secs(30);
/// When to say that the last leadership has not let go of it.
const DIRECTORY_LATE: Duration = Duration::from_secs(5);
/// How often a leader tells its doors who else is there.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn member(
    serve: &Serve,
    config: &Config,
    cluster: &ClusterSettings,
    mut reload: Reload,
) -> Outcome {
    let mut signals = StopSignals::catch()?;
    let disk = open_directory(config)?;
    identity::refuse_own_journal(&config.data_dir)?;
    let instance = random_seed();
    let Some(joined) = signals.unless_stopped(start::join(cluster, serve.create, instance)).await else {
        tracing::info!("the broker has stopped before it had joined its group");
        return Ok(OK);
    };
    let joined = joined?;
    start::refuse_unreplicated(cluster, &joined.checked)?;
    identity::claim(&config.data_dir, &joined.checked.group)?;
    let mut doors = GroupDoors::open(config, cluster, &joined.checked.secret.0).await?;
    let membership = Membership::start(joined.journal.clone(), joined.info, joined.session);
    let member = ThisMember { serve, config, cluster, disk, journal: joined.journal, instance, membership };
    member.membership.set_doors(&doors.advertised());
    member.announce();
    loop {
        let Some(replica) = signals.unless_stopped(member.open_replica()).await else {
            tracing::info!("the broker has stopped; another member leads");
            doors.leave();
            return Ok(OK);
        };
        let replica = replica?;
        doors.set_keys(reload.config());
        let mut standby = Standby { config, doors: &mut doors, membership: &member.membership };
        let leader = match standby.wait(replica, &mut signals, &mut reload).await? {
            StandbyEnd::Leads(leader) => leader,
            StandbyEnd::Stopped => return Ok(OK),
        };
        let ended = member.lead(*leader, &doors, &mut signals, &mut reload).await;
        member.membership.stands_by();
        doors.stand_by();
        member.membership.set_doors(&doors.advertised());
        if let Some(file) = &serve.ready_file {
            let _ = std::fs::remove_file(file);
        }
        match ended? {
            HubEnd::Deposed { holder, epoch } if signals.is_draining() => {
                tracing::info!(holder, epoch, "the broker has stopped; another member leads already");
                return Ok(OK);
            }
            HubEnd::Deposed { holder, epoch } => {
                tracing::warn!(holder, epoch, "another member leads; this one stands by");
            }
            HubEnd::Stopped if signals.is_draining() => {
                tracing::info!("the broker has stopped; another member may lead at once");
                return Ok(OK);
            }
            HubEnd::Stopped => tracing::info!("this member has stepped down and stands by"),
        }
    }
}

struct ThisMember<'a> {
    serve: &'a Serve,
    config: &'a Config,
    cluster: &'a ClusterSettings,
    disk: Arc<RealDisk>,
    journal: PostgresJournal,
    instance: u64,
    membership: Membership,
}

impl ThisMember<'_> {
    fn announce(&self) {
        let ClusterSettings { group, name, address, .. } = self.cluster;
        tracing::info!(group, name, journal = %address, pid = std::process::id(), "standing by");
        if self.serve.print_addresses.is_none() {
            println!(
                "tenure {}\n\n  journal          {address}\n  group            {group}: {name} stands by\n  data             {}\n\n\
                 `tenure cluster status --journal {address} --group {group}` \
                 tells who does.\n",
                crate::args::VERSION,
                self.config.data_dir.display(),
            );
        }
    }

    /// The parts of the last leadership end soon after it, and then let go of the directory. However long that takes,
    /// this member leads no longer, and stands by when it can.
    async fn open_replica(&self) -> Result<Replica, Failure> {
        let since = Instant::now();
        let own_pid = std::process::id().to_string();
        let mut is_late = false;
        loop {
            let journal: Arc<dyn ReplicatedJournal> = Arc::new(self.journal.clone());
            let ClusterSettings { name, lease, .. } = self.cluster;
            let member =
                Member { name: name.clone(), instance: self.instance, lease: *lease, doors: String::new() };
            let settings = ReplicaSettings { member, store: self.config.store.clone(), mutation: None };
            match Replica::open(self.disk.clone(), journal, settings) {
                Err(StoreError::Locked { pid }) if pid == own_pid || since.elapsed() < DIRECTORY_WITHIN => {
                    if since.elapsed() > DIRECTORY_LATE && !std::mem::replace(&mut is_late, true) {
                        tracing::warn!(pid, "the data directory is still in use; waiting until it is free");
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => return other.map_err(|error| explain(self.config, &error)),
            }
        }
    }

    /// The status of this member while it leads. The group may not have heard of it yet.
    fn leader_status(&self, epoch: u64, acknowledged: u64) -> LeaderStatus {
        let reply = self.membership.last_reply().filter(|reply| reply.epoch >= epoch);
        let latency = self.journal.append_latency();
        let standby = |member: &LiveMember| StandbyLag {
            name: member.name.clone(),
            lag_bytes: acknowledged.saturating_sub(member.position),
        };
        let others = self.membership.members();
        LeaderStatus {
            group: self.cluster.group.clone(),
            name: self.cluster.name.clone(),
            epoch: reply.as_ref().map_or(epoch, |reply| reply.epoch),
            led_for: reply.as_ref().map_or(Duration::ZERO, |reply| reply.led_for),
            led_why: reply.map(|reply| reply.led_why).unwrap_or_default(),
            appends: latency.appends,
            append_p50: latency.p50,
            append_p99: latency.p99,
            standbys: others.iter().filter(|member| member.name != self.cluster.name).map(standby).collect(),
        }
    }

    async fn read_placement(&self) -> Result<Option<ClusterPlacement>, ReplicationError> {
        let journal = self.journal.clone();
        let read = tokio::task::spawn_blocking(move || journal.placement()).await;
        read.unwrap_or_else(|error| Err(ReplicationError::Away(error.to_string())))
    }

    async fn lead(
        &self,
        leader: NewLeader,
        group: &GroupDoors<'_>,
        signals: &mut StopSignals,
        reload: &mut Reload,
    ) -> Result<HubEnd, Failure> {
        let NewLeader { opened, doors, epoch, begun, advertised } = leader;
        // After the epoch has begun: a namespace leaves a group only between two of its leaderships.
        let placed = match self.read_placement().await {
            Ok(placed) => placed,
            Err(error) => {
                tracing::warn!(%error, epoch, "the takeover failed; this member stands by and tries again");
                return Ok(HubEnd::Stopped);
            }
        };
        let gone = placed.as_ref().map(|placed| placement::not_of(&self.cluster.group, placed, &opened));
        let gone = gone.transpose().map_err(|error| explain(self.config, &error))?.unwrap_or_default();
        if !gone.is_empty() {
            placement::forget(opened, gone).await;
            return Ok(HubEnd::Stopped);
        }
        // A configuration that was read again since the start holds for this leadership, too.
        let config = &reload.applied_to(self.config);
        let parts = HubParts::new(config)?;
        let keys = config.access.keys();
        let hub = match Hub::start_opened(opened, begun, parts.settings.clone(), keys) {
            // The database went away, or another member was faster: this one tries again.
            Err(StoreError::Replication(error)) if !matches!(error, ReplicationError::Misconfigured(_)) => {
                tracing::warn!(%error, epoch, "the takeover failed; this member stands by and tries again");
                return Ok(HubEnd::Stopped);
            }
            started => started.map_err(|error| explain(self.config, &error))?,
        };
        self.membership.leads();
        let took = begun.elapsed();
        let banner =
            Banner { config: self.config, doors: &doors, report: hub.report(), took, epoch: Some(epoch) };
        banner.print(self.serve)?;
        let millis = took.as_millis() as u64;
        tracing::info!(epoch, takeover_millis = millis, tasks = hub.report().tasks, "this member leads");
        let leave = self.membership.asked_to_step_down();
        let itself = GroupMember {
            name: self.cluster.name.clone(),
            instance: self.instance,
            doors: advertised.parse().unwrap_or_default(),
        };
        let handle = hub.handle().clone();
        handle.set_leader_status(self.leader_status(epoch, handle.acknowledged()));
        handle.set_placement(placed.map(|placed| placement::of_group(&self.cluster.group, &placed)));
        let showing = async {
            loop {
                // The last view of the group may be older than this leadership.
                if let Some(reply) = self.membership.last_reply().filter(|reply| reply.epoch >= epoch) {
                    let placed = reply.placement.as_ref();
                    handle
                        .set_placement(placed.map(|placed| placement::of_group(&self.cluster.group, placed)));
                }
                group.show(Some(itself.clone()), &self.membership.members());
                handle.set_leader_status(self.leader_status(epoch, handle.acknowledged()));
                tokio::time::sleep(SHOW_INTERVAL).await;
            }
        };
        let stopping = hub.handle().clone();
        let draining = group.answer_after(async move { stopping.stopped().await })?;
        let ended = tokio::select! {
            ended = parts.serve(config, hub, doors, signals, reload, leave) => ended,
            () = showing => unreachable!("it is shown as long as the hub serves"),
        };
        if let Some(draining) = draining {
            draining.stop().await;
        }
        ended
    }
}
