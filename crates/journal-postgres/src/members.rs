//! Members of a group: each says once a second that it is alive, where its copy ends, and hears what is asked of it.

use std::time::Duration;

use tenure_store::ReplicationError;

use crate::group::{lock_number, missing};
use crate::link::{PostgresLink, QUERY_MAX};
use crate::namespaces::{self, ClusterPlacement};
use crate::{AppendLatency, PostgresJournal};

/// What does not change while the process lives.
#[derive(Clone, Debug)]
pub struct MemberInfo {
    /// The name of the member, unique in its group.
    pub name: String,
    /// A number that each process of the member chooses.
    pub instance: u64,
    /// The version of the program.
    pub version: String,
}

/// What a member says about itself.
#[derive(Clone, Debug)]
pub struct MemberHeartbeat {
    /// The addresses of its doors, as it advertises them.
    pub doors: String,
    /// Whether it leads.
    pub is_leading: bool,
    /// Where its copy of the journal of tasks ends.
    pub position: u64,
    /// How long its last appends took.
    pub latency: AppendLatency,
}

/// What a member hears in return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Another member is to lead.
    pub is_asked_to_step_down: bool,
    /// The number of the last leadership.
    pub epoch: u64,
    /// How long it has lasted.
    pub led_for: Duration,
    /// Why that member took over.
    pub led_why: String,
    /// The members that were heard lately, with this one.
    pub members: Vec<LiveMember>,
    /// Where the namespaces are, if any is placed.
    pub placement: Option<ClusterPlacement>,
}

/// A member that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveMember {
    /// The name of the member, unique in its group.
    pub name: String,
    /// A number that each process of the member chooses.
    pub instance: u64,
    /// The addresses of its doors, as it advertises them.
    pub doors: String,
    /// Where its copy of the journal of tasks ended.
    pub position: u64,
}

/// What becomes of the wish that another member leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepDownReply {
    /// The leader learns of it with its next heartbeat.
    Asked {
        /// The name of the leader.
        leader: String,
        /// The epoch with which it leads.
        epoch: u64,
    },
    /// No member leads at this moment.
    NoLeader,
    /// The group has no such standby.
    NoStandby,
    /// It has, but none of them was heard lately.
    SilentStandby,
}

/// A member's session. It holds a lock on the member's name.
#[derive(Debug)]
pub struct MemberSession {
    link: PostgresLink,
    group: String,
    info: MemberInfo,
}

impl PostgresJournal {
    /// `None`: another process with this name is alive.
    pub fn join(&self, info: MemberInfo) -> Result<Option<MemberSession>, ReplicationError> {
        let link = self.link()?;
        let group = self.group().to_owned();
        let number = lock_number("member", &format!("{group}/{}", info.name));
        let is_mine: bool = link.query(QUERY_MAX, move |connected| async move {
            Ok(connected.client.query_one("select pg_try_advisory_lock($1)", &[&number]).await?.get(0))
        })?;
        Ok(is_mine.then_some(MemberSession { link, group, info }))
    }

    /// Forgets a member that is gone. Fails if it is alive.
    pub fn forget(&self, name: &str) -> Result<bool, ReplicationError> {
        let link = self.link()?;
        let (group, name) = (self.group().to_owned(), name.to_owned());
        let number = lock_number("member", &format!("{group}/{name}"));
        link.change(QUERY_MAX, move |connected| async move {
            let client = &connected.client;
            let is_free: bool = client.query_one("select pg_try_advisory_lock($1)", &[&number]).await?.get(0);
            if !is_free {
                let why = format!("{name} is alive: stop it first");
                return Err(ReplicationError::Misconfigured(why).into());
            }
            let sql = "delete from tenure.members where group_name = $1 and name = $2";
            Ok(client.execute(sql, &[&group, &name]).await? == 1)
        })
    }

    /// Asks the leader to let another member lead. What the group prefers then, it prefers from the moment on at which
    /// the leader releases its lease: what it has to write before may take long.
    pub fn ask_to_step_down(&self, to: Option<&str>) -> Result<StepDownReply, ReplicationError> {
        let link = self.link()?;
        let (group, to) = (self.group().to_owned(), to.map(str::to_owned));
        link.change(QUERY_MAX, move |connected| async move {
            let client = &connected.client;
            let sql = "select count(*), \
                       count(*) filter (where m.seen > clock_timestamp() - interval '10 seconds') \
                       from tenure.members m join tenure.groups g on g.name = m.group_name \
                       where g.name = $1 and m.name is distinct from g.holder \
                       and ($2::text is null or m.name = $2)";
            let row = client.query_one(sql, &[&group, &to]).await?;
            match (row.get::<_, i64>(0), row.get::<_, i64>(1)) {
                (0, _) => return Ok(StepDownReply::NoStandby),
                (_, 0) => return Ok(StepDownReply::SilentStandby),
                _ => {}
            }
            let sql = "update tenure.groups set step_down_epoch = epoch, barred = holder, reserved_for = $2, \
                       chosen_until = 'epoch' \
                       where name = $1 and holder is not null and until > clock_timestamp() \
                       returning holder, epoch";
            Ok(match client.query_opt(sql, &[&group, &to]).await? {
                Some(row) => {
                    StepDownReply::Asked { leader: row.get(0), epoch: row.get::<_, i64>(1).cast_unsigned() }
                }
                None => StepDownReply::NoLeader,
            })
        })
    }
}

impl MemberSession {
    /// Says that this member is alive. The commit need not wait for a standby: nothing depends on it.
    pub fn beat(&mut self, beat: &MemberHeartbeat) -> Result<HeartbeatReply, ReplicationError> {
        let (group, info, beat) = (self.group.clone(), self.info.clone(), beat.clone());
        self.link.query(QUERY_MAX, move |connected| async move {
            let sql = "insert into tenure.members as m (group_name, name, instance, doors, version, role, position, \
                       appends, append_p50_us, append_p99_us, seen) \
                       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp()) \
                       on conflict (group_name, name) do update set instance = excluded.instance, \
                       doors = excluded.doors, version = excluded.version, role = excluded.role, \
                       position = excluded.position, appends = excluded.appends, \
                       append_p50_us = excluded.append_p50_us, append_p99_us = excluded.append_p99_us, \
                       seen = excluded.seen";
            let client = &connected.client;
            client.batch_execute("set synchronous_commit = off").await?;
            let statement = connected.statement(sql).await?;
            let role = if beat.is_leading { "leading" } else { "standby" };
            let instance = info.instance.cast_signed();
            let numbers = [
                beat.position.cast_signed(),
                beat.latency.appends.cast_signed(),
                beat.latency.p50.as_micros() as i64,
                beat.latency.p99.as_micros() as i64,
            ];
            client
                .execute(
                    &statement,
                    &[
                        &group, &info.name, &instance, &beat.doors, &info.version, &role, &numbers[0], &numbers[1],
                        &numbers[2], &numbers[3],
                    ],
                )
                .await?;
            let sql = "select coalesce(step_down_epoch = epoch and holder = $2 and instance = $3, false), epoch, \
                       coalesce(extract(epoch from clock_timestamp() - led_since), 0)::float8, led_why \
                       from tenure.groups where name = $1";
            let statement = connected.statement(sql).await?;
            let row = client.query_opt(&statement, &[&group, &info.name, &instance]).await?;
            let row = row.ok_or_else(|| missing(&group))?;
            let sql = "select name, instance, doors, position from tenure.members where group_name = $1 \
                       and seen > clock_timestamp() - interval '10 seconds' order by name";
            let statement = connected.statement(sql).await?;
            let members = client.query(&statement, &[&group]).await?;
            let of_row = |row: &tokio_postgres::Row| LiveMember {
                name: row.get(0),
                instance: row.get::<_, i64>(1).cast_unsigned(),
                doors: row.get(2),
                position: row.get::<_, i64>(3).cast_unsigned(),
            };
            Ok(HeartbeatReply {
                is_asked_to_step_down: row.get(0),
                epoch: row.get::<_, i64>(1).cast_unsigned(),
                led_for: Duration::from_secs_f64(row.get::<_, f64>(2).max(0.0)),
                led_why: row.get(3),
                members: members.iter().map(of_row).collect(),
                placement: namespaces::read(&connected).await?,
            })
        })
    }
}
