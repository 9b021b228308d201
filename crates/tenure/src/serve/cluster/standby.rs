//! Standing by: copies what is committed, round by round, until this member may lead.

use std::time::{Duration, Instant};

use tenure_hub::{monotonic_clock, wall_clock};
use tenure_store::{LeaderClaim, Opened, Replica, ReplicationError, StoreError};

use super::backups::StandbyBackups;
use super::group_doors::GroupDoors;
use super::membership::Membership;
use crate::config::Config;
use crate::exit::Failure;
use crate::serve::doors::Door;
use crate::serve::explain;
use crate::serve::reload::Reload;
use crate::serve::stop_signals::{SignalRequest, StopSignals};

/// Between two rounds while something is copied, when nothing is, and after an error.
const BUSY: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_millis(50);
const RETRY_AFTER: Duration = Duration::from_millis(200);

pub(super) struct Standby<'a, 'c> {
    pub(super) config: &'a Config,
    pub(super) doors: &'a mut GroupDoors<'c>,
    pub(super) membership: &'a Membership,
}

pub(super) enum StandbyEnd {
    Leads(Box<NewLeader>),
    /// A signal asked to stop.
    Stopped,
}

/// The parts that a member has when it takes over.
pub(super) struct NewLeader {
    pub(super) opened: Opened,
    pub(super) doors: Vec<Door>,
    pub(super) epoch: u64,
    /// When the takeover began.
    pub(super) begun: Instant,
    pub(super) advertised: String,
}

/// The result of one round.
enum Round {
    Again(Duration),
    Claims(LeaderClaim, u64),
}

impl Standby<'_, '_> {
    pub(super) async fn wait(
        &mut self,
        mut replica: Replica,
        signals: &mut StopSignals,
        reload: &mut Reload,
    ) -> Result<StandbyEnd, Failure> {
        let mut log = StandbyLog::default();
        let forwarding = self.doors.forward()?;
        let mut backups = StandbyBackups::new(&reload.config().backup_dir);
        loop {
            backups.take(&mut self.doors.backup_orders);
            let (back, followed) = blocking(move || {
                let followed = replica.follow();
                (replica, followed)
            })
            .await?;
            replica = back;
            backups.continue_with(&replica, followed.as_ref().ok());
            let pause = match self.judge(&replica, followed, &mut log)? {
                Round::Again(pause) => pause,
                Round::Claims(claim, epoch) => {
                    match self.take_over(replica, claim, reload, &mut backups).await? {
                        TakenOver::Yes(leader) => {
                            forwarding.stop().await;
                            return Ok(StandbyEnd::Leads(leader));
                        }
                        TakenOver::No(back, problem) => {
                            replica = *back;
                            if let Some(error) = problem {
                                log.error(&error);
                                RETRY_AFTER
                            } else {
                                tracing::debug!(epoch, "another member became leader first");
                                IDLE
                            }
                        }
                    }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                asked = signals.next() => match asked {
                    SignalRequest::Stop => {
                        forwarding.stop().await;
                        self.doors.leave();
                        tracing::info!("the broker has stopped; it was standing by");
                        return Ok(StandbyEnd::Stopped);
                    }
                    SignalRequest::Reload => {
                        reload.run_without_hub();
                        self.doors.set_keys(reload.config());
                        backups.set_directory(&reload.config().backup_dir);
                    }
                },
            }
        }
    }

    fn judge(
        &self,
        replica: &Replica,
        followed: Result<tenure_store::Followed, StoreError>,
        log: &mut StandbyLog,
    ) -> Result<Round, Failure> {
        let followed = match followed {
            Ok(followed) => followed,
            Err(error) => {
                passing(self.config, &error)?;
                log.error(&error);
                self.doors.status.is_cut_off(self.config);
                return Ok(Round::Again(RETRY_AFTER));
            }
        };
        self.doors.status.follows(self.config, &followed);
        self.membership.copied_up_to(followed.position);
        self.doors.see(&followed.state, &self.membership.members());
        log.follows(followed.state.holder.as_deref(), followed.state.epoch);
        if let Some(claim) = replica.claim(&followed.state) {
            return Ok(Round::Claims(claim, followed.state.epoch));
        }
        Ok(Round::Again(if followed.copied_bytes > 0 { BUSY } else { IDLE }))
    }

    /// The doors are opened first, because the group must know their addresses when this member leads.
    async fn take_over(
        &mut self,
        mut replica: Replica,
        claim: LeaderClaim,
        reload: &Reload,
        backups: &mut StandbyBackups,
    ) -> Result<TakenOver, Failure> {
        let begun = Instant::now();
        backups.stop();
        let doors = self.doors.serving().await?;
        let advertised = self.doors.advertised();
        self.membership.set_doors(&advertised);
        replica.set_doors(advertised.clone());
        let engine = reload.config().engine.clone();
        let (replica, led) = blocking(move || {
            let led = replica.lead(claim, engine, wall_clock(), monotonic_clock());
            (replica, led)
        })
        .await?;
        let problem = match led {
            Ok(Some(opened)) => {
                let epoch = replica.epoch();
                drop(replica);
                return Ok(TakenOver::Yes(Box::new(NewLeader { opened, doors, epoch, begun, advertised })));
            }
            Ok(None) => None,
            Err(error) => {
                passing(self.config, &error)?;
                Some(error)
            }
        };
        drop(doors);
        self.doors.stand_by();
        Ok(TakenOver::No(Box::new(replica), problem))
    }
}

enum TakenOver {
    Yes(Box<NewLeader>),
    No(Box<Replica>, Option<StoreError>),
}

/// Fails if trying again cannot help.
fn passing(config: &Config, error: &StoreError) -> Result<(), Failure> {
    match error {
        StoreError::Replication(ReplicationError::Misconfigured(_)) | StoreError::Diverged { .. } => {}
        StoreError::Replication(_) => return Ok(()),
        _ => return Err(explain(config, error)),
    }
    if let StoreError::Diverged { position } = error {
        return Err(Failure::system(format!(
            "the copy in {0} and the group's journal differ at position {position}: the database has lost what it had \
             acknowledged, and another leader has written since. `tenure cluster repair --data-dir {0}` tells what to do",
            config.data_dir.display()
        )));
    }
    Err(Failure::system(format!("journal: {error}")))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::internal(error.to_string()))
}

/// Says what changes, once.
#[derive(Default)]
struct StandbyLog {
    leader: Option<(Option<String>, u64)>,
    has_failed: bool,
}

impl StandbyLog {
    fn follows(&mut self, holder: Option<&str>, epoch: u64) {
        if std::mem::take(&mut self.has_failed) {
            tracing::info!("the replicated journal answers again");
        }
        let now = Some((holder.map(str::to_owned), epoch));
        if self.leader != now {
            self.leader = now;
            match holder {
                Some(leader) => tracing::info!(leader, epoch, "following"),
                None => tracing::info!(epoch, "no member leads"),
            }
        }
    }

    fn error(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::warn!(%error, "the replicated journal cannot be followed; trying again; `tenure cluster status` shows the database");
        }
    }
}
