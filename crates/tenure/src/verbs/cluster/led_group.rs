//! A group that a program leads for a moment, as a member without doors. While it leads, no broker of the group can
//! acknowledge or assign anything. When it ends, another member leads: at once if the program lets go of the group, and
//! otherwise within ten seconds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_hub::words::Name;
use tenure_hub::{IdleLogs, monotonic_clock, wall_clock};
use tenure_journal_postgres::{GroupEntry, MemberHeartbeat, MemberInfo, MemberSession, PostgresJournal};
use tenure_store::{Followed, IdleJournal, Member, Opened, RealDisk, Replica, ReplicaSettings, StoreError};

use crate::config::cluster::ClusterSettings;
use crate::config::{Config, random_seed};
use crate::exit::{Failure, TRY_LATER};
use crate::serve::cluster::start;

/// Long enough for a slow database. If the program ends, the database sees that its session is gone.
const LEASE: Duration = Duration::from_secs(20);
/// How long the leader may take to write what is decided, and how long the copy of the journal may take.
const LED_WITHIN: Duration = Duration::from_secs(300);
/// A hundred years.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
const PAUSE: Duration = Duration::from_millis(20);
/// How often the leader is asked again: another one may have taken over meanwhile.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// A group that this program leads.
pub(super) struct LedGroup {
    pub(super) name: String,
    pub(super) idle: IdleJournal,
    /// Its topics and stored keys.
    pub(super) logs: IdleLogs,
    journal: PostgresJournal,
    member: String,
    _directory: TempDir,
}

/// A copy of a group's journal, before this program leads the group.
pub(super) struct GroupCopy {
    name: String,
    replica: Replica,
    session: MemberSession,
    journal: PostgresJournal,
    member: String,
    settings: tenure_hub::words::Settings,
    directory: TempDir,
}

impl GroupCopy {
    /// Joins the group and copies its journal, while a broker leads it.
    pub(super) fn join(
        config: &Config,
        cluster: &ClusterSettings,
        group: &str,
    ) -> Result<GroupCopy, Failure> {
        let instance = random_seed();
        let name = format!("place-{instance:016x}");
        let cluster = ClusterSettings {
            group: group.to_owned(),
            name: name.clone(),
            lease: LEASE.max(cluster.lease),
            ..cluster.clone()
        };
        let journal = start::open(&cluster)?;
        start::retry_as_tool(|| journal.check())?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let info = MemberInfo { name: name.clone(), instance, version };
        let joined = start::retry_as_tool(|| journal.join(info.clone()))?;
        let session = joined.ok_or_else(|| Failure::internal("the name of a member is taken"))?;
        let directory = tempfile::Builder::new().prefix("tenure-place-").tempdir()?;
        let disk = RealDisk::new(directory.path()).map_err(|error| Failure::system(error.to_string()))?;
        let member = Member { name: name.clone(), instance, lease: cluster.lease, doors: String::new() };
        let settings = ReplicaSettings { member, store: config.store.clone(), mutation: None };
        let replica = Replica::open(Arc::new(disk), Arc::new(journal.clone()), settings)
            .map_err(|error| failed(group, &error))?;
        let mut copy = GroupCopy {
            name: group.to_owned(),
            replica,
            session,
            journal,
            member: name,
            settings: engine_settings(config),
            directory,
        };
        let since = Instant::now();
        while copy.follow(since)?.copied_bytes > 0 {}
        Ok(copy)
    }

    /// Lets the leader of the group step down, and leads.
    pub(super) fn lead(mut self) -> Result<LedGroup, Failure> {
        let led = self.take_over();
        let GroupCopy { name, replica, session, journal, member, directory, .. } = self;
        // The name must be free before it can be forgotten.
        drop((replica, session));
        let opened = led.and_then(|opened| {
            let idle = IdleJournal::new(opened, monotonic_clock);
            let logs = IdleLogs::open(&idle).map_err(|error| failed(&name, &error))?;
            Ok((idle, logs))
        });
        match opened {
            Ok((idle, logs)) => Ok(LedGroup { name, idle, logs, journal, member, _directory: directory }),
            Err(failure) => {
                let _ = journal.forget(&member);
                Err(failure)
            }
        }
    }

    fn take_over(&mut self) -> Result<Opened, Failure> {
        let since = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            let followed = self.follow(since)?;
            if let Some(claim) = self.replica.claim(&followed.state) {
                let led = self.replica.lead(claim, self.settings.clone(), wall_clock(), monotonic_clock());
                match led {
                    Ok(Some(opened)) => return Ok(opened),
                    Ok(None) => {}
                    Err(StoreError::Replication(error)) if error.is_passing() => {}
                    Err(error) => return Err(failed(&self.name, &error)),
                }
            } else if asked.is_none_or(|asked| asked.elapsed() > ASK_INTERVAL) {
                self.ask(followed.position)?;
                asked = Some(Instant::now());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Asks the leader to step down. The group must have heard of this member before.
    fn ask(&mut self, position: u64) -> Result<(), Failure> {
        let latency = self.journal.append_latency();
        let beat = MemberHeartbeat { doors: String::new(), is_leading: false, position, latency };
        self.session.beat(&beat).map_err(|error| start::explain(&error))?;
        start::retry_as_tool(|| self.journal.ask_to_step_down(Some(&self.member))).map(drop)
    }

    fn follow(&mut self, since: Instant) -> Result<Followed, Failure> {
        loop {
            if since.elapsed() > LED_WITHIN {
                let why = format!(
                    "the group {} could not be copied and led in time: see `tenure cluster status`",
                    self.name
                );
                return Err(Failure::new(TRY_LATER, why));
            }
            match self.replica.follow() {
                Err(StoreError::Replication(error)) if error.is_passing() => std::thread::sleep(PAUSE),
                other => return other.map_err(|error| failed(&self.name, &error)),
            }
        }
    }

    /// Leaves the group without having led it.
    pub(super) fn leave(self) {
        let GroupCopy { replica, session, journal, member, .. } = self;
        drop((replica, session));
        let _ = journal.forget(&member);
    }
}

impl LedGroup {
    /// The group with the epoch that this program has begun last.
    pub(super) fn entry(&self) -> GroupEntry {
        GroupEntry { name: self.name.clone(), epoch: self.idle.epoch().unwrap_or(0) }
    }

    /// The namespaces of which the group has anything.
    pub(super) fn namespaces(&self) -> Result<BTreeSet<Name>, Failure> {
        let mut found = self.logs.namespaces().map_err(|error| failed(&self.name, &error))?;
        found.extend(self.idle.namespaces());
        Ok(found)
    }

    /// Lets another member lead.
    pub(super) fn end(self) -> Result<(), Failure> {
        // What was not committed is not written by the next leader either.
        drop(self.logs);
        let closed = self.idle.close();
        let _ = self.journal.forget(&self.member);
        closed.map_err(|error| failed(&self.name, &error))
    }
}

/// Nothing may be forgotten because this program's settings differ from those of the brokers.
fn engine_settings(config: &Config) -> tenure_hub::words::Settings {
    let mut settings = config.engine.clone();
    settings.ended_kept = usize::MAX;
    settings.ended_kept_for = FOREVER;
    settings
}

pub(super) fn failed(group: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::system(format!("group {group}: {error}"))
}
